//! The door over a real port, called with tonic's client as etcd's clients call it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::messages::{
    RangeRequest, RangeResponse, WatchCreateRequest, WatchRequest, WatchResponse,
};
use super::*;

const KEY: &[u8] = b"mooncake-store/mooncake_cluster/master_view";
const PREFIX_END: &[u8] = b"mooncake-store/mooncake_cluster/master_viex";
const PATIENCE: Duration = Duration::from_secs(20);

struct Bench {
    leadership: watch::Sender<Option<Leadership>>,
    stop: watch::Sender<bool>,
    served: tokio::task::JoinHandle<()>,
    address: String,
}

impl Bench {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (leadership, stop) = (watch::Sender::new(None), watch::Sender::new(false));
        let role = watch::Sender::new(Role::Follower { term: 0, leader: None }).subscribe();
        let discovery = Discovery { leadership: leadership.subscribe(), role, node_id: 7 };
        let served = tokio::spawn(serve(listener, discovery, stop.subscribe()));
        Bench { leadership, stop, served, address }
    }

    fn lead(&self, term: u64) {
        self.leadership.send_replace(Some(Leadership {
            term,
            node_id: 2,
            rpc_address: Arc::from(format!("h{term}:50051")),
            admin_address: Arc::from(""),
        }));
    }

    async fn client(&self) -> Client {
        let endpoint = Endpoint::from_shared(self.address.clone()).unwrap();
        Client(Grpc::new(endpoint.connect().await.unwrap()))
    }
}

#[derive(Clone)]
struct Client(Grpc<Channel>);

impl Client {
    async fn call(&mut self, path: &str, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.0.ready().await.unwrap();
        let codec = ProstCodec::<RangeRequest, RangeResponse>::default();
        let path = PathAndQuery::try_from(path).unwrap();
        self.0.unary(Request::new(request), path, codec).await.map(|answer| answer.into_inner())
    }

    async fn get(&mut self, key: &[u8]) -> Result<RangeResponse, Status> {
        let request = RangeRequest { key: key.to_vec(), ..RangeRequest::default() };
        self.call(service::RANGE, request).await
    }

    async fn watch(
        &mut self,
        start_revision: i64,
    ) -> Result<(mpsc::Sender<WatchRequest>, Streaming<WatchResponse>), Status> {
        self.0.ready().await.unwrap();
        let (requests, outgoing) = mpsc::channel(4);
        let (key, range_end) = (KEY.to_vec(), PREFIX_END.to_vec());
        let create =
            WatchCreateRequest { key, range_end, start_revision, ..WatchCreateRequest::default() };
        let request = WatchRequest { create_request: Some(create), ..WatchRequest::default() };
        requests.send(request).await.unwrap();
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let path = PathAndQuery::from_static(service::WATCH);
        let outgoing = Request::new(ReceiverStream::new(outgoing));
        let answers = self.0.streaming(outgoing, path, codec).await?;
        Ok((requests, answers.into_inner()))
    }
}

async fn next(answers: &mut Streaming<WatchResponse>) -> WatchResponse {
    let answer = timeout(PATIENCE, answers.message()).await.unwrap().unwrap().unwrap();
    assert!(answer.header.is_some());
    answer
}

#[tokio::test]
async fn the_view_is_read_with_the_term_as_its_version() {
    let bench = Bench::start().await;
    bench.lead(4);
    let mut client = bench.client().await;
    for key in [KEY, b"mooncake-store/master_view"] {
        let answer = client.get(key).await.unwrap();
        let header = answer.header.unwrap();
        assert_eq!((header.revision, header.raft_term, header.member_id), (4, 4, 7));
        assert_eq!((answer.count, answer.kvs.len()), (1, 1));
        let kv = &answer.kvs[0];
        assert_eq!((&kv.key[..], &kv.value[..]), (key, &b"h4:50051"[..]));
        assert_eq!((kv.create_revision, kv.mod_revision, kv.version, kv.lease), (4, 4, 1, 0));
    }
    let other = client.get(b"mooncake/ram/x").await.unwrap();
    assert_eq!((other.kvs.len(), other.count), (0, 0));
    assert_eq!(other.header.unwrap().revision, 4);
}

