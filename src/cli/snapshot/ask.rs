//! Asking a running node: one `POST` to its admin port.

use std::time::Duration;

/// How long the node may take.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(1_800);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// What a node said.
pub(super) struct Told {
    /// Whether its HTTP status is a success.
    pub is_ok: bool,
    /// The body.
    pub body: String,
}

/// Posts to a page below `admin`, the address of an admin port, with the token of the environment.
///
/// Errors: the node gives no answer.
pub(super) fn post(admin: &str, page: &str) -> anyhow::Result<Told> {
    let url = format!("{}{page}", admin.trim_end_matches('/'));
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(ANSWER_WAIT_MAX))
        .build()
        .into();
    let mut request = agent.post(&url);
    if let Ok(token) = std::env::var("MOONCAKE_HA_ADMIN_TOKEN") {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    let no_answer = |error: ureq::Error| anyhow::anyhow!("{url} gives no answer: {error}");
    let mut answer = request.send_empty().map_err(no_answer)?;
    let is_ok = answer.status().is_success();
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    Ok(Told { is_ok, body: body.read_to_string().map_err(no_answer)? })
}
