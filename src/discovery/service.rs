//! The two calls as gRPC: paths, message limits, the number of streams.
//!
//! Written by hand in place of generated code, so that a build needs no protobuf compiler. Any other
//! method is answered UNIMPLEMENTED; clients use none. What the calls mean is left to `range` and `watch`.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::watch::Receiver;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::messages::{RangeRequest, RangeResponse, WatchRequest, WatchResponse};
use super::{Discovery, MESSAGE_BYTES_MAX, WATCH_STREAMS_MAX, range, watch};

/// The path of a read.
pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
/// The path of a watch stream.
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";

/// Answers of a stream that its client has not read yet; at the limit the stream waits.
const ANSWERS_WAITING_MAX: usize = 8;

/// The service; clones share the count of streams.
#[derive(Clone, Debug)]
pub(super) struct Door {
    discovery: Discovery,
    /// When the newest leader was told first.
    news: Receiver<Option<Instant>>,
    stop: Receiver<bool>,
    streams: Arc<Semaphore>,
}

impl Door {
    /// A service that ends its streams when `stop` turns true.
    pub fn new(
        discovery: Discovery,
        news: Receiver<Option<Instant>>,
        stop: Receiver<bool>,
    ) -> Self {
        Door { discovery, news, stop, streams: Arc::new(Semaphore::new(WATCH_STREAMS_MAX)) }
    }
}

impl Service<http::Request<Body>> for Door {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let door = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                RANGE => {
                    let codec = ProstCodec::<RangeResponse, RangeRequest>::default();
                    let grpc = Grpc::new(codec).max_decoding_message_size(MESSAGE_BYTES_MAX);
                    { grpc }.unary(door, request).await
                }
                WATCH => {
                    let codec = ProstCodec::<WatchResponse, WatchRequest>::default();
                    let grpc = Grpc::new(codec).max_decoding_message_size(MESSAGE_BYTES_MAX);
                    { grpc }.streaming(door, request).await
                }
                path => {
                    let text =
                        format!("{path} is not served here; only the leader can be looked up");
                    Status::unimplemented(text).into_http()
                }
            })
        })
    }
}

impl UnaryService<RangeRequest> for Door {
    type Response = RangeResponse;
    type Future = BoxFuture<Response<RangeResponse>, Status>;

    fn call(&mut self, request: Request<RangeRequest>) -> Self::Future {
        let Door { discovery, stop, .. } = self.clone();
        Box::pin(async move {
            range::answer(discovery, stop, request.into_inner()).await.map(Response::new)
        })
    }
}

impl StreamingService<WatchRequest> for Door {
    type Response = WatchResponse;
    type ResponseStream = ReceiverStream<Result<WatchResponse, Status>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<WatchRequest>>) -> Self::Future {
        let Door { discovery, news, stop, streams } = self.clone();
        Box::pin(async move {
            let place = streams.try_acquire_owned().map_err(|_| {
                Status::resource_exhausted(format!("{WATCH_STREAMS_MAX} streams are open here"))
            })?;
            let (answers, reader) = mpsc::channel(ANSWERS_WAITING_MAX);
            tokio::spawn(async move {
                watch::serve(discovery, news, stop, request.into_inner(), answers).await;
                drop(place);
            });
            Ok(Response::new(ReceiverStream::new(reader)))
        })
    }
}
