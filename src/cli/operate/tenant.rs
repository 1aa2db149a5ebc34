//! `mooncake-ha tenant`: quotas of tenants, and how much of each is used.

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::table::table;
use super::{Target, bytes, encoded, exit_codes, field, number, rows, word};
use crate::config::parse_quota_bytes;

const PAGE: &str = "/api/v1/tenant_quotas";

const EXAMPLES: &str = concat!(
    "Examples:
  mooncake-ha tenant list
  mooncake-ha tenant set team-a 512GB
  mooncake-ha tenant get team-a --json
  mooncake-ha tenant delete team-a

A quota is a whole number of bytes, or has a unit: B, KB, MB, GB or TB, each 1024 of the one before.
",
    exit_codes!()
);

/// Look at the quotas of tenants, or change them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct TenantArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Every tenant that has a quota or objects
    List,
    /// One tenant
    Get {
        /// Its name
        tenant: String,
    },
    /// Give a tenant a quota; from then on it may write
    Set {
        /// Its name
        tenant: String,
        /// Such as 8MB
        #[arg(value_parser = parse_quota_bytes)]
        quota: u64,
    },
    /// Take the quota of a tenant that has no objects away; it may not write any more
    Delete {
        /// Its name
        tenant: String,
    },
}

/// Runs the command; answers the exit code.
pub(super) fn command(args: &TenantArgs) -> u8 {
    let target = &args.target;
    let of = |tenant: &str| format!("{PAGE}?tenant_id={}", encoded(tenant));
    match &args.action {
        Action::List => target.finish(target.get(PAGE), |page| list(rows(page, "data"))),
        Action::Get { tenant } => {
            let page = target.get(&of(tenant));
            target.finish(page, |page| list(std::slice::from_ref(field(page, "data"))))
        }
        Action::Set { tenant, quota } => {
            let body = serde_json::json!({ "requested_quota_bytes": quota }).to_string();
            let page = target.expect("PUT", &of(tenant), body.as_bytes());
            target.finish(page, |page| list(std::slice::from_ref(field(page, "data"))))
        }
        Action::Delete { tenant } => {
            let page = target.expect("DELETE", &of(tenant), b"");
            target.finish(page, |_| {
                format!("tenant {} has no quota any more\n", super::shown(tenant))
            })
        }
    }
}

fn list(tenants: &[Json]) -> String {
    let tenants: Vec<[String; 5]> = tenants
        .iter()
        .map(|row| {
            let is = |name| field(row, name) == &Json::Bool(true);
            let state = match (is("admission_closed"), is("over_quota")) {
                (true, _) => "may not write",
                (false, true) => "over its quota",
                (false, false) => "ok",
            };
            [
                word(row, "tenant_id"),
                bytes(number(row, "requested_quota_bytes")),
                bytes(number(row, "effective_quota_bytes")),
                bytes(number(row, "charged_bytes")),
                state.to_owned(),
            ]
        })
        .collect();
    table(["tenant", "quota", "effective", "charged", "state"], &tenants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_told_with_its_quota_and_state() {
        let row = serde_json::json!({"tenant_id": "t", "requested_quota_bytes": 8 << 20,
            "effective_quota_bytes": 1 << 20, "charged_bytes": 2 << 20, "admission_closed": false,
            "over_quota": true, "has_explicit_policy": true});
        let text = list(&[row]);
        assert!(text.ends_with("t       8.0 MiB  1.0 MiB    2.0 MiB  over its quota\n"), "{text}");
    }
}
