//! The text of `/metrics`: Prometheus format 0.0.4, laid out as the peer lays it out.
//!
//! Whatever was collected is printed in the order of `names.rs`. A counter or gauge without a value is shown
//! as 0; a histogram or a labelled gauge without one is left out, as on the peer.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::histogram::HistogramView;
use super::names::{self, Kind, Spec};

/// The value of one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A count.
    Number(u64),
    /// A number that may be negative.
    Signed(i64),
    /// One number a label value.
    By(&'static str, BTreeMap<String, u64>),
    /// One number a label value, all with one more label.
    ByWith(&'static str, BTreeMap<String, u64>, (&'static str, &'static str)),
    /// Counts by size.
    Histogram(HistogramView),
}

/// Values by name.
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<String, Value>);

impl Values {
    /// Sets a value.
    pub fn set(&mut self, name: impl Into<String>, value: Value) {
        self.0.insert(name.into(), value);
    }

    /// Sets a number.
    pub fn number(&mut self, name: impl Into<String>, value: u64) {
        self.set(name, Value::Number(value));
    }

    /// Sets a number to what a counter has reached.
    pub fn count(&mut self, name: impl Into<String>, counter: &AtomicU64) {
        self.number(name, counter.load(Ordering::Relaxed));
    }

    /// Adds to a number.
    pub fn add(&mut self, name: impl Into<String>, value: u64) {
        let entry = self.0.entry(name.into()).or_insert(Value::Number(0));
        if let Value::Number(number) = entry {
            *number = number.saturating_add(value);
        }
    }

    /// A number; 0 if it has no value.
    pub fn get(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some(Value::Number(number)) => *number,
            _ => 0,
        }
    }

    /// The names that have a value.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The whole page.
    pub fn render(&self) -> String {
        let mut page = String::with_capacity(32 << 10);
        for spec in names::all() {
            match (self.0.get(spec.name), spec.kind) {
                (Some(value), _) => render(spec, value, &mut page),
                (None, Kind::Counter | Kind::Gauge) => render(spec, &Value::Number(0), &mut page),
                (None, Kind::Histogram | Kind::Labelled | Kind::LabelledCounter | Kind::Some) => {}
            }
        }
        page
    }
}

// Writing to a String cannot fail, so the results below are dropped.

fn head(spec: &Spec, page: &mut String) {
    let (name, help) = (spec.name, spec.help);
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {}", spec.kind.name());
}

fn render(spec: &Spec, value: &Value, page: &mut String) {
    let name = spec.name;
    match value {
        Value::Number(number) => {
            head(spec, page);
            let _ = writeln!(page, "{name} {number}");
        }
        Value::Signed(number) => {
            head(spec, page);
            let _ = writeln!(page, "{name} {number}");
        }
        Value::By(label, numbers) if !numbers.is_empty() => {
            head(spec, page);
            for (of, number) in numbers {
                let _ = writeln!(page, "{name}{{{label}=\"{}\"}} {number}", escape(of));
            }
        }
        Value::ByWith(label, numbers, (other, value)) if !numbers.is_empty() => {
            head(spec, page);
            for (of, number) in numbers {
                let of = escape(of);
                let _ = writeln!(page, "{name}{{{label}=\"{of}\",{other}=\"{value}\"}} {number}");
            }
        }
        Value::Histogram(view) if view.sum > 0 => {
            head(spec, page);
            for (bound, count) in &view.up_to {
                let _ = writeln!(page, "{name}_bucket{{le=\"{bound}.000000\"}} {count}");
            }
            let _ = writeln!(page, "{name}_bucket{{le=\"+Inf\"}} {}", view.count);
            let _ = writeln!(page, "{name}_sum {}\n{name}_count {}", view.sum, view.count);
        }
        Value::By(..) | Value::ByWith(..) | Value::Histogram(_) => {}
    }
}

/// A label value: backslash, quote and line feed are escaped.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::histogram::Histogram;

    #[test]
    fn every_counter_and_gauge_is_shown_from_the_start() {
        let page = Values::default().render();
        assert!(page.starts_with("# HELP master_allocated_bytes "));
        assert!(page.contains("\n# TYPE master_key_count gauge\nmaster_key_count 0\n"));
        assert!(page.contains("\n# TYPE mem_cache_hit_nums_ counter\nmem_cache_hit_nums_ 0\n"));
        assert!(!page.contains("master_value_size_bytes"));
        assert!(!page.contains("segment_allocated_bytes{"));
        assert!(page.ends_with('\n'));
    }

    #[test]
    fn labels_are_escaped_and_histograms_accumulate() {
        let mut values = Values::default();
        let by = [("a\"b\\c\nd".to_owned(), 7)].into_iter().collect();
        values.set("segment_allocated_bytes", Value::By("segment", by));
        let sizes = Histogram::new(&[4_096, 65_536]);
        sizes.observe(4_096);
        sizes.observe(1 << 20);
        values.set("master_value_size_bytes", Value::Histogram(sizes.view()));
        values.set("master_clock_gap_ms", Value::Signed(-5));
        let page = values.render();
        assert!(page.contains("segment_allocated_bytes{segment=\"a\\\"b\\\\c\\nd\"} 7\n"));
        let lines = "master_value_size_bytes_bucket{le=\"4096.000000\"} 1\n\
                     master_value_size_bytes_bucket{le=\"65536.000000\"} 1\n\
                     master_value_size_bytes_bucket{le=\"+Inf\"} 2\n\
                     master_value_size_bytes_sum 1052672\n\
                     master_value_size_bytes_count 2\n";
        assert!(page.contains(lines), "{page}");
        assert!(page.contains("master_clock_gap_ms -5\n"));
    }

    #[test]
    fn names_are_unique_and_listed_in_the_documentation() {
        let page = include_str!("../../docs/metrics.md");
        let mut seen = std::collections::BTreeSet::new();
        for spec in names::all() {
            assert!(seen.insert(spec.name), "{} is there twice", spec.name);
            assert!(page.contains(&format!("`{}", spec.name)), "{} is not listed", spec.name);
        }
    }
}
