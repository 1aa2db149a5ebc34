//! Drawings of how cost grows: one SVG a question, both axes logarithmic.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Axis, Point, ScaleReport};

/// The drawing's size and its margins, in pixels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Decades of an axis at most; what lies beyond is drawn at its end.
const DECADES_MAX: i32 = 12;

/// Colours of the curves, told apart also by people who see fewer of them.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555", "#b8860b"];

/// A drawing and the name of its file.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// Such as `cpu-by-objects.svg`.
    pub file: String,
    /// The text of the file.
    pub svg: String,
}

/// What a drawing shows.
struct Question {
    file: &'static str,
    title: &'static str,
    axis: Axis,
    value: fn(&Point) -> Option<f64>,
}

const QUESTIONS: [Question; 5] = [
    Question {
        file: "cpu-by-objects.svg",
        title: "server CPU for one key, us, by objects in the store",
        axis: Axis::Objects,
        value: |point| Some(point.cpu_us_per_key),
    },
    Question {
        file: "memory-by-objects.svg",
        title: "resident memory for one object, bytes, by objects in the store",
        axis: Axis::Objects,
        value: |point| point.rss_bytes_per_object.filter(|_| point.what == "exist"),
    },
    Question {
        file: "cpu-by-connections.svg",
        title: "server CPU for one key, us, by connections",
        axis: Axis::Connections,
        value: |point| Some(point.cpu_us_per_key),
    },
    Question {
        file: "rate-by-connections.svg",
        title: "keys a second, by connections",
        axis: Axis::Connections,
        value: |point| Some(point.keys_per_second),
    },
    Question {
        file: "latency-by-connections.svg",
        title: "p99 of a call, us, by connections",
        axis: Axis::Connections,
        value: |point| Some(point.p99_us),
    },
];

/// Every drawing for which there are points.
pub fn drawings(report: &ScaleReport) -> Vec<Drawing> {
    let drawn = QUESTIONS.iter().filter_map(|question| {
        let curves = curves(report, question);
        let svg = draw(question.title, &curves)?;
        Some(Drawing { file: question.file.to_owned(), svg })
    });
    drawn.collect()
}

/// The points of each operation that can be drawn, from left to right.
fn curves(report: &ScaleReport, question: &Question) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for point in report.points.iter().filter(|point| point.axis == question.axis) {
        let value = (question.value)(point).filter(|value| value.is_finite() && *value > 0.0);
        if let Some(value) = value.filter(|_| point.at > 0) {
            curves.entry(point.what.clone()).or_default().push((point.at as f64, value));
        }
    }
    curves.values_mut().for_each(|curve| curve.sort_by(|a, b| a.0.total_cmp(&b.0)));
    curves
}

/// Whole decades around some values.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    first: i32,
    last: i32,
}

impl Range {
    fn around(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let least = values.clone().min_by(f64::total_cmp)?.log10().floor();
        let most = values.max_by(f64::total_cmp)?.log10().ceil();
        let limit = f64::from(DECADES_MAX);
        let first = least.clamp(-limit, limit) as i32;
        let last = (most.clamp(-limit, limit) as i32).max(first + 1);
        Some(Range { first, last: last.min(first + DECADES_MAX) })
    }

    /// Where a value lies between the ends, from 0 to 1.
    fn part(self, value: f64) -> f64 {
        let decades = f64::from(self.last - self.first);
        ((value.log10() - f64::from(self.first)) / decades).clamp(0.0, 1.0)
    }
}

fn x(range: Range, value: f64) -> f64 {
    LEFT + range.part(value) * (WIDTH - LEFT - RIGHT)
}

fn y(range: Range, value: f64) -> f64 {
    HEIGHT - BOTTOM - range.part(value) * (HEIGHT - TOP - BOTTOM)
}

