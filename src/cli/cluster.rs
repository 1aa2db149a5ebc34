//! `mooncake-ha cluster ...`: an operator looks at a cluster and changes it, through a node's admin port.
//!
//! Guards that an answer ends as an exit code (`docs/errors.md`) and a refusal as one sentence on stderr, and that any
//! node can be asked: what only the leader does or knows is asked there. Pages and token are the admin door's.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value as Json;
use ureq::Agent;

use super::{EXIT_FAILURE, complain, print};

/// Longer than a node waits for a learner to catch up.
const ANSWER_MAX: Duration = Duration::from_secs(150);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long the leader may take to tell its view; without it the status is still worth printing.
const VIEW_MAX: Duration = Duration::from_secs(2);

/// Bytes of an answer; a cluster's page has a few thousand.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// The variable that holds the token; the same that `serve` reads.
const TOKEN_VARIABLE: &str = "MOONCAKE_HA_ADMIN_TOKEN";

/// The code of an answer by a node that does not lead.
const NOT_LEADING: i64 = -1011;

/// What to do with which cluster.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mooncake-ha cluster status --admin node1:9003
  mooncake-ha cluster add 4 node4:50061
  mooncake-ha cluster promote 4
  mooncake-ha cluster transfer-leader 2
  mooncake-ha cluster remove 3

Exit codes: 0 done, 1 refused or no answer, 2 wrong usage.
A cluster that wants its admin token is given MOONCAKE_HA_ADMIN_TOKEN.")]
pub(super) struct Cluster {
    #[command(subcommand)]
    action: Action,
    /// Admin port of any node; one that does not lead is asked who does
    #[arg(long, global = true, value_name = "URL", default_value = "http://127.0.0.1:9003")]
    admin: String,
    /// Print the node's answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show who leads, how far behind each node is, and whether the one that is asked may be stopped
    Status,
    /// Add a node, which receives the log and does not vote yet
    Add {
        /// Its --node_id
        node_id: u64,
        /// host:port of its raft, as the other nodes reach it
        address: String,
    },
    /// Let an added node vote; waits until it has caught up
    Promote {
        /// Which node
        node_id: u64,
    },
    /// Remove a node
    Remove {
        /// Which node; not the one that leads
        node_id: u64,
    },
    /// Hand leadership over
    TransferLeader {
        /// To which node; without it to the voter that is closest behind
        node_id: Option<u64>,
    },
    /// Make a raft snapshot of the node that is asked, and purge its log
    Snapshot,
}

/// Runs the command; answers the exit code.
pub(super) fn command(cluster: &Cluster) -> u8 {
    match ask(cluster) {
        Ok(answer) => match (cluster.json, &cluster.action) {
            (true, _) => print(&format!("{}\n", answer.body)),
            (false, Action::Status) => print(&status(&with_the_leaders_view(answer.page))),
            (false, _) => print(&format!("{}\n", text(&answer.page, "/done"))),
        },
        Err(sentence) => {
            complain(&sentence);
            EXIT_FAILURE
        }
    }
}

/// Method and path of an action. An address is a host and a port, whose characters need no encoding.
fn page(action: &Action) -> (&'static str, String) {
    let post = |name: &str, query: String| ("POST", format!("/api/v1/cluster/{name}{query}"));
    match action {
        Action::Status => ("GET", "/api/v1/cluster?stop=true".to_owned()),
        Action::Add { node_id, address } => {
            let set = percent_encoding::NON_ALPHANUMERIC;
            let address = percent_encoding::utf8_percent_encode(address, set);
            post("add", format!("?node_id={node_id}&address={address}"))
        }
        Action::Promote { node_id } => post("promote", format!("?node_id={node_id}")),
        Action::Remove { node_id } => post("remove", format!("?node_id={node_id}")),
        Action::TransferLeader { node_id: Some(id) } => {
            post("transfer_leader", format!("?node_id={id}"))
        }
        Action::TransferLeader { node_id: None } => post("transfer_leader", String::new()),
        Action::Snapshot => post("snapshot", String::new()),
    }
}

