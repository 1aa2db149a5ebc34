//! Golden bytes and damage.

use super::*;

fn normal(term: u64, index: u64, content: &'static [u8]) -> Entry {
    let payload = Payload::Normal(EntryBytes(Bytes::from_static(content)));
    Entry { log_id: log_id(term, index), payload }
}

#[test]
fn a_vote_keeps_its_golden_bytes() {
    let bytes = seal(&VoteRecord { term: 7, node: 2, committed: true }).unwrap();
    let golden = [1, 17, 0, 0, 0, 9, 32, 92, 18, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(bytes, golden);
    let back: VoteRecord = open(&bytes).unwrap();
    assert_eq!(Vote::from(back), Vote::new_committed(7, 2));
}

#[test]
fn an_entry_keeps_its_golden_bytes() {
    let mut bytes = Vec::new();
    encode_entry(&normal(3, 9, b"hi"), &mut bytes).unwrap();
    let golden = [3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, b'h', b'i'];
    assert_eq!(bytes, golden);
    let mut bytes = Bytes::from(bytes);
    assert_eq!(decode_entry(&mut bytes).unwrap(), normal(3, 9, b"hi"));
    assert!(bytes.is_empty());
}

#[test]
fn a_membership_survives_the_way_through_an_entry() {
    let record = MembershipRecord {
        voters: vec![[1, 2].into(), [2, 3].into()],
        nodes: [(1, "a:1".into()), (2, "b:2".into()), (3, "c:3".into())].into(),
    };
    let payload = Payload::Membership(Membership::try_from(record).unwrap());
    let entry = Entry { log_id: log_id(1, 1), payload };
    let mut bytes = Vec::new();
    encode_entry(&entry, &mut bytes).unwrap();
    assert!(entry_bytes(&entry) >= bytes.len());
    assert_eq!(decode_entry(&mut Bytes::from(bytes)).unwrap(), entry);
}

#[test]
fn every_flipped_bit_of_a_sealed_record_is_noticed() {
    let good = seal(&VoteRecord { term: 1, node: 1, committed: false }).unwrap();
    for byte in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            assert!(open::<VoteRecord>(&bad).is_err(), "byte {byte} bit {bit}");
        }
    }
}

#[test]
fn every_cut_of_a_sealed_record_or_an_entry_is_noticed() {
    let good = seal(&VoteRecord { term: 1, node: 1, committed: false }).unwrap();
    for length in 0..good.len() {
        assert!(open::<VoteRecord>(&good[..length]).is_err(), "{length}");
    }
    let mut good = Vec::new();
    encode_entry(&normal(1, 1, b"content"), &mut good).unwrap();
    for length in 0..good.len() {
        let mut cut = Bytes::copy_from_slice(&good[..length]);
        assert!(decode_entry(&mut cut).is_err(), "{length}");
    }
}

#[test]
fn a_hostile_length_is_refused_before_allocation() {
    let mut bytes = vec![RECORD_VERSION];
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    let error = open::<VoteRecord>(&bytes).unwrap_err();
    assert_eq!(error, RecordError::TooLong(u32::MAX as usize, RECORD_BYTES_MAX));
}
