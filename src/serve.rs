//! One node from start to stop.
//!
//! The rooms behind it are not joined yet; until they are, a start ends with a sentence that says so.

use crate::config::Config;

/// Runs a node until it is told to stop.
///
/// Errors: whatever keeps the node from serving, as a chain that ends with the cause.
pub async fn run(config: Config) -> anyhow::Result<()> {
    anyhow::bail!(
        "no server is built into this binary yet, so nothing can listen on {}",
        config.rpc.listen()
    )
}
