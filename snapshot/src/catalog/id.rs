//! Snapshot ids: `YYYYMMDD_HHMMSS_mmm` (snapshot format 2.1).
//!
//! The peer writes local time; we write UTC, which does not step twice a year. Both only ever
//! compare ids as strings, and any digits will do when reading.

use std::fmt;

use serde::{Serialize, Serializer};

const ID_BYTES: usize = 19;
const DAY_MS: u64 = 86_400_000;
/// The last instant whose year has four digits.
const INSTANT_MS_LAST: u64 = 253_402_300_799_999;

/// The id of a snapshot. Orders as its text does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId([u8; ID_BYTES]);

impl SnapshotId {
    /// The id written in the text, or `None` if it has not the shape of one.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; ID_BYTES] = text.as_bytes().try_into().ok()?;
        let is_shaped = bytes.iter().enumerate().all(|(position, byte)| match position {
            8 | 15 => *byte == b'_',
            _ => byte.is_ascii_digit(),
        });
        is_shaped.then_some(SnapshotId(bytes))
    }

    /// The id of an instant in milliseconds since the Unix epoch; those after the year 9999 are
    /// taken as its last one.
    pub fn at(instant_ms: u64) -> Self {
        let instant_ms = instant_ms.min(INSTANT_MS_LAST);
        let (year, month, day) = date_of(instant_ms / DAY_MS);
        let second = instant_ms % DAY_MS / 1000;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let fields =
            [(year, 4), (month, 2), (day, 2), (0, 0), (hour, 2), (minute, 2), (second, 2), (0, 0)];
        let mut bytes = [b'_'; ID_BYTES];
        let mut slots = bytes.iter_mut();
        for (value, digits) in fields.into_iter().chain([(instant_ms % 1000, 3)]) {
            if digits == 0 {
                slots.next();
            }
            for digit in (0..digits).rev() {
                if let Some(slot) = slots.next() {
                    *slot = b'0' + (value / 10_u64.pow(digit) % 10) as u8;
                }
            }
        }
        SnapshotId(bytes)
    }

    /// The instant, read as UTC, in milliseconds since the Unix epoch; `None` if the digits are no
    /// date.
    pub fn instant_ms(self) -> Option<u64> {
        let digits: Vec<u64> = self
            .0
            .iter()
            .filter(|byte| **byte != b'_')
            .map(|byte| u64::from(byte - b'0'))
            .collect();
        let mut rest = digits.as_slice();
        let mut number = |count: usize| -> Option<u64> {
            let (head, tail) = rest.split_at_checked(count)?;
            rest = tail;
            Some(head.iter().fold(0, |value, digit| value * 10 + digit))
        };
        let (year, month, day) = (number(4)?, number(2)?, number(2)?);
        let (hour, minute, second, milli) = (number(2)?, number(2)?, number(2)?, number(3)?);
        let days =
            days_until(year, month, day).filter(|days| date_of(*days) == (year, month, day))?;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        Some(days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + milli)
    }
}

/// Year, month and day of a day counted from 1970-01-01, by the 400-year cycle of the calendar,
/// whose years are counted from March so that the leap day comes last.
fn date_of(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (cycle, day_of_cycle) = (shifted / 146_097, shifted % 146_097);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = cycle * 400 + year_of_cycle + u64::from(month <= 2);
    (year, month, day)
}

/// The inverse of [`date_of`]; `None` before 1970 or for a month that does not exist.
fn days_until(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let year = year.checked_sub(u64::from(month <= 2))?;
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let year_of_cycle = year % 400;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    (year / 400 * 146_097 + day_of_cycle).checked_sub(719_468)
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for SnapshotId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_instant_in_utc() {
        assert_eq!(SnapshotId::at(0).to_string(), "19700101_000000_000");
        assert_eq!(SnapshotId::at(1_795_976_860_639).to_string(), "20261129_182740_639");
        assert_eq!(SnapshotId::at(951_782_399_999).to_string(), "20000228_235959_999");
        assert_eq!(SnapshotId::at(951_782_400_000).to_string(), "20000229_000000_000");
        assert_eq!(SnapshotId::at(u64::MAX).to_string(), "99991231_235959_999");
        for instant_ms in (0..40_000).map(|day| day * DAY_MS + day % 1000) {
            assert_eq!(SnapshotId::at(instant_ms).instant_ms(), Some(instant_ms));
        }
    }

    #[test]
    fn only_the_shape_makes_an_id() {
        assert!(
            SnapshotId::parse("99999999_999999_999").is_some_and(|id| id.instant_ms().is_none())
        );
        for bad in
            ["", "garbage", "20261129-182740-639", "20261129_182740_6390", "2026112x_182740_639"]
        {
            assert_eq!(SnapshotId::parse(bad), None, "{bad}");
        }
    }
}
