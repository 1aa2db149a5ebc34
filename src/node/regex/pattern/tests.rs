//! What patterns find, construct by construct, with the answers of the C++ library's ECMAScript engine.

use super::*;

fn finds(pattern: &str, key: &str) -> bool {
    let parsed = KeyPattern::parse(pattern.as_bytes());
    parsed.unwrap_or_else(|_| panic!("{pattern} is refused")).is_in(key.as_bytes()).unwrap()
}

#[track_caller]
fn check(pattern: &str, found_in: &[&str], not_in: &[&str]) {
    for key in found_in {
        assert!(finds(pattern, key), "{pattern} in {key:?}");
    }
    for key in not_in {
        assert!(!finds(pattern, key), "{pattern} not in {key:?}");
    }
}

#[test]
fn a_pattern_is_searched_for_anywhere_in_the_key() {
    check("key", &["key", "my key 1"], &["kei"]);
    check("^key", &["key1"], &["my key"]);
    check("key$", &["my key"], &["key1", "key\n"]);
    check("^$", &[""], &["a"]);
    check("", &["", "anything"], &[]);
    check("a|^b|", &["xyz"], &[]);
    check("/|\\d$", &["a/b", "a1"], &["a1b"]);
}

#[test]
fn classes_are_sets_of_bytes() {
    check("[a-c]x", &["ax", "cx"], &["dx"]);
    check("^[^a-c]$", &["d", "\n"], &["a", "dd"]);
    check("[-a]", &["-", "a"], &["b"]);
    check("[a-]", &["-", "a"], &["b"]);
    check("[\\d-x]", &["-", "5", "x"], &["e"]);
    check("[[:alpha:]_]$", &["1a", "_"], &["a1"]);
    check("[[.-.]]", &["-"], &["a"]);
    check("[a&&b[~]", &["&", "[", "~", "a", "b"], &["c"]);
    check("^[\\]\\b]$", &["]", "\u{8}"], &["b"]);
    check("x[]", &[], &["x", "x]"]);
    check("[]*x", &["x"], &["y"]);
    check("x[^]y", &["x\ny", "x]y"], &["xy"]);
    check("]}", &["]}"], &["]"]);
}

#[test]
fn escapes_mean_ascii() {
    check("^\\d+$", &["012"], &["1a", "\u{661}"]);
    check("^\\D$", &["a"], &["1"]);
    check("^\\w+$", &["aZ_9"], &["-"]);
    check("\\W", &["-"], &["aZ_9"]);
    check("^\\s\\S$", &[" a", "\ta", "\u{b}a"], &["  "]);
    check("\\.log$", &["a.log"], &["alog"]);
    check("\\x41\\u0042\\cJ\\0", &["AB\n\0"], &["AB"]);
    check("\\u20ac+", &["1\u{20ac}"], &["e"]);
    check("\\<\\-\\A\\z\\Q", &["<-AzQ"], &["<-"]);
    check("\\bkey\\b", &["a key", "key-1"], &["keys", "_key"]);
    check("k\\Bey", &["key"], &["k ey"]);
    check("^.$", &["a"], &["\n", "\r", "ab"]);
}

#[test]
fn repetitions_are_greedy_lazy_or_nested() {
    check("^a{2}$", &["aa"], &["a", "aaa"]);
    check("^a{2,}$", &["aa", "aaaa"], &["a"]);
    check("^a{1,2}$", &["a", "aa"], &["aaa"]);
    check("^(ab)*?$", &["", "abab"], &["aba"]);
    check("^a++b$", &["aaab"], &["b"]);
    check("^a{2}{2}$", &["aaaa"], &["aaa"]);
    check("^(a*)*b$", &["aab"], &["aac"]);
}

#[test]
fn look_ahead_and_back_references_work() {
    check("^(?!model).*[03]$", &["b/0"], &["model-a/0"]);
    check("foo(?=bar)", &["foobar"], &["foobaz"]);
    check("(a)\\1", &["aa"], &["aba"]);
    check("(.)(.)\\2\\1", &["abba"], &["abab"]);
    check("(a)|b\\1", &["a"], &["b"]);
    check("(?:x)(y)\\1z", &["xyyz"], &["xyz"]);
    check("(([a-z])(\\d))-\\2\\3", &["k7-k7"], &["k7-k8"]);
}

#[test]
fn a_key_is_bytes_and_need_not_be_utf8() {
    let pattern = KeyPattern::parse(b"^.\xff[\x80-\x90]$").unwrap();
    assert!(pattern.is_in(b"a\xff\x85").unwrap());
    assert!(!pattern.is_in(b"a\xfe\x85").unwrap());
    let accent = KeyPattern::parse("caf\u{e9}$".as_bytes()).unwrap();
    assert!(accent.is_in("caf\u{e9}".as_bytes()).unwrap());
    let two = KeyPattern::parse(b"^caf..$").unwrap();
    assert!(two.is_in("caf\u{e9}".as_bytes()).unwrap());
}

#[test]
fn what_the_peers_engine_refuses_is_refused() {
    let bad = [
        "(",
        "([",
        "[",
        ")",
        "a)",
        "*a",
        "+",
        "?",
        "{1}",
        "a{",
        "a{1",
        "a{,2}",
        "a{2,1}",
        "a{x}",
        "[b-a]",
        "[a-\\d]",
        "[[:nope:]]",
        "\\",
        "\\x1",
        "\\u123",
        "\\c1",
        "\\1",
        "(a\\1)",
        "\\2(a)",
        "(?<n>a)",
        "(?P<n>a)",
        "(?i)a",
        "(?<=a)b",
        "(?<!a)b",
        "(?>a)",
        "(?#c)",
        "^*",
        "(?=a)*",
        "\\b+",
        "[a",
        "[\\1]",
    ];
    for pattern in bad {
        assert!(KeyPattern::parse(pattern.as_bytes()).is_err(), "{pattern}");
    }
}

#[test]
fn patterns_that_would_cost_too_much_are_refused() {
    let deep = format!("{}a{}", "(".repeat(1_000), ")".repeat(1_000));
    let stars = format!("a{}", "*".repeat(5_000));
    let wide = "((a{1000}){1000}){1000}";
    let long = "a".repeat(PATTERN_BYTES_MAX + 1);
    for pattern in [deep.as_str(), &stars, wide, &long, "a{10001}"] {
        assert!(KeyPattern::parse(pattern.as_bytes()).is_err(), "{:.40}", pattern);
    }
    let slow = KeyPattern::parse(b"(a|aa)+\\1c$").unwrap();
    assert_eq!(slow.is_in(format!("c{}", "a".repeat(60)).as_bytes()), Err(BadPattern));
}
