//! Watch streams: who waits for which revision of the view, and what each is told.
//!
//! Guards that every answer has a header, that an event is sent once to each watch and in the order of
//! revisions, and that a resumed watch hears at once what it missed. A client that reads slowly hears only
//! of the newest leader. The stream's transport is in `service`.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, interval_at, sleep_until};
use tonic::{Status, Streaming};

use super::messages::{Event, PUT, WatchCreateRequest, WatchRequest, WatchResponse};
use super::view::{self, View};
use super::{Discovery, REPEAT_AFTER, WATCHES_A_STREAM_MAX, stopped};

/// How often a watch that asked for it is told the revision when nothing else happens.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(600);

/// The id in answers that belong to no watch.
const NO_WATCH: i64 = -1;

/// Serves one stream until either side ends it. Ends with UNAVAILABLE when the node stops.
pub(super) async fn serve(
    discovery: Discovery,
    news: Receiver<Option<Instant>>,
    stop: Receiver<bool>,
    requests: Streaming<WatchRequest>,
    answers: Sender<Result<WatchResponse, Status>>,
) {
    tokio::select! {
        () = talk(discovery, news, requests, &answers) => {}
        () = stopped(stop) => {
            // A full queue means a client that does not read; its connection is cut instead.
            let _ = answers.try_send(Err(Status::unavailable("this node stops")));
        }
    }
}

/// Answers requests and tells news until the client is gone.
async fn talk(
    mut discovery: Discovery,
    news: Receiver<Option<Instant>>,
    mut requests: Streaming<WatchRequest>,
    answers: &Sender<Result<WatchResponse, Status>>,
) {
    let mut watches = Watches::default();
    let mut ticks = interval_at(Instant::now() + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    loop {
        let repeat_at = watches.repeat_at();
        let told = tokio::select! {
            request = requests.message() => match request {
                Ok(Some(request)) => {
                    watches.news_at = *news.borrow();
                    watches.answer(request, &discovery.view())
                }
                // The client is done, or what it sent cannot be read: there is nobody to answer.
                Ok(None) | Err(_) => return,
            },
            changed = discovery.leadership.changed() => match changed {
                Ok(()) => watches.news(&discovery.view()),
                Err(_) => return,
            },
            _ = ticks.tick() => watches.progress(&discovery.view()),
            now = until(repeat_at) => watches.repeat(now, &discovery.view()),
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

/// Waits for an instant, or for ever if there is none; answers the instant.
async fn until(at: Option<Instant>) -> Instant {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
    Instant::now()
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
    /// When it is told of the leader once more, because it began just after that one was told first.
    repeat_at: Option<Instant>,
}

/// The watches of one stream.
#[derive(Debug, Default)]
struct Watches {
    by_id: BTreeMap<i64, Watch>,
    /// When the newest leader was told first.
    news_at: Option<Instant>,
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
        let is_from_now = create.start_revision <= 0;
        let repeat_at = self.news_at.map(|at| at + REPEAT_AFTER).filter(|_| is_from_now);
        let mut watch = Watch {
            key: is_of_view.then_some(create.key),
            next: match create.start_revision {
                start if start > 0 => start,
                _ => view.revision_known().saturating_add(1),
            },
            wants_progress: create.progress_notify,
            repeat_at: repeat_at.filter(|at| *at > Instant::now()),
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

    /// When the first watch is to be told once more.
    fn repeat_at(&self) -> Option<Instant> {
        self.by_id.values().filter_map(|watch| watch.repeat_at).min()
    }

    /// The leader once more, for those watches whose time has come.
    fn repeat(&mut self, now: Instant, view: &View) -> Vec<WatchResponse> {
        let due = |watch: &Watch| watch.repeat_at.is_some_and(|at| at <= now);
        let due = self.by_id.iter_mut().filter(|(_, watch)| due(watch));
        due.filter_map(|(id, watch)| {
            (watch.next, watch.repeat_at) = (0, None);
            watch.news(*id, view)
        })
        .collect()
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
        self.repeat_at = None;
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
