//! Asking a node's admin port, for the actions that need one.

use std::time::Duration;

use ureq::Body;
use ureq::http::Response;

/// The variable that holds the token; the same that `serve` reads.
const TOKEN_VARIABLE: &str = "MOONCAKE_HA_ADMIN_TOKEN";
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long an answer may take where nobody chooses.
const LONG_WAIT_MAX: Duration = Duration::from_secs(1_800);
/// Bytes of a page with a report.
const PAGE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of an answer that is text.
const TEXT_BYTES_MAX: u64 = 64 << 10;

/// The leader's admin port as far as the node that is asked knows, found by that node's answer.
pub(super) struct Admin {
    base: String,
    agent: ureq::Agent,
}

/// What a node answered.
pub(super) enum Asked {
    /// It did what it was asked.
    Good(Response<Body>),
    /// It refused, in its words.
    Refused(String),
}

impl Admin {
    /// The admin port at an address; an answer may take as long as `wait`.
    pub fn new(address: &str, wait: Duration) -> Self {
        let address = address.trim_end_matches('/');
        let base = match address.contains("://") {
            true => address.to_owned(),
            false => format!("http://{address}"),
        };
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(wait))
            .timeout_connect(Some(CONNECT_MAX))
            .build()
            .into();
        Admin { base, agent }
    }

    /// Posts to a page of the leader: a node that does not lead is asked who does, once.
    ///
    /// Errors: no answer came.
    pub fn post_to_leader(&self, page: &str) -> anyhow::Result<Asked> {
        asked(self.answer_of_leader(page)?)
    }

    fn answer_of_leader(&self, page: &str) -> anyhow::Result<Response<Body>> {
        let answer = self.post(&self.base, page)?;
        let leader = (answer.status().as_u16() == 503).then(|| self.leader()).flatten();
        match leader {
            Some(leader) if leader != self.base => self.post(&leader, page),
            _ => Ok(answer),
        }
    }

    fn post(&self, base: &str, page: &str) -> anyhow::Result<Response<Body>> {
        let url = format!("{base}{page}");
        let mut request = self.agent.post(&url);
        if let Some(token) = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty()) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.send_empty().map_err(|error| {
            anyhow::anyhow!(
                "{url} gives no answer: {error}; is it the admin port (--metrics_port) of a node?"
            )
        })
    }

    /// The admin port of the leader.
    fn leader(&self) -> Option<String> {
        let mut answer = self.agent.get(format!("{}/api/v1/cluster", self.base)).call().ok()?;
        let text = answer.body_mut().with_config().limit(4 << 20).read_to_string().ok()?;
        let page: serde_json::Value = serde_json::from_str(&text).ok()?;
        let address = page.pointer("/leader/admin_address")?.as_str()?;
        (!address.is_empty()).then(|| format!("http://{address}"))
    }
}

fn asked(mut answer: Response<Body>) -> anyhow::Result<Asked> {
    let status = answer.status();
    if status.is_success() {
        return Ok(Asked::Good(answer));
    }
    if status.as_u16() == 401 {
        let sentence = format!("the node wants its admin token; put it into {TOKEN_VARIABLE}");
        return Ok(Asked::Refused(sentence));
    }
    let text = text(&mut answer)?;
    let page: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let why = page.as_ref().and_then(|page| page.pointer("/error_message")?.as_str());
    Ok(Asked::Refused(format!("the node refused ({status}): {}", why.unwrap_or(&text))))
}

/// The body of an answer as text.
///
/// Errors: the connection broke, or it is longer than any such answer.
pub(super) fn text(answer: &mut Response<Body>) -> anyhow::Result<String> {
    Ok(answer.body_mut().with_config().limit(TEXT_BYTES_MAX).read_to_string()?)
}

/// What a node said, whatever it was.
pub(super) struct Told {
    /// Whether its HTTP status is a success.
    pub is_ok: bool,
    /// The body.
    pub body: String,
}

/// Posts to a page of the leader, found through the node at `admin`.
///
/// Errors: no answer comes.
pub(super) fn post(admin: &str, page: &str) -> anyhow::Result<Told> {
    let mut answer = Admin::new(admin, LONG_WAIT_MAX).answer_of_leader(page)?;
    let is_ok = answer.status().is_success();
    let body = answer.body_mut().with_config().limit(PAGE_BYTES_MAX).read_to_string()?;
    Ok(Told { is_ok, body })
}
