//! GET and PUT against a master's HTTP ports.
//!
//! A request never waits longer than [`TIMEOUT`], because a killed master must fail a poll quickly.

use std::time::Duration;

use serde_json::Value as Json;
use ureq::Agent;

const TIMEOUT: Duration = Duration::from_secs(5);

/// One HTTP server on the loopback address.
pub struct Http {
    base: String,
    agent: Agent,
}

impl Http {
    /// Talks to `127.0.0.1:port`; opens no connection yet.
    pub fn new(port: u16) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_idle_connections(0)
            .build();
        Http { base: format!("http://127.0.0.1:{port}"), agent: config.into() }
    }

    /// Status and body, or `None` if no whole answer came.
    pub fn try_get(&self, path: &str) -> Option<(u16, String)> {
        let mut answer = self.agent.get(format!("{}{path}", self.base)).call().ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.body_mut().with_config().limit(u64::MAX).read_to_string().ok()?))
    }

    /// The whole address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Status and body of a request without one, or `None` if no whole answer came.
    pub fn try_send(&self, method: &str, path: &str) -> Option<(u16, String)> {
        let mut answer = self.agent.run(self.request(method, path, b"")).ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.body_mut().read_to_string().ok()?))
    }

    fn request(&self, method: &str, path: &str, body: &[u8]) -> ureq::http::Request<Vec<u8>> {
        let request = ureq::http::Request::builder().method(method);
        request.uri(format!("{}{path}", self.base)).body(body.to_vec()).unwrap()
    }

    /// Status, content type and body of any request.
    pub fn send(&self, method: &str, path: &str, body: &[u8]) -> (u16, String, String) {
        let request = self.request(method, path, body);
        let mut answer = self.agent.run(request).unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        let kind =
            answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(u64::MAX).read_to_string().unwrap();
        (status, kind.unwrap_or_default(), body)
    }

    /// Status and body.
    pub fn get(&self, path: &str) -> (u16, String) {
        self.try_get(path).unwrap_or_else(|| panic!("no answer to GET {}{path}", self.base))
    }

    /// The body of a 200 answer as JSON.
    pub fn json(&self, path: &str) -> Json {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "GET {path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|e| panic!("GET {path}: {e}: {body}"))
    }
}
