//! The network of a run: hosts, links between them, and connections as TCP gives them.
//!
//! Guards: bytes of one connection keep their order, as TCP promises; everything else may happen to
//! them: delay, a stall (a lost packet, sent again), a link that is cut in one direction or both, a
//! reset, an end in the midst of a message, a host that is gone without a word. Different
//! connections overtake each other. Leaves to `pipe.rs` the two ends of a connection.

mod pipe;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use mooncake_ha_raft::{ReadHalf, WriteHalf};
use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::SmallRng;
use tokio::sync::oneshot;

use crate::time::Time;
use crate::trace::Trace;
use pipe::{Item, Pipe};

/// A machine: a node's, or that of the clients.
pub type Host = u32;

/// Both ends of a connection on one side.
pub type Halves = (ReadHalf, WriteHalf);

/// Port of raft on every node.
pub const RAFT: u16 = 1;
/// Port of the clients' door on every node.
pub const RPC: u16 = 2;

/// Longest additional wait for a packet that is lost and sent again, in ms.
const RESEND_MS: std::ops::Range<u64> = 200..600;

/// Where a node's port is.
pub fn address(host: Host, port: u16) -> String {
    format!("n{host}:{port}")
}

fn parse(address: &str) -> Option<(Host, u16)> {
    let (host, port) = address.strip_prefix('n')?.split_once(':')?;
    Some((host.parse().ok()?, port.parse().ok()?))
}

type Reply = oneshot::Sender<io::Result<Halves>>;

enum Event {
    /// The next item of a pipe arrives.
    Arrive(usize),
    /// Somebody knocks.
    Knock { from: Host, to: Host, port: u16, reply: Reply },
    /// The answer to it.
    Answer { reply: Reply, result: io::Result<Halves> },
}

#[derive(Default)]
struct Door {
    waiting: VecDeque<Halves>,
    waker: Option<Waker>,
}

#[derive(Default)]
struct HostState {
    is_up: bool,
    /// It is gone without a word: nobody there answers, not even that nobody is there.
    is_silent: bool,
    doors: BTreeMap<u16, Door>,
}

/// How quick and how good the links are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Longest delay of a packet, in ms; the shortest is 1.
    pub delay_max_ms: u64,
    /// Packets of a million that are lost and sent again.
    pub loss_ppm: u32,
}

struct State {
    time: Time,
    trace: Trace,
    dice: SmallRng,
    weather: Weather,
    hosts: BTreeMap<Host, HostState>,
    /// Links that carry nothing, in one direction.
    cut: BTreeSet<(Host, Host)>,
    pipes: Vec<Pipe>,
    events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    /// What waits for a link that is cut, or for a host that is gone without a word.
    held: Vec<Event>,
    /// Answers between nodes that are still to be broken off.
    traps: u32,
}

/// The network. Clones are the same one.
#[derive(Clone)]
pub struct Net(Arc<Mutex<State>>);

/// What must be done when the network is not locked any more.
#[derive(Default)]
struct Later {
    wakers: Vec<Waker>,
    /// Ends that nobody wants.
    dropped: Vec<io::Result<Halves>>,
}

impl Later {
    fn run(self) {
        self.wakers.into_iter().for_each(Waker::wake);
    }
}

impl Net {
    /// A network without hosts.
    pub fn new(time: Time, trace: Trace, dice: SmallRng, weather: Weather) -> Self {
        Net(Arc::new(Mutex::new(State {
            time,
            trace,
            dice,
            weather,
            hosts: BTreeMap::new(),
            cut: BTreeSet::new(),
            pipes: Vec::new(),
            events: BTreeMap::new(),
            numbers: 0,
            held: Vec::new(),
            traps: 0,
        })))
    }

    /// Changes the weather.
    pub fn set_weather(&self, weather: Weather) {
        self.0.lock().weather = weather;
    }

    /// A host is there, with nothing open.
    pub fn up(&self, host: Host) {
        let fresh = HostState { is_up: true, is_silent: false, doors: BTreeMap::new() };
        let mut state = self.0.lock();
        state.hosts.insert(host, fresh);
        state.release_held();
    }

    /// A host is gone. The caller then drops what ran there.
    pub fn down(&self, host: Host, is_silent: bool) {
        let doors = {
            let mut state = self.0.lock();
            let found = state.hosts.entry(host).or_default();
            (found.is_up, found.is_silent) = (false, is_silent);
            std::mem::take(&mut found.doors)
        };
        drop(doors);
    }

