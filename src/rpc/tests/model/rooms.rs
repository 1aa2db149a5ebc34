//! Segments, clients, and what ends with time (5, 2.7).

use std::collections::{BTreeMap, BTreeSet};

use super::super::act::{Act, KEEPER, name_of};
use super::super::mounts::{bytes_of, endpoint_of};
use super::super::perform::{Heard, Told};
use super::{Followed, Model, Phase, Room, UNHEARD_GRACE, code, equal, fail};

const ALIVE: i32 = 1;
const NEED_REMOUNT: i32 = 2;

impl Model {
    pub(super) fn mounts(&mut self, act: &Act, heard: &Heard) -> Followed {
        match (act, heard) {
            (Act::Expire, _) => {
                self.expire();
                Ok(())
            }
            (Act::FinishUnmounts, _) => {
                self.finish_unmounts();
                Ok(())
            }
            (Act::Mount { by, n, form }, Heard::Done(told)) => {
                self.hear(*by);
                let mounted = self.mount(*by, *n, *form);
                if mounted.is_ok() {
                    self.clients.entry(*by).or_insert(false);
                }
                equal("mount", told, &vec![mounted])
            }
            (Act::Remount { by, ns }, Heard::Done(told)) => {
                self.hear(*by);
                equal("remount", told, &vec![self.remount(*by, ns)])
            }
            (Act::Unmount { by, n }, Heard::Done(told)) => {
                equal("unmount", told, &vec![self.unmount(by.unwrap_or(1), *n)])
            }
            (Act::Graceful { by, n, grace }, Heard::Done(told)) => {
                let answer = self.graceful(by.unwrap_or(1), *n, *grace);
                equal("graceful unmount", told, &vec![answer])
            }
            (Act::Ping { by }, Heard::Number(told)) => {
                self.hear(*by);
                let is_alive = self.clients.get(by) == Some(&true);
                equal("ping", told, &Ok(if is_alive { ALIVE } else { NEED_REMOUNT }))
            }
            (Act::Status { name }, Heard::Number(told)) => {
                let named = self.rooms.iter().filter(|(n, _)| name_of(**n) == *name);
                let latest = named.filter(|(_, room)| room.phase != Phase::Ending);
                let latest = latest.max_by_key(|(_, room)| room.order).map(|(_, room)| room);
                equal("status", told, &status(latest))
            }
            (Act::StatusById { n }, Heard::Number(told)) => {
                let room = self.rooms.get(n).filter(|room| room.phase != Phase::Ending);
                equal("status", told, &status(room))
            }
            (Act::Hosts { clients }, Heard::Hosts(told)) => {
                equal("hosts", told, &self.hosts(clients))
            }
            _ => fail("an answer of another kind"),
        }
    }

    fn hear(&mut self, client: u8) {
        self.heard.insert(client, self.monotonic);
    }

    /// The hosts of clients in the order of their mounts (5.9).
    fn hosts(&self, clients: &[u8]) -> BTreeMap<u64, Vec<String>> {
        let mut rooms: Vec<_> = self.rooms.iter().collect();
        rooms.sort_by_key(|(_, room)| room.order);
        let mut hosts: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (n, room) in rooms {
            if room.phase == Phase::Ending || !clients.contains(&room.owner) {
                continue;
            }
            let endpoint = endpoint_of(*n);
            let host = endpoint.split(':').next().unwrap_or_default().to_owned();
            let known = hosts.entry(u64::from(room.owner)).or_default();
            if !known.contains(&host) {
                known.push(host);
            }
        }
        hosts
    }

    /// MountSegment (5.3; edge 32).
    fn mount(&mut self, by: u8, n: u8, form: u8) -> Told<()> {
        if form >= 2 {
            return Err(code::PARAMS);
        }
        let size = bytes_of(form);
        match self.rooms.get(&n) {
            None => {
                self.mounts += 1;
                let order = self.mounts;
                self.rooms.insert(n, Room { owner: by, size, phase: Phase::Open, order });
                Ok(())
            }
            Some(room) if room.phase != Phase::Open => Err(code::STATUS),
            Some(room) if room.owner == by && room.size == size => Ok(()),
            Some(_) => Err(code::SEGMENT_EXISTS),
        }
    }

