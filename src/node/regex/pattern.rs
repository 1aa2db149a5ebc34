//! The patterns of the bulk calls: ECMAScript regular expressions over the bytes of a key.
//!
//! The peer searches with the C++ library's ECMAScript engine, byte by byte. Here such a pattern is parsed,
//! checked, and written in the dialect of our engine, so that a construct means what it means there or is
//! refused. A byte is matched as the character of the same number, so keys need not be UTF-8 and `.` is one
//! byte. Guards: nesting, repetition and length are bounded; running it has a step limit.

use std::borrow::Cow;

use fancy_regex::RegexBuilder;

/// Bytes of a pattern at most.
pub const PATTERN_BYTES_MAX: usize = 16 << 10;

/// Steps back that the engine takes for one key at most, a millisecond or so; beyond it the call is refused.
pub const BACKTRACK_STEPS_MAX: usize = 50_000;

/// Groups within groups at most.
const NESTING_MAX: usize = 40;

/// Greatest count in braces.
const REPEAT_MAX: u32 = 10_000;

/// A pattern that is not one, or one that takes too long on some key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPattern;

type Parsed<T> = Result<T, BadPattern>;

/// A pattern, ready to search keys for it.
#[derive(Debug)]
pub struct KeyPattern(fancy_regex::Regex);

impl KeyPattern {
    /// Reads a pattern.
    pub fn parse(pattern: &[u8]) -> Parsed<Self> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(BadPattern);
        }
        let translated = Translator::new(pattern).translate()?;
        let built = RegexBuilder::new(&translated).backtrack_limit(BACKTRACK_STEPS_MAX).build();
        built.map(KeyPattern).map_err(|_| BadPattern)
    }

    /// Whether the pattern is found anywhere in a key. Errors: it took too many steps.
    pub fn is_in(&self, key: &[u8]) -> Parsed<bool> {
        let text = match std::str::from_utf8(key) {
            Ok(text) if key.is_ascii() => Cow::Borrowed(text),
            _ => Cow::Owned(key.iter().copied().map(char::from).collect()),
        };
        self.0.is_match(&*text).map_err(|_| BadPattern)
    }
}

/// Reads a pattern up to the first zero byte and searches what follows for it; for `probes`.
pub(crate) fn probe(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (pattern, key) = bytes.split_at(at);
    if let Ok(pattern) = KeyPattern::parse(pattern) {
        let _ = pattern.is_in(key);
    }
}

/// Between a word's byte and another one, or the end of the key; and everywhere else.
const WORD_BOUNDARY: &str =
    "(?:(?<=[0-9A-Z_a-z])(?![0-9A-Z_a-z])|(?<![0-9A-Z_a-z])(?=[0-9A-Z_a-z]))";
const NO_WORD_BOUNDARY: &str =
    "(?:(?<=[0-9A-Z_a-z])(?=[0-9A-Z_a-z])|(?<![0-9A-Z_a-z])(?![0-9A-Z_a-z]))";

/// A set of bytes.
#[derive(Clone)]
struct ByteSet([bool; 256]);

impl ByteSet {
    fn of(is_in: impl Fn(u8) -> bool) -> Self {
        let mut set = ByteSet([false; 256]);
        (0..=u8::MAX).zip(&mut set.0).for_each(|(byte, place)| *place = is_in(byte));
        set
    }

    fn add(&mut self, other: &ByteSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(place, is_in)| *place |= is_in);
    }

    fn add_range(&mut self, first: u8, last: u8) {
        self.add(&ByteSet::of(|byte| (first..=last).contains(&byte)));
    }

    fn inverted(&self) -> Self {
        ByteSet(self.0.map(|is_in| !is_in))
    }

    /// Writes the set as a class of our engine.
    fn write(&self, out: &mut String) {
        let mut runs: Vec<(u8, u8)> = Vec::new();
        for (byte, _) in (0..=u8::MAX).zip(&self.0).filter(|(_, is_in)| **is_in) {
            match runs.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(byte) => *last = byte,
                _ => runs.push((byte, byte)),
            }
        }
        if runs.is_empty() {
            out.push_str("[^\\x{0}-\\x{10ffff}]");
            return;
        }
        out.push('[');
        for (first, last) in runs {
            out.push_str(&format!("\\x{{{first:x}}}-\\x{{{last:x}}}"));
        }
        out.push(']');
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The set of `\d`, `\w`, `\s` and their opposites.
fn class_escape(letter: u8) -> Option<ByteSet> {
    let set = match letter.to_ascii_lowercase() {
        b'd' => ByteSet::of(|byte| byte.is_ascii_digit()),
        b'w' => ByteSet::of(is_word),
        b's' => ByteSet::of(is_space),
        _ => return None,
    };
    Some(if letter.is_ascii_uppercase() { set.inverted() } else { set })
}

