//! Ports that somebody else has: the node says which one and how to choose another, and touches no data.

use std::net::TcpListener;
use std::process::Command;

use tempfile::TempDir;

use crate::support::free_port;

#[test]
fn a_port_in_use_ends_the_start_with_one_sentence_and_no_data() {
    for flag in ["rpc_port", "metrics_port", "http_metadata_server_port"] {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        let taken = TcpListener::bind("0.0.0.0:0").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake-ha"));
        command.args(["serve", "--enable_http_metadata_server=true"]);
        command.arg(format!("--data_dir={}", data.display()));
        for other in ["rpc_port", "metrics_port", "http_metadata_server_port"] {
            let port = if other == flag { taken.local_addr().unwrap().port() } else { free_port() };
            command.arg(format!("--{other}={port}"));
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{flag}: {said}");
        let port = taken.local_addr().unwrap().port();
        let sentence = format!("cannot listen on 0.0.0.0:{port}; choose another --{flag}");
        assert!(said.contains(&sentence), "{flag}: {said}");
        assert!(!data.exists(), "{flag}: the data directory was made");
    }
}
