//! What a drill asks the admin ports of nodes.
//!
//! No answer is an answer here: a node that is down, paused or cut off says nothing, and that is what a drill
//! is about. A request never waits longer than [`ANSWER_MAX`], so that one silent node delays nobody.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::Agent;

/// Longest wait for a page. A page about a small store takes milliseconds.
const ANSWER_MAX: Duration = Duration::from_millis(1_500);
/// Longest wait for a change of the cluster: a learner may have to catch up.
const CHANGE_MAX: Duration = Duration::from_secs(60);
const CONNECT_MAX: Duration = Duration::from_millis(500);
/// Bytes of a page; a hundred thousand pins take some ten million.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// Pins that a page is asked for.
pub const PINS_LISTED_MAX: usize = 100_000;

/// The variable that holds the token; the same that `serve` reads.
const TOKEN_VARIABLE: &str = "MOONCAKE_HA_ADMIN_TOKEN";

/// `GET /health`.
#[derive(Clone, Debug, Deserialize)]
pub struct Health {
    /// `leader` or `standby`.
    pub role: String,
    /// Whether the node serves clients.
    pub service_ready: bool,
    /// Where clients reach the leader that this node knows.
    pub leader_address: Option<String>,
    /// That leader's term.
    pub view_version: Option<u64>,
}

/// `GET /api/v1/cluster`, as far as a drill looks at it.
#[derive(Clone, Debug, Deserialize)]
pub struct ClusterPage {
    /// Who answers.
    pub node_id: u64,
    /// Version of its program.
    pub version: String,
    /// Its term.
    pub term: u64,
    /// Whether it serves clients.
    pub is_serving: bool,
    /// Whom it takes for the leader.
    pub leader: Option<LeaderPage>,
    /// Its log.
    pub log: LogPage,
    /// Who belongs to the cluster.
    pub members: Vec<MemberPage>,
    /// Its clock; older versions do not tell it.
    pub clock: Option<ClockPage>,
    /// Whether it may be stopped, if that was asked of a version that knows.
    pub stop: Option<StopPage>,
}

/// A node's wall clock as that node sees it.
#[derive(Clone, Debug, Deserialize)]
pub struct ClockPage {
    /// Steps that it has noticed while it led.
    pub steps: u64,
}

/// Whether a node may be stopped.
#[derive(Clone, Debug, Deserialize)]
pub struct StopPage {
    /// Whether the cluster serves on without it.
    pub safe_to_stop: bool,
    /// Why not.
    pub why: Option<String>,
}

/// The leader as a node knows it.
#[derive(Clone, Debug, Deserialize)]
pub struct LeaderPage {
    /// Which node.
    pub node_id: u64,
    /// Where it serves clients.
    pub rpc_address: Option<String>,
    /// Its admin port.
    pub admin_address: Option<String>,
}

/// Places in a node's log.
#[derive(Clone, Debug, Deserialize)]
pub struct LogPage {
    /// Last entry in the state.
    pub applied: Option<u64>,
}

/// A member as a node knows it.
#[derive(Clone, Debug, Deserialize)]
pub struct MemberPage {
    /// Which node.
    pub node_id: u64,
    /// Whether it votes.
    pub is_voter: bool,
}

/// `GET /api/v1/soft_pins`.
#[derive(Clone, Debug, Deserialize)]
pub struct PinsPage {
    /// Pins in all.
    pub active: usize,
    /// The next ones to end.
    pub pins: Vec<PinPage>,
}

/// One soft pin.
#[derive(Clone, Debug, Deserialize)]
pub struct PinPage {
    /// Of which key.
    pub key: String,
    /// Unix milliseconds at which it ends.
    pub deadline_ms: u64,
}

/// The admin port of one node.
#[derive(Clone, Debug)]
pub struct AdminPort {
    base: String,
    agent: Agent,
}

impl AdminPort {
    /// Talks to `host:port` or an `http://` address; opens no connection yet.
    pub fn new(address: &str) -> Self {
        let base = address.trim_end_matches('/');
        let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        let agent = Agent::config_builder()
            .timeout_connect(Some(CONNECT_MAX))
            .http_status_as_error(false)
            .max_idle_connections(0)
            .build();
        AdminPort { base, agent: agent.into() }
    }

    /// Its address.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// What the node is, if it answers.
    pub async fn health(&self) -> Option<Health> {
        self.page("/health").await
    }

    /// What the node knows of the cluster, if it answers.
    pub async fn cluster(&self) -> Option<ClusterPage> {
        self.page("/api/v1/cluster").await
    }

    /// The same, with whether the node may be stopped.
    pub async fn cluster_before_stop(&self) -> Option<ClusterPage> {
        self.page("/api/v1/cluster?stop=true").await
    }

    /// The soft pins, if the node leads and answers.
    pub async fn pins(&self) -> Option<PinsPage> {
        self.page(&format!("/api/v1/soft_pins?limit={PINS_LISTED_MAX}")).await
    }

    /// Names of the segments, if the node leads and answers.
    pub async fn segments(&self) -> Option<Vec<String>> {
        let (status, body) = self.send("GET", "/get_all_segments", ANSWER_MAX).await.ok()?;
        let lines = body.lines().filter(|line| !line.is_empty());
        (status == 200).then(|| lines.map(str::to_owned).collect())
    }

    /// How the restore of this cluster's first start ended, if the node answers.
    pub async fn restore_outcome(&self) -> Option<String> {
        let page: serde_json::Value = self.page("/api/v1/restore").await?;
        page.pointer("/outcome")?.as_str().map(str::to_owned)
    }

    /// Makes a change of the cluster. Errors: the node's sentence, or that none came.
    pub async fn change(&self, path: &str) -> Result<(), String> {
        let (status, body) = self.send("POST", path, CHANGE_MAX).await?;
        match status {
            200 => Ok(()),
            _ => Err(format!("{}{path} answered {status}: {}", self.base, body.trim())),
        }
    }

    async fn page<P: DeserializeOwned>(&self, path: &str) -> Option<P> {
        let (status, body) = self.send("GET", path, ANSWER_MAX).await.ok()?;
        if status != 200 {
            return None;
        }
        serde_json::from_str(&body).ok()
    }

    async fn send(
        &self,
        method: &'static str,
        path: &str,
        limit: Duration,
    ) -> Result<(u16, String), String> {
        let (agent, uri) = (self.agent.clone(), format!("{}{path}", self.base));
        let asking = tokio::task::spawn_blocking(move || {
            let mut request = ureq::http::Request::builder().method(method).uri(&uri);
            let token = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let failed = |why: &dyn std::fmt::Display| format!("{uri} did not answer: {why}");
            let request = request.body(Vec::new()).map_err(|e| failed(&e))?;
            let request = agent.configure_request(request).timeout_global(Some(limit)).build();
            let mut answer = agent.run(request).map_err(|e| failed(&e))?;
            let status = answer.status().as_u16();
            let body = answer.body_mut().with_config().limit(PAGE_BYTES_MAX).read_to_string();
            Ok((status, body.map_err(|e| failed(&e))?))
        });
        asking.await.map_err(|_| "the question was given up".to_owned())?
    }
}
