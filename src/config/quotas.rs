//! The policy file of tenants: which tenant may use how many bytes, in the peer's form (behaviour 9.4).
//!
//! Guards that a file is taken as a whole or not at all, and that what is written is read back the same. When it is
//! read and written is left to `node`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::error::ConfigError;
use super::file::{parse_yaml, read_text, text_is_blank};
use crate::model::Tenant;
use crate::model::ids::TENANT_POLICIES_MAX;

/// Bytes of a policy file at most; a larger one is refused before it is parsed.
pub const POLICY_FILE_BYTES_MAX: u64 = 8 << 20;

/// Greatest quota in bytes.
pub const QUOTA_BYTES_MAX: u64 = i64::MAX as u64;

/// Quotas in bytes, by tenant. Invariant: each from 1 to [`QUOTA_BYTES_MAX`].
pub type Policies = BTreeMap<Tenant, u64>;

/// Reads a quota: a whole number, and a unit B, KB, MB, GB or TB, each 1024 of the one before.
///
/// Errors: the accepted form, if it is another text, 0 or too large.
pub fn parse_quota_bytes(text: &str) -> Result<u64, String> {
    let limit = || {
        "a whole number of bytes above 0, or with the unit B, KB, MB, GB or TB, such as 8MB"
            .to_owned()
    };
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(split).ok_or_else(limit)?;
    let shift = match unit {
        "" | "B" => 0,
        "KB" => 10,
        "MB" => 20,
        "GB" => 30,
        "TB" => 40,
        _ => return Err(limit()),
    };
    let number: u64 = digits.parse().map_err(|_| limit())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(limit)?;
    if (1..=QUOTA_BYTES_MAX).contains(&bytes) { Ok(bytes) } else { Err(limit()) }
}

/// Reads a policy file, and answers its text as well.
///
/// Errors: the file is missing, too large, or not a policy file.
pub fn read_policies(path: &Path) -> Result<(Policies, String), ConfigError> {
    let refuse = |problem| ConfigError::File { path: path.to_owned(), problem };
    let text = read_text(path, POLICY_FILE_BYTES_MAX).map_err(refuse)?;
    let policies = parse_policies(&text).map_err(refuse)?;
    Ok((policies, text))
}

/// Reads the text of a policy file.
///
/// Errors: what is wrong with it, in a sentence without the file's name.
pub fn parse_policies(text: &str) -> Result<Policies, String> {
    if text_is_blank(text) {
        return Err("it is empty; it must say at least version: 1 and tenants: []".into());
    }
    let Value::Object(root) = parse_yaml(text)? else {
        return Err("it must be a map with version and tenants".into());
    };
    match root.get("version").map(scalar) {
        Some(Some(version)) if version == "1" => {}
        Some(version) => {
            let version = version.unwrap_or_default();
            return Err(format!("version {version:?} is not known; it must be 1"));
        }
        None => return Err("version is missing; it must be 1".into()),
    }
    let Some(Value::Array(rows)) = root.get("tenants") else {
        return Err("tenants must be a list".into());
    };
    if rows.len() > TENANT_POLICIES_MAX {
        return Err(format!("it has {} tenants; {TENANT_POLICIES_MAX} are the most", rows.len()));
    }
    let mut policies = Policies::new();
    for row in rows {
        let (tenant, quota) = policy(row)?;
        if policies.insert(tenant.clone(), quota).is_some() {
            return Err(format!("tenant {:?} is there twice", tenant.name()));
        }
    }
    Ok(policies)
}

fn policy(row: &Value) -> Result<(Tenant, u64), String> {
    let field = |name| row.get(name).and_then(scalar);
    let name = field("name").ok_or("a tenant has no name")?;
    let tenant = Tenant::parse(&name).filter(|_| !name.is_empty());
    let tenant = tenant.ok_or_else(|| format!("{name:?} is not a tenant's name"))?;
    let quota = field("quota").ok_or_else(|| format!("tenant {name:?} has no quota"))?;
    let bytes = parse_quota_bytes(&quota);
    let bytes = bytes.map_err(|limit| {
        format!("tenant {name:?}: the quota {quota:?} is refused; it must be {limit}")
    })?;
    Ok((tenant, bytes))
}

