//! Directions between rooms: which folder may use which (`docs/ARCHITECTURE.md`), and what the pure rooms
//! may not know.

use super::expect_none;
use super::source::{self, SourceFile};

/// A room and those it may use. `raft` and `snapshot` are the member crates.
const ROOMS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("plant", &[]),
    ("clock", &["model"]),
    ("config", &["model"]),
    ("alloc", &["model"]),
    ("wire", &["model"]),
    ("state", &["alloc", "model", "plant", "snapshot"]),
    ("leader", &["state", "alloc", "model", "clock", "config"]),
    ("metrics", &["wire", "state", "leader", "model", "clock", "raft"]),
    (
        "node",
        &[
            "leader", "state", "alloc", "model", "clock", "config", "metrics", "plant", "raft",
            "snapshot",
        ],
    ),
    ("rpc", &["wire", "node", "leader", "state", "model", "clock", "config", "metrics", "plant"]),
    (
        "admin",
        &[
            "snapshotter",
            "restore",
            "snapshot",
            "node",
            "leader",
            "state",
            "model",
            "clock",
            "config",
            "metrics",
            "raft",
        ],
    ),
    ("discovery", &["node", "model", "clock", "config", "metrics"]),
    ("events", &["node", "state", "model", "config", "metrics"]),
    ("backup", &["model", "config", "snapshot"]),
    (
        "snapshotter",
        &["backup", "node", "state", "model", "clock", "config", "metrics", "snapshot"],
    ),
    ("restore", &["node", "state", "model", "config", "snapshot"]),
];

/// The rooms at the top: people and the start, which may use everything below.
const TOP: [&str; 6] = ["cli", "serve", "drill", "bench", "probes", "main"];

#[test]
fn rooms_use_only_the_rooms_below_them() {
    let mut findings = Vec::new();
    for file in source::rust().iter().filter(|file| !file.is_test()) {
        let Some(room) = room(&file.path) else { continue };
        if TOP.contains(&room) || room == "lib" {
            continue;
        }
        let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else {
            findings.push(format!("{}: the room {room} has no row in the table", file.path));
            continue;
        };
        for (at, used) in uses(file) {
            if used != room && !allowed.contains(&used.as_str()) {
                findings.push(format!("{}:{at} {room} may not use {used}", file.path));
            }
        }
    }
    expect_none(findings);
}

/// The room of a file under `src/`: its folder, or its stem if it lies at the top.
fn room(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("src/")?;
    rest.split('/').next().map(|first| first.strip_suffix(".rs").unwrap_or(first))
}

/// Rooms that the code of `file` names, with the line.
fn uses(file: &SourceFile) -> Vec<(usize, String)> {
    let code = file.code();
    let mut found = Vec::new();
    for (index, (at, line)) in code.iter().enumerate() {
        for member in ["raft", "snapshot"] {
            if line.contains(&format!("mooncake_ha_{member}")) {
                found.push((*at, member.to_owned()));
            }
        }
        for (start, mark) in line.match_indices("crate::") {
            let rest = &line[start + mark.len()..];
            if rest.starts_with('{') {
                let following = code[index + 1..].iter().map(|(_, line)| *line);
                let tree = std::iter::once(rest).chain(following).collect::<Vec<_>>().join(" ");
                found.extend(first_level(&tree).into_iter().map(|name| (*at, name)));
            } else {
                found.extend(lower_name(rest).map(|name| (*at, name)));
            }
        }
    }
    found
}

/// The room at the start of a path; names of types and macros at the root of the crate are none.
fn lower_name(text: &str) -> Option<String> {
    let is_word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let name: String = text.trim_start().chars().take_while(is_word).collect();
    name.starts_with(|c: char| c.is_ascii_lowercase()).then_some(name)
}

/// The names on the first level of `{a::{b, c}, d}`.
fn first_level(tree: &str) -> Vec<String> {
    let mut depth = 0;
    let mut names = Vec::new();
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 1 && matches!(c, '{' | ',') {
            names.extend(lower_name(&tree[at + 1..]));
        }
        if depth == 0 {
            break;
        }
    }
    names
}

#[test]
fn paths_are_read_from_single_and_grouped_imports() {
    let text = "//! x\nuse crate::model::{A, B};\nuse crate::{\n    node::{self, c},\n    clock::Clock,\n};\n\
                /// See [`crate::cli`].\nfn f() { crate::leader::g(); mooncake_ha_raft::h() }\n\
                #[cfg(test)]\nmod tests {\n    use crate::rpc;\n}\n";
    let file = SourceFile { path: "src/x.rs".into(), text: text.into() };
    let names: Vec<_> = uses(&file).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["model", "node", "clock", "raft", "leader"]);
}

/// Words that would make the state machine differ from node to node, or wait.
const IMPURE: &[&str] = &[
    "async ",
    ".await",
    "tokio",
    "SystemTime",
    "Instant",
    "crate::clock",
    "crate::metrics",
    "prometheus",
    "std::fs",
    "std::net",
    "std::thread",
    "std::env",
    "RandomState",
    "thread_rng",
    "rand::rng",
    "collections::HashMap",
    "collections::HashSet",
    "collections::hash_map",
    "info!(",
    "warn!(",
    "error!(",
    ": f64",
    ": f32",
    "as f64",
    "as f32",
];

#[test]
fn state_and_alloc_have_no_clock_no_io_no_chance_and_no_floats() {
    let mut findings = Vec::new();
    for file in source::rust().iter().filter(|file| !file.is_test()) {
        if !matches!(room(&file.path), Some("state" | "alloc" | "model")) {
            continue;
        }
        for (at, line) in file.code() {
            for word in IMPURE.iter().filter(|word| line.contains(**word)) {
                findings.push(format!("{}:{at} says {word:?}", file.path));
            }
        }
        // A seeded hasher would give another order on every node.
        let is_map = file.code().iter().any(|(_, line)| {
            line.contains("hashbrown")
                && ["HashMap", "HashSet"].iter().any(|map| line.contains(map))
        });
        if is_map && !file.text.contains("BuildHasherDefault") {
            findings.push(format!("{}: hashbrown without a fixed hasher", file.path));
        }
    }
    expect_none(findings);
}

#[test]
fn the_member_crates_do_not_know_what_they_carry() {
    let mut findings = Vec::new();
    for file in source::rust().iter().filter(|file| !file.is_test()) {
        let banned: &[&str] = match file.path.split('/').next() {
            Some("raft") => &["mooncake_ha::", "soft_pin", "ObjectKey", "mooncake_ha_snapshot"],
            Some("snapshot") => &["mooncake_ha::", "tokio", "openraft", "mooncake_ha_raft"],
            _ => continue,
        };
        for (at, line) in file.code() {
            for word in banned.iter().filter(|word| line.contains(**word)) {
                findings.push(format!("{}:{at} says {word:?}", file.path));
            }
        }
    }
    expect_none(findings);
}
