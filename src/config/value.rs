//! Texts to values: switches, whole numbers, durations, ratios.
//!
//! Guards that every text is either a value within the limits of its kind or a refusal that names the
//! limit; never a panic, never a silent clamp. Which flag has which kind is said in `flags`.

use super::sections::PPM_WHOLE;

/// Reads a switch in any form that gflags or YAML know.
///
/// Errors: the limit, if the text is none of them.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err("true or false".into()),
    }
}

/// Reads a decimal or `0x` hexadecimal whole number within `min..=max`.
///
/// Errors: the limit, if the text is not such a number.
pub fn parse_whole(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.strip_prefix('+').unwrap_or(text);
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u64::from_str_radix(hex, 16).ok()
        }
        None if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        _ if max == u64::MAX => Err(format!("a whole number, at least {min}")),
        _ => Err(format!("a whole number from {min} to {max}")),
    }
}

/// Reads a duration: digits, optional blanks, an optional unit `ms`, `s`, `m` or `h` in any case; without
/// a unit the number is milliseconds (behaviour spec 12.2). Returns milliseconds.
///
/// Errors: the accepted form, if the text has a sign, a fraction, another unit or is too large.
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    let limit = || {
        "a duration in milliseconds, or with the unit ms, s, m or h, such as 5000, 5s or 30m"
            .to_owned()
    };
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(split).ok_or_else(limit)?;
    let unit_ms = match rest.trim_ascii_start().to_ascii_lowercase().as_str() {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(limit()),
    };
    let number: u64 = digits.parse().map_err(|_| limit())?;
    number.checked_mul(unit_ms).ok_or_else(limit)
}

/// Reads a ratio in [0, 1] and returns parts per million, rounded to the nearest.
///
/// Errors: the limit, if the text is not such a number.
pub fn parse_ratio_ppm(text: &str) -> Result<u32, String> {
    let limit = "a number from 0 to 1, such as 0.05";
    let micros = parse_micros(text).ok_or(limit)?;
    u32::try_from(micros).ok().filter(|ppm| *ppm <= PPM_WHOLE).ok_or_else(|| limit.into())
}

/// Reads a decimal number that is not negative and returns millionths, rounded to the nearest. `None`
/// if the text is no such number or above 10^12.
pub fn parse_micros(text: &str) -> Option<u64> {
    const NUMBER_MAX: f64 = 1e12;
    let number: f64 = text.trim().parse().ok()?;
    let is_counted = (0.0..=NUMBER_MAX).contains(&number);
    is_counted.then(|| (number * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_the_peer_reads_them() {
        for (text, ms) in [
            ("0", 0),
            ("5000", 5_000),
            ("5000ms", 5_000),
            ("5s", 5_000),
            (" 30m ", 1_800_000),
            ("2 H", 7_200_000),
            ("\t7\tMs\n", 7),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text:?}");
        }
        for text in
            ["", "5x", "-1", "+1", "1.5s", "s", "5 s s", "18446744073709551615s", "\u{665}s"]
        {
            assert!(parse_duration_ms(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ratios_become_parts_per_million() {
        for (text, ppm) in
            [("0", 0), ("1", 1_000_000), ("0.05", 50_000), ("1e-6", 1), (".95", 950_000)]
        {
            assert_eq!(parse_ratio_ppm(text), Ok(ppm), "{text:?}");
        }
        for text in ["", "-0.1", "1.01", "nan", "inf", "1e300", "5%", "0,5"] {
            assert!(parse_ratio_ppm(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn whole_numbers_keep_their_limits() {
        assert_eq!(parse_whole("65535", 0, 65_535), Ok(65_535));
        assert_eq!(parse_whole("0x10", 0, 65_535), Ok(16));
        assert_eq!(parse_whole(&u64::MAX.to_string(), 0, u64::MAX), Ok(u64::MAX));
        for text in ["65536", "-1", "", "0x", "1.0", "1_000", "99999999999999999999", "one"] {
            assert_eq!(
                parse_whole(text, 0, 65_535),
                Err("a whole number from 0 to 65535".into()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn switches_take_the_forms_of_gflags_and_yaml() {
        for text in ["true", "T", "1", "yes", "on", "Y"] {
            assert_eq!(parse_switch(text), Ok(true), "{text:?}");
        }
        for text in ["false", "F", "0", "no", "Off", "n"] {
            assert_eq!(parse_switch(text), Ok(false), "{text:?}");
        }
        assert!(parse_switch("2").is_err() && parse_switch("").is_err());
    }
}