/// A single value as the text that stood there.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_so) => Some(is_so.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The text of a policy file, as the peer writes it.
pub fn render_policies(policies: &Policies) -> String {
    if policies.is_empty() {
        return "version: 1\n\ntenants: []\n".to_owned();
    }
    let rows = policies.iter().map(|(tenant, quota)| {
        format!("  - name: {}\n    quota: {quota}\n", quoted(tenant.name()))
    });
    format!("version: 1\n\ntenants:\n{}", rows.collect::<String>())
}

/// A text in double quotes, with escapes that YAML reads back; what YAML takes for a line break is escaped, too.
fn quoted(text: &str) -> String {
    let json = Value::String(text.to_owned()).to_string();
    let escaped = |c: char| match c {
        '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
            format!("\\u{:04x}", u32::from(c))
        }
        other => other.to_string(),
    };
    json.chars().map(escaped).collect()
}

/// Reads a policy file and what was read, written again; for `probes`.
pub fn probe_policies(bytes: &[u8]) {
    if let Ok(policies) = parse_policies(&String::from_utf8_lossy(bytes)) {
        assert_eq!(parse_policies(&render_policies(&policies)), Ok(policies));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_have_the_peers_units_and_limits() {
        for (text, bytes) in [
            ("1", 1),
            ("5B", 5),
            ("5KB", 5 << 10),
            ("8MB", 8 << 20),
            ("1GB", 1 << 30),
            ("8388607TB", 8_388_607 << 40),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(parse_quota_bytes(text), Ok(bytes), "{text}");
        }
        let bad = ["", "0", "0KB", "5 MB", "5mb", "5K", "-1", "1.5GB", "8388608TB", "MB", "+5"];
        for text in bad {
            assert!(parse_quota_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_policy_file_is_read_as_the_peer_reads_it() {
        let text = "# ours\nversion: 1\nx: 1\ntenants:\n  - name: \"t1\"\n    quota: 8MB\n  \
                    - name: 12\n    quota: \"5KB\"\n    y: 2\n";
        let policies = parse_policies(text).unwrap();
        let all: Vec<_> = policies.iter().map(|(tenant, quota)| (tenant.name(), *quota)).collect();
        assert_eq!(all, [("12", 5_120), ("t1", 8 << 20)]);
        assert_eq!(parse_policies("version: 1\ntenants: []\n"), Ok(Policies::new()));
        for (text, part) in [
            ("", "is empty"),
            ("- 1\n", "must be a map"),
            ("tenants: []\n", "version is missing"),
            ("version: 2\ntenants: []\n", "must be 1"),
            ("version: 1\n", "must be a list"),
            ("version: 1\ntenants:\n", "must be a list"),
            ("version: 1\ntenants:\n  a: 5\n", "must be a list"),
            ("version: 1\ntenants:\n  - quota: 5\n", "no name"),
            ("version: 1\ntenants:\n  - name: a\n", "no quota"),
            ("version: 1\ntenants:\n  - name: _a\n    quota: 5\n", "not a tenant's name"),
            ("version: 1\ntenants:\n  - name: \"\"\n    quota: 5\n", "not a tenant's name"),
            ("version: 1\ntenants:\n  - name: a\n    quota: 5 MB\n", "is refused"),
            (
                "version: 1\ntenants:\n  - {name: a, quota: 5}\n  - {name: a, quota: 6}\n",
                "there twice",
            ),
        ] {
            let error = parse_policies(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let names = [
            "a",
            "a \"b\" \\c",
            "caf\u{e9}",
            "#x: y",
            "007",
            "true",
            "default",
            "\u{85}\u{2028}\u{1f600}",
        ];
        let policies: Policies = names
            .iter()
            .zip(1..)
            .map(|(name, quota)| (Tenant::parse(name).unwrap(), quota))
            .collect();
        let text = render_policies(&policies);
        assert!(text.starts_with("version: 1\n\ntenants:\n  - name: \"#x: y\"\n    quota: 4\n"));
        assert_eq!(parse_policies(&text), Ok(policies));
        assert_eq!(parse_policies(&render_policies(&Policies::new())), Ok(Policies::new()));
    }
}
