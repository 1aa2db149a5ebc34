//! Watch streams: who waits for which revision of the view, and what each is told.
//!
//! Guards that every answer has a header, that an event is sent once to each watch and in the order of
//! revisions, and that a resumed watch hears at once what it missed. A client that reads slowly hears only
//! of the newest leader. The stream's transport is in `service`.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, interval_at};
use tonic::{Status, Streaming};

use super::messages::{Event, PUT, WatchCreateRequest, WatchRequest, WatchResponse};
use super::view::{self, View};
use super::{Discovery, WATCHES_A_STREAM_MAX, stopped};

/// How often a watch that asked for it is told the revision when nothing else happens.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(600);

/// The id in answers that belong to no watch.
const NO_WATCH: i64 = -1;

/// Serves one stream until either side ends it. Ends with UNAVAILABLE when the node stops.
pub(super) async fn serve(
    discovery: Discovery,
    stop: Receiver<bool>,
    requests: Streaming<WatchRequest>,
    answers: Sender<Result<WatchResponse, Status>>,
) {
    tokio::select! {
        () = talk(discovery, requests, &answers) => {}
        () = stopped(stop) => {
            // A full queue means a client that does not read; its connection is cut instead.
            let _ = answers.try_send(Err(Status::unavailable("this node stops")));
        }
    }
}

/// Answers requests and tells news until the client is gone.
async fn talk(
    mut discovery: Discovery,
    mut requests: Streaming<WatchRequest>,
    answers: &Sender<Result<WatchResponse, Status>>,
) {
    let mut watches = Watches::default();
    let mut ticks = interval_at(Instant::now() + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    loop {
        let told = tokio::select! {
            request = requests.message() => match request {
                Ok(Some(request)) => watches.answer(request, &discovery.view()),
                // The client is done, or what it sent cannot be read: there is nobody to answer.
                Ok(None) | Err(_) => return,
            },
            changed = discovery.leadership.changed() => match changed {
                Ok(()) => watches.news(&discovery.view()),
                Err(_) => return,
            },
            _ = ticks.tick() => watches.progress(&discovery.view()),
            () = answers.closed() => return,
        };
        for answer in told {
            // While a client does not read its answers, none of its requests are read either.
            if answers.send(Ok(answer)).await.is_err() {
                return;
            }
        }
    }
}

/// One watch.
#[derive(Debug)]
struct Watch {
    /// The name of the view that the client used; `None` for a watch on other keys, which hears nothing.
    key: Option<Vec<u8>>,
    /// The least revision that it has not been told.
    next: i64,
    /// Whether it wants to hear the revision now and then.
    wants_progress: bool,
}

/// The watches of one stream.
#[derive(Debug, Default)]
struct Watches {
    by_id: BTreeMap<i64, Watch>,
}

impl Watches {
    /// The answers to one request, in order.
    fn answer(&mut self, request: WatchRequest, view: &View) -> Vec<WatchResponse> {
        let mut told = Vec::new();
        if let Some(create) = request.create_request {
            told.extend(self.create(create, view));
        }
        if let Some(cancel) = request.cancel_request
            && self.by_id.remove(&cancel.watch_id).is_some()
        {
            told.push(WatchResponse { canceled: true, ..empty(cancel.watch_id, view) });
        }
        if request.progress_request.is_some() {
            told.push(empty(NO_WATCH, view));
        }
        told
    }

    /// Starts a watch: it is told so at once, and of the current view if it asks for that or for earlier ones.
    fn create(&mut self, create: WatchCreateRequest, view: &View) -> Vec<WatchResponse> {
        let id = match self.id_for(create.watch_id) {
            Ok(id) => id,
            Err(reason) => {
                let cancel_reason = reason.to_owned();
                let (created, canceled) = (true, true);
                let head = empty(NO_WATCH, view);
                return vec![WatchResponse { created, canceled, cancel_reason, ..head }];
            }
        };
        let is_of_view = view::is_asked(&create.key, &create.range_end);
        let mut watch = Watch {
            key: is_of_view.then_some(create.key),
            next: match create.start_revision {
                start if start > 0 => start,
                _ => view.revision_known().saturating_add(1),
            },
            wants_progress: create.progress_notify,
        };
        let mut told = vec![WatchResponse { created: true, ..empty(id, view) }];
        told.extend(watch.news(id, view));
        self.by_id.insert(id, watch);
        told
    }

    /// The id of a new watch: the one asked for, or the least free one. `Err`: why there is none.
    fn id_for(&self, asked: i64) -> Result<i64, &'static str> {
        if self.by_id.len() >= WATCHES_A_STREAM_MAX {
            return Err("too many watches on this stream");
        }
        match asked {
            0 => (0..=i64::MAX).find(|id| !self.by_id.contains_key(id)).ok_or("no id is free"),
            asked if asked < 0 => Err("a watch id is not negative"),
            asked if self.by_id.contains_key(&asked) => Err("the watch id is in use"),
            asked => Ok(asked),
        }
    }

    /// The events for those watches that have not been told of this view.
    fn news(&mut self, view: &View) -> Vec<WatchResponse> {
        self.by_id.iter_mut().filter_map(|(id, watch)| watch.news(*id, view)).collect()
    }

    /// The revision, for those watches that want to hear it.
    fn progress(&self, view: &View) -> Vec<WatchResponse> {
        let wanting = self.by_id.iter().filter(|(_, watch)| watch.wants_progress);
        wanting.map(|(id, _)| empty(*id, view)).collect()
    }
}

impl Watch {
    fn news(&mut self, id: i64, view: &View) -> Option<WatchResponse> {
        let kv = view.key_value(self.key.as_deref()?)?;
        if kv.mod_revision < self.next {
            return None;
        }
        self.next = kv.mod_revision.saturating_add(1);
        let events = vec![Event { kind: PUT, kv: Some(kv) }];
        Some(WatchResponse { events, ..empty(id, view) })
    }
}

/// An answer that says only the revision.
fn empty(watch_id: i64, view: &View) -> WatchResponse {
    WatchResponse { header: Some(view.header()), watch_id, ..WatchResponse::default() }
}

#[cfg(test)]
mod tests;
