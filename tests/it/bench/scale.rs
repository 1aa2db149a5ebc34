//! `bench scale`: figures at every point, and drawings of them.

use serde_json::Value as Json;
use tempfile::TempDir;

use super::{bench, json, node};

#[test]
fn every_point_is_measured_and_drawn_and_figures_that_were_kept_are_drawn_alike() {
    let dir = TempDir::new().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let start = node("");
    let points = ["--objects", "500,1k", "--connections", "1,4", "--keys", "500"];
    let size = ["--seconds", "0.05", "--writes", "200"];
    let svg = ["--svg", first.to_str().unwrap()];
    let (code, result) = json(&[&["scale", "--start", &start], &points[..], &size, &svg].concat());
    assert_eq!(code, Some(0), "{result}");
    let measured = result["points"].as_array().unwrap();
    assert_eq!(measured.len(), 2 * 8 + 2 * 4, "{result}");
    for point in measured {
        assert!(point["cpu_us_per_key"].as_f64().unwrap() > 0.0, "{point}");
        assert!(point["keys_per_second"].as_f64().unwrap() > 0.0, "{point}");
        assert_eq!(point["axis"] == "objects", point["rss_bytes_per_object"].is_number());
    }
    let kept = dir.path().join("kept.json");
    std::fs::write(&kept, result.to_string()).unwrap();
    let args = ["scale", "--from", kept.to_str().unwrap(), "--svg", second.to_str().unwrap()];
    assert_eq!(bench(&args).status.code(), Some(0));
    for file in ["cpu-by-objects.svg", "rate-by-connections.svg", "latency-by-connections.svg"] {
        let drawn = std::fs::read_to_string(first.join(file)).unwrap();
        assert!(drawn.contains("<polyline"), "{file}");
        assert_eq!(drawn, std::fs::read_to_string(second.join(file)).unwrap(), "{file}");
    }
}

#[test]
fn figures_that_are_none_are_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("figures.json");
    std::fs::write(&path, Json::Null.to_string()).unwrap();
    let output = bench(&["scale", "--from", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
