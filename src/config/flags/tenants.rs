//! Flags of tenants and their quotas, the peer's (behaviour spec 9, 12.1).

use super::super::sections::TenantConnector;
use super::{FlagSpec, Group, Kind};

pub(super) const FLAGS: &[FlagSpec] = &[
    FlagSpec::new(
        Group::Tenants,
        "enable_multi_tenants",
        "false",
        Kind::Switch(|c, on| c.tenants.is_enabled = on),
        "keep tenants apart and hold them to quotas; only a tenant with a quota may write",
    ),
    FlagSpec::new(
        Group::Tenants,
        "tenant_quota_connector_type",
        "file",
        Kind::Checked("file|etcd", |c, text| match text {
            "file" => {
                c.tenants.connector = TenantConnector::File;
                Ok(None)
            }
            "etcd" => {
                c.tenants.connector = TenantConnector::Replicated;
                let instead = "quotas are kept in this cluster's own log, not in etcd";
                let where_from = "set them with `mooncake-ha tenant set`";
                Ok(Some(format!("tenant_quota_connector_type etcd: {instead}; {where_from}")))
            }
            _ => Err("file or etcd".into()),
        }),
        "file: quotas come from a policy file; etcd: they are set by operators alone",
    ),
    FlagSpec::new(
        Group::Tenants,
        "tenant_quota_connector_uri",
        "",
        Kind::Text(|c, text| text.clone_into(&mut c.tenants.uri)),
        "the policy file (YAML); empty: quotas are set by operators alone",
    ),
];
