//! One request to the leader's admin port, found through any node's.

use std::time::Duration;

use serde_json::Value as Json;
use ureq::Agent;

/// The variable that holds the token; the same that `serve` reads.
const TOKEN_VARIABLE: &str = "MOONCAKE_HA_ADMIN_TOKEN";
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Bytes of an answer; a page of ten thousand rows has a few million.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A node's admin port.
pub(super) struct Ask {
    base: String,
    agent: Agent,
}

/// What the leader said.
#[derive(Debug)]
pub(super) enum Asked {
    /// The page.
    Good(Json),
    /// A refusal, in a sentence.
    Refused(String),
}

struct Answer {
    status: u16,
    body: String,
}

impl Ask {
    /// The admin port at an address, with or without a scheme.
    pub fn new(address: &str) -> Self {
        let address = address.trim_end_matches('/');
        let base = match address.contains("://") {
            true => address.to_owned(),
            false => format!("http://{address}"),
        };
        let config = Agent::config_builder()
            .timeout_global(Some(ANSWER_MAX))
            .timeout_connect(Some(CONNECT_MAX))
            .http_status_as_error(false)
            .build();
        Ask { base, agent: config.into() }
    }

    /// Asks the node, and if it does not lead the one that does.
    ///
    /// Errors: no answer came, in a sentence.
    pub fn of_leader(&self, method: &str, path: &str, body: &[u8]) -> Result<Asked, String> {
        let mut base = self.base.clone();
        let mut answer = self.send(&base, method, path, body)?;
        if answer.status == 503
            && let Some(leader) = self.leader()
            && leader != base
        {
            answer = self.send(&leader, method, path, body)?;
            base = leader;
        }
        judge(&base, &answer)
    }

    fn send(&self, base: &str, method: &str, path: &str, body: &[u8]) -> Result<Answer, String> {
        let failed = |why: &dyn std::fmt::Display| {
            format!(
                "{base} does not answer: {why}; is it the admin port (--metrics_port) of a node?"
            )
        };
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{base}{path}"));
        let token = std::env::var(TOKEN_VARIABLE).ok();
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(body.to_vec()).map_err(|error| failed(&error))?;
        let mut answer = self.agent.run(request).map_err(|error| failed(&error))?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        Ok(Answer { status, body: body.map_err(|error| failed(&error))? })
    }

    /// The admin port of the leader, as far as the node knows.
    fn leader(&self) -> Option<String> {
        let answer = self.send(&self.base, "GET", "/api/v1/cluster", b"").ok()?;
        let page: Json = serde_json::from_str(&answer.body).ok()?;
        let address = page.pointer("/leader/admin_address")?.as_str()?;
        (!address.is_empty()).then(|| format!("http://{address}"))
    }
}

/// A page, or a refusal with the server's own words.
fn judge(base: &str, answer: &Answer) -> Result<Asked, String> {
    let page: Result<Json, _> = serde_json::from_str(&answer.body);
    let why = |page: &Json| {
        let message = page.get("error_message").or_else(|| page.get("error"));
        message.and_then(Json::as_str).map(str::to_owned)
    };
    match (answer.status, page) {
        (200..300, Ok(page)) => Ok(Asked::Good(page)),
        (200..300, Err(_)) => {
            Err(format!("{base} sent no JSON; is it the admin port (--metrics_port) of a node?"))
        }
        (401, _) => Ok(Asked::Refused(format!(
            "{base} wants its admin token; put it into {TOKEN_VARIABLE}"
        ))),
        (503, _) => Err(format!("{base} cannot serve now: no node leads; try again")),
        (404, Err(_)) => {
            Ok(Asked::Refused(format!("{base} has no such page; this build does not offer it")))
        }
        (status, page) => {
            let why = page.ok().as_ref().and_then(why);
            let why = why.unwrap_or_else(|| format!("HTTP status {status}"));
            Ok(Asked::Refused(format!("{base} refused: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, body: &str) -> Result<String, String> {
        match judge("http://h:1", &Answer { status, body: body.into() })? {
            Asked::Good(page) => Ok(page.to_string()),
            Asked::Refused(why) => Ok(why),
        }
    }

    #[test]
    fn every_answer_becomes_a_page_a_refusal_or_no_answer() {
        assert_eq!(judged(200, "{\"a\":1}").unwrap(), "{\"a\":1}");
        let refusal = "{\"success\":false,\"error_message\":\"OBJECT_NOT_FOUND\"}";
        assert_eq!(judged(404, refusal).unwrap(), "http://h:1 refused: OBJECT_NOT_FOUND");
        assert!(judged(404, "404 Not Found").unwrap().contains("does not offer"));
        assert!(judged(401, "").unwrap().contains(TOKEN_VARIABLE));
        assert!(judged(503, refusal).unwrap_err().contains("no node leads"));
        assert!(judged(200, "<html>").unwrap_err().contains("no JSON"));
    }
}
