//! The allocatable names in their order, and the hosts they live on.
//!
//! Several segments may share a name (one client mounts each of its buffers under its own); a name
//! is one place for a replica. The order of names is state: a random start position means nothing
//! without it. Guards: a name is listed exactly while it has members; removal swaps with the last
//! (behaviour 5.1). `M` is the caller's number for a segment.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Allocatable names in list order, each with its segments in mount order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameList<M> {
    names: Vec<(Arc<str>, Vec<M>)>,
    /// Place in `names` of each name.
    places: BTreeMap<Arc<str>, usize>,
}

impl<M: PartialOrd> NameList<M> {
    /// A list without names.
    pub fn new() -> Self {
        NameList { names: Vec::new(), places: BTreeMap::new() }
    }

    /// Adds a segment under a name, at the end of the list if the name is new. Among the segments
    /// of the name it takes its place by number, also when it comes back. Adding a segment that is
    /// already there changes nothing.
    pub fn add(&mut self, name: &Arc<str>, member: M) {
        let place = *self.places.entry(name.clone()).or_insert(self.names.len());
        if place == self.names.len() {
            self.names.push((name.clone(), Vec::new()));
        }
        if let Some((_, members)) = self.names.get_mut(place)
            && !members.contains(&member)
        {
            let at = members.partition_point(|other| *other < member);
            members.insert(at, member);
        }
    }

    /// Takes a segment away; the last name takes the place of a name that has none left. Returns
    /// whether it was there.
    pub fn remove(&mut self, name: &str, member: &M) -> bool {
        let Some(place) = self.position(name) else {
            return false;
        };
        let Some((_, members)) = self.names.get_mut(place) else {
            return false;
        };
        let Some(at) = members.iter().position(|found| found == member) else {
            return false;
        };
        members.remove(at);
        if members.is_empty() {
            self.names.swap_remove(place);
            self.places.remove(name);
            if let Some((moved, _)) = self.names.get(place) {
                self.places.insert(moved.clone(), place);
            }
        }
        true
    }

    /// The place of a name in the list.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The name at a place and its segments.
    pub fn get(&self, place: usize) -> Option<(&Arc<str>, &[M])> {
        let (name, members) = self.names.get(place)?;
        Some((name, members))
    }

    /// All names in list order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &[M])> + '_ {
        self.names.iter().map(|(name, members)| (name, &**members))
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether nothing can be allocated at all.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// The names of each host, for allocation near the writer (behaviour 6.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames {
    /// Host, then name, then the number of its allocatable segments (at least 1).
    hosts: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u32>>,
}

impl HostNames {
    /// A segment of that name became allocatable on a host. The empty host is not kept.
    pub fn add(&mut self, host: &Arc<str>, name: &Arc<str>) {
        if !host.is_empty() {
            let names = self.hosts.entry(host.clone()).or_default();
            *names.entry(name.clone()).or_insert(0) += 1;
        }
    }

    /// A segment of that name is no longer allocatable on a host; unknown ones are ignored.
    pub fn remove(&mut self, host: &str, name: &str) {
        let Some(names) = self.hosts.get_mut(host) else {
            return;
        };
        if let Some(count) = names.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                names.remove(name);
            }
        }
        if names.is_empty() {
            self.hosts.remove(host);
        }
    }

    /// All names, nearest first: hosts as a ring from the writer's (or the next greater one), and
    /// in each host the sorted names rotated by `key_hash`, so that keys spread over a host's
    /// segments.
    pub fn nearest_first(
        &self,
        writer_host: &str,
        key_hash: u64,
    ) -> impl Iterator<Item = &Arc<str>> + '_ {
        let is_before = |host: &Arc<str>| **host < *writer_host;
        let before = self.hosts.keys().take_while(|host| is_before(host)).count();
        let ring = self.hosts.values().cycle().skip(before);
        ring.take(self.hosts.len()).flat_map(move |names| {
            let count = names.len().max(1);
            let first = (key_hash % count as u64) as usize;
            names.keys().cycle().skip(first).take(names.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Arc<str> {
        Arc::from(text)
    }

    #[test]
    fn a_removed_name_is_replaced_by_the_last_one() {
        let mut list = NameList::new();
        for (at, text) in ["a", "b", "c", "d"].iter().enumerate() {
            list.add(&name(text), at);
        }
        list.add(&name("b"), 9);
        assert!(list.remove("b", &1) && list.len() == 4);
        assert!(list.remove("b", &9) && !list.remove("b", &9));
        let order: Vec<&str> = list.iter().map(|(name, _)| &**name).collect();
        assert_eq!(order, ["a", "d", "c"]);
        assert_eq!((list.position("d"), list.position("b")), (Some(1), None));
        assert!(list.remove("c", &2) && list.remove("a", &0));
        assert_eq!(list.get(0), Some((&name("d"), &[3][..])));
        assert_eq!(list.position("d"), Some(0));
    }

    #[test]
    fn a_segment_is_listed_once_however_often_it_is_added() {
        let mut list = NameList::new();
        list.add(&name("a"), 1);
        list.add(&name("a"), 1);
        assert!(list.remove("a", &1) && list.is_empty());
    }

    #[test]
    fn hosts_are_a_ring_from_the_writer_and_names_rotate_by_key() {
        let mut hosts = HostNames::default();
        for (host, text) in [("h1", "x"), ("h3", "q"), ("h3", "p"), ("h3", "r"), ("", "z")] {
            hosts.add(&name(host), &name(text));
        }
        let order = |hosts: &HostNames, from: &str, hash| {
            let names = hosts.nearest_first(from, hash).map(|name| name.to_string());
            names.collect::<Vec<_>>().concat()
        };
        assert_eq!(order(&hosts, "h3", 0), "pqrx");
        assert_eq!(order(&hosts, "h2", 4), "qrpx", "the next greater host is the nearest");
        assert_eq!(order(&hosts, "h9", 2), "xrpq", "the ring wraps");
        hosts.add(&name("h1"), &name("x"));
        hosts.remove("h1", "x");
        assert_eq!(order(&hosts, "h1", 0), "xpqr", "one of two segments remains");
        hosts.remove("h1", "x");
        hosts.remove("h1", "x");
        assert_eq!(order(&hosts, "h1", 0), "pqr");
    }
}
