//! Golden vectors of the real master, round trips of every type, and hostile bytes.

mod older;
mod round_trips;
mod tables;
mod vectors;

use rand::Rng;

use super::pack::Dice;

/// The captured vectors.
fn fixture() -> serde_json::Value {
    let text = include_str!("../../tests/fixtures/wire/vectors.json");
    serde_json::from_str(text).unwrap()
}

/// The bytes of hexadecimal digits.
fn unhex(digits: &str) -> Vec<u8> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    assert!(rest.is_empty());
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
    pairs.iter().map(|pair| byte(pair).unwrap()).collect()
}

/// A string in the conventions of the vectors: text if it is UTF-8, else hexadecimal.
pub(super) fn text_to_json(bytes: &[u8]) -> serde_json::Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => serde_json::json!({ "hex": hex(bytes) }),
    }
}

/// Lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Some string, borrowed for ever; now and then one whose length needs two or four bytes.
pub(super) fn sample_text(dice: &mut Dice) -> &'static [u8] {
    static POOL: [u8; 70_000] = {
        let mut pool = [0; 70_000];
        let mut at = 0;
        while at < pool.len() {
            pool[at] = ((at * 31) >> 3) as u8;
            at += 1;
        }
        pool
    };
    let longest = match dice.random_range(0..1000) {
        0 => POOL.len(),
        1..50 => 400,
        _ => 20,
    };
    let length = dice.random_range(0..longest);
    let start = dice.random_range(0..POOL.len() - length);
    &POOL[start..start + length]
}
