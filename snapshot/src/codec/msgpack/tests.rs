//! The writer against an independent reader (the `rmp` crate), and the reader against the writer.

use super::*;

#[test]
fn integers_take_their_shortest_form_and_come_back() {
    let edges = [0, 1, 127, 128, 255, 256, 65_535, 65_536, u64::from(u32::MAX), 1 << 32, u64::MAX];
    for value in edges {
        let mut writer = Writer::default();
        writer.uint(value);
        let mut expected = Vec::new();
        rmp::encode::write_uint(&mut expected, value).unwrap();
        let bytes = writer.into_bytes();
        assert_eq!(bytes, expected, "{value}");
        assert_eq!(Reader::new(&bytes).uint(), Ok(value));
    }
    for value in [-1, -32, -33, -128, -129, -32_768, -32_769, i64::from(i32::MIN), i64::MIN] {
        let mut writer = Writer::default();
        writer.int(value);
        let mut expected = Vec::new();
        rmp::encode::write_sint(&mut expected, value).unwrap();
        let bytes = writer.into_bytes();
        assert_eq!(bytes, expected, "{value}");
        assert_eq!(Reader::new(&bytes).int(), Ok(value));
        assert_eq!(Reader::new(&bytes).peek(), Ok(Kind::Negative));
    }
}

#[test]
fn strings_and_containers_take_their_shortest_form_and_come_back() {
    for len in [0, 15, 16, 31, 32, 255, 256, 65_535, 65_536] {
        let text = vec![b'x'; len];
        let mut writer = Writer::default();
        writer.str(&text);
        writer.bin(&text);
        writer.array(len);
        writer.map(len);
        let mut expected = Vec::new();
        rmp::encode::write_str(&mut expected, std::str::from_utf8(&text).unwrap()).unwrap();
        rmp::encode::write_bin(&mut expected, &text).unwrap();
        rmp::encode::write_array_len(&mut expected, len as u32).unwrap();
        rmp::encode::write_map_len(&mut expected, len as u32).unwrap();
        let bytes = writer.into_bytes();
        assert_eq!(bytes, expected, "{len}");
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.str_bytes(), Ok(&text[..]));
        assert_eq!(reader.bin(), Ok(&text[..]));
        assert_eq!(reader.array(), Ok(len as u32));
        assert_eq!(reader.map(), Ok(len as u32));
        assert_eq!(reader.remaining(), 0);
    }
}

#[test]
fn a_length_beyond_the_data_is_a_fault_and_allocates_nothing() {
    assert_eq!(Reader::new(&[0xdb, 0xff, 0xff, 0xff, 0xff]).str_bytes(), Err(Fault::Truncated));
    assert_eq!(Reader::new(&[0xc6, 0xff, 0xff, 0xff, 0xff, 0]).bin(), Err(Fault::Truncated));
    assert_eq!(Reader::new(&[0xdd, 0xff, 0xff, 0xff, 0xff]).skip(), Err(Fault::Truncated));
    assert_eq!(Reader::new(&[]).peek(), Err(Fault::Truncated));
}

#[test]
fn skipping_a_deep_value_needs_no_stack() {
    let mut bytes = vec![0x91; 1_000_000];
    bytes.push(0xc0);
    let mut reader = Reader::new(&bytes);
    assert_eq!(reader.skip(), Ok(()));
    assert_eq!(reader.remaining(), 0);
}

#[test]
fn skipping_passes_over_types_that_the_format_never_uses() {
    // A float, an 8-byte extension and a reserved byte.
    let mut reader = Reader::new(&[0xca, 0, 0, 0, 0, 0xc7, 2, 9, 1, 1, 0xc1]);
    assert_eq!(reader.skip(), Ok(()));
    assert_eq!(reader.skip(), Ok(()));
    assert!(reader.skip().is_err());
}
