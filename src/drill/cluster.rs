//! Nodes that a drill starts itself, from its own program, in a directory of its own.
//!
//! Ports and directories stay the same over restarts. Everything is gone when the cluster is dropped; nothing
//! here chooses who leads or waits for anything but a process. Node number n has index n - 1.

use std::path::PathBuf;

use anyhow::Context;
use tempfile::TempDir;

use super::admin::AdminPort;
use super::disk::{Disk, DiskKind};
use super::link::{Flow, Link};
use super::ports::free_port;
use super::process::NodeProcess;

/// What a drill's cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// The program; `serve` is its first argument.
    pub program: PathBuf,
    /// What nodes run after [`Cluster::upgrade`].
    pub next_program: PathBuf,
    /// How many nodes.
    pub nodes: usize,
    /// Further flags of each node.
    pub flags: Vec<String>,
    /// Whether the nodes reach each other through relays that can be cut.
    pub has_links: bool,
    /// What their data lies on.
    pub disk: DiskKind,
    /// Whether they take catalog snapshots, and an empty cluster starts from the newest.
    pub has_catalog: bool,
    /// Whether their wall clocks can be stepped.
    pub has_clocks: bool,
}

/// One node with its doors.
#[derive(Debug)]
pub struct Node {
    /// Its number.
    pub id: u64,
    /// Its process.
    pub process: NodeProcess,
    /// Where it serves clients.
    pub rpc: String,
    /// Its admin port.
    pub admin: AdminPort,
    /// What it must not forget.
    pub data_dir: PathBuf,
    /// Its raft port, as it is bound.
    raft: String,
}

/// The nodes.
#[derive(Debug)]
pub struct Cluster {
    /// In order of their numbers.
    pub nodes: Vec<Node>,
    links: Vec<Link>,
    plan: ClusterPlan,
    // Dropped after the processes that write to them.
    disks: Vec<Disk>,
    // Dropped last.
    dir: TempDir,
}

