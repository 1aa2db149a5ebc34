//! The comparison for people and for programs: medians, ratios, and whether targets are met.

use std::fmt::Write as _;

use serde::Serialize;

use super::rows::{NOT_MEASURED, ROWS, RowSpec, Target, find};
use super::stage::{Side, Stage};

/// Everything that was compared.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The rows asked for.
    pub rows: Vec<CompareRow>,
    /// Objects of the smaller store.
    pub keys: u64,
    /// Objects of the larger store.
    pub objects: u64,
    /// Whether server and load had a core each.
    pub is_pinned: bool,
    /// How long it all took.
    pub seconds: f64,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct CompareRow {
    /// Its stable name.
    pub name: &'static str,
    /// What is measured.
    pub what: &'static str,
    /// Of `ours` and `peer`.
    pub unit: &'static str,
    /// The median of this master; `null` if there is no value.
    pub ours: Option<f64>,
    /// The median of the other master.
    pub peer: Option<f64>,
    /// `ours / peer`.
    pub ratio: Option<f64>,
    /// What is asked; `null` if nothing is.
    pub target: Option<f64>,
    /// Of what: `ratio at most`, `ours at most`, `ours at least`.
    pub target_of: Option<&'static str>,
    /// Whether it is met; `null` if that cannot be said.
    pub met: Option<bool>,
    /// Values of this master.
    pub rounds: usize,
    /// Why a value is missing.
    pub why: Option<String>,
}

impl Report {
    /// The report on some rows; with all of them also those that cannot be measured.
    pub fn of(
        stage: &Stage<'_>,
        wanted: impl Iterator<Item = &'static RowSpec>,
        seconds: f64,
    ) -> Self {
        let mut rows: Vec<_> = wanted.map(|spec| CompareRow::of(stage, spec)).collect();
        if rows.len() == ROWS.len() {
            rows.extend(NOT_MEASURED.iter().map(|(name, why)| CompareRow::unmeasured(name, why)));
        }
        let options = stage.options;
        let (keys, objects) = (options.keys, options.objects);
        Report { rows, keys, objects, is_pinned: options.cores.is_some(), seconds }
    }

    /// Whether a row that can be measured has no value.
    pub fn is_incomplete(&self) -> bool {
        self.rows.iter().any(|row| row.ours.is_none() && find(row.name).is_some())
    }
}

impl CompareRow {
    fn of(stage: &Stage<'_>, spec: &'static RowSpec) -> Self {
        let value = |name, side| median(stage.values(name, side));
        let without = |side, value: Option<f64>| match spec.less {
            Some(less) => Some(value? - median(stage.values(less, side))?),
            None => value,
        };
        let ours = without(Side::Ours, value(spec.name, Side::Ours));
        let peer = without(Side::Peer, value(spec.beside.unwrap_or(spec.name), Side::Peer));
        let ratio = ours.zip(peer).filter(|(_, peer)| *peer > 0.0).map(|(ours, peer)| ours / peer);
        let (target, target_of, met) = judge(spec.target, ours, ratio);
        CompareRow {
            name: spec.name,
            what: spec.what,
            unit: spec.unit,
            ours,
            peer,
            ratio,
            target,
            target_of,
            met,
            rounds: stage.values(spec.name, Side::Ours).len(),
            why: why(stage, spec, ours.is_none() || peer.is_none()),
        }
    }

    fn unmeasured(name: &'static str, why: &str) -> Self {
        CompareRow {
            name,
            what: "",
            unit: "",
            ours: None,
            peer: None,
            ratio: None,
            target: None,
            target_of: None,
            met: None,
            rounds: 0,
            why: Some(why.to_owned()),
        }
    }
}

fn judge(
    target: Target,
    ours: Option<f64>,
    ratio: Option<f64>,
) -> (Option<f64>, Option<&'static str>, Option<bool>) {
    match target {
        Target::Ratio(most) => {
            (Some(most), Some("ratio at most"), ratio.map(|ratio| ratio <= most))
        }
        Target::Most(most) => (Some(most), Some("ours at most"), ours.map(|ours| ours <= most)),
        Target::Least(least) => {
            (Some(least), Some("ours at least"), ours.map(|ours| ours >= least))
        }
        Target::None => (None, None, None),
    }
}

