//! Query strings: parameters by name, decoded or not, and keys as an operator may have written them.
//!
//! The peer decodes on some pages and not on others. Here a key or segment name is looked up in each form that
//! its text can mean, so both a pasted key and an encoded one are found.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

use super::answer::Refused;
use crate::model::Tenant;

/// What stays readable in an encoded key: the characters that never need encoding (RFC 3986, 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The raw text of a parameter; the first one counts. `None` if it is not there.
pub fn raw<'a>(query: Option<&'a str>, name: &str) -> Option<&'a str> {
    let pairs = query?.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// A text decoded as forms are: `+` is a space.
pub fn decode(raw: &str) -> Vec<u8> {
    percent_decode(raw.replace('+', " ").as_bytes()).collect()
}

/// A parameter decoded as forms are; bytes that are not UTF-8 are replaced.
pub fn text(query: Option<&str>, name: &str) -> Option<String> {
    raw(query, name).map(|raw| String::from_utf8_lossy(&decode(raw)).into_owned())
}

/// A text with its percent signs decoded and nothing else: a `+` stays.
pub fn plain(raw: &str) -> Vec<u8> {
    percent_decode(raw.as_bytes()).collect()
}

/// Whether a switch is on: `true` or `1`.
pub fn is_set(query: Option<&str>, name: &str) -> bool {
    matches!(raw(query, name), Some("true" | "1"))
}

/// A whole number; `None` if the parameter is not there.
///
/// Errors: it is something else.
pub fn number(query: Option<&str>, name: &str) -> Result<Option<usize>, Refused> {
    let Some(text) = text(query, name) else { return Ok(None) };
    let bad = |_| Refused::Bad(format!("{name} is {text:?}; it is a whole number"));
    text.parse().map(Some).map_err(bad)
}

/// A tenant; `None` if the parameter is not there or empty.
///
/// Errors: no tenant can have that name.
pub fn tenant(query: Option<&str>, name: &str) -> Result<Option<Tenant>, Refused> {
    let raw = raw(query, name).filter(|raw| !raw.is_empty());
    let Some(raw) = raw else { return Ok(None) };
    let text = String::from_utf8(plain(raw)).ok();
    let tenant = text.and_then(|text| Tenant::parse(&text));
    tenant.map(Some).ok_or_else(|| Refused::Bad(format!("{name} is not a tenant's name")))
}

/// Every key that the text can mean, the likeliest first: decoded with `+` as it is, decoded as forms are,
/// and not decoded.
pub fn candidates(raw: &str) -> Vec<Vec<u8>> {
    let mut candidates = vec![plain(raw)];
    for other in [decode(raw), raw.as_bytes().to_vec()] {
        if !candidates.contains(&other) {
            candidates.push(other);
        }
    }
    candidates
}

/// A key as text, and its encoded form if the text is not the key itself.
pub fn shown(key: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(key) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(key).into_owned(), Some(encode(key))),
    }
}

/// A key that can stand behind `?key=`.
pub fn encode(key: &[u8]) -> String {
    percent_encode(key, ENCODED).to_string()
}

/// Reads a query as every page does; for `probes`.
pub fn probe(bytes: &[u8]) {
    let query = String::from_utf8_lossy(bytes);
    for name in ["key", "keys", "node_id", "address", "limit", "tenant"] {
        if let Some(raw) = raw(Some(&query), name) {
            let candidates = candidates(raw);
            assert!(
                candidates.iter().all(|key| key.len() <= raw.len()),
                "decoding never adds bytes"
            );
            candidates.iter().for_each(|key| drop(shown(key)));
        }
        let _ = text(Some(&query), name);
        let _ = number(Some(&query), name);
        let _ = tenant(Some(&query), name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_parameter_of_a_name_counts_and_may_hold_an_equals_sign() {
        assert_eq!(raw(Some("a=1&key=x=y&key=z"), "key"), Some("x=y"));
        assert_eq!(raw(Some("key"), "key"), Some(""));
        assert_eq!(raw(Some("keys=1"), "key"), None);
        assert_eq!(raw(None, "key"), None);
    }

    #[test]
    fn a_key_is_looked_up_in_every_form_that_its_text_can_mean() {
        assert_eq!(candidates("plain"), [b"plain".to_vec()]);
        let all = candidates("a%2Fb+c");
        assert_eq!(all, [b"a/b+c".to_vec(), b"a/b c".to_vec(), b"a%2Fb+c".to_vec()]);
        assert_eq!(candidates("caf%C3%A9").first().unwrap(), "caf\u{e9}".as_bytes());
    }

    #[test]
    fn a_key_that_is_not_text_is_shown_encoded_beside_it() {
        assert_eq!(shown(b"a/b"), ("a/b".into(), None));
        assert_eq!(shown(b"\xff/"), ("\u{fffd}/".into(), Some("%FF%2F".into())));
    }
}
