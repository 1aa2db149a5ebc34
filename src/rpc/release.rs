//! Which release a client is of, when its request does not say so.
//!
//! Reads look the same in 0.3.12 and 0.3.13, their answers do not, and a client closes its connection on an
//! answer that it cannot read. So what has been shown is remembered: a request whose type hash belongs to one
//! release; a client that goes on after an answer; one that closes its connection right after an answer and
//! lives on, which it shows by naming itself on another one, or, if it never does so because it has no
//! segment, by a connection that begins with a read.
//!
//! A client of which nothing is known is taken for what the others at its address are, if they are all alike.
//! A connection that has not named its client is taken for one of whoever at its address asked last when it
//! was opened: a client opens another one while it is asking on those it has. Else the operator's word counts.
//!
//! Closed connections count only once some client has shown itself as an older one by a request, or the operator has
//! said so: where all are of today's release, nothing is ever answered in another form.
//!
//! Nothing here is replicated: what is forgotten costs a client one read, which it makes again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::model::ClientId;
use crate::wire::calls::{self, CallVisitor, with_call};
use crate::wire::older::calls::with_older_call;
use crate::wire::older::{Release, Shown};
use crate::wire::{Call, Function, decode_request};

/// Clients and addresses remembered. Beyond it what is remembered is forgotten and learned again.
const REMEMBERED_MAX: usize = 65_536;

/// A client that cannot read an answer closes its connection at once.
const CLOSED_SOON_MAX: Duration = Duration::from_secs(1);

/// How sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Proof {
    /// It closed a connection right after an answer of the other form.
    Closed,
    /// It went on after an answer of this form.
    Read,
    /// It sent a request of this form.
    Sent,
}

/// What clients at one address have shown.
#[derive(Debug, Default)]
struct Address {
    /// The release of who asked last and is known.
    newest: AtomicU8,
    /// The releases that were shown, as bits.
    seen: AtomicU8,
    /// The release that closed connections of unknown clients speak for.
    struck: AtomicU8,
}

fn bit(release: Release) -> u8 {
    match release {
        Release::V0312 => 1,
        Release::V0313 => 2,
    }
}

fn of_bit(bits: u8) -> Option<Release> {
    [Release::V0312, Release::V0313].into_iter().find(|release| bit(*release) == bits)
}

impl Address {
    fn asked(&self, release: Release) {
        // A look first: the line is shared by all connections of a host, and seldom changes.
        if self.newest.load(Ordering::Relaxed) != bit(release) {
            self.newest.store(bit(release), Ordering::Relaxed);
        }
    }

    fn shown(&self, release: Release) {
        self.asked(release);
        self.seen.fetch_or(bit(release), Ordering::Relaxed);
    }

    /// Whoever asked last.
    fn newest(&self) -> Option<Release> {
        let newest = of_bit(self.newest.load(Ordering::Relaxed));
        newest.or_else(|| of_bit(self.struck.load(Ordering::Relaxed)))
    }

    /// What all are, if they are alike.
    fn common(&self) -> Option<Release> {
        match self.seen.load(Ordering::Relaxed) {
            0 => of_bit(self.struck.load(Ordering::Relaxed)),
            seen => of_bit(seen),
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    clients: HashMap<ClientId, (Release, Proof)>,
    /// Clients that have closed a connection right after an answer; alive or not is not known yet.
    suspects: HashMap<ClientId, Release>,
    addresses: HashMap<IpAddr, Arc<Address>>,
}

/// What is known of clients.
#[derive(Debug, Default)]
pub struct Releases {
    known: Mutex<Known>,
    assumed: Release,
    /// Whether some client has sent the form of an older release. Until then no closed connection speaks for one:
    /// where all clients are of today's, one that reads and ends must not spoil the next one's answer.
    has_older: AtomicBool,
}

impl Releases {
    /// Nothing is known; clients are taken for ones of `assumed`.
    pub fn assuming(assumed: Release) -> Self {
        Releases { assumed, ..Releases::default() }
    }

    /// Whether there may be clients of a release here.
    fn may_be(&self, release: Release) -> bool {
        release == Release::V0313
            || self.assumed == release
            || self.has_older.load(Ordering::Relaxed)
    }

    fn at(&self, address: IpAddr) -> Arc<Address> {
        let mut known = self.known.lock();
        if let Some(found) = known.addresses.get(&address) {
            return Arc::clone(found);
        }
        let new = Arc::<Address>::default();
        remember(&mut known.addresses, address, Arc::clone(&new));
        new
    }

    fn learn(&self, client: ClientId, release: Release, proof: Proof) {
        let mut known = self.known.lock();
        known.suspects.remove(&client);
        if known.clients.get(&client).is_none_or(|(_, before)| *before <= proof) {
            remember(&mut known.clients, client, (release, proof));
        }
    }

    /// A client lives: if it is suspected, it is now known. Answers what it is, if that is known.
    fn hear(&self, client: ClientId) -> Option<Release> {
        let suspected = self.known.lock().suspects.remove(&client);
        if let Some(release) = suspected {
            self.learn(client, release, Proof::Closed);
        }
        self.known.lock().clients.get(&client).map(|(release, _)| *release)
    }

    fn suspect(&self, client: ClientId, release: Release) {
        let mut known = self.known.lock();
        if !known.clients.contains_key(&client) {
            remember(&mut known.suspects, client, release);
        }
    }
}

fn remember<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: V) {
    if map.len() >= REMEMBERED_MAX && !map.contains_key(&key) {
        map.clear();
    }
    map.insert(key, value);
}

/// The client at the other end of a connection, as far as it has shown itself.
#[derive(Debug)]
pub struct Caller {
    address: Arc<Address>,
    /// Who asked last at the address when the connection was opened.
    opener: Option<Release>,
    client: Option<ClientId>,
    release: Option<Release>,
    /// Whether its first request was one whose answer shows no release. A client begins with others, so such a
    /// connection is a further one of a client that goes on.
    is_further: Option<bool>,
    /// The form of an answer that the client may not be able to read, and when it was sent.
    unproven: Option<(Release, Option<Instant>)>,
}

impl Caller {
    /// Somebody at this address, who has just connected.
    pub fn at(address: IpAddr, releases: &Releases) -> Self {
        let address = releases.at(address);
        let opener = address.newest();
        let (client, release, is_further, unproven) = (None, None, None, None);
        Caller { address, opener, client, release, is_further, unproven }
    }

