//! The report for people at a terminal.

use std::fmt::Write as _;

use super::{Report, ScenarioReport};
use crate::drill::finding::Kind;

/// Findings of one scenario that are printed; the JSON has more.
const FINDINGS_PRINTED_MAX: usize = 20;

/// The whole report.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    for scenario in &report.scenarios {
        scenario_text(scenario, &mut text);
    }
    let bad: Vec<&str> =
        report.scenarios.iter().filter(|one| !one.is_good).map(|one| one.name).collect();
    let played = report.scenarios.len();
    let verdict = match bad.len() {
        0 => format!("{played} scenarios, nothing lost"),
        _ => format!("{played} scenarios, findings in {}: {}", bad.len(), bad.join(", ")),
    };
    line(
        &mut text,
        format_args!("mooncake-ha {} on {}: {verdict}", report.version, report.cluster),
    );
    text
}

// Writing into a String cannot fail.
fn line(text: &mut String, args: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(args);
    text.push('\n');
}

fn scenario_text(one: &ScenarioReport, text: &mut String) {
    let verdict = if one.is_good { "nothing lost" } else { "FINDINGS" };
    line(text, format_args!("{}: {verdict} ({:.1} s)", one.name, one.seconds));
    line(text, format_args!("  {}", one.what));
    for fault in one.faults.iter().filter(|fault| fault.is_break) {
        let after = match fault.write_after_ms {
            Some(ms) => format!("first new write acknowledged after {ms} ms"),
            None => "no new write was acknowledged afterwards".to_owned(),
        };
        line(text, format_args!("  {:7.2} s  {}; {after}", fault.at_ms as f64 / 1e3, fault.what));
    }
    let outage = &one.outage;
    let at = outage.at_ms as f64 / 1e3;
    line(
        text,
        format_args!(
            "  longest time without an answer: {} ms ({}, at {at:.2} s)",
            outage.longest_ms, outage.client
        ),
    );
    let (writes, reads) = (one.latency.writes, one.latency.reads);
    let ms = |us: u64| us as f64 / 1e3;
    line(
        text,
        format_args!(
            "  a write took {:.1} ms (99 %: {:.1}), a read {:.1} ms (99 %: {:.1})",
            ms(writes.p50_us),
            ms(writes.p99_us),
            ms(reads.p50_us),
            ms(reads.p99_us)
        ),
    );
    let checked = &one.checked;
    line(
        text,
        format_args!(
            "  checked: {} acknowledged writes of {} keys, {} of unknown outcome; {} reads, {} of them against the \
             writer's place; {} pins in {} looks; {} pairs of nodes with the same state",
            checked.acknowledged,
            checked.keys,
            checked.unknown,
            checked.reads,
            checked.places,
            checked.pins,
            checked.pin_looks,
            checked.images
        ),
    );
    if !one.refused.is_empty() {
        let refused = one.refused.iter().map(|(what, count)| format!("{count} x {what}"));
        line(text, format_args!("  refused: {}", refused.collect::<Vec<_>>().join(", ")));
    }
    usage_text(one, text);
    findings_text(one, text);
    text.push('\n');
}

fn usage_text(one: &ScenarioReport, text: &mut String) {
    for course in &one.usage {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (middle, last) = (course.middle, course.last);
        line(
            text,
            format_args!(
                "  node {} from the middle to the end: memory {:.1} to {:.1} MiB, files {} to {}, threads {} to {}; \
                 at most {:.1} MiB on disk",
                course.node,
                mib(middle.memory),
                mib(last.memory),
                middle.files,
                last.files,
                middle.threads,
                last.threads,
                mib(course.disk_max)
            ),
        );
    }
}

fn findings_text(one: &ScenarioReport, text: &mut String) {
    if one.is_good {
        return;
    }
    for (kind, count) in one.found.iter().filter(|(_, count)| **count > 0) {
        line(text, format_args!("  {:>6}  {}", count, Kind::title(*kind)));
    }
    for finding in one.findings.iter().take(FINDINGS_PRINTED_MAX) {
        line(text, format_args!("  - {}", finding.what));
    }
    let total: u64 = one.found.values().sum();
    let printed = one.findings.len().min(FINDINGS_PRINTED_MAX) as u64;
    if total > printed {
        line(text, format_args!("  - and {} more", total - printed));
    }
}