    /// ReMountSegment (5.5; edges 14 and 31).
    fn remount(&mut self, by: u8, ns: &[u8]) -> Told<()> {
        let is_foreign = |n: &u8| {
            let known = self.rooms.get(n);
            known.is_some_and(|room| room.owner != by || room.size != bytes_of(0))
        };
        if ns.iter().any(is_foreign) {
            return Err(code::PARAMS);
        }
        let mut answer = Ok(());
        for n in ns {
            let mounted = self.mount(by, *n, 0);
            answer = answer.and(mounted);
        }
        let is_alive = self.clients.entry(by).or_insert(false);
        *is_alive |= answer != Err(code::STATUS);
        answer
    }

    /// UnmountSegment (5.6; edge 1).
    fn unmount(&mut self, by: u8, n: u8) -> Told<()> {
        let Some(room) = self.rooms.get(&n) else { return Ok(()) };
        if room.owner != by {
            return Err(code::CLIENT);
        }
        if room.phase == Phase::Ending {
            return Err(code::STATUS);
        }
        self.rooms.remove(&n);
        self.forget_lost();
        self.mark("unmounted");
        Ok(())
    }

    /// GracefulUnmountSegment (5.7).
    fn graceful(&mut self, by: u8, n: u8, grace: u64) -> Told<()> {
        if self.rooms.values().all(|room| room.owner != by) {
            return Err(code::SEGMENT_NOT_FOUND);
        }
        let at = self.now + grace;
        let room = self.rooms.get_mut(&n).filter(|room| room.owner == by).ok_or(code::PARAMS)?;
        room.phase = match room.phase {
            Phase::Open => Phase::Leaving(at),
            Phase::Leaving(earlier) => Phase::Leaving(earlier.min(at)),
            Phase::Ending => return Err(code::STATUS),
        };
        Ok(())
    }

    /// Clients that were silent for too long are forgotten with their segments (5.4).
    fn expire(&mut self) {
        let (now, ttl) = (self.monotonic, self.rules.client_ttl);
        let is_silent = |client: &u8| match self.heard.get(client) {
            Some(heard) => now - heard > ttl,
            None => now - self.led_since_monotonic > UNHEARD_GRACE.max(ttl),
        };
        let known = self.clients.keys().copied().filter(|client| *client != KEEPER);
        let gone: BTreeSet<u8> = known.filter(is_silent).collect();
        self.mark_if(!gone.is_empty(), "client given up");
        self.clients.retain(|client, _| !gone.contains(client));
        for room in self.rooms.values_mut().filter(|room| gone.contains(&room.owner)) {
            room.phase = Phase::Ending;
        }
        self.forget_lost();
    }

    fn finish_unmounts(&mut self) {
        let is_over = |room: &Room| matches!(room.phase, Phase::Leaving(at) if at <= self.now);
        if self.rooms.values().any(is_over) {
            self.sweep();
        }
        self.rooms.retain(|_, room| room.phase != Phase::Ending);
    }

    /// Everything whose time is over ends (2.7, 3.7).
    pub(super) fn sweep(&mut self) {
        let (now, release) = (self.now, self.rules.release);
        let (mut pins, mut writes, mut copies) = (0, 0, 0);
        for thing in self.things.values_mut() {
            pins += usize::from(thing.deadline.is_some_and(|deadline| deadline <= now));
            thing.deadline = thing.deadline.filter(|deadline| now < *deadline);
            if thing.is_open && thing.began + release < now {
                writes += 1;
                thing.copies.retain(|copy| copy.is_done || copy.is_target);
                thing.settle();
            }
            let is_over = |started: u64| started + release <= now;
            if thing.transfer.take_if(|transfer| is_over(transfer.started)).is_some() {
                copies += 1;
                thing.copies.retain(|copy| copy.is_done);
                thing.settle();
            }
        }
        self.drop_empty();
        self.mark_if(pins > 0, "pin swept");
        self.mark_if(writes > 0, "write dropped");
        self.mark_if(copies > 0, "copy gave up");
        let is_released = |aside: &super::Aside| aside.until <= now;
        self.mark_if(self.aside.iter().any(is_released), "memory released");
        self.aside.retain(|aside| !is_released(aside));
        let is_over = |room: &Room| matches!(room.phase, Phase::Leaving(at) if at <= now);
        self.mark_if(self.rooms.values().any(is_over), "left in grace");
        self.rooms.retain(|_, room| !is_over(room));
        self.forget_lost();
        self.sweep_tasks();
    }
}

fn status(room: Option<&Room>) -> Told<i32> {
    match room.map(|room| room.phase) {
        Some(Phase::Open) => Ok(1),
        Some(Phase::Leaving(_)) => Ok(4),
        _ => Err(code::SEGMENT_NOT_FOUND),
    }
}