/// The set of a name between `[:` and `:]`.
fn named_class(name: &[u8]) -> Option<ByteSet> {
    let is_in: fn(u8) -> bool = match name {
        b"alpha" => |byte| byte.is_ascii_alphabetic(),
        b"digit" | b"d" => |byte| byte.is_ascii_digit(),
        b"alnum" => |byte| byte.is_ascii_alphanumeric(),
        b"upper" => |byte| byte.is_ascii_uppercase(),
        b"lower" => |byte| byte.is_ascii_lowercase(),
        b"space" | b"s" => is_space,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"punct" => |byte| byte.is_ascii_punctuation(),
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"graph" => |byte| byte.is_ascii_graphic(),
        b"cntrl" => |byte| byte.is_ascii_control(),
        b"xdigit" => |byte| byte.is_ascii_hexdigit(),
        b"w" => is_word,
        _ => return None,
    };
    Some(ByteSet::of(is_in))
}

struct Translator<'a> {
    rest: &'a [u8],
    out: String,
    /// One a capturing group, in the order in which they open: whether it is closed.
    is_closed: Vec<bool>,
    nesting: usize,
}

impl<'a> Translator<'a> {
    fn new(pattern: &'a [u8]) -> Self {
        Translator { rest: pattern, out: String::new(), is_closed: Vec::new(), nesting: 0 }
    }

    fn translate(mut self) -> Parsed<String> {
        self.alternatives()?;
        // What is left over begins with a bracket that nobody opened.
        if self.rest.is_empty() { Ok(self.out) } else { Err(BadPattern) }
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Parsed<u8> {
        let (first, rest) = self.rest.split_first().ok_or(BadPattern)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Takes `wanted` if it comes next.
    fn take(&mut self, wanted: &[u8]) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn alternatives(&mut self) -> Parsed<()> {
        loop {
            while self.peek().is_some_and(|byte| !matches!(byte, b'|' | b')')) {
                self.term()?;
            }
            if !self.take(b"|") {
                return Ok(());
            }
            self.out.push('|');
        }
    }

    fn term(&mut self) -> Parsed<()> {
        // Assertions take no repetition; one that follows is refused as a term that begins with it.
        if self.take(b"^") {
            self.out.push_str("\\A");
        } else if self.take(b"$") {
            self.out.push_str("\\z");
        } else if self.take(b"\\b") {
            self.out.push_str(WORD_BOUNDARY);
        } else if self.take(b"\\B") {
            self.out.push_str(NO_WORD_BOUNDARY);
        } else if self.take(b"(?=") {
            self.group("(?=")?;
        } else if self.take(b"(?!") {
            self.group("(?!")?;
        } else {
            let start = self.out.len();
            self.atom()?;
            self.repetitions(start)?;
        }
        Ok(())
    }

    /// The inside of a bracket and its end.
    fn group(&mut self, opening: &str) -> Parsed<()> {
        if self.nesting >= NESTING_MAX {
            return Err(BadPattern);
        }
        self.out.push_str(opening);
        self.nesting += 1;
        self.alternatives()?;
        self.nesting -= 1;
        self.out.push(')');
        if self.take(b")") { Ok(()) } else { Err(BadPattern) }
    }

    fn atom(&mut self) -> Parsed<()> {
        match self.next()? {
            b'.' => ByteSet::of(|byte| !matches!(byte, b'\n' | b'\r')).write(&mut self.out),
            b'[' => self.class()?.write(&mut self.out),
            b'\\' => self.escape()?,
            b'(' if self.take(b"?:") => self.group("(?:")?,
            b'(' if self.peek() == Some(b'?') => return Err(BadPattern),
            b'(' => {
                let number = self.is_closed.len();
                self.is_closed.push(false);
                self.group("(")?;
                if let Some(is_closed) = self.is_closed.get_mut(number) {
                    *is_closed = true;
                }
            }
            b'*' | b'+' | b'?' | b'{' | b')' => return Err(BadPattern),
            literal => self.literal(literal),
        }
        Ok(())
    }

    fn literal(&mut self, byte: u8) {
        if byte.is_ascii_alphanumeric() {
            self.out.push(char::from(byte));
        } else {
            self.out.push_str(&format!("\\x{{{byte:x}}}"));
        }
    }

    fn escape(&mut self) -> Parsed<()> {
        let letter = self.next()?;
        if let Some(set) = class_escape(letter) {
            set.write(&mut self.out);
            return Ok(());
        }
        if matches!(letter, b'1'..=b'9') {
            return self.back_reference(letter);
        }
        if letter == b'u' {
            let bytes = self.code_unit()?;
            self.out.push_str("(?:");
            bytes.iter().for_each(|byte| self.literal(*byte));
            self.out.push(')');
            return Ok(());
        }
        let byte = self.escaped_byte(letter)?;
        self.literal(byte);
        Ok(())
    }

    /// A reference to what an earlier group, which must be closed, has matched.
    fn back_reference(&mut self, first: u8) -> Parsed<()> {
        let mut number = usize::from(first - b'0');
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            self.next()?;
            number = number.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
        }
        if self.is_closed.get(number - 1) != Some(&true) {
            return Err(BadPattern);
        }
        self.out.push_str(&format!("(?:\\{number})"));
        Ok(())
    }

    /// The byte of an escape that stands for one; `\` has been read, and `letter`.
    fn escaped_byte(&mut self, letter: u8) -> Parsed<u8> {
        Ok(match letter {
            b'0' => 0,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'c' => match self.next()? {
                control if control.is_ascii_alphabetic() => control % 32,
                _ => return Err(BadPattern),
            },
            b'x' => u8::try_from(self.hex(2)?).map_err(|_| BadPattern)?,
            other => other,
        })
    }

    fn hex(&mut self, digits: usize) -> Parsed<u32> {
        let mut value = 0;
        for _ in 0..digits {
            value = value * 16 + char::from(self.next()?).to_digit(16).ok_or(BadPattern)?;
        }
        Ok(value)
    }

    /// The bytes of `\uXXXX`: one up to 255, as at the peer, else its UTF-8 form.
    fn code_unit(&mut self) -> Parsed<Vec<u8>> {
        let unit = self.hex(4)?;
        if let Ok(byte) = u8::try_from(unit) {
            return Ok(vec![byte]);
        }
        let character = char::from_u32(unit).ok_or(BadPattern)?;
        Ok(character.to_string().into_bytes())
    }

    /// The repetitions of the atom written since `start`. Several in a row nest, as at the peer.
    fn repetitions(&mut self, start: usize) -> Parsed<()> {
        let mut is_repeated = false;
        while let Some((least, most)) = self.repetition()? {
            if is_repeated {
                self.out.insert_str(start, "(?:");
                self.out.push(')');
            }
            is_repeated = true;
            match most {
                Some(most) => self.out.push_str(&format!("{{{least},{most}}}")),
                None => self.out.push_str(&format!("{{{least},}}")),
            }
            if self.take(b"?") {
                self.out.push('?');
            }
        }
        Ok(())
    }

    /// Bounds of one repetition, the upper one `None` if there is none.
    fn repetition(&mut self) -> Parsed<Option<(u32, Option<u32>)>> {
        if self.take(b"*") {
            return Ok(Some((0, None)));
        }
        if self.take(b"+") {
            return Ok(Some((1, None)));
        }
        if self.take(b"?") {
            return Ok(Some((0, Some(1))));
        }
        if !self.take(b"{") {
            return Ok(None);
        }
        let least = self.count()?;
        let most = match self.take(b",") {
            false => Some(least),
            true if self.peek() == Some(b'}') => None,
            true => Some(self.count()?),
        };
        if !self.take(b"}") || most.is_some_and(|most| most < least) {
            return Err(BadPattern);
        }
        Ok(Some((least, most)))
    }

    fn count(&mut self) -> Parsed<u32> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at_checked(digits).ok_or(BadPattern)?;
        self.rest = rest;
        let number = std::str::from_utf8(number).ok().and_then(|digits| digits.parse().ok());
        number.filter(|number| *number <= REPEAT_MAX).ok_or(BadPattern)
    }

