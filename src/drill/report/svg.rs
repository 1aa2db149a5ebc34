//! The drawings of the page: lanes over one axis of time, as SVG text.

use std::fmt::Write as _;

use super::{ScenarioReport, Timeline};
use crate::drill::watch::NodeState;

/// Width of the names at the left, of the drawing, and heights in pixels.
const LEFT: f64 = 150.0;
const WIDTH: f64 = 930.0;
const LANE: f64 = 18.0;
const LANE_GAP: f64 = 4.0;
const CHART: f64 = 90.0;
const HEAD: f64 = 26.0;
/// Client lanes that are drawn; the worst ones first.
const CLIENTS_DRAWN_MAX: usize = 16;
/// Ticks on the axis of time.
const TICKS: u64 = 10;

/// A drawing that grows downwards.
struct Canvas<'t> {
    timeline: &'t Timeline,
    out: String,
    y: f64,
}

impl Canvas<'_> {
    fn x(&self, at: u64) -> f64 {
        let part = at.min(self.timeline.length) as f64 / self.timeline.length as f64;
        LEFT + part * WIDTH
    }

    // Writing into a String cannot fail.
    fn put(&mut self, args: std::fmt::Arguments<'_>) {
        let _ = self.out.write_fmt(args);
        self.out.push('\n');
    }

    fn name(&mut self, name: &str) {
        let y = self.y + LANE - 5.0;
        let name = escape(name);
        self.put(format_args!(
            "<text x=\"{:.1}\" y=\"{y:.1}\" class=\"name\">{name}</text>",
            LEFT - 8.0
        ));
    }

    fn rect(&mut self, from: u64, to: u64, height: f64, class: &str, title: &str) {
        let (x, right) = (self.x(from), self.x(to));
        let width = (right - x).max(0.8);
        let y = self.y;
        let title = escape(title);
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" class=\"{class}\">\
             <title>{title}</title></rect>"
        ));
    }

    fn heading(&mut self, text: &str) {
        self.y += 8.0;
        let y = self.y + 12.0;
        self.put(format_args!("<text x=\"{LEFT}\" y=\"{y:.1}\" class=\"heading\">{text}</text>"));
        self.y += 20.0;
    }
}

/// The drawing of one scenario.
pub fn drawing(one: &ScenarioReport) -> String {
    let timeline = &one.timeline;
    let mut canvas = Canvas { timeline, out: String::new(), y: HEAD };
    nodes(&mut canvas);
    clients(&mut canvas);
    canvas.heading("slowest write and read of each moment (logarithmic)");
    latencies(&mut canvas);
    canvas.heading("soft pins");
    pins(&mut canvas);
    let bottom = canvas.y;
    axis(&mut canvas, bottom);
    faults(&mut canvas, one, bottom);
    let (width, height) = (LEFT + WIDTH + 20.0, bottom + 24.0);
    format!(
        "<svg viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-label=\"timeline of {}\">\n{}</svg>\n",
        one.name, canvas.out
    )
}

fn nodes(canvas: &mut Canvas<'_>) {
    let timeline = canvas.timeline;
    for (at, spans) in timeline.nodes.iter().enumerate() {
        canvas.name(&format!("node {}", at + 1));
        for span in spans {
            let (class, what) = match span.state {
                NodeState::Silent => ("silent", "no answer".to_owned()),
                NodeState::Standby => ("standby", "follows".to_owned()),
                NodeState::Serving { term: None } => ("leads", "leads".to_owned()),
                NodeState::Serving { term: Some(term) } => {
                    ("leads", format!("leads in term {term}"))
                }
            };
            canvas.rect(span.from, span.to, LANE, class, &what);
        }
        canvas.y += LANE + LANE_GAP;
    }
}

fn clients(canvas: &mut Canvas<'_>) {
    let timeline = canvas.timeline;
    canvas.heading("what clients saw: answers, and moments without any");
    let mut lines: Vec<_> = timeline.clients.iter().collect();
    if lines.len() > CLIENTS_DRAWN_MAX {
        let answered = |line: &&super::ClientLine| {
            line.buckets.iter().filter(|bucket| bucket.answered > 0).count()
        };
        lines.sort_by_key(answered);
        lines.truncate(CLIENTS_DRAWN_MAX);
    }
    for line in lines {
        canvas.name(&line.name);
        for (from, to, bucket) in runs(&line.buckets) {
            let width = timeline.bucket;
            let class = match (bucket.answered, bucket.unanswered) {
                (0, 0) => "waits",
                (0, _) => "fails",
                (_, 0) => "works",
                (_, _) => "partly",
            };
            let what = match class {
                "waits" => "no call ended",
                "fails" => "calls ended without an answer",
                "works" => "all calls were answered",
                _ => "some calls were answered",
            };
            canvas.rect(from as u64 * width, to as u64 * width, LANE - 6.0, class, what);
        }
        canvas.y += LANE;
    }
}

