//! Licences, banned crates and sources of the dependency tree, and the list of known advisories.
//!
//! The policy is `deny.toml`, the same file that `cargo deny` reads, so the gate holds it on a machine that
//! has only cargo. Judged is the tree of this machine's platform.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use toml::Table;

use super::expect_none;
use super::source;

fn read_toml(path: &str) -> Table {
    let text = std::fs::read_to_string(source::root().join(path)).unwrap();
    text.parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The texts at `section.key` of a table: plain, or the field `crate` of inline tables.
fn texts(table: &Table, section: &str, key: &str) -> BTreeSet<String> {
    let items = table[section][key].as_array().unwrap().iter();
    let text = |item: &toml::Value| {
        let named = item.get("crate").unwrap_or(item);
        named.as_str().unwrap().to_owned()
    };
    items.map(text).collect()
}

/// Packages that are built for this platform.
fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", &platform])
        .current_dir(source::root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap().iter();
    let built: BTreeSet<_> = nodes.map(|node| node["id"].as_str().unwrap()).collect();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.filter(|package| built.contains(package["id"].as_str().unwrap())).cloned().collect()
}

#[test]
fn dependencies_keep_the_policy_on_licences_bans_and_sources() {
    let policy = read_toml("deny.toml");
    let licences: Vec<_> = texts(&policy, "licenses", "allow")
        .iter()
        .map(|name| spdx::Licensee::parse(name).unwrap())
        .collect();
    let banned = texts(&policy, "bans", "deny");
    let registries = texts(&policy, "sources", "allow-registry");
    let mut findings = Vec::new();
    for package in packages() {
        let (name, version) = (&package["name"], &package["version"]);
        let licence = package["license"].as_str().unwrap_or_default();
        let parsed = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX);
        let is_allowed = parsed.is_ok_and(|expression| {
            expression.evaluate(|wanted| licences.iter().any(|one| one.satisfies(wanted)))
        });
        if !is_allowed {
            findings.push(format!("{name} {version}: licence {licence:?} is not in deny.toml"));
        }
        if banned.contains(name.as_str().unwrap()) {
            findings.push(format!("{name} {version}: banned in deny.toml"));
        }
        let origin =
            package["source"].as_str().map(|source| source.trim_start_matches("registry+"));
        if origin.is_some_and(|origin| !registries.contains(origin)) {
            findings.push(format!("{name} {version}: unknown source {origin:?}"));
        }
    }
    expect_none(findings);
}

#[test]
fn known_advisories_are_still_true_and_equal_to_those_that_deny_ignores() {
    let known = read_toml("advisories.toml");
    let lock = read_toml("Cargo.lock");
    let locked = lock["package"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut findings = Vec::new();
    for advisory in known["advisory"].as_array().unwrap() {
        let field = |name: &str| advisory[name].as_str().unwrap();
        let is_locked = locked.iter().any(|package| {
            package["name"].as_str() == Some(field("crate"))
                && package["version"].as_str() == Some(field("version"))
        });
        if !is_locked {
            let (name, version) = (field("crate"), field("version"));
            findings.push(format!("{}: {name} {version} is no longer locked", field("id")));
        }
        assert!(!field("meaning").trim().is_empty() && !field("kind").is_empty());
        ids.insert(field("id").to_owned());
    }
    let ignored = texts(&read_toml("deny.toml"), "advisories", "ignore");
    findings.extend(ids.symmetric_difference(&ignored).map(|id| format!("{id}: only in one list")));
    expect_none(findings);
}

/// Only tests and the simulation switch them on: by dev-dependencies, whose features cargo counts in no build of
/// the program, and in the crate `sim`, on which nothing depends.
#[test]
fn no_release_has_crash_points_or_planted_bugs() {
    let armed = |dependency: &toml::Value| dependency.get("features").is_some();
    for manifest in ["Cargo.toml", "raft/Cargo.toml", "snapshot/Cargo.toml"] {
        let manifest = read_toml(manifest);
        let dependencies = manifest["dependencies"].as_table().unwrap();
        assert!(!dependencies.get("mooncake-ha-crash").is_some_and(armed));
        assert!(!dependencies.contains_key("mooncake-ha-sim"));
    }
    let root = read_toml("Cargo.toml");
    assert!(armed(&root["dev-dependencies"]["mooncake-ha-crash"]), "tests need them");
    let default = root["features"]["default"].as_array().unwrap();
    assert!(default.iter().all(|feature| feature.as_str() != Some("planted-bugs")));
    assert!(!read_toml("crash/Cargo.toml")["features"].as_table().unwrap().contains_key("default"));
}