/// An answer, as it came and read.
struct Answer {
    status: u16,
    body: String,
    page: Json,
}

/// The good answer to the action, of the leader where only that one can give it.
///
/// Errors: the sentence for the operator.
fn ask(cluster: &Cluster) -> Result<Answer, String> {
    let base = cluster.admin.trim_end_matches('/');
    let mut base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
    let (method, path) = page(&cluster.action);
    let mut answer = send(&base, method, &path, ANSWER_MAX)?;
    let is_refused =
        answer.status == 409 && answer.page.pointer("/error_code") == Some(&NOT_LEADING.into());
    if is_refused
        && let Ok(view) = send(&base, "GET", "/api/v1/cluster", VIEW_MAX)
        && let Some(leader) = leader_of(&view.page)
    {
        answer = send(&leader, method, &path, ANSWER_MAX)?;
        base = leader;
    }
    match answer.status {
        200 => Ok(answer),
        401 => Err(format!("{base} wants its admin token; put it into {TOKEN_VARIABLE}")),
        503 if matches!(cluster.action, Action::Status) => {
            Err(format!("{base} is starting and has not opened its data yet; ask again"))
        }
        _ => Err(format!("{base} refused: {}", text(&answer.page, "/error_message"))),
    }
}

/// Where the admin port of the leader is, if the node that told `page` knows and is another one.
fn leader_of(page: &Json) -> Option<String> {
    if page.pointer("/leader/node_id")? == page.pointer("/node_id")? {
        return None;
    }
    let address = page.pointer("/leader/admin_address")?.as_str()?;
    (!address.is_empty()).then(|| format!("http://{address}"))
}

/// The page of a node with the leader's members: how far behind each is, only the leader knows.
fn with_the_leaders_view(mut page: Json) -> Json {
    if let Some(leader) = leader_of(&page)
        && let Ok(mut view) = send(&leader, "GET", "/api/v1/cluster", VIEW_MAX)
        && leader_of(&view.page).is_none()
        && let Some(members) = view.page.get_mut("members")
        && let Some(own) = page.get_mut("members")
    {
        *own = members.take();
    }
    page
}

/// Errors: no answer, in a sentence for the operator.
fn send(base: &str, method: &str, path: &str, answer_max: Duration) -> Result<Answer, String> {
    let failed = |why: &dyn std::fmt::Display| {
        format!("{base} did not answer: {why}; is it the admin port (--metrics_port) of a node?")
    };
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(answer_max))
        .timeout_connect(Some(CONNECT_MAX))
        .http_status_as_error(false)
        .build()
        .into();
    let mut request = ureq::http::Request::builder().method(method).uri(format!("{base}{path}"));
    let token = std::env::var(TOKEN_VARIABLE).ok();
    if let Some(token) = token.filter(|token| !token.is_empty()) {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Vec::new()).map_err(|error| failed(&error))?;
    let mut answer = agent.run(request).map_err(|error| failed(&error))?;
    let status = answer.status().as_u16();
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
    let body = body.map_err(|error| failed(&error))?;
    let page: Json = serde_json::from_str(&body).map_err(|_| failed(&"no JSON came"))?;
    Ok(Answer { status, body, page })
}