#[tokio::test]
async fn keys_counts_and_other_revisions_are_answered_as_asked() {
    let bench = Bench::start().await;
    bench.lead(4);
    let mut client = bench.client().await;
    let asking = RangeRequest { key: KEY.to_vec(), ..RangeRequest::default() };
    let keys = RangeRequest { keys_only: true, ..asking.clone() };
    let answer = client.call(service::RANGE, keys).await.unwrap();
    assert_eq!((&answer.kvs[0].key[..], answer.kvs[0].value.len(), answer.count), (KEY, 0, 1));
    let count = RangeRequest { count_only: true, ..asking.clone() };
    let answer = client.call(service::RANGE, count).await.unwrap();
    assert_eq!((answer.kvs.len(), answer.count), (0, 1));
    for (revision, expected) in [(3, Some("compacted")), (4, None), (5, Some("future"))] {
        let at = RangeRequest { revision, ..asking.clone() };
        let refused = client.call(service::RANGE, at).await.err();
        assert_eq!(refused.as_ref().map(Status::code), expected.map(|_| Code::OutOfRange));
        let text = refused.map(|status| status.message().to_owned()).unwrap_or_default();
        assert!(text.contains(expected.unwrap_or_default()), "{text}");
    }
}

#[tokio::test]
async fn a_read_before_the_first_leader_waits_for_it() {
    let bench = Bench::start().await;
    let mut client = bench.client().await;
    let mut early = client.clone();
    let reading = tokio::spawn(async move { early.get(KEY).await });
    // Other keys are not held, and their answer shows that the door works meanwhile.
    let other = client.get(b"x").await.unwrap();
    assert_eq!(other.header.unwrap().revision, 1);
    assert!(!reading.is_finished());
    bench.lead(1);
    let answer = reading.await.unwrap().unwrap();
    assert_eq!(answer.kvs[0].value, b"h1:50051");
}

#[tokio::test]
async fn a_read_without_any_leader_is_unavailable_within_the_clients_deadline() {
    let bench = Bench::start().await;
    let mut client = bench.client().await;
    let from = Instant::now();
    let refused = client.get(KEY).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(from.elapsed() >= HOLD_MAX);
}

#[tokio::test]
async fn watches_follow_the_leader_and_resume_where_they_were() {
    let bench = Bench::start().await;
    bench.lead(2);
    let mut client = bench.client().await;
    let (_requests, mut answers) = client.watch(0).await.unwrap();
    let created = next(&mut answers).await;
    assert!(created.created && created.events.is_empty());
    bench.lead(5);
    let news = next(&mut answers).await;
    let kv = news.events[0].kv.as_ref().unwrap();
    assert_eq!((kv.create_revision, &kv.value[..]), (5, &b"h5:50051"[..]));
    assert_eq!(news.header.unwrap().revision, 5);

    let (_requests, mut resumed) = client.watch(3).await.unwrap();
    assert!(next(&mut resumed).await.created);
    assert_eq!(next(&mut resumed).await.events[0].kv.as_ref().unwrap().mod_revision, 5);
    bench.lead(6);
    for answers in [&mut answers, &mut resumed] {
        assert_eq!(next(answers).await.events[0].kv.as_ref().unwrap().mod_revision, 6);
    }
}

#[tokio::test]
async fn a_client_whose_watch_began_just_too_late_for_a_new_leader_hears_of_it_all_the_same() {
    let bench = Bench::start().await;
    bench.lead(2);
    let mut client = bench.client().await;
    // Once this one has heard, the door knows how young the view is.
    let (_requests, mut early) = client.watch(0).await.unwrap();
    assert!(next(&mut early).await.created);
    bench.lead(5);
    assert_eq!(next(&mut early).await.events.len(), 1);
    let (_requests, mut late) = client.watch(0).await.unwrap();
    let created = next(&mut late).await;
    assert!(created.created && created.events.is_empty());
    // It has read the view at a node that lags, and waits now.
    assert_eq!(next(&mut late).await.events[0].kv.as_ref().unwrap().mod_revision, 5);
}

#[tokio::test]
async fn other_methods_are_unimplemented_and_large_requests_are_refused() {
    let bench = Bench::start().await;
    bench.lead(1);
    let mut client = bench.client().await;
    for path in ["/etcdserverpb.KV/Put", "/etcdserverpb.Lease/LeaseGrant", "/x"] {
        let refused = client.call(path, RangeRequest::default()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented, "{path}");
    }
    let refused = client.get(&vec![b'x'; MESSAGE_BYTES_MAX + 1]).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
    assert_eq!(client.get(KEY).await.unwrap().count, 1);
}

#[tokio::test]
async fn a_node_that_stops_ends_watches_and_held_reads_as_worth_another_try() {
    let bench = Bench::start().await;
    let mut client = bench.client().await;
    let (_requests, mut answers) = client.watch(0).await.unwrap();
    assert!(next(&mut answers).await.created);
    let mut held = client.clone();
    let reading = tokio::spawn(async move { held.get(KEY).await });
    assert_eq!(client.get(b"x").await.unwrap().count, 0);
    bench.stop.send_replace(true);
    let ended = timeout(PATIENCE, answers.message()).await.unwrap().unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable);
    assert_eq!(reading.await.unwrap().unwrap_err().code(), Code::Unavailable);
    timeout(PATIENCE, bench.served).await.unwrap().unwrap();
}
