//! Tenants and quotas over the real wire, named by their number in the scenario list: I, and L5.

mod disks;
mod names;
mod policies;
mod quotas;

use mooncake_ha::model::{ErrorCode, Tenant};
use mooncake_ha::state::tenants::Account;
use mooncake_ha::wire::Answer;

use crate::support::node::{Caller, TestNode, until};

/// A refusal as a client gets it.
fn refused<T>(code: ErrorCode) -> Answer<T> {
    Err(code.into())
}

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).unwrap()
}

/// A node that keeps tenants apart, with these quotas.
async fn node(quotas: &[(&str, u64)], flags: &[&str]) -> TestNode {
    let node = TestNode::start(&[flags, &["--enable_multi_tenants"]].concat()).await;
    until("the log knows of tenants", async || node.look(|state| state.quotas().is_enforced()))
        .await;
    for (name, quota) in quotas {
        node.master().set_policy(&tenant(name), *quota).await.unwrap().unwrap();
    }
    node
}

fn account(node: &TestNode, name: &str) -> Option<Account> {
    node.look(|state| state.account(&tenant(name)))
}

fn charged(node: &TestNode, name: &str) -> u64 {
    account(node, name).map_or(0, |account| account.usage.charged)
}

/// Client `n`, which names this tenant in every call.
async fn of(node: &TestNode, n: u64, name: &'static str) -> Caller {
    Caller { tenant: name.as_bytes(), ..node.caller(n).await }
}