/// A field as text; `-` if it is not there.
fn text(page: &Json, field: &str) -> String {
    match page.pointer(field) {
        None | Some(Json::Null) => "-".to_owned(),
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The status for people.
fn status(page: &Json) -> String {
    let field = |name| text(page, name);
    let is_serving = page.pointer("/is_serving") == Some(&Json::Bool(true));
    let serving = if is_serving { ", serving clients" } else { "" };
    let mut lines = vec![
        format!(
            "node {} of cluster {}: {}{serving}, term {}",
            field("/node_id"),
            field("/cluster_id"),
            field("/role"),
            field("/term")
        ),
        format!(
            "leader: node {}, clients at {}, admin at {}",
            field("/leader/node_id"),
            field("/leader/rpc_address"),
            field("/leader/admin_address")
        ),
        format!(
            "log: applied {} of {}, raft snapshot at {}, data {} bytes in {}",
            field("/log/applied"),
            field("/log/last"),
            field("/log/snapshot"),
            field("/data_dir_bytes"),
            field("/data_dir")
        ),
        format!("{:<6}{:<9}{:<10}{:<12}raft address", "node", "part", "behind", "heard"),
    ];
    let members = page.pointer("/members").and_then(Json::as_array);
    for member in members.into_iter().flatten() {
        let is_voter = member.pointer("/is_voter") == Some(&Json::Bool(true));
        let part = if is_voter { "voter" } else { "learner" };
        let heard = match member.pointer("/heard_ms_ago").and_then(Json::as_u64) {
            Some(ms) if ms < 10_000 => format!("{ms} ms ago"),
            Some(ms) => format!("{} s ago", ms / 1000),
            None => "-".to_owned(),
        };
        lines.push(format!(
            "{:<6}{part:<9}{:<10}{heard:<11} {}",
            text(member, "/node_id"),
            text(member, "/lag"),
            text(member, "/raft_address")
        ));
    }
    match (page.pointer("/stop/safe_to_stop"), page.pointer("/stop/why").and_then(Json::as_str)) {
        (Some(Json::Bool(true)), _) => lines.push("safe to stop this node: yes".to_owned()),
        (Some(_), why) => {
            lines.push(format!("safe to stop this node: no: {}", why.unwrap_or("it does not say")));
        }
        (None, _) => {}
    }
    if let Some(fatal) = page.pointer("/fatal").and_then(Json::as_str) {
        lines.push(format!("this node has stopped: {fatal}"));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_status_names_leader_members_and_how_far_behind_they_are() {
        let page = json!({
            "node_id": 1, "cluster_id": "c", "role": "leader", "is_serving": true, "term": 4,
            "leader": {"node_id": 1, "rpc_address": "h:1", "admin_address": "h:2"},
            "log": {"applied": 9, "last": 9, "snapshot": null}, "data_dir_bytes": 5,
            "data_dir": "d", "fatal": null, "members": [
                {"node_id": 1, "raft_address": "h:3", "is_voter": true, "lag": 0},
                {"node_id": 2, "raft_address": "k:3", "is_voter": false, "lag": 7,
                 "heard_ms_ago": 12},
                {"node_id": 3, "raft_address": "l:3", "is_voter": true, "lag": 1008,
                 "heard_ms_ago": 31_968},
            ],
        });
        let lines = status(&page);
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines[0], "node 1 of cluster c: leader, serving clients, term 4");
        assert_eq!(lines[1], "leader: node 1, clients at h:1, admin at h:2");
        assert_eq!(lines[4], "1     voter    0         -           h:3");
        assert_eq!(lines[5], "2     learner  7         12 ms ago   k:3");
        assert_eq!(lines[6], "3     voter    1008      31 s ago    l:3");
    }

    #[test]
    fn the_status_says_whether_the_node_may_be_stopped_and_why_not() {
        let last = |stop: Json| {
            let text = status(&json!({ "stop": stop }));
            text.lines().last().unwrap().to_owned()
        };
        let yes = last(json!({"safe_to_stop": true, "why": null, "behind": 0}));
        assert_eq!(yes, "safe to stop this node: yes");
        let no = last(json!({"safe_to_stop": false, "why": "node 3 is not heard"}));
        assert_eq!(no, "safe to stop this node: no: node 3 is not heard");
    }

    #[test]
    fn every_action_has_its_page() {
        let add = Action::Add { node_id: 4, address: "h:1".to_owned() };
        let query = "/api/v1/cluster/add?node_id=4&address=h%3A1".to_owned();
        assert_eq!(page(&add), ("POST", query));
        assert_eq!(page(&Action::Status), ("GET", "/api/v1/cluster?stop=true".to_owned()));
        let any = page(&Action::TransferLeader { node_id: None });
        assert_eq!(any, ("POST", "/api/v1/cluster/transfer_leader".to_owned()));
    }
}
