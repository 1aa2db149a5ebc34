//! The configuration file: YAML or JSON, by its extension.
//!
//! Guards that a file is a map of names to single values, of bounded size, with nothing half read: maps
//! in maps are flattened with dots as the peer does; sequences and nulls are refused. Which names mean
//! something is left to the layer that applies them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::error::ConfigError;

/// Greatest size of a configuration file; a larger one is refused before it is parsed.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Greatest depth of maps in maps; a deeper file is refused.
const DEPTH_MAX: usize = 16;

/// Reads the file at `path`. Keys are full names with dots, values are texts.
///
/// Errors: a file that is missing, too large, of another kind, malformed, or not a map of single values.
pub fn read(path: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    let refuse = |problem: String| ConfigError::File { path: path.to_owned(), problem };
    let extension = path.extension().and_then(|text| text.to_str()).unwrap_or_default();
    let parse: fn(&str) -> Result<Value, String> = match extension.to_ascii_lowercase().as_str() {
        "yaml" | "yml" => parse_yaml,
        "json" => parse_json,
        _ => return Err(refuse("its name must end in .yaml, .yml or .json".into())),
    };
    let text = read_text(path, FILE_BYTES_MAX).map_err(refuse)?;
    let mut settings = BTreeMap::new();
    match parse(&text).map_err(refuse)? {
        Value::Null if text_is_blank(&text) => {}
        root @ Value::Object(_) => flatten("", root, 0, &mut settings).map_err(refuse)?,
        _ => return Err(refuse("it must be a map of settings, such as rpc_port: 50051".into())),
    }
    Ok(settings)
}

/// Reads a text of either kind; for `probes`.
pub fn probe(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for parse in [parse_yaml, parse_json] {
        if let Ok(root) = parse(&text) {
            let _ = flatten("", root, 0, &mut BTreeMap::new());
        }
    }
}

/// The text of a file of bounded size.
///
/// Errors: why it cannot be read, in a sentence.
pub(super) fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let mut text = String::new();
    let read = file.take(bytes_max + 1).read_to_string(&mut text);
    let bytes = read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes as u64 > bytes_max {
        return Err(format!("it is larger than {bytes_max} bytes"));
    }
    Ok(text)
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("malformed JSON: {error}"))
}

/// A YAML text; numbers with leading zeros stay texts.
///
/// Errors: it is malformed, in a sentence.
pub(super) fn parse_yaml(text: &str) -> Result<Value, String> {
    if text_is_blank(text) {
        return Ok(Value::Null);
    }
    // Keeps `007` a text and shows no excerpt, which could hold a secret.
    let options = serde_saphyr::options! {
        leading_zero_numbers_as_strings: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| format!("malformed YAML: {}", one_line(&error.to_string())))
}

/// Whether a file holds no setting at all: only blanks, comments or document marks.
pub(super) fn text_is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn flatten(
    prefix: &str,
    value: Value,
    depth: usize,
    settings: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    let single = match value {
        Value::Object(map) => {
            if depth >= DEPTH_MAX {
                return Err(format!("{prefix}: more than {DEPTH_MAX} maps in one another"));
            }
            for (name, value) in map {
                let full = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
                flatten(&full, value, depth + 1, settings)?;
            }
            return Ok(());
        }
        Value::Null => {
            return Err(format!("{prefix}: it has no value; give one or remove the line"));
        }
        Value::Array(_) => {
            return Err(format!("{prefix}: a sequence is not a setting; give a single value"));
        }
        Value::Bool(on) => on.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text,
    };
    settings.insert(prefix.to_owned(), single);
    Ok(())
}
