//! Ids and their text form, the recent ones kept at hand: a million objects name few of them.
//!
//! Both directions look at one place only, which the id or the end of its text picks, so a miss
//! costs little more than doing without.

use super::msgpack::Writer;
use crate::image::Uuid;

/// Ids that are kept at most; a power of two.
const PLACES: usize = 64;

/// The place of a number of which every bit counts.
fn place_of(number: u64) -> usize {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - PLACES.trailing_zeros())) as usize
}

/// An id and its text.
type Known = Option<(Uuid, Box<[u8]>)>;

/// Reads and writes ids.
pub(crate) struct IdTexts {
    known: Box<[Known]>,
}

impl Default for IdTexts {
    fn default() -> Self {
        IdTexts { known: (0..PLACES).map(|_| None).collect() }
    }
}

impl IdTexts {
    /// The id written in `text`, or `None` if it is not one.
    pub fn read(&mut self, text: &[u8]) -> Option<Uuid> {
        let end = text.last_chunk::<8>().map_or(0, |end| u64::from_le_bytes(*end));
        let place = self.known.get_mut(place_of(end))?;
        if let Some((id, known)) = place
            && **known == *text
        {
            return Some(*id);
        }
        let id = Uuid::parse_bytes(text)?;
        *place = Some((id, Box::from(text)));
        Some(id)
    }

    /// Writes an id in its text form.
    pub fn write(&mut self, writer: &mut Writer, id: Uuid) {
        let Some(place) = self.known.get_mut(place_of(id.first ^ id.second)) else { return };
        match place {
            Some((known, text)) if *known == id => writer.str(text),
            _ => {
                let text = id.to_string().into_bytes().into_boxed_slice();
                writer.str(&text);
                *place = Some((id, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_ids_than_places_are_all_read_and_written_right() {
        let ids = (0..1000_u64).map(|number| Uuid::new(number << 40, number.wrapping_mul(7)));
        let ids: Vec<Uuid> = ids.collect();
        let (mut reading, mut writing) = (IdTexts::default(), IdTexts::default());
        for _ in 0..2 {
            for id in &ids {
                assert_eq!(reading.read(id.to_string().as_bytes()), Some(*id));
                let (mut found, mut wanted) = (Writer::default(), Writer::default());
                writing.write(&mut found, *id);
                wanted.str(id.to_string().as_bytes());
                assert_eq!(found.into_bytes(), wanted.into_bytes());
            }
        }
    }

    #[test]
    fn what_is_no_id_is_none_however_often_it_is_read() {
        let mut texts = IdTexts::default();
        assert_eq!(texts.read(b"12345678-12345678"), Some(Uuid::new(12_345_678, 12_345_678)));
        for bad in ["x-12345678", "", "7", "12345678-12345678-12345678"] {
            assert_eq!(texts.read(bad.as_bytes()), None, "{bad}");
        }
        // Another way to write the id, which ends like the text that is known.
        assert_eq!(texts.read(b"0012345678-12345678"), Some(Uuid::new(12_345_678, 12_345_678)));
    }
}