/// Neighbours of the same kind, joined: first bucket, the one after the last, what they are.
fn runs(buckets: &[super::Bucket]) -> Vec<(usize, usize, super::Bucket)> {
    let kind = |bucket: &super::Bucket| (bucket.answered > 0, bucket.unanswered > 0);
    let mut found: Vec<(usize, usize, super::Bucket)> = Vec::new();
    for (at, bucket) in buckets.iter().enumerate() {
        match found.last_mut() {
            Some((_, to, last)) if kind(last) == kind(bucket) => *to = at + 1,
            _ => found.push((at, at + 1, *bucket)),
        }
    }
    found
}

/// From 0.1 ms at the bottom to 10 s at the top.
fn latency_height(us: u64) -> f64 {
    let decades = (us.max(100) as f64 / 100.0).log10();
    (decades / 5.0).clamp(0.0, 1.0) * CHART
}

fn latencies(canvas: &mut Canvas<'_>) {
    let timeline = canvas.timeline;
    for (us, label) in [(1_000, "1 ms"), (10_000, "10 ms"), (100_000, "100 ms"), (1_000_000, "1 s")]
    {
        let y = canvas.y + CHART - latency_height(us);
        let (x, right) = (LEFT - 8.0, LEFT + WIDTH);
        canvas.put(format_args!(
            "<text x=\"{x}\" y=\"{:.1}\" class=\"name\">{label}</text>\
             <line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"grid\"/>",
            y + 4.0
        ));
    }
    for (class, values) in [("read", &timeline.slowest_read), ("write", &timeline.slowest_write)] {
        for (at, us) in values.iter().enumerate().filter(|(_, us)| **us > 0) {
            let x = canvas.x((at as u64 * timeline.bucket) + timeline.bucket / 2);
            let y = canvas.y + CHART - latency_height(*us);
            let ms = *us as f64 / 1e3;
            canvas.put(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.9\" class=\"{class}\">\
                 <title>{class}: {ms:.1} ms</title></circle>"
            ));
        }
    }
    canvas.y += CHART + LANE_GAP;
}

fn pins(canvas: &mut Canvas<'_>) {
    let timeline = canvas.timeline;
    let most = timeline.pins.iter().map(|(_, pins)| *pins).max().unwrap_or(0).max(1);
    let height = CHART / 2.0;
    let points: Vec<String> = timeline
        .pins
        .iter()
        .map(|(at, pins)| {
            let y = canvas.y + height - (*pins as f64 / most as f64) * height;
            format!("{:.1},{y:.1}", canvas.x(*at))
        })
        .collect();
    let y = canvas.y + 8.0;
    canvas.put(format_args!(
        "<text x=\"{:.1}\" y=\"{y:.1}\" class=\"name\">{most}</text>",
        LEFT - 8.0
    ));
    canvas.put(format_args!("<polyline points=\"{}\" class=\"pins\"/>", points.join(" ")));
    canvas.y += height + LANE_GAP;
}

fn axis(canvas: &mut Canvas<'_>, bottom: f64) {
    let length = canvas.timeline.length;
    for tick in 0..=TICKS {
        let at = length * tick / TICKS;
        let x = canvas.x(at);
        let seconds = at as f64 / 1e6;
        canvas.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" class=\"tick\">{seconds:.1} s</text>",
            bottom + 16.0
        ));
    }
}

fn faults(canvas: &mut Canvas<'_>, one: &ScenarioReport, bottom: f64) {
    for (number, fault) in (1..).zip(&one.faults) {
        let x = canvas.x(fault.at_ms * 1000);
        let class = if fault.is_break { "break" } else { "repair" };
        let what = escape(&fault.what);
        canvas.put(format_args!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{HEAD}\" y2=\"{bottom:.1}\" class=\"{class}\">\
             <title>{what}</title></line>\
             <text x=\"{x:.1}\" y=\"{:.1}\" class=\"mark {class}\">{number}</text>",
            HEAD - 8.0
        ));
    }
}

/// Text that is safe inside the page.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::report::Bucket;

    #[test]
    fn neighbours_of_one_kind_are_one_rectangle() {
        let works = Bucket { answered: 3, unanswered: 0 };
        let more = Bucket { answered: 9, unanswered: 0 };
        let fails = Bucket { answered: 0, unanswered: 1 };
        assert_eq!(runs(&[works, more, fails]), [(0, 2, works), (2, 3, fails)]);
    }

    #[test]
    fn latencies_fit_the_chart() {
        assert_eq!(latency_height(1), 0.0);
        assert_eq!(latency_height(100_000_000), CHART);
        assert!(latency_height(1_000) < latency_height(1_000_000));
    }

    #[test]
    fn what_a_node_says_cannot_break_the_page() {
        assert_eq!(escape("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
    }
}
