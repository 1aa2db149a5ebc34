//! The page for those who were not there: one file that needs nothing else.

use std::fmt::Write as _;

use super::svg::{drawing, escape};
use super::{Report, ScenarioReport};

const STYLE: &str = include_str!("page.css");

/// Clients in a table; the page says how many more there are.
const CLIENTS_LISTED_MAX: usize = 20;
/// Findings in a list.
const FINDINGS_LISTED_MAX: usize = 50;

/// The page of a whole drill.
pub fn page(report: &Report) -> String {
    let mut body = String::new();
    let bad = report.scenarios.iter().filter(|one| !one.is_good).count();
    let (class, verdict) = match bad {
        0 => ("good", "Nothing was lost.".to_owned()),
        _ => ("bad", format!("Findings in {bad} of {} scenarios.", report.scenarios.len())),
    };
    put(&mut body, format_args!("<h1>Failure drill of mooncake-ha {}</h1>", report.version));
    let seconds: f64 = report.scenarios.iter().map(|one| one.seconds).sum();
    let writes: u64 = report.scenarios.iter().map(|one| one.checked.acknowledged).sum();
    let reads: u64 = report.scenarios.iter().map(|one| one.checked.reads).sum();
    put(
        &mut body,
        format_args!(
            "<p class=\"lead\">On {}, {seconds:.0} seconds. While clients wrote and read, the failures below were \
             caused on purpose. {writes} acknowledged writes and {reads} reads were checked.</p>\
             <p class=\"verdict {class}\">{verdict}</p>",
            escape(&report.cluster)
        ),
    );
    overview(report, &mut body);
    report.scenarios.iter().for_each(|one| section(one, &mut body));
    body.push_str(HOW_CHECKED);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Failure drill</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n{body}</main></body></html>\n"
    )
}

const HOW_CHECKED: &str = "<section><h2>How it was checked</h2>
<p>Each client numbers its writes. The number comes back with every read, so a reader knows which write it sees. A read
may show nothing older than what was acknowledged, or seen by anybody, before it began; a write whose answer was lost
counts as possible until it is seen. Each read must lead to the very memory that the writer was told to fill, and no two
objects may share memory while both are promised. Soft pins must end at the same millisecond at every look. At the end
every key is read once more, and the nodes' states are compared at the same log entry.</p>
<p>No object's bytes move in a drill: the clients are protocol clients without a transfer engine. That the bytes
themselves are right is shown by the project's tests with the stock client.</p></section>
";

// Writing into a String cannot fail.
fn put(out: &mut String, args: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(args);
    out.push('\n');
}

fn overview(report: &Report, out: &mut String) {
    out.push_str(
        "<table><thead><tr><th>scenario</th><th>what happened</th><th>longest time without an answer</th>\
         <th>writes acknowledged</th><th>reads</th><th>pins followed</th><th>result</th></tr></thead><tbody>\n",
    );
    for one in &report.scenarios {
        let (class, result) = result(one);
        put(
            out,
            format_args!(
                "<tr><td><a href=\"#{name}\">{name}</a></td><td>{}</td><td class=\"number\">{} ms</td>\
                 <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
                 <td class=\"{class}\">{result}</td></tr>",
                escape(one.what),
                one.outage.longest_ms,
                one.checked.acknowledged,
                one.checked.reads,
                one.checked.pins,
                name = one.name,
            ),
        );
    }
    out.push_str("</tbody></table>\n");
}

fn result(one: &ScenarioReport) -> (&'static str, String) {
    match one.found.values().sum::<u64>() {
        0 => ("good", "nothing lost".to_owned()),
        found => ("bad", format!("{found} finding{}", if found == 1 { "" } else { "s" })),
    }
}

fn section(one: &ScenarioReport, out: &mut String) {
    let (class, result) = result(one);
    put(
        out,
        format_args!(
            "<section id=\"{}\"><h2>{} <span class=\"{class}\">{result}</span></h2>\
             <p>{}. If nothing is found, this shows that {}.</p>",
            one.name,
            one.name,
            capital(&escape(one.what)),
            escape(one.shows)
        ),
    );
    out.push_str(&drawing(one));
    out.push_str(LEGEND);
    faults(one, out);
    findings(one, out);
    clients(one, out);
    out.push_str("</section>\n");
}

const LEGEND: &str = "<p class=\"legend\"><i class=\"leads\"></i> leads <i class=\"standby\"></i> follows \
<i class=\"silent\"></i> no answer &nbsp; <i class=\"works\"></i> answered <i class=\"partly\"></i> partly \
<i class=\"fails\"></i> calls failed <i class=\"waits\"></i> nothing ended &nbsp; <i class=\"write\"></i> writes \
<i class=\"read\"></i> reads</p>\n";

fn faults(one: &ScenarioReport, out: &mut String) {
    if one.faults.is_empty() {
        return;
    }
    out.push_str("<ol class=\"faults\">\n");
    for fault in &one.faults {
        let after = match (fault.is_break, fault.write_after_ms) {
            (true, Some(ms)) => format!("; a new write was acknowledged after {ms} ms"),
            (true, None) => "; no new write was acknowledged afterwards".to_owned(),
            (false, _) => String::new(),
        };
        let seconds = fault.at_ms as f64 / 1e3;
        let what = escape(&fault.what);
        put(out, format_args!("<li><b>{seconds:.2} s</b> {what}{after}</li>"));
    }
    out.push_str("</ol>\n");
}

fn findings(one: &ScenarioReport, out: &mut String) {
    if one.findings.is_empty() {
        return;
    }
    out.push_str("<ul class=\"findings\">\n");
    for finding in one.findings.iter().take(FINDINGS_LISTED_MAX) {
        put(out, format_args!("<li>{}</li>", escape(&finding.what)));
    }
    let total: u64 = one.found.values().sum();
    let listed = one.findings.len().min(FINDINGS_LISTED_MAX) as u64;
    if total > listed {
        put(out, format_args!("<li>and {} more</li>", total - listed));
    }
    out.push_str("</ul>\n");
}

fn clients(one: &ScenarioReport, out: &mut String) {
    let count = one.clients.len();
    put(
        out,
        format_args!(
            "<details><summary>{count} clients, one by one</summary>\n<table><thead><tr><th>client</th>\
             <th>answered</th><th>without an answer</th><th>longest gap</th><th>at</th></tr></thead><tbody>"
        ),
    );
    let mut clients: Vec<_> = one.clients.iter().collect();
    clients.sort_by_key(|client| std::cmp::Reverse(client.longest_gap_ms));
    for client in clients.iter().take(CLIENTS_LISTED_MAX) {
        put(
            out,
            format_args!(
                "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
                 <td class=\"number\">{} ms</td><td class=\"number\">{:.2} s</td></tr>",
                escape(&client.name),
                client.answered,
                client.unanswered,
                client.longest_gap_ms,
                client.gap_at_ms as f64 / 1e3
            ),
        );
    }
    out.push_str("</tbody></table>\n");
    if count > CLIENTS_LISTED_MAX {
        put(out, format_args!("<p>and {} more with shorter gaps</p>", count - CLIENTS_LISTED_MAX));
    }
    out.push_str("</details>\n");
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}
