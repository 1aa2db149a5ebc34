//! The command line of `serve`, in the forms that gflags takes.
//!
//! `--flag=value`, `--flag value`, `--switch`, `--noswitch`, each with one dash or two, words joined by
//! `_` or `-`. Guards that every argument ends as an assignment, a question (help, version) or a refusal.
//! What a value means is left to the layer that applies it.

use super::error::ConfigError;
use super::flags::{self, FlagSpec};

/// Something asked instead of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// `--help` and its like.
    Help,
    /// `--version`.
    Version,
}

/// A value that was given for a flag.
#[derive(Clone)]
pub struct Assignment {
    /// The flag.
    pub spec: &'static FlagSpec,
    /// How the setting was written, for messages.
    pub place: String,
    /// The value as text.
    pub value: String,
}

/// What the command line says.
#[derive(Default)]
pub struct Parsed {
    /// Values in the order given.
    pub assignments: Vec<Assignment>,
    /// The first question, if any.
    pub question: Option<Question>,
}

/// Reads the arguments after `serve`.
///
/// Errors: an unknown flag, a flag without its value, an argument that belongs to no flag.
pub fn parse(args: &[String]) -> Result<Parsed, ConfigError> {
    let mut parsed = Parsed::default();
    let mut rest = args.iter().map(String::as_str).peekable();
    let mut switch_before: Option<&str> = None;
    while let Some(argument) = rest.next() {
        let Some(body) = flag_body(argument) else {
            // `--switch true`: the peer's parser leaves the word lying and the switch on, so it is harmless.
            if switch_before.take().is_some() && argument == "true" {
                continue;
            }
            let flag = parsed.assignments.last().filter(|last| last.spec.is_switch());
            let flag = flag.map(|last| last.place.clone());
            return Err(ConfigError::UnexpectedArgument { argument: argument.into(), flag });
        };
        switch_before = None;
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        if let Some(question) = question(name) {
            if value.is_none_or(|value| super::value::parse_switch(value) == Ok(true)) {
                parsed.question.get_or_insert(question);
            }
            continue;
        }
        let place = argument.strip_suffix(body).map(|dashes| format!("{dashes}{name}"));
        let place = place.unwrap_or_else(|| argument.to_owned());
        let (spec, value) = match (flags::find(name), value) {
            (Some(spec), Some(value)) => (spec, value.to_owned()),
            (Some(spec), None) if spec.is_switch() => {
                switch_before = Some(name);
                (spec, "true".to_owned())
            }
            (Some(spec), None) => match rest.next() {
                Some(value) => (spec, value.to_owned()),
                None => return Err(ConfigError::NoValue { given: place }),
            },
            (None, None) if negated(name).is_some() => match negated(name) {
                Some(spec) => (spec, "false".to_owned()),
                None => continue,
            },
            (None, _) => {
                return Err(ConfigError::UnknownFlag {
                    given: place,
                    nearest: flags::nearest(name),
                });
            }
        };
        parsed.assignments.push(Assignment { spec, place, value });
    }
    Ok(parsed)
}

/// The text after the dashes of a flag. A lone `-` or `--` is no flag.
fn flag_body(argument: &str) -> Option<&str> {
    let body = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))?;
    (!body.is_empty()).then_some(body)
}

fn question(name: &str) -> Option<Question> {
    match name {
        "help" | "h" | "helpfull" | "helpshort" | "helppackage" => Some(Question::Help),
        "version" | "V" => Some(Question::Version),
        _ => None,
    }
}

/// The switch that `noNAME`, `no-NAME` or `no_NAME` turns off.
fn negated(name: &str) -> Option<&'static FlagSpec> {
    let name = name.strip_prefix("no")?;
    flags::find(name.trim_start_matches(['-', '_'])).filter(|spec| spec.is_switch())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(args: &[&str]) -> Result<Vec<(&'static str, String)>, String> {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let parsed = parse(&args).map_err(|error| error.to_string())?;
        Ok(parsed.assignments.into_iter().map(|one| (one.spec.name, one.value)).collect())
    }

    #[test]
    fn every_form_of_gflags_is_understood() {
        let one = |name, value: &str| Ok(vec![(name, value.to_owned())]);
        for form in [
            &["--rpc_port=1"][..],
            &["--rpc_port", "1"],
            &["-rpc_port=1"],
            &["-rpc_port", "1"],
            &["--rpc-port=1"],
        ] {
            assert_eq!(given(form), one("rpc_port", "1"), "{form:?}");
        }
        assert_eq!(given(&["--enable_ha"]), one("enable_ha", "true"));
        assert_eq!(given(&["--noenable_ha"]), one("enable_ha", "false"));
        assert_eq!(given(&["--no-enable-ha"]), one("enable_ha", "false"));
        assert_eq!(given(&["--enable_ha=false"]), one("enable_ha", "false"));
        assert_eq!(given(&["-v=1"]), one("v", "1"));
        assert_eq!(given(&["--cluster_id="]), one("cluster_id", ""));
        assert_eq!(given(&["--cluster_id", "-x=y"]), one("cluster_id", "-x=y"));
        assert_eq!(given(&["--nof_eviction_ratio=0.1"]), one("nof_eviction_ratio", "0.1"));
    }

    #[test]
    fn a_word_true_after_a_switch_is_harmless_and_any_other_is_refused() {
        assert_eq!(given(&["--logtostderr", "true", "-v", "1"]).map(|found| found.len()), Ok(2));
        let refusal = given(&["--logtostderr", "false"]).unwrap_err();
        assert_eq!(
            refusal,
            "unexpected argument \"false\" after --logtostderr; a switch takes its value as \
             --logtostderr=VALUE"
        );
        assert!(given(&["stray"]).unwrap_err().contains("\"stray\""));
        assert!(given(&["--"]).is_err() && given(&["-"]).is_err() && given(&[""]).is_err());
    }

    #[test]
    fn an_unknown_flag_is_named_with_its_neighbour() {
        assert_eq!(
            given(&["--rpc_prot=1"]).unwrap_err(),
            "unknown flag --rpc_prot (is --rpc_port meant?); `mooncake-ha serve --help` lists all"
        );
        assert!(given(&["--norpc_port"]).unwrap_err().starts_with("unknown flag --norpc_port"));
        assert!(given(&["---rpc_port=1"]).is_err());
        assert_eq!(
            given(&["--rpc_port"]).unwrap_err(),
            "--rpc_port needs a value: --rpc_port=VALUE"
        );
    }

    #[test]
    fn questions_are_found_anywhere() {
        let args = ["--rpc_port=1".to_owned(), "--help".to_owned()];
        assert_eq!(parse(&args).unwrap().question, Some(Question::Help));
        assert_eq!(parse(&["--version".into()]).unwrap().question, Some(Question::Version));
        assert_eq!(parse(&["--help=false".into()]).unwrap().question, None);
    }
}
