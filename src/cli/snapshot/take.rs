//! `snapshot take`: has a running node take a snapshot.

use clap::Args;

use super::Answer;
use super::ask::{self, Told};

const TAKE_EXAMPLE: &str = "Example:
  mooncake-ha snapshot take --admin http://127.0.0.1:9003

Exit codes: 0 taken, 1 refused or failed, 2 wrong usage, 3 no answer.";

/// Arguments of `snapshot take`.
#[derive(Debug, Args)]
#[command(after_help = TAKE_EXAMPLE)]
pub(super) struct TakeArgs {
    /// Address of the leader's admin port; its token is taken from MOONCAKE_HA_ADMIN_TOKEN
    #[arg(long, value_name = "URL")]
    admin: String,
}

pub(super) fn run(TakeArgs { admin }: &TakeArgs) -> anyhow::Result<Answer> {
    let Told { is_ok, body } = ask::post(admin, "/api/v1/snapshots")?;
    Ok(Answer { text: format!("{}\n", body.trim_end()), is_good: is_ok })
}
