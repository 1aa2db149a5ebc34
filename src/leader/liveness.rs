//! Which clients were heard when, and which have been silent for too long (behaviour 5.4).
//!
//! Heartbeats are not commands: they would fill the log. Only the verdict is one, and it names the
//! incarnation that was given up, so that a client that came back in between is spared.

use std::collections::HashMap;
use std::time::Duration;

use crate::model::ClientId;
use crate::state::clients::ClientTable;
use crate::state::command::ExpiredClient;

/// Silence allowed to a client that this leader has not heard at all: its heartbeat thread can hang for two
/// minutes in a call to a vanished leader (discovery notes, section 7).
pub const TAKEOVER_GRACE: Duration = Duration::from_secs(150);

/// Clients given up with one command at most; the others follow with the next look.
pub const EXPIRED_PER_COMMAND_MAX: usize = 64;

/// When clients were last heard, in monotonic time.
#[derive(Debug)]
pub struct Liveness {
    since: Duration,
    ttl: Duration,
    heard: HashMap<ClientId, Duration>,
}

impl Liveness {
    /// Nobody was heard yet; leadership began at `since`.
    pub fn new(since: Duration, ttl: Duration) -> Self {
        Liveness { since, ttl, heard: HashMap::new() }
    }

    /// A client has shown that it lives.
    pub fn hear(&mut self, client: ClientId, now: Duration) {
        self.heard.insert(client, now);
    }

    /// How long ago a client was heard by this leader.
    pub fn silence(&self, client: ClientId, now: Duration) -> Option<Duration> {
        self.heard.get(&client).map(|heard| now.saturating_sub(*heard))
    }

    /// Known clients that are to be given up, and forgets those that the state no longer knows.
    pub fn expired(&mut self, clients: &ClientTable, now: Duration) -> Vec<ExpiredClient> {
        self.heard.retain(|client, heard| {
            clients.get(*client).is_some() || now.saturating_sub(*heard) <= self.ttl
        });
        let is_silent = |client: &ClientId| match self.heard.get(client) {
            Some(heard) => now.saturating_sub(*heard) > self.ttl,
            None => now.saturating_sub(self.since) > TAKEOVER_GRACE.max(self.ttl),
        };
        let silent = clients.iter().filter(|(client, _)| is_silent(client));
        let verdict = |(client, record): (ClientId, &crate::state::clients::ClientRecord)| {
            ExpiredClient { client, incarnation: record.incarnation }
        };
        silent.map(verdict).take(EXPIRED_PER_COMMAND_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Uuid;

    fn client(n: u64) -> ClientId {
        ClientId(Uuid { first: n, second: 0 })
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_heard_client_is_given_up_after_its_ttl_and_an_unheard_one_after_the_grace() {
        let mut table = ClientTable::default();
        table.touch(client(1));
        table.touch(client(2));
        let mut liveness = Liveness::new(seconds(0), seconds(10));
        liveness.hear(client(1), seconds(5));
        assert_eq!(liveness.expired(&table, seconds(15)), []);
        let gone = liveness.expired(&table, seconds(16));
        assert_eq!(gone, [ExpiredClient { client: client(1), incarnation: 1 }]);
        assert!(liveness.expired(&table, seconds(150)).iter().all(|e| e.client == client(1)));
        assert!(liveness.expired(&table, seconds(151)).iter().any(|e| e.client == client(2)));
    }

    #[test]
    fn clients_that_never_mounted_are_forgotten() {
        let table = ClientTable::default();
        let mut liveness = Liveness::new(seconds(0), seconds(10));
        liveness.hear(client(1), seconds(0));
        assert_eq!(liveness.expired(&table, seconds(11)), []);
        assert_eq!(liveness.silence(client(1), seconds(11)), None);
    }
}
