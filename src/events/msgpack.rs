//! The few forms of MessagePack that an event has.

/// Appends nothing's form.
pub fn nil(out: &mut Vec<u8>) {
    out.push(0xc0);
}

/// Appends a number in its shortest form.
pub fn unsigned(out: &mut Vec<u8>, number: u64) {
    if let Ok(small) = u8::try_from(number) {
        if small > 0x7f {
            out.push(0xcc);
        }
        out.push(small);
    } else if let Ok(number) = u16::try_from(number) {
        out.push(0xcd);
        out.extend_from_slice(&number.to_be_bytes());
    } else if let Ok(number) = u32::try_from(number) {
        out.push(0xce);
        out.extend_from_slice(&number.to_be_bytes());
    } else {
        out.push(0xcf);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Appends a number with a sign in its shortest form.
pub fn signed(out: &mut Vec<u8>, number: i64) {
    if let Ok(number) = u64::try_from(number) {
        unsigned(out, number);
    } else if let Ok(number) = i8::try_from(number) {
        if number < -32 {
            out.push(0xd0);
        }
        out.extend_from_slice(&number.to_be_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        out.push(0xd1);
        out.extend_from_slice(&number.to_be_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        out.push(0xd2);
        out.extend_from_slice(&number.to_be_bytes());
    } else {
        out.push(0xd3);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Appends a string of any bytes; what is beyond 4 GiB is cut.
pub fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    head(out, bytes.len(), (0xa0, 32), Some(0xd9), 0xda);
    out.extend_from_slice(bytes.get(..u32::MAX as usize).unwrap_or(bytes));
}

/// Appends the head of an array of `count` items.
pub fn array(out: &mut Vec<u8>, count: usize) {
    head(out, count, (0x90, 16), None, 0xdc);
}

/// Appends the head of a map of `count` pairs.
pub fn map(out: &mut Vec<u8>, count: usize) {
    head(out, count, (0x80, 16), None, 0xde);
}

/// The head of a sequence: its own byte below `short.1`, else a marker and a length of one, two or four bytes.
fn head(out: &mut Vec<u8>, length: usize, short: (u8, u8), one: Option<u8>, two: u8) {
    match (u8::try_from(length), one, u16::try_from(length)) {
        (Ok(length), _, _) if length < short.1 => out.push(short.0 | length),
        (Ok(length), Some(marker), _) => out.extend_from_slice(&[marker, length]),
        (_, _, Ok(length)) => {
            out.push(two);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(two + 1);
            out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn numbers_have_their_shortest_form() {
        let unsigned = |number| bytes(|out| unsigned(out, number));
        assert_eq!(unsigned(127), [0x7f]);
        assert_eq!(unsigned(128), [0xcc, 0x80]);
        assert_eq!(unsigned(256), [0xcd, 1, 0]);
        assert_eq!(unsigned(65_536), [0xce, 0, 1, 0, 0]);
        assert_eq!(unsigned(1 << 32), [0xcf, 0, 0, 0, 1, 0, 0, 0, 0]);
        let signed = |number| bytes(|out| signed(out, number));
        assert_eq!(signed(5), [5]);
        assert_eq!(signed(-1), [0xff]);
        assert_eq!(signed(-33), [0xd0, 0xdf]);
        assert_eq!(signed(-129), [0xd1, 0xff, 0x7f]);
        assert_eq!(signed(-32_769), [0xd2, 0xff, 0xff, 0x7f, 0xff]);
        assert_eq!(signed(i64::MIN), [0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn heads_grow_with_the_length() {
        let text_head = |length: usize| {
            let all = bytes(|out| text(out, &vec![b'x'; length]));
            all[..all.len() - length].to_vec()
        };
        assert_eq!(text_head(31), [0xbf]);
        assert_eq!(text_head(32), [0xd9, 32]);
        assert_eq!(text_head(256), [0xda, 1, 0]);
        assert_eq!(text_head(65_536), [0xdb, 0, 1, 0, 0]);
        assert_eq!(bytes(|out| array(out, 15)), [0x9f]);
        assert_eq!(bytes(|out| array(out, 64)), [0xdc, 0, 64]);
        assert_eq!(bytes(|out| array(out, 65_536)), [0xdd, 0, 1, 0, 0]);
        assert_eq!(bytes(|out| map(out, 15)), [0x8f]);
        assert_eq!(bytes(|out| map(out, 21)), [0xde, 0, 21]);
    }
}
