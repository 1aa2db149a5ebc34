//! Commands, help, refusals: exit codes 0 and 2, one sentence on stderr, nothing started.

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    run_with(args, &[])
}

fn run_with(args: &[&str], env: &[(&str, &str)]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"));
    command.args(args).current_dir(dir.path()).env_remove("RUST_LOG");
    command.envs(env.iter().copied());
    let output = command.output().unwrap();
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "{args:?} left files behind");
    output
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[track_caller]
fn assert_refused(output: &Output, parts: &[&str]) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(stdout(output), "");
    let said = stderr(output);
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
}

#[test]
fn help_and_version_are_results() {
    for args in [&[][..], &["help"], &["--help"], &["-h"]] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(stdout(&output).contains("mooncake-ha serve"), "{args:?}");
        assert_eq!(stderr(&output), "");
    }
    let version = format!("mooncake-ha {}\n", env!("CARGO_PKG_VERSION"));
    for args in [&["version"][..], &["--version"], &["-V"], &["serve", "--version"]] {
        assert_eq!(stdout(&run(args)), version, "{args:?}");
    }
}

#[test]
fn the_help_of_serve_lists_every_flag_with_its_default() {
    let output = run(&["serve", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
    let text = stdout(&output);
    for part in ["Example:", "--rpc_port=PORT", "[default: 50051]", "--durability=sync|async"] {
        assert!(text.contains(part), "{part}");
    }
    assert_eq!(stdout(&run(&["help", "serve"])), text);
    assert_eq!(stdout(&run(&["serve", "--rpc_port=1", "-helpfull"])), text);
}

#[test]
fn wrong_usage_is_one_sentence_and_exit_code_2() {
    for (args, parts) in [
        (&["serve", "--rpc_prot=1"][..], &["unknown flag --rpc_prot", "--rpc_port"][..]),
        (&["serve", "--rpc_port=99999"], &["--rpc_port", "\"99999\"", "0 to 65535"]),
        (&["serve", "--rpc_port"], &["--rpc_port needs a value"]),
        (
            &["serve", "--default_kv_lease_ttl=5x"],
            &["--default_kv_lease_ttl", "\"5x\"", "ms, s, m or h"],
        ),
        (&["serve", "--max_kv_soft_pin_ttl=1m"], &["default_kv_soft_pin_ttl=1800000", "=60000"]),
        (&["serve", "--eviction_high_watermark_ratio=2"], &["\"2\"", "0 to 1"]),
        (&["serve", "--put_start_release_timeout_sec=30"], &["put_start_discard_timeout_sec=30"]),
        (&["serve", "--memory_allocator=cachelib"], &["\"cachelib\"", "offset"]),
        (&["serve", "--config_path=absent.yaml"], &["absent.yaml", "cannot be opened"]),
        (&["serve", "--rpc_interface=nosuch0"], &["--rpc_interface", "\"nosuch0\""]),
        (&["serve", "--log_dir=/proc/none"], &["--log_dir", "\"/proc/none\""]),
        (&["serve", "stray"], &["\"stray\""]),
        (&["--rpc_port=1"], &["mooncake-ha serve --rpc_port=1"]),
    ] {
        assert_refused(&run(args), parts);
    }
    let output = run(&["frob"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""));
}

#[test]
fn the_environment_is_read_and_refused_like_flags() {
    let refused = run_with(&["serve"], &[("MOONCAKE_HA_METRICS_PORT", "x")]);
    assert_refused(&refused, &["MOONCAKE_HA_METRICS_PORT", "\"x\""]);
    let refused = run_with(&["serve"], &[("RUST_LOG", "a=b=c")]);
    assert_refused(&refused, &["RUST_LOG"]);
}

#[test]
fn an_argument_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let bad = std::ffi::OsStr::from_bytes(b"--cluster_id=\xff");
    let output =
        Command::new(env!("CARGO_BIN_EXE_mooncake-ha")).arg("serve").arg(bad).output().unwrap();
    assert_refused(&output, &["argument 1 of serve is not valid UTF-8"]);
}
