//! The table of all settings: name, form, default, help, and what this build does with each.
//!
//! Parsing, `--help`, `docs/config.md` and the warnings all come from this table, so a setting is added
//! in one place. Guards that a flag of the peer's is always known, even if it has no meaning here. The
//! rows are in `built`, `tenants`, `tiers`, `dynamic` and `events` (honoured), `meaningless` (the peer's, nothing to
//! do here) and `own` (not the peer's).

mod built;
mod dynamic;
mod events;
mod meaningless;
mod own;
mod tenants;
mod tiers;

use super::sections::Config;
use super::value;

/// What a value may look like, and where it goes.
///
/// The setters only store; that a text fits is settled before they run.
pub enum Kind {
    /// True or false.
    Switch(fn(&mut Config, bool)),
    /// A TCP port.
    Port(fn(&mut Config, u16)),
    /// A whole number from the first to the second.
    Whole32(u32, u32, fn(&mut Config, u32)),
    /// A whole number from the first to the second.
    Whole64(u64, u64, fn(&mut Config, u64)),
    /// A duration; the setter gets milliseconds.
    Duration(fn(&mut Config, u64)),
    /// A number from 0 to 1; the setter gets parts per million.
    Ratio(fn(&mut Config, u32)),
    /// Any text.
    Text(fn(&mut Config, &str)),
    /// Text with rules of its own: the setter answers a warning or nothing, or refuses with the limit.
    Checked(&'static str, fn(&mut Config, &str) -> Result<Option<String>, String>),
}

/// What this build does with a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is honoured.
    Built,
    /// It is accepted and has nothing to act on; the text says why.
    Meaningless(&'static str),
    /// It is refused; the text says what to do instead.
    Refused(&'static str),
}

/// Heading under which a flag is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the titles below say it")]
pub enum Group {
    General,
    Rpc,
    Admin,
    HttpMetadata,
    Pins,
    Eviction,
    Writes,
    Clients,
    Tasks,
    Storage,
    Raft,
    Snapshot,
    Log,
    Tiers,
    Tenants,
    Events,
    Other,
}

impl Group {
    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Group::General => "General",
            Group::Rpc => "Client RPC",
            Group::Admin => "Admin HTTP",
            Group::HttpMetadata => "HTTP metadata server",
            Group::Pins => "Leases and soft pins",
            Group::Eviction => "Eviction",
            Group::Writes => "Unfinished writes",
            Group::Clients => "Client liveness",
            Group::Tasks => "Copy and move tasks",
            Group::Storage => "Storage and placement",
            Group::Raft => "Data directory and replication",
            Group::Snapshot => "Catalog snapshots and restore",
            Group::Log => "Logging",
            Group::Tiers => "Disk tiers, promotion, dynamic replication",
            Group::Tenants => "Tenants",
            Group::Events => "KV events",
            Group::Other => "Other",
        }
    }
}

/// Who defined a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The peer: name, default and form are its own.
    Peer,
    /// This project.
    Own,
}

/// One row of the table.
pub struct FlagSpec {
    /// Name as the peer writes it, with underscores.
    pub name: &'static str,
    /// Form of the value.
    pub kind: Kind,
    /// Default as one would write it on the command line.
    pub default: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// What this build does with it.
    pub status: Status,
    /// Heading.
    pub group: Group,
    /// Who defined it.
    pub origin: Origin,
    /// Second name in a configuration file, if the peer's file key differs from its flag.
    pub file_key: Option<&'static str>,
    /// Whether the value must not be shown.
    pub is_secret: bool,
}

impl FlagSpec {
    const fn new(
        group: Group,
        name: &'static str,
        default: &'static str,
        kind: Kind,
        help: &'static str,
    ) -> Self {
        FlagSpec {
            name,
            kind,
            default,
            help,
            status: Status::Built,
            group,
            origin: Origin::Peer,
            file_key: None,
            is_secret: false,
        }
    }

    const fn status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    const fn file_key(mut self, key: &'static str) -> Self {
        self.file_key = Some(key);
        self
    }