/// `None` if there is no point.
fn draw(title: &str, curves: &BTreeMap<String, Vec<(f64, f64)>>) -> Option<String> {
    let points = curves.values().flatten();
    let across = Range::around(points.clone().map(|(at, _)| *at))?;
    let up = Range::around(points.map(|(_, value)| *value))?;
    // Writing into a String cannot fail.
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"14\">{}</text>\n",
        escape(title)
    );
    grid(&mut svg, across, up);
    for (number, (name, curve)) in curves.iter().enumerate() {
        let colour = COLOURS.get(number % COLOURS.len()).copied().unwrap_or("black");
        let places: Vec<String> = curve
            .iter()
            .map(|(at, value)| format!("{:.1},{:.1}", x(across, *at), y(up, *value)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
            places.join(" ")
        );
        for (at, value) in curve {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\">\
                 <title>{}: {value:.3} at {at}</title></circle>",
                x(across, *at),
                y(up, *value),
                escape(name)
            );
        }
        let place = TOP + 16.0 * number as f64 + 8.0;
        let beside = WIDTH - RIGHT + 16.0;
        let _ = writeln!(
            svg,
            "<text x=\"{beside}\" y=\"{place:.1}\" fill=\"{colour}\">{}</text>",
            escape(name)
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

fn grid(svg: &mut String, across: Range, up: Range) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for decade in across.first..=across.last {
        let at = x(across, 10_f64.powi(decade));
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            label(decade)
        );
    }
    for decade in up.first..=up.last {
        let at = y(up, 10_f64.powi(decade));
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            label(decade)
        );
    }
}

/// A power of ten as people write it.
fn label(decade: i32) -> String {
    match decade {
        ..0 => format!("{}", 10_f64.powi(decade)),
        0..3 => format!("{:.0}", 10_f64.powi(decade)),
        3..6 => format!("{:.0}k", 10_f64.powi(decade - 3)),
        6..9 => format!("{:.0}M", 10_f64.powi(decade - 6)),
        _ => format!("1e{decade}"),
    }
}

/// Text that is safe inside a drawing: names may come from a file.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(axis: Axis, at: u64, what: &str, cpu: f64) -> Point {
        Point {
            axis,
            at,
            what: what.to_owned(),
            cpu_us_per_key: cpu,
            keys_per_second: 1e6 / cpu,
            p50_us: cpu,
            p99_us: cpu * 3.0,
            rss_bytes_per_object: (axis == Axis::Objects).then_some(250.0),
        }
    }

    #[test]
    fn whole_decades_stand_around_all_values() {
        let range = Range::around([0.4, 37.0].into_iter()).unwrap();
        assert_eq!(range, Range { first: -1, last: 2 });
        assert_eq!((range.part(0.1), range.part(100.0)), (0.0, 1.0));
        let single = Range::around([10.0].into_iter()).unwrap();
        assert_eq!(single, Range { first: 1, last: 2 });
        assert_eq!(Range::around(std::iter::empty()), None);
    }

    #[test]
    fn every_question_with_points_is_drawn_and_a_point_without_a_value_is_left_out() {
        let points = vec![
            point(Axis::Objects, 10_000, "exist", 3.0),
            point(Axis::Objects, 1_000_000, "exist", 4.0),
            point(Axis::Objects, 1_000_000, "get<&>", 0.0),
        ];
        let drawings = drawings(&ScaleReport { points });
        let files: Vec<_> = drawings.iter().map(|drawing| drawing.file.as_str()).collect();
        assert_eq!(files, ["cpu-by-objects.svg", "memory-by-objects.svg"]);
        for drawing in drawings {
            assert!(drawing.svg.starts_with("<svg") && drawing.svg.ends_with("</svg>\n"));
            assert_eq!(drawing.svg.matches("<circle").count(), 2, "{}", drawing.file);
            assert_eq!(drawing.svg.matches("<polyline").count(), 1);
            assert!(drawing.svg.is_ascii() && !drawing.svg.contains("NaN"));
        }
    }

    #[test]
    fn a_name_from_a_file_cannot_break_the_drawing() {
        let points = vec![point(Axis::Connections, 1, "<b>&", 1.0)];
        let drawings = drawings(&ScaleReport { points });
        assert!(drawings.iter().all(|drawing| drawing.svg.contains("&lt;b&gt;&amp;")));
    }
}
