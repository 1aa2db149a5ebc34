//! Help texts of `serve` and the tables of `docs/config.md`, both made from the flag table.

use crate::config::{self, FlagSpec, Group, Origin, Status};

const HEAD: &str = "Run a node until SIGTERM or ctrl-C.

Usage: mooncake-ha serve [--flag=value]...

A flag is written --flag=value or --flag value, with one dash or two; a switch also --flag or --noflag.
A duration is a number of milliseconds, or has a unit: 5000, 5s, 30m, 24h. Every flag can also be set in
the environment (MOONCAKE_HA_RPC_PORT) or in a YAML or JSON file (--config_path); flags win over the
environment, the environment wins over the file.

Example:
  mooncake-ha serve --rpc_port=50051 --metrics_port=9003 --data_dir=/var/lib/mooncake-ha
";

/// The whole text of `mooncake-ha serve --help`.
pub fn serve_help() -> String {
    let mut text = HEAD.to_owned();
    for group in groups() {
        let rows: Vec<_> = in_group(group).filter(|spec| spec.status == Status::Built).collect();
        if rows.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{}:\n", group.title()));
        for spec in rows {
            let form = match spec.form() {
                "switch" => String::new(),
                choices if choices.contains('|') => format!("={choices}"),
                form => format!("={}", form.to_uppercase()),
            };
            let note = default_note(spec);
            text.push_str(&format!("  --{}{form}\n          {}{note}\n", spec.name, spec.help));
        }
    }
    let named = |is_wanted: fn(&Status) -> bool| {
        let names = config::flags().filter(|spec| spec.origin == Origin::Peer);
        names.filter(|spec| is_wanted(&spec.status)).map(|spec| spec.name).collect::<Vec<_>>()
    };
    let none = named(|status| matches!(status, Status::Meaningless(_)));
    text.push_str(&paragraph("Accepted for compatibility, without effect here", &none));
    text.push_str("\nOther:\n  --help, --version\n");
    text
}

fn groups() -> Vec<Group> {
    let mut groups: Vec<_> = config::flags().map(|spec| spec.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn in_group(group: Group) -> impl Iterator<Item = &'static FlagSpec> {
    config::flags().filter(move |spec| spec.group == group)
}

fn default_note(spec: &FlagSpec) -> String {
    if spec.default.is_empty() { String::new() } else { format!(" [default: {}]", spec.default) }
}

/// Names under a title, wrapped at the width of a terminal.
fn paragraph(title: &str, names: &[&str]) -> String {
    const WIDTH: usize = 78;
    if names.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}:\n");
    let mut line = String::new();
    for name in names {
        if line.len() + name.len() + 2 > WIDTH {
            text.push_str(&format!("  {line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(name);
    }
    text.push_str(&format!("  {line}\n"));
    text
}

/// The tables of `docs/config.md`, one a group. A test compares them with the file.
pub fn settings_markdown() -> String {
    let mut text = String::new();
    for group in groups() {
        text.push_str(&format!("\n### {}\n\n", group.title()));
        text.push_str("| flag | form | default | meaning | here |\n|---|---|---|---|---|\n");
        for spec in in_group(group) {
            let default = match spec.default {
                "" => "(empty)".to_owned(),
                default => format!("`{default}`"),
            };
            let name = match spec.file_key {
                Some(key) => format!("`{}` (in the peer's files `{key}`)", spec.name),
                None => format!("`{}`", spec.name),
            };
            let form = spec.form().replace('|', " or ");
            let status = status_note(spec);
            text.push_str(&format!("| {name} | {form} | {default} | {} | {status} |\n", spec.help));
        }
    }
    text
}

fn status_note(spec: &FlagSpec) -> String {
    match (spec.status, spec.origin) {
        (Status::Built, Origin::Peer) => "honoured".into(),
        (Status::Built, Origin::Own) => "honoured; ours".into(),
        (Status::Meaningless(reason), _) => format!("without effect: {reason}"),
        (Status::Refused(instead), _) => format!("refused: {instead}"),
    }
}
