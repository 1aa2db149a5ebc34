//! `bench restore`: that it restores what was put, and that a master that cannot be started is told.

use super::{Json, bench, json, node};

#[test]
fn a_snapshot_and_each_restore_from_it_are_measured() {
    let start = node("");
    let (code, result) = json(&["restore", "--count", "2k", "--rounds", "2", "--start", &start]);
    assert_eq!(code, Some(0), "{result}");
    assert_eq!(result["objects"], 2_000);
    let number = |value: &Json| value.as_f64().unwrap();
    assert!(number(&result["snapshot_ms"]) > 0.0, "{result}");
    assert!(number(&result["snapshot_rss_peak_bytes"]) > 0.0, "{result}");
    let restores = result["restores"].as_array().unwrap();
    assert_eq!(restores.len(), 2);
    for restore in restores {
        let field = |name: &str| number(&restore[name]);
        assert!(field("ready_ms") > 0.0 && field("cpu_ms") > 0.0, "{result}");
        assert!(field("rss_peak_bytes") >= field("rss_bytes"), "{result}");
    }
}

#[test]
fn a_master_that_does_not_start_ends_the_measurement_with_its_last_words() {
    let start = "sh -c 'echo out of order; exit 7' {flags}";
    let output = bench(&["restore", "--count", "10", "--start", start]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("out of order"), "{text}");
}