/// Failures of the rows that a row is made of; also those that left it with fewer rounds.
fn why(stage: &Stage<'_>, spec: &RowSpec, is_incomplete: bool) -> Option<String> {
    let of = |row: &'static str, side: Side| {
        stage.failure(row, side).map(|why| format!("{}: {why}", side.name()))
    };
    let peers = spec.beside.unwrap_or(spec.name);
    let own = [of(spec.name, Side::Ours), of(peers, Side::Peer)];
    let leaned = spec.less.into_iter().flat_map(|row| [of(row, Side::Ours), of(row, Side::Peer)]);
    let mut reasons: Vec<String> = own.into_iter().chain(leaned).flatten().collect();
    reasons.dedup();
    if reasons.is_empty() && is_incomplete {
        return Some("there was no value to measure".to_owned());
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// The middle value, or the mean of the two in the middle.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    match sorted.len() % 2 {
        0 => Some((upper + sorted.get(sorted.len() / 2 - 1)?) / 2.0),
        _ => Some(upper),
    }
}

const HEAD: &str =
    "row                   unit            ours        peer    ratio  target        met  what";

/// The table for people.
pub fn table(report: &Report) -> String {
    let mut text = format!("{HEAD}\n");
    let number = |value: Option<f64>| match value {
        Some(value) if value.abs() >= 1_000.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.3}"),
        None => "-".to_owned(),
    };
    for row in &report.rows {
        let target = match (row.target, row.target_of) {
            (Some(target), Some("ratio at most")) => format!("<= {target}x"),
            (Some(target), Some("ours at least")) => format!(">= {target}"),
            (Some(target), _) => format!("<= {target}"),
            (None, _) => "-".to_owned(),
        };
        let met = row.met.map_or("-", |met| if met { "yes" } else { "NO" });
        let ratio = row.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let _ = write!(
            text,
            "{:<21} {:<7}{:>13}{:>12}{ratio:>9}  {target:<11}{met:>6}  {}",
            row.name,
            row.unit,
            number(row.ours),
            number(row.peer),
            row.what
        );
        if let Some(why) = &row.why {
            let _ = write!(text, " ({})", why.lines().next().unwrap_or_default());
        }
        text.push('\n');
    }
    let pinned = if report.is_pinned { "a core each" } else { "no core of their own" };
    let _ = writeln!(
        text,
        "{} and {} objects; server and load had {pinned}; {:.0} s",
        report.keys, report.objects, report.seconds
    );
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{CompareOptions, rows::Scene};
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn the_median_is_the_middle_of_the_sorted_values() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    fn report(notes: &[(&'static str, Side, f64)], wanted: &[&'static str]) -> Vec<CompareRow> {
        let options = CompareOptions::quick(String::new(), String::new());
        let clock = Arc::new(SystemClock::default());
        let mut stage = Stage::new(&options, wanted.iter().copied().collect(), clock);
        notes.iter().for_each(|(row, side, value)| stage.note(row, *side, *value));
        stage.failed(Scene::Snapshot, Side::Peer, 1, "it fell over");
        Report::of(&stage, wanted.iter().filter_map(|name| find(name)), 1.0).rows
    }

    #[test]
    fn a_ratio_is_judged_by_the_ratio_and_a_limit_by_this_master_alone() {
        let notes = [
            ("get-cpu", Side::Ours, 3.0),
            ("get-cpu", Side::Peer, 10.0),
            ("evict-stall", Side::Ours, 6.0),
            ("rss-given-back", Side::Ours, 0.9),
            ("rss-given-back", Side::Peer, 0.0),
        ];
        let rows = report(&notes, &["get-cpu", "evict-stall", "rss-given-back", "get-rate"]);
        let met: Vec<_> = rows.iter().map(|row| row.met).collect();
        assert_eq!(met, [Some(true), Some(false), Some(true), None]);
        assert_eq!(rows[0].ratio, Some(0.3));
        assert_eq!(rows[2].ratio, None, "nothing can be said beside a zero");
        assert!(rows[1].why.is_some() && rows[0].why.is_none());
    }

    #[test]
    fn a_row_without_the_value_it_leans_on_has_none() {
        let notes = [
            ("rss-pin-21", Side::Ours, 300.0),
            ("rss-21", Side::Ours, 200.0),
            ("rss-pin-21", Side::Peer, 990.0),
            ("put-cpu-sync", Side::Ours, 30.0),
            ("put-cpu", Side::Peer, 20.0),
        ];
        let rows = report(&notes, &["rss-pin-21", "put-cpu-sync", "snapshot-large"]);
        assert_eq!((rows[0].ours, rows[0].peer, rows[0].met), (Some(100.0), None, None));
        assert_eq!((rows[1].ratio, rows[1].met), (Some(1.5), Some(true)));
        assert_eq!(rows[2].why.as_deref(), Some("peer: it fell over"));
    }
}
