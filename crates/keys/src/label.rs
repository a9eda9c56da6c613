//! The `info` input of every derivation.
//!
//! Each part is preceded by its length (16 bits, big endian), so that no two different lists of parts give the same
//! bytes, and the first part names purpose and version of the encoding, so that no two uses of HKDF share a label.

use crate::{KeyId, KeyLength, KeyVersion};

/// Purpose and encoding version of data keys. Changing it changes every key.
const DATA_KEY: &[u8] = b"latchkey data key v1";

/// Purpose and encoding version of the cluster id. Changing it changes every cluster's lock.
const CLUSTER_ID: &[u8] = b"latchkey cluster id v1";

/// `purpose ‖ class ‖ parameter ‖ version (u32) ‖ length in bytes (u32)`, each length-prefixed.
pub(crate) fn data_key(id: &KeyId, version: KeyVersion, length: KeyLength) -> Vec<u8> {
    let class = id.class().name().as_bytes();
    encode(&[DATA_KEY, class, id.parameter(), &version.number().to_be_bytes(), &length.bytes().to_be_bytes()])
}

/// `purpose`, length-prefixed.
pub(crate) fn cluster_id() -> Vec<u8> {
    encode(&[CLUSTER_ID])
}

fn encode(parts: &[&[u8]]) -> Vec<u8> {
    let mut label = Vec::with_capacity(parts.iter().map(|part| 2 + part.len()).sum());
    for part in parts {
        let length = u16::try_from(part.len()).expect("parts are names, UUIDs and integers of this crate");
        label.extend_from_slice(&length.to_be_bytes());
        label.extend_from_slice(part);
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uuid;
    use proptest::prelude::*;

    fn inputs() -> impl Strategy<Value = (KeyId, KeyVersion, KeyLength)> {
        let id = prop_oneof![
            1 => Just(KeyId::MeasurementSecret),
            1 => Just(KeyId::SecretsAtRest),
            4 => prop_oneof![any::<[u8; 16]>(), (0..4_u8).prop_map(|last| [last; 16])]
                .prop_filter_map("not nil", |bytes| Uuid::from_bytes(bytes).ok().map(KeyId::StateDisk)),
        ];
        let version = prop_oneof![1..4_u32, any::<u32>()].prop_filter_map("not zero", KeyVersion::new);
        let length = prop_oneof![16..20_u32, 16..=64_u32].prop_map(|bytes| KeyLength::new(bytes).unwrap());
        (id, version, length)
    }

    #[test]
    fn the_encoding_is_pinned() {
        let id = KeyId::StateDisk("f81d4fae-7dec-11d0-a765-00a0c91e6bf6".parse().unwrap());
        let label = data_key(&id, KeyVersion::new(2).unwrap(), KeyLength::new(32).unwrap());
        let expected = [
            b"\x00\x14latchkey data key v1\x00\x0astate-disk\x00\x10".as_slice(),
            b"\xf8\x1d\x4f\xae\x7d\xec\x11\xd0\xa7\x65\x00\xa0\xc9\x1e\x6b\xf6",
            b"\x00\x04\x00\x00\x00\x02\x00\x04\x00\x00\x00\x20",
        ];
        assert_eq!(label, expected.concat());
    }

    proptest! {
        /// CVE-class: HKDF context collision by concatenation without lengths.
        #[test]
        fn no_two_different_requests_share_a_label(one in inputs(), two in inputs()) {
            prop_assert_eq!(data_key(&one.0, one.1, one.2) == data_key(&two.0, two.1, two.2), one == two);
        }

        #[test]
        fn no_two_different_lists_of_parts_share_an_encoding(
            one in prop::collection::vec(prop::collection::vec(0..3_u8, 0..4), 0..4),
            two in prop::collection::vec(prop::collection::vec(0..3_u8, 0..4), 0..4),
        ) {
            let parts = |list: &[Vec<u8>]| encode(&list.iter().map(Vec::as_slice).collect::<Vec<_>>());
            prop_assert_eq!(parts(&one) == parts(&two), one == two);
        }
    }

    #[test]
    fn a_data_key_label_is_never_the_cluster_id_label() {
        let label = data_key(&KeyId::MeasurementSecret, KeyVersion::new(1).unwrap(), KeyLength::new(32).unwrap());
        assert!(!label.starts_with(&cluster_id()));
    }
}