    /// The links that are cut from now on, each in one direction. What waited for others is on its
    /// way again.
    pub fn set_cut(&self, links: BTreeSet<(Host, Host)>) {
        let mut state = self.0.lock();
        state.cut = links;
        state.release_held();
        for number in 0..state.pipes.len() {
            state.resume(number);
        }
    }

    /// Breaks off the next so many answers of a node to another that has forwarded a call: some of
    /// their bytes arrive, then the connection is reset. What was asked is done by then.
    pub fn break_answers(&self, count: u32) {
        self.0.lock().traps = count;
    }

    /// Resets one of the connections that are open; whether there was one.
    pub fn reset_one(&self) -> bool {
        let mut state = self.0.lock();
        let open = |pipe: &Pipe| pipe.is_open();
        let open: Vec<usize> =
            (0..).zip(&state.pipes).filter(|(_, pipe)| open(pipe)).map(|(at, _)| at).collect();
        if open.is_empty() {
            return false;
        }
        let chosen = state.dice.random_range(0..open.len());
        if let Some(number) = open.get(chosen).copied() {
            state.reset(number);
        }
        true
    }

    /// Delivers what is due.
    pub fn deliver(&self) {
        loop {
            let mut later = Later::default();
            {
                let mut state = self.0.lock();
                let now = state.time.ms();
                let is_due =
                    state.events.first_key_value().is_some_and(|((due, _), _)| *due <= now);
                match is_due.then(|| state.events.pop_first()).flatten() {
                    Some((_, event)) => state.happen(self, event, &mut later),
                    None => return,
                }
            }
            later.run();
        }
    }