    /// The set between `[`, which has been read, and `]`. An empty one is legal: nothing, or with `^` anything.
    fn class(&mut self) -> Parsed<ByteSet> {
        let is_inverted = self.take(b"^");
        let mut set = ByteSet::of(|_| false);
        while !self.take(b"]") {
            let first = match self.class_item()? {
                Item::Byte(first) => first,
                Item::Set(part) => {
                    set.add(&part);
                    continue;
                }
            };
            // A dash before the end is a dash.
            if !self.rest.starts_with(b"-") || self.rest.starts_with(b"-]") {
                set.add_range(first, first);
                continue;
            }
            self.take(b"-");
            match self.class_item()? {
                Item::Byte(last) if first <= last => set.add_range(first, last),
                _ => return Err(BadPattern),
            }
        }
        Ok(if is_inverted { set.inverted() } else { set })
    }

    fn class_item(&mut self) -> Parsed<Item> {
        let byte = self.next()?;
        if byte == b'[' && self.take(b":") {
            let end = self.rest.windows(2).position(|two| two == b":]").ok_or(BadPattern)?;
            let (name, rest) = self.rest.split_at_checked(end).ok_or(BadPattern)?;
            self.rest = rest.get(2..).unwrap_or_default();
            return named_class(name).map(|set| Item::Set(Box::new(set))).ok_or(BadPattern);
        }
        for (opening, closing) in [(b".", b".]"), (b"=", b"=]")] {
            if byte == b'[' && self.take(opening) {
                let named = self.next()?;
                return if self.take(closing) { Ok(Item::Byte(named)) } else { Err(BadPattern) };
            }
        }
        if byte != b'\\' {
            return Ok(Item::Byte(byte));
        }
        let letter = self.next()?;
        if let Some(set) = class_escape(letter) {
            return Ok(Item::Set(Box::new(set)));
        }
        match letter {
            b'b' => Ok(Item::Byte(0x08)),
            b'B' | b'1'..=b'9' => Err(BadPattern),
            b'u' => match self.code_unit()?.as_slice() {
                [byte] => Ok(Item::Byte(*byte)),
                _ => Err(BadPattern),
            },
            other => self.escaped_byte(other).map(Item::Byte),
        }
    }
}

/// Part of a class.
enum Item {
    Byte(u8),
    Set(Box<ByteSet>),
}

#[cfg(test)]
mod tests;
