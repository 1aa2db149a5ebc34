//! Several nodes in one process, each behind a relay.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mooncake_ha_raft::{Config, OpenError, ProposeError};
use tokio::net::TcpListener;

use crate::proxy::{Links, relay};
use crate::support::{Member, add, eventually};

pub struct Cluster {
    pub dirs: BTreeMap<u64, tempfile::TempDir>,
    pub members: BTreeMap<u64, Member>,
    pub links: Links,
    listen: BTreeMap<u64, SocketAddr>,
    public: BTreeMap<u64, String>,
    first: Vec<u64>,
    tune: fn(&mut Config),
    /// Whether a relay stands before each node; one cannot read who talks if that is encrypted.
    relayed: bool,
}

impl Cluster {
    /// Starts nodes 1 to `count` as one new cluster.
    pub async fn start(count: u64, tune: fn(&mut Config)) -> Self {
        Self::start_as(count, tune, true).await
    }

    /// The same without relays.
    pub async fn start_direct(count: u64, tune: fn(&mut Config)) -> Self {
        Self::start_as(count, tune, false).await
    }

    async fn start_as(count: u64, tune: fn(&mut Config), relayed: bool) -> Self {
        let mut cluster = Self {
            relayed,
            dirs: BTreeMap::new(),
            members: BTreeMap::new(),
            links: Links::default(),
            listen: BTreeMap::new(),
            public: BTreeMap::new(),
            first: (1..=count).collect(),
            tune,
        };
        let mut listeners = Vec::new();
        for id in 1..=count {
            listeners.push((id, cluster.place(id).await));
        }
        for (id, listener) in listeners {
            let config = cluster.config(id);
            let member = Member::open_on(listener, config).await.unwrap();
            cluster.members.insert(id, member);
        }
        cluster
    }

    /// Gives a node a directory, an address and a relay.
    pub async fn place(&mut self, id: u64) -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        self.listen.insert(id, addr);
        self.dirs.insert(id, tempfile::tempdir().unwrap());
        self.public.insert(id, addr.to_string());
        if self.relayed {
            let public = TcpListener::bind("127.0.0.1:0").await.unwrap();
            self.public.insert(id, public.local_addr().unwrap().to_string());
            tokio::spawn(relay(public, addr, id, self.links.clone()));
        }
        listener
    }

    pub fn address(&self, id: u64) -> &str {
        &self.public[&id]
    }

    pub fn config(&self, id: u64) -> Config {
        let mut config = Config::new(id, "test", self.dirs[&id].path());
        config.listen = Some(self.listen[&id]);
        let first = self.first.iter().map(|peer| (*peer, self.public[peer].clone()));
        config.peers = first.collect();
        if !self.first.contains(&id) {
            config.peers.clear();
            config.join = true;
        }
        (self.tune)(&mut config);
        config
    }

    pub async fn stop(&mut self, id: u64) {
        let member = self.members.remove(&id).unwrap();
        member.node.shutdown().await;
    }

    pub async fn open(&mut self, id: u64) {
        let member = self.try_open(id).await.unwrap();
        self.members.insert(id, member);
    }

    /// Opens a node that waits to be added.
    pub async fn join(&mut self, id: u64) {
        let listener = TcpListener::bind(self.listen[&id]).await.unwrap();
        let mut config = self.config(id);
        config.join = true;
        let member = Member::open_on(listener, config).await.unwrap();
        self.members.insert(id, member);
    }

    pub async fn try_open(&self, id: u64) -> Result<Member, OpenError> {
        let listener = TcpListener::bind(self.listen[&id]).await.unwrap();
        Member::open_on(listener, self.config(id)).await
    }

    pub fn leader_now(&self) -> Option<u64> {
        let leads = |member: &Member| member.node.watch_role().borrow().is_ready_leader();
        let mut leaders: Vec<_> = self
            .members
            .iter()
            .filter(|(_, member)| leads(member))
            .map(|(id, member)| (member.node.status().term, *id))
            .collect();
        leaders.sort_unstable();
        leaders.last().map(|(_, id)| *id)
    }

    pub async fn leader(&self) -> u64 {
        eventually("a leader is elected", || self.leader_now().is_some()).await;
        self.leader_now().unwrap()
    }

    /// A leader among `ids`.
    pub async fn leader_among(&self, ids: &[u64]) -> u64 {
        let found = || self.leader_now().filter(|id| ids.contains(id));
        eventually("a leader is elected among some", || found().is_some()).await;
        found().unwrap()
    }

    /// Adds through whoever leads, as a client would: "not leader" and "outcome unknown" are
    /// tried again (adding twice is harmless).
    pub async fn add(&self, number: u64, padding: usize) {
        let start = Instant::now();
        loop {
            if let Some(leader) = self.leader_now() {
                let node = &self.members[&leader].node;
                let proposed = node.propose(add(number, padding));
                match tokio::time::timeout(Duration::from_secs(2), proposed).await {
                    Ok(Ok(_)) => return,
                    Ok(Err(ProposeError::TooLarge { .. })) => panic!("too large"),
                    Ok(Err(_)) | Err(_) => {}
                }
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{number} could not be added");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until all nodes have the same state, and returns its size.
    pub async fn settle(&self) -> usize {
        let equal = || {
            let mut states = self.members.values().map(|member| member.machine.state());
            let first = states.next().unwrap();
            states.all(|state| state == first)
        };
        eventually("all nodes have the same state", equal).await;
        self.members.values().next().unwrap().machine.len()
    }

    pub async fn shutdown(self) {
        for member in self.members.into_values() {
            member.node.shutdown().await;
        }
    }
}
