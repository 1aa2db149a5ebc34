//! `mooncake-ha snapshot` over roots that real masters wrote, intact and damaged: results and exit codes.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snapshots").join(name)
}

/// Exit code, stdout and stderr of an action on a root.
fn run(action: &str, root: &Path, rest: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"));
    let output = command.args(["snapshot", action]).arg(root).args(rest).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(action: &str, root: &Path, rest: &[&str]) -> (i32, Value) {
    let (code, out, err) = run(action, root, &[rest, &["--json"]].concat());
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}")))
}

#[test]
fn snapshots_are_listed_newest_first_with_the_latest_marked() {
    let root = fixture("two_successive");
    let (code, out, _) = run("list", &root, &[]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, lines.len()), (0, 2), "{out}");
    assert!(lines[0].starts_with("20261129_182123_316") && lines[0].ends_with("latest"), "{out}");
    let (code, listed) = json("list", &root, &[]);
    assert_eq!((code, &listed["latest"]), (0, &"20261129_182123_316".into()));
    assert_eq!(listed["snapshots"][1]["id"], "20261129_182119_315");
}

#[test]
fn a_snapshot_is_summed_up_for_people_and_for_programs() {
    let root = fixture("keys_5k");
    let (code, out, _) = run("inspect", &root, &[]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("objects        5000 (") && out.contains("segment "), "{out}");
    let (code, shown) = json("inspect", &root, &["--id", "20261129_182140_751", "--now", "1"]);
    assert_eq!((code, &shown["summary"]["objects"]["objects"]), (0, &5000.into()));
    assert_eq!(shown["summary"]["now_ms"], 1);
}

#[test]
fn intact_snapshots_verify_clean_and_damaged_ones_do_not() {
    for name in ["keys_5k", "tasks", "grouped", "hard_pinned", "soft_pinned_0312", "two_successive"]
    {
        let (code, out, err) = run("verify", &fixture(name), &[]);
        assert_eq!((code, out.trim_end().lines().last()), (0, Some("good")), "{name}: {out}{err}");
    }
    for name in [
        "segments_truncated",
        "metadata_missing",
        "object_duplicate_key",
        "object_wrong_type",
        "descriptor_missing",
    ] {
        let root = fixture("corrupted").join(name);
        let (code, out, err) = run("verify", &root, &[]);
        assert_eq!(code, 1, "{name}: {out}{err}");
        let (code, _) = json("verify", &root, &[]);
        assert_eq!(code, 1, "{name}");
    }
}

#[test]
fn verify_says_what_each_survival_rule_would_keep() {
    let root = fixture("keys_5k");
    for (survival, kept) in [("rfc", 0), ("complete", 5000)] {
        let (code, verified) = json("verify", &root, &["--survival", survival]);
        assert_eq!((code, &verified["snapshots"][0]["kept"]["objects"]), (0, &kept.into()));
    }
}

#[test]
fn differences_are_findings_and_equal_snapshots_have_none() {
    let root = fixture("two_successive");
    let (first, second) = ("20261129_182119_315", "20261129_182123_316");
    let (code, differences) = json("diff", &root, &[first, second]);
    assert_eq!(code, 1);
    assert!(differences["total"].as_u64().unwrap() > 0);
    assert_eq!(json("diff", &root, &[first]).1, differences);
    let (code, out, _) = run("diff", &root, &[second, second]);
    assert_eq!((code, out.as_str()), (0, "0 differences\n"));
}

#[test]
fn what_cannot_be_read_is_exit_code_3_and_one_sentence() {
    let empty = tempfile::tempdir().unwrap();
    let absent = empty.path().join("absent");
    let sound = fixture("keys_5k");
    for (action, root, rest) in [
        ("list", absent.as_path(), &[][..]),
        ("verify", empty.path(), &[]),
        ("inspect", empty.path(), &[]),
        ("inspect", &sound, &["--id", "20200101_000000_000"]),
        ("diff", &sound, &["20200101_000000_000"]),
    ] {
        let (code, out, err) = run(action, root, rest);
        assert_eq!(
            (code, out.as_str(), err.lines().count()),
            (3, "", 1),
            "{action} {rest:?}: {err}"
        );
    }
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0, "something was written");
}

#[test]
fn wrong_usage_is_exit_code_2_and_help_has_an_example() {
    for rest in [&["--survival", "none"][..], &["--id", "yesterday"], &["--frob"]] {
        assert_eq!(run("verify", &fixture("keys_5k"), rest).0, 2, "{rest:?}");
    }
    let (code, out, _) = run("verify", Path::new("--help"), &[]);
    assert!(code == 0 && out.contains("Example:") && out.contains("Exit codes:"), "{out}");
}
