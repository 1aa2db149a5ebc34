//! Acts on segments and clients as calls.

use super::act::{Act, DORMANT, DORMANT_BYTES, KEEPER, ROOM, name_of, name_text};
use super::hands::Hands;
use super::perform::{Heard, client, text, told};
use crate::model::{SegmentId, Uuid};
use crate::wire::types::Segment;
use crate::wire::{calls as c, requests as r};

pub fn segment_id(n: u8) -> SegmentId {
    SegmentId(Uuid { first: u64::from(n), second: 55 })
}

pub fn base_of(n: u8) -> u64 {
    (u64::from(n) + 1) << 32
}

/// The size that a form of a segment tells.
pub fn bytes_of(form: u8) -> u64 {
    [ROOM, ROOM / 2, 0, ROOM][usize::from(form)]
}

/// Segments 0 and 1 are on one host.
pub fn endpoint_of(n: u8) -> String {
    format!("h{}:1{n}", n / 2)
}

/// Segment `n` as its client describes it; forms other than 0 are bent.
fn segment(n: u8, form: u8, endpoint: &str) -> Segment<&[u8]> {
    Segment {
        id: segment_id(n),
        name: name_text(name_of(n)).as_bytes(),
        base: if form == 3 { 0 } else { base_of(n) },
        size: bytes_of(form),
        te_endpoint: endpoint.as_bytes(),
        protocol: b"tcp",
        host_id: b"",
    }
}

/// Mounts the segment that makes quotas large enough, and closes it for ever.
pub async fn mount_dormant(hands: &Hands) {
    let endpoint = endpoint_of(DORMANT);
    let segment = Segment { size: DORMANT_BYTES, ..segment(DORMANT, 0, &endpoint) };
    let (segment_id, client_id) = (segment.id, client(KEEPER));
    let request = r::MountSegmentRequest { segment, client_id };
    hands.call::<c::MountSegment>(&request).await.unwrap();
    let grace_period_ms = u64::MAX;
    let request = r::GracefulUnmountSegmentRequest { segment_id, client_id, grace_period_ms };
    hands.call::<c::GracefulUnmountSegment>(&request).await.unwrap();
}

pub async fn segments(hands: &Hands, act: &Act) -> Heard {
    match act {
        Act::Mount { by, n, form } => {
            let endpoint = endpoint_of(*n);
            let (segment, client_id) = (segment(*n, *form, &endpoint), client(*by));
            let request = r::MountSegmentRequest { segment, client_id };
            Heard::Done(vec![told(hands.call::<c::MountSegment>(&request).await)])
        }
        Act::Remount { by, ns } => {
            let endpoints: Vec<String> = ns.iter().map(|n| endpoint_of(*n)).collect();
            let listed = ns.iter().zip(&endpoints);
            let segments = listed.map(|(n, endpoint)| segment(*n, 0, endpoint)).collect();
            let request = r::ReMountSegmentRequest { segments, client_id: client(*by) };
            Heard::Done(vec![told(hands.call::<c::ReMountSegment>(&request).await)])
        }
        Act::Unmount { by, n } => {
            let (segment_id, client_id) = (segment_id(*n), client(by.unwrap()));
            let request = r::UnmountSegmentRequest { segment_id, client_id };
            Heard::Done(vec![told(hands.call::<c::UnmountSegment>(&request).await)])
        }
        Act::Graceful { by, n, grace } => {
            let (segment_id, client_id) = (segment_id(*n), client(by.unwrap()));
            let grace_period_ms = *grace;
            let request =
                r::GracefulUnmountSegmentRequest { segment_id, client_id, grace_period_ms };
            Heard::Done(vec![told(hands.call::<c::GracefulUnmountSegment>(&request).await)])
        }
        Act::Ping { by } => {
            let answer = told(hands.call::<c::Ping>(&client(*by)).await);
            Heard::Number(answer.map(|pong| pong.client_status.0))
        }
        Act::Status { name } => {
            let name = name_text(*name).as_bytes();
            let answer = told(hands.call::<c::QuerySegmentStatus>(&name).await);
            Heard::Number(answer.map(|status| status.0))
        }
        Act::StatusById { n } => {
            let answer = told(hands.call::<c::QuerySegmentStatusById>(&segment_id(*n)).await);
            Heard::Number(answer.map(|status| status.0))
        }
        Act::Hosts { clients } => {
            let asked: Vec<_> = clients.iter().map(|n| client(*n)).collect();
            let answer = hands.call::<c::BatchQueryIp>(&asked).await.unwrap();
            let hosts = answer.0.into_iter().map(|(client, hosts)| {
                (client.0.first, hosts.iter().map(|host| text(host)).collect())
            });
            Heard::Hosts(hosts.collect())
        }
        other => panic!("{other:?}"),
    }
}