impl Cluster {
    /// Prepares the nodes and starts them; waits for nothing.
    ///
    /// Errors: no directory, no free ports, or the program cannot be run.
    pub async fn start(plan: &ClusterPlan) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("mooncake-ha-drill-").tempdir();
        let dir = dir.context("make a directory for the drill's nodes")?;
        let mut raft = Vec::new();
        for _ in 0..plan.nodes {
            raft.push(format!("127.0.0.1:{}", port()?));
        }
        let mut cluster = Cluster {
            nodes: Vec::new(),
            links: Vec::new(),
            plan: plan.clone(),
            disks: Vec::new(),
            dir,
        };
        for (at, address) in raft.iter().enumerate() {
            let peers = match plan.has_links {
                true => cluster.linked_peers(at, &raft).await?,
                false => peers_of(&raft),
            };
            let node = cluster.node(at, address, &peers, &[])?;
            cluster.disks.extend(Disk::mount(plan.disk, &node.data_dir)?);
            cluster.nodes.push(node);
        }
        for node in &mut cluster.nodes {
            node.process.start()?;
        }
        Ok(cluster)
    }

    /// Peers as node `at` is told of them: itself directly, the others through relays.
    async fn linked_peers(&mut self, at: usize, raft: &[String]) -> anyhow::Result<String> {
        let mut told = Vec::new();
        for (to, address) in raft.iter().enumerate() {
            if to == at {
                told.push(address.clone());
                continue;
            }
            let port = port()?;
            let link = Link::open(at, to, port, address.clone()).await;
            self.links.push(link.context("open a relay between two nodes")?);
            told.push(format!("127.0.0.1:{port}"));
        }
        Ok(peers_of(&told))
    }

    fn node(&self, at: usize, raft: &str, peers: &str, flags: &[&str]) -> anyhow::Result<Node> {
        let id = at as u64 + 1;
        let (rpc, admin, discovery) = (port()?, port()?, port()?);
        let data_dir = self.dir.path().join(format!("data_{id}"));
        let program = self.plan.program.to_str().context("the program's path is not text")?;
        let mut command = vec![
            program.to_owned(),
            "serve".to_owned(),
            format!("--node_id={id}"),
            format!("--peers={peers}"),
            format!("--data_dir={}", data_dir.display()),
            "--rpc_address=127.0.0.1".to_owned(),
            format!("--rpc_port={rpc}"),
            "--metrics_host=127.0.0.1".to_owned(),
            format!("--metrics_port={admin}"),
            format!("--discovery_port={discovery}"),
        ];
        if self.plan.has_catalog {
            command.extend(["--enable_snapshot", "--enable_snapshot_restore"].map(str::to_owned));
            command.push(format!("--snapshot_local_path={}", self.catalog().display()));
        }
        if self.plan.has_clocks {
            let file = self.clock_file(at);
            std::fs::write(&file, "0").with_context(|| format!("write {}", file.display()))?;
            command.push(format!("--drill_clock_offset_file={}", file.display()));
        }
        command.extend(self.plan.flags.iter().cloned());
        command.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let log = self.dir.path().join(format!("node_{id}.log"));
        Ok(Node {
            id,
            process: NodeProcess::new(command, log),
            rpc: format!("127.0.0.1:{rpc}"),
            admin: AdminPort::new(&format!("127.0.0.1:{admin}")),
            data_dir,
            raft: raft.to_owned(),
        })
    }

    /// Starts one more node, which waits to be added; answers its index and its raft address.
    ///
    /// Errors: as [`Cluster::start`].
    pub fn start_joining(&mut self) -> anyhow::Result<(usize, String)> {
        let at = self.nodes.len();
        let own = format!("127.0.0.1:{}", port()?);
        let raft = self.nodes.iter().map(|node| node.raft.clone()).chain([own.clone()]);
        let peers = peers_of(&raft.collect::<Vec<_>>());
        let mut node = self.node(at, &own, &peers, &["--join"])?;
        node.process.start()?;
        self.nodes.push(node);
        Ok((at, own))
    }

    /// From its next start on a node runs the other program. Errors: there is no such node, or the program's path is
    /// not text.
    pub fn upgrade(&mut self, at: usize) -> anyhow::Result<()> {
        let program = self.plan.next_program.to_str().context("the program's path is not text")?;
        let program = program.to_owned();
        if let Some(first) = self.at(at)?.process.command_mut().first_mut() {
            *first = program;
        }
        Ok(())
    }

    /// Sets by how many milliseconds the wall clock of a node is ahead of the machine's. Errors: the nodes have no
    /// such clocks, or the file cannot be written.
    pub fn step_clock(&self, at: usize, ahead_ms: i64) -> anyhow::Result<()> {
        anyhow::ensure!(self.plan.has_clocks, "these nodes have the machine's clock");
        let (file, new) = (self.clock_file(at), self.clock_file(at).with_extension("new"));
        // In one step: a node reads it at any time.
        std::fs::write(&new, ahead_ms.to_string())
            .and_then(|()| std::fs::rename(&new, &file))
            .with_context(|| format!("write {}", file.display()))
    }

    fn clock_file(&self, at: usize) -> PathBuf {
        self.dir.path().join(format!("clock_{}", at + 1))
    }

    /// A node by its index. Errors: there is none.
    pub fn at(&mut self, at: usize) -> anyhow::Result<&mut Node> {
        self.nodes.get_mut(at).with_context(|| format!("there is no node with the index {at}"))
    }

    /// The disk of a node's own. Errors: it has none.
    pub fn disk(&self, at: usize) -> anyhow::Result<&Disk> {
        let node = self.nodes.get(at);
        let disk = node.and_then(|node| self.disks.iter().find(|disk| disk.is_at(&node.data_dir)));
        disk.with_context(|| format!("node {} has no disk of its own", at + 1))
    }

    /// Sets what flows from node `from` to node `to` and back on the connections that `from` has made.
    pub fn set_links(&self, flow: impl Fn(&Link) -> Flow) {
        for link in &self.links {
            link.set(flow(link));
        }
    }

    /// The root of catalog snapshots, outside of every node's directory.
    pub fn catalog(&self) -> PathBuf {
        self.dir.path().join("catalog")
    }

    /// Keeps logs and data for a look at them; answers where.
    pub fn keep(mut self) -> PathBuf {
        for node in &mut self.nodes {
            node.process.kill();
        }
        self.dir.disable_cleanup(true);
        self.dir.path().to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A process that waits for its disk cannot be killed.
        for disk in &self.disks {
            // An error means that it does not stall.
            let _ = disk.go_on();
        }
    }
}

/// Cuts every connection between node `lost` and the others, both ways.
pub fn cut_off(lost: usize) -> impl Fn(&Link) -> Flow {
    move |link| {
        let is_cut = link.from == lost || link.to == lost;
        Flow { holds_there: is_cut, holds_back: is_cut, ..Flow::default() }
    }
}

/// Holds what node `mute` says; what the others say to it arrives.
pub fn mute(mute: usize) -> impl Fn(&Link) -> Flow {
    move |link| Flow {
        holds_there: link.from == mute,
        holds_back: link.to == mute,
        ..Flow::default()
    }
}

fn peers_of(addresses: &[String]) -> String {
    let peers = addresses.iter().zip(1..).map(|(address, id)| format!("{id}={address}"));
    peers.collect::<Vec<_>>().join(",")
}

fn port() -> anyhow::Result<u16> {
    free_port().context("no free TCP port was found on the loopback address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_numbered_from_one() {
        assert_eq!(peers_of(&["a:1".into(), "b:2".into()]), "1=a:1,2=b:2");
    }
}
