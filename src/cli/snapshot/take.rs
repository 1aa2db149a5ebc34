//! `snapshot take`: has a running node take a snapshot.

use std::time::Duration;

use clap::Args;

use super::Answer;

const TAKE_EXAMPLE: &str = "Example:
  mooncake-ha snapshot take --admin http://127.0.0.1:9003

Exit codes: 0 taken, 1 refused or failed, 2 wrong usage, 3 no answer.";

/// How long a snapshot may take.
const TAKE_WAIT_MAX: Duration = Duration::from_secs(600);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Arguments of `snapshot take`.
#[derive(Debug, Args)]
#[command(after_help = TAKE_EXAMPLE)]
pub(super) struct TakeArgs {
    /// Address of the leader's admin port; its token is taken from MOONCAKE_HA_ADMIN_TOKEN
    #[arg(long, value_name = "URL")]
    admin: String,
}

pub(super) fn run(TakeArgs { admin }: &TakeArgs) -> anyhow::Result<Answer> {
    let url = format!("{}/api/v1/snapshots", admin.trim_end_matches('/'));
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(TAKE_WAIT_MAX))
        .build()
        .into();
    let mut request = agent.post(&url);
    if let Ok(token) = std::env::var("MOONCAKE_HA_ADMIN_TOKEN") {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    let no_answer = |error: ureq::Error| anyhow::anyhow!("{url} gives no answer: {error}");
    let mut answer = request.send_empty().map_err(no_answer)?;
    let is_good = answer.status().is_success();
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    let body = body.read_to_string().map_err(no_answer)?;
    Ok(Answer { text: format!("{}\n", body.trim_end()), is_good })
}
