//! Golden vectors of the real master, round trips of every type, and hostile bytes.

use rand::Rng;

use super::pack::Dice;

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
            pool[at] = (at * 31 >> 3) as u8;
            at += 1;
        }
        pool
    };
    let longest = match dice.random_range(0..200) {
        0 => POOL.len(),
        1..10 => 400,
        _ => 20,
    };
    let length = dice.random_range(0..longest);
    let start = dice.random_range(0..POOL.len() - length);
    &POOL[start..start + length]
}