    const fn own(mut self) -> Self {
        self.origin = Origin::Own;
        self
    }

    const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// Stores the value that `text` says in `config`. Answers a warning, if the value deserves one.
    ///
    /// Errors: what the value would have to be, as the end of a sentence.
    pub fn set(&self, config: &mut Config, text: &str) -> Result<Option<String>, String> {
        match &self.kind {
            Kind::Switch(set) => set(config, value::parse_switch(text)?),
            Kind::Port(set) => {
                let port = value::parse_whole(text, 0, u64::from(u16::MAX))?;
                set(config, u16::try_from(port).unwrap_or(u16::MAX));
            }
            Kind::Whole32(min, max, set) => {
                let number = value::parse_whole(text, u64::from(*min), u64::from(*max))?;
                set(config, u32::try_from(number).unwrap_or(u32::MAX));
            }
            Kind::Whole64(min, max, set) => set(config, value::parse_whole(text, *min, *max)?),
            Kind::Duration(set) => set(config, value::parse_duration_ms(text)?),
            Kind::Ratio(set) => set(config, value::parse_ratio_ppm(text)?),
            Kind::Text(set) => set(config, text),
            Kind::Checked(_, set) => return set(config, text),
        }
        Ok(None)
    }

    /// Whether the flag can stand alone on the command line.
    pub fn is_switch(&self) -> bool {
        matches!(self.kind, Kind::Switch(_))
    }

    /// One word for the form of the value, for help and docs.
    pub fn form(&self) -> &'static str {
        match self.kind {
            Kind::Switch(_) => "switch",
            Kind::Port(_) => "port",
            Kind::Whole32(..) | Kind::Whole64(..) => "number",
            Kind::Duration(_) => "duration",
            Kind::Ratio(_) => "ratio",
            Kind::Text(_) => "text",
            Kind::Checked(form, _) => form,
        }
    }
}

/// All rows, in the order in which one layer of settings is applied.
pub fn all() -> impl Iterator<Item = &'static FlagSpec> {
    let honoured = [built::FLAGS, tenants::FLAGS, tiers::FLAGS, dynamic::FLAGS, events::FLAGS];
    honoured.into_iter().chain([own::FLAGS, meaningless::FLAGS]).flatten()
}

/// The row with this flag name; blanks between words may be `-` or `_`.
pub fn find(name: &str) -> Option<&'static FlagSpec> {
    let name = name.replace('-', "_");
    all().find(|spec| spec.name == name)
}

/// The row with this name in a configuration file: the flag's or the peer's own key.
pub fn find_file_key(key: &str) -> Option<&'static FlagSpec> {
    let key = key.replace('-', "_");
    all().find(|spec| spec.name == key || spec.file_key == Some(key.as_str()))
}

/// The flag name that looks most like `name`, if one is close.
pub fn nearest(name: &str) -> Option<&'static str> {
    const SIMILARITY_MIN: f64 = 0.85;
    let name = name.replace('-', "_");
    all()
        .map(|spec| (strsim::jaro_winkler(&name, spec.name), spec.name))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_and_file_key_is_unique() {
        let names: Vec<_> =
            all().flat_map(|spec| [Some(spec.name), spec.file_key]).flatten().collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn the_defaults_in_the_table_are_the_defaults_of_the_config() {
        let mut config = Config::default();
        for spec in all() {
            let warning = spec.set(&mut config, spec.default);
            assert_eq!(warning, Ok(None), "{}", spec.name);
        }
        assert_eq!(config, Config::default());
    }

    #[test]
    fn every_row_has_a_help_line_that_fits() {
        for spec in all() {
            assert!(!spec.help.is_empty() && spec.help.len() <= 100, "{}", spec.name);
            assert!(!spec.help.ends_with('.'), "{}", spec.name);
        }
    }

    #[test]
    fn a_misspelt_name_finds_its_neighbour() {
        assert_eq!(nearest("rpc_prot"), Some("rpc_port"));
        assert_eq!(nearest("default-kv-softpin-ttl"), Some("default_kv_soft_pin_ttl"));
        assert_eq!(nearest("zzz"), None);
    }
}