    /// Connects from a host to an address.
    pub async fn connect(self, from: Host, address: String) -> io::Result<Halves> {
        let (to, port) = parse(&address).ok_or(io::ErrorKind::InvalidInput)?;
        let (reply, answered) = oneshot::channel();
        {
            let mut state = self.0.lock();
            let due = state.due();
            state.schedule(due, Event::Knock { from, to, port, reply });
        }
        answered.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionAborted.into()))
    }

    /// Waits for the next connection to a port.
    pub async fn accept(self, host: Host, port: u16) -> io::Result<Halves> {
        std::future::poll_fn(move |context| {
            let mut state = self.0.lock();
            let Some(found) = state.hosts.get_mut(&host) else {
                return Poll::Ready(Err(io::ErrorKind::NotFound.into()));
            };
            let door = found.doors.entry(port).or_default();
            match door.waiting.pop_front() {
                Some(halves) => Poll::Ready(Ok(halves)),
                None => {
                    door.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl State {
    fn schedule(&mut self, due: u64, event: Event) {
        self.numbers += 1;
        self.events.insert((due, self.numbers), event);
    }

    /// When a packet that is sent now arrives.
    fn due(&mut self) -> u64 {
        let Weather { delay_max_ms, loss_ppm } = self.weather;
        let delay = self.dice.random_range(1..=delay_max_ms.max(1));
        let is_lost = self.dice.random_range(0..1_000_000) < loss_ppm;
        let resent = if is_lost { self.dice.random_range(RESEND_MS) } else { 0 };
        self.time.ms() + delay + resent
    }

    fn release_held(&mut self) {
        let due = self.time.ms() + 1;
        for event in std::mem::take(&mut self.held) {
            self.schedule(due, event);
        }
    }

    fn is_cut(&self, from: Host, to: Host) -> bool {
        self.cut.contains(&(from, to))
    }

    fn happen(&mut self, net: &Net, event: Event, later: &mut Later) {
        match event {
            Event::Arrive(number) => self.arrive(number, later),
            Event::Knock { from, to, port, reply } => {
                self.knock(net, (from, to, port), reply, later);
            }
            Event::Answer { reply, result } => {
                // Whoever asked may have given up.
                later.dropped.extend(reply.send(result).err());
            }
        }
    }

    fn knock(
        &mut self,
        net: &Net,
        (from, to, port): (Host, Host, u16),
        reply: Reply,
        later: &mut Later,
    ) {
        let host = self.hosts.get(&to);
        let is_silent = host.is_none_or(|host| host.is_silent);
        if self.is_cut(from, to) || self.is_cut(to, from) || is_silent {
            self.held.push(Event::Knock { from, to, port, reply });
            return;
        }
        let is_open = host.is_some_and(|host| host.is_up && host.doors.contains_key(&port));
        let result = if is_open {
            let (there, back) = (self.pipes.len(), self.pipes.len() + 1);
            self.pipes.push(Pipe::new(from, to, back));
            let mut answers = Pipe::new(to, from, there);
            answers.is_answering = port == RPC;
            self.pipes.push(answers);
            let door = self.hosts.entry(to).or_default().doors.entry(port).or_default();
            door.waiting.push_back(pipe::halves(net, there, back));
            later.wakers.extend(door.waker.take());
            Ok(pipe::halves(net, back, there))
        } else {
            Err(io::ErrorKind::ConnectionRefused.into())
        };
        let due = self.due();
        self.schedule(due, Event::Answer { reply, result });
    }

    /// Sends an item down a pipe.
    fn send(&mut self, number: usize, item: Item) {
        match item {
            Item::Bytes(bytes) if self.is_trapped(number) => self.break_off(number, &bytes),
            item => self.put_in(number, item),
        }
    }

    fn put_in(&mut self, number: usize, item: Item) {
        let due = self.due();
        let Some(pipe) = self.pipes.get_mut(number) else { return };
        pipe.in_flight.push_back(item);
        pipe.last_due = pipe.last_due.max(due);
        let due = pipe.last_due;
        self.schedule(due, Event::Arrive(number));
    }

    /// Whether what is sent down a pipe now is an answer that a trap waits for.
    fn is_trapped(&self, number: usize) -> bool {
        let pipe = self.pipes.get(number).filter(|pipe| self.traps > 0 && pipe.is_answering);
        let to = pipe.and_then(|pipe| self.hosts.get(&pipe.to));
        // Clients have no doors.
        to.is_some_and(|host| !host.doors.is_empty())
    }

    fn break_off(&mut self, number: usize, bytes: &Bytes) {
        self.traps -= 1;
        let arrives = self.dice.random_range(0..bytes.len().max(1));
        self.put_in(number, Item::Bytes(bytes.slice(..arrives)));
        let twin = self.pipes.get(number).map(|pipe| pipe.twin);
        for number in [Some(number), twin].into_iter().flatten() {
            self.put_in(number, Item::Reset);
        }
    }

    fn arrive(&mut self, number: usize, later: &mut Later) {
        let Some(pipe) = self.pipes.get(number) else { return };
        let (from, to) = (pipe.from, pipe.to);
        let is_cut = self.is_cut(from, to);
        let is_silent = self.hosts.get(&to).is_some_and(|host| host.is_silent);
        let now = self.time.ms();
        let Some(pipe) = self.pipes.get_mut(number) else { return };
        if is_cut {
            pipe.held += 1;
            return;
        }
        let Some(item) = pipe.in_flight.pop_front() else { return };
        if is_silent {
            return;
        }
        self.trace.note(now, number as u64, item.digest());
        if pipe.is_reader_gone {
            if matches!(item, Item::Bytes(_)) {
                let twin = pipe.twin;
                self.send(twin, Item::Reset);
            }
            return;
        }
        later.wakers.extend(pipe.waker.take());
        let is_reset = matches!(item, Item::Reset);
        pipe.take(item);
        let twin = pipe.twin;
        if let Some(twin) = self.pipes.get_mut(twin).filter(|_| is_reset) {
            twin.is_broken = true;
        }
    }

    /// What waited for a link is on its way again.
    fn resume(&mut self, number: usize) {
        let Some(pipe) = self.pipes.get_mut(number) else { return };
        let held = std::mem::take(&mut pipe.held);
        for _ in 0..held {
            let due = self.due();
            let Some(pipe) = self.pipes.get_mut(number) else { return };
            pipe.last_due = pipe.last_due.max(due);
            let due = pipe.last_due;
            self.schedule(due, Event::Arrive(number));
        }
    }

    /// Both ends of a connection are told that it is no more.
    fn reset(&mut self, number: usize) {
        let Some(twin) = self.pipes.get(number).map(|pipe| pipe.twin) else { return };
        for number in [number, twin] {
            if let Some(pipe) = self.pipes.get_mut(number) {
                pipe.in_flight.iter_mut().for_each(|item| *item = Item::Bytes(Bytes::new()));
            }
            self.send(number, Item::Reset);
        }
    }

    fn is_host_silent(&self, host: Host) -> bool {
        self.hosts.get(&host).is_some_and(|host| host.is_silent)
    }
}