    /// The release in whose form a request is to be read and answered.
    pub fn release_for(
        &mut self,
        releases: &Releases,
        function: Option<Function>,
        body: &[u8],
    ) -> Release {
        if let Some((release, Some(_sent))) = self.unproven {
            self.unproven = None;
            self.settle(releases, release, Proof::Read);
        }
        let Some(function) = function else { return Release::V0313 };
        let shown = Release::of_request(function, body);
        self.is_further.get_or_insert(shown == Shown::AnswerDiffers);
        let release = match shown {
            Shown::Nothing => {
                if matches!(function, Function::Ping | Function::FetchTasks) {
                    self.identify(releases, first_client(function, body));
                }
                // The answer is the same in any form, so nothing is looked up.
                Release::V0313
            }
            Shown::Release(release) => {
                if self.release != Some(release) {
                    self.client = self.client.or_else(|| first_client(function, body));
                    self.settle(releases, release, Proof::Sent);
                }
                release
            }
            Shown::AnswerDiffers => {
                let release = self.guess(releases);
                if self.release.is_none() {
                    self.unproven = Some((release, None));
                }
                release
            }
        };
        if let Some(release) = self.release {
            self.address.asked(release);
        }
        release
    }

    /// All answers so far have been sent.
    pub fn sent(&mut self) {
        if let Some((_, sent @ None)) = &mut self.unproven {
            *sent = Some(Instant::now());
        }
    }

    /// The client has closed the connection.
    pub fn closed(&self, releases: &Releases) {
        let Some((answered, Some(sent))) = self.unproven else { return };
        if sent.elapsed() > CLOSED_SOON_MAX {
            return;
        }
        let other = match answered {
            Release::V0312 => Release::V0313,
            Release::V0313 => Release::V0312,
        };
        if !releases.may_be(other) {
            return;
        }
        match self.client {
            Some(client) => releases.suspect(client, other),
            // Only counts while nobody at the address has shown anything better.
            None if self.is_further == Some(true) => {
                self.address.struck.store(bit(other), Ordering::Relaxed);
            }
            None => {}
        }
    }

    fn guess(&self, releases: &Releases) -> Release {
        let guess = self.release.or_else(|| match self.client {
            Some(_) => self.address.common(),
            None => self.opener,
        });
        guess.unwrap_or(releases.assumed)
    }

    fn identify(&mut self, releases: &Releases, client: Option<ClientId>) {
        let Some(client) = client else { return };
        let known = releases.hear(client);
        if self.client.is_none() {
            self.client = Some(client);
            if let Some(release) = self.release {
                releases.learn(client, release, Proof::Read);
            }
        }
        if let (None, Some(release)) = (self.release, known) {
            self.release = Some(release);
            self.address.shown(release);
        }
    }

    fn settle(&mut self, releases: &Releases, release: Release, proof: Proof) {
        if release == Release::V0312 && proof == Proof::Sent {
            releases.has_older.store(true, Ordering::Relaxed);
        }
        self.release = Some(release);
        self.address.shown(release);
        if let Some(client) = self.client {
            releases.learn(client, release, proof);
        }
    }
}

/// The client that a request names first, in the form of whichever release it is.
fn first_client(function: Function, body: &[u8]) -> Option<ClientId> {
    let of_older = with_older_call(function, FirstClient(body)).flatten();
    of_older.or_else(|| with_call(function, FirstClient(body)))
}

struct FirstClient<'b>(&'b [u8]);

impl CallVisitor for FirstClient<'_> {
    type Output = Option<ClientId>;

    fn visit<C: Call>(self) -> Option<ClientId> {
        if C::FUNCTION == Function::Ping {
            return decode_request::<calls::Ping>(self.0).ok();
        }
        C::REQUEST.decode_first(self.0).ok()
    }
}

#[cfg(test)]
mod tests;
