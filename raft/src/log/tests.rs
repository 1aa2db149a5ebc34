//! The log against a plain model: random appends, truncations, purges and restarts.

use bytes::Bytes;
use openraft::storage::RaftLogStorageExt;
use proptest::prelude::*;

use super::*;
use crate::types::{EntryBytes, Payload, log_id};

#[derive(Debug, Clone)]
enum Step {
    /// So many entries of such a size.
    Append(u8, u16),
    /// Takes back so many of the newest entries.
    Truncate(u8),
    /// Lets go of so many of the oldest entries.
    Purge(u8),
    /// A raft snapshot overtakes the log by so many entries.
    Overtake(u8),
    Vote(u8),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..40_u8, 0..9000_u16).prop_map(|(count, size)| Step::Append(count, size)),
        2 => (1..60_u8).prop_map(Step::Truncate),
        2 => (1..60_u8).prop_map(Step::Purge),
        1 => (1..20_u8).prop_map(Step::Overtake),
        1 => (1..5_u8).prop_map(Step::Vote),
        2 => Just(Step::Reopen),
    ]
}

/// What the log must hold.
#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    purged: Option<LogId>,
    vote: Option<Vote>,
    term: u64,
}

impl Model {
    fn next(&self) -> u64 {
        let last = self.entries.last().map(|entry| entry.log_id).or(self.purged);
        last.map_or(0, |id| id.index + 1)
    }

    fn last(&self) -> Option<LogId> {
        self.entries.last().map(|entry| entry.log_id).or(self.purged)
    }
}

struct Pair {
    dir: tempfile::TempDir,
    log: LogStore,
    model: Model,
}

fn open(dir: &Path) -> LogStore {
    let mut config = Config::new(1, "model", dir);
    config.log_cache_bytes = 20_000;
    config.durability = crate::config::Durability::Async;
    let place = |name| dir.join(name);
    let (log, mark, journal) = (place("log"), place("mark"), place("journal"));
    LogStore::open(&log, &mark, &journal, &config, watch::Sender::new(None)).unwrap()
}

impl Pair {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = open(dir.path());
        Self { dir, log, model: Model::default() }
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Append(count, size) => {
                let first = self.model.next();
                let term = self.model.term;
                let entries: Vec<Entry> = (first..first + u64::from(count))
                    .map(|index| {
                        let size = usize::from(size) * (index as usize % 3 + 1) / 2;
                        let content = Bytes::from(vec![(index + term) as u8; size]);
                        let payload = Payload::Normal(EntryBytes(content));
                        Entry { log_id: log_id(term, index), payload }
                    })
                    .collect();
                self.log.blocking_append(entries.clone()).await.unwrap();
                self.model.entries.extend(entries);
            }
            Step::Truncate(count) => {
                let keep = self.model.entries.len().saturating_sub(count.into());
                self.model.entries.truncate(keep);
                self.log.truncate_after(self.model.last()).await.unwrap();
                self.model.term += 1;
            }
            Step::Purge(count) => {
                let count = usize::from(count).min(self.model.entries.len());
                let gone: Vec<Entry> = self.model.entries.drain(..count).collect();
                if let Some(last) = gone.last() {
                    self.model.purged = Some(last.log_id);
                    self.log.purge(last.log_id).await.unwrap();
                }
            }
            Step::Overtake(by) => {
                let id = log_id(self.model.term, self.model.next() + u64::from(by));
                self.model.entries.clear();
                self.model.purged = Some(id);
                self.log.purge(id).await.unwrap();
            }
            Step::Vote(by) => {
                self.model.term += u64::from(by);
                let vote = Vote::new(self.model.term, 1);
                self.log.save_vote(&vote).await.unwrap();
                self.model.vote = Some(vote);
            }
            Step::Reopen => {
                self.log.stop().await.unwrap();
                self.log = open(self.dir.path());
            }
        }
        self.check().await;
    }

    async fn check(&mut self) {
        let (purged, last) = (self.model.purged, self.model.last());
        assert_eq!(self.log.purged(), purged);
        assert_eq!(self.log.last(), last);
        assert_eq!(self.log.vote(), self.model.vote);
        let all = self.log.try_get_log_entries(..).await.unwrap();
        assert_eq!(all, self.model.entries);
        let first = purged.map_or(0, |id| id.index + 1);
        let some = self.log.limited_get_log_entries(first, first + 5).await.unwrap();
        assert_eq!(some.is_empty(), self.model.entries.is_empty());
        assert!(self.model.entries.starts_with(&some));
        let blobs = SledLog::blobs_dir(&self.dir.path().join("log"));
        assert_eq!(crate::status::dir_entries(&blobs), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_log_does_what_a_vector_would(steps in prop::collection::vec(step(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut pair = Pair::new();
            for step in steps {
                pair.take(step).await;
            }
            pair.take(Step::Reopen).await;
            pair.log.stop().await.unwrap();
        });
    }
}
