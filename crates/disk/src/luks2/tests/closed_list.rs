//! What is outside the closed list is refused, each field for its own reason.

use super::*;
use crate::luks2::binary::newest;
use crate::testing::{key, state};

/// What the check says after `from` was replaced by `to` in the metadata, once and from the left.
fn refusal(from: &str, to: &str) -> Option<HeaderRefusal> {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let text = json(&disk);
    assert!(text.contains(from), "{from} is not in {text}");
    check(&with_json(&disk, text.replacen(from, to, 1).as_bytes())).err()
}

/// Each field of the metadata, changed with the checksum fixed up, is refused with the reason of that field.
#[test]
fn every_metadata_field_has_its_own_refusal() {
    use HeaderRefusal as R;
    let kdf = r#""kdf":{"type":"pbkdf2","hash":"sha256","iterations":1000"#;
    let digest = r#""segments":["0"],"hash":"sha256","iterations":1000"#;
    let cases: &[(&str, &str, HeaderRefusal)] = &[
        (r#"{"keyslots":{"0""#, r#"{"keyslots":{"1""#, R::KeyslotId),
        (r#""type":"luks2""#, r#""type":"luks1""#, R::KeyslotType),
        (r#""luks2","key_size":64"#, r#""luks2","key_size":32"#, R::KeyslotKeySize),
        (r#""kdf":{"#, r#""priority":2,"kdf":{"#, R::KeyslotPriority),
        (r#""af":{"type":"luks1""#, r#""af":{"type":"luks2""#, R::AfType),
        (r#""stripes":4000"#, r#""stripes":4294967295"#, R::AfStripes),
        (r#""stripes":4000,"hash":"sha256""#, r#""stripes":4000,"hash":"sha1""#, R::AfHash),
        (r#""area":{"type":"raw""#, r#""area":{"type":"journal""#, R::AreaType),
        (r#""offset":"32768""#, r#""offset":"16384""#, R::AreaOffset),
        (r#""offset":"32768""#, r#""offset":"33280""#, R::AreaOffset),
        (r#""offset":"32768""#, r#""offset":"18446744073709547520""#, R::AreaOffset),
        (r#""size":"258048""#, r#""size":"4096""#, R::AreaSize),
        (
            r#""encryption":"aes-xts-plain64","key_size":64"#,
            r#""encryption":"cipher_null-ecb","key_size":64"#,
            R::AreaCipherNull,
        ),
        (
            r#""encryption":"aes-xts-plain64","key_size":64"#,
            r#""encryption":"aes-cbc-plain64","key_size":64"#,
            R::AreaCipher,
        ),
        (r#""aes-xts-plain64","key_size":64"#, r#""aes-xts-plain64","key_size":32"#, R::AreaKeySize),
        (kdf, r#""kdf":{"type":"argon2id","time":4,"memory":1048576,"cpus":4"#, R::KdfArgon2),
        (kdf, r#""kdf":{"type":"argon2id","time":2147483647,"memory":4294967295,"cpus":255"#, R::KdfArgon2),
        (kdf, r#""kdf":{"type":"argon2i","time":4,"memory":0,"cpus":4"#, R::KdfArgon2),
        (kdf, r#""kdf":{"type":"scrypt","hash":"sha256","iterations":1000"#, R::KdfType),
        (kdf, r#""kdf":{"type":"pbkdf2","hash":"sha1","iterations":1000"#, R::KdfHash),
        (kdf, r#""kdf":{"type":"pbkdf2","iterations":1000"#, R::KdfHash),
        (kdf, r#""kdf":{"type":"pbkdf2","hash":"sha256","iterations":4294967295"#, R::KdfIterations),
        (kdf, r#""kdf":{"type":"pbkdf2","hash":"sha256","iterations":18446744073709551615"#, R::KdfIterations),
        (kdf, r#""kdf":{"type":"pbkdf2","hash":"sha256","iterations":100001"#, R::KdfIterations),
        (kdf, r#""kdf":{"type":"pbkdf2","hash":"sha256","iterations":0"#, R::KdfIterations),
        (kdf, r#""kdf":{"type":"pbkdf2","hash":"sha256","memory":null,"iterations":1000"#, R::KdfForeignParameters),
        (r#""salt":""#, r#""salt":"AA"#, R::KdfSalt),
        (r#""segments":{"0""#, r#""segments":{"1""#, R::SegmentId),
        (r#""type":"crypt""#, r#""type":"linear""#, R::SegmentType),
        (r#""offset":"1048576""#, r#""offset":"1044480""#, R::SegmentOffset),
        (r#""offset":"1048576""#, r#""offset":"0""#, R::SegmentOffset),
        (r#""offset":"1048576""#, r#""offset":"17825792""#, R::SegmentOffset),
        (r#""offset":"1048576""#, r#""offset":"4194304""#, R::SegmentOutsideDevice),
        (r#""size":"dynamic""#, r#""size":"4096""#, R::SegmentSize),
        (r#""iv_tweak":"0""#, r#""iv_tweak":"8""#, R::SegmentIvTweak),
        (
            r#""encryption":"aes-xts-plain64","sector"#,
            r#""encryption":"cipher_null-ecb","sector"#,
            R::SegmentCipherNull,
        ),
        (
            r#""encryption":"aes-xts-plain64","sector"#,
            r#""encryption":"capi:ecb(cipher_null)-plain64","sector"#,
            R::SegmentCipherNull,
        ),
        (r#""encryption":"aes-xts-plain64","sector"#, r#""encryption":"aes-ecb","sector"#, R::SegmentCipher),
        (r#""sector_size":4096"#, r#""sector_size":512"#, R::SegmentSectorSize),
        (r#""sector_size":4096"#, r#""sector_size":4096,"integrity":{"type":"hmac(sha256)"}"#, R::SegmentIntegrity),
        (r#""sector_size":4096"#, r#""sector_size":4096,"flags":["backup-final"]"#, R::SegmentFlags),
        (r#""digests":{"0""#, r#""digests":{"1""#, R::DigestId),
        (r#""0":{"type":"pbkdf2""#, r#""0":{"type":"argon2""#, R::DigestType),
        (r#""keyslots":["0"]"#, r#""keyslots":["0","1"]"#, R::DigestKeyslots),
        (r#""segments":["0"]"#, r#""segments":[]"#, R::DigestSegments),
        (digest, r#""segments":["0"],"hash":"md5","iterations":1000"#, R::DigestHash),
        (digest, r#""segments":["0"],"hash":"sha256","iterations":999"#, R::DigestIterations),
        (digest, r#""segments":["0"],"hash":"sha256","iterations":2147483648"#, R::DigestIterations),
        (r#""digest":""#, r#""digest":"AA"#, R::DigestValue),
        (r#""json_size":"12288""#, r#""json_size":"28672""#, R::ConfigJsonSize),
        (r#""keyslots_size":"1015808""#, r#""keyslots_size":"1015809""#, R::ConfigKeyslotsSize),
        (r#""keyslots_size":"1015808""#, r#""keyslots_size":"1019904""#, R::ConfigKeyslotsSize),
        (r#""keyslots_size":"1015808""#, r#""keyslots_size":"1015808","flags":["allow-discards"]"#, R::ConfigFlags),
        (
            r#""keyslots_size":"1015808""#,
            r#""keyslots_size":"1015808","requirements":{"mandatory":["online-reencrypt-v2"]}"#,
            R::ConfigRequirements,
        ),
        (r#""tokens":{"0""#, r#""tokens":{"1""#, R::TokenId),
        (r#""type":"latchkey""#, r#""type":"other""#, R::TokenType),
        (r#""latchkey","keyslots":[]"#, r#""latchkey","keyslots":["0"]"#, R::TokenKeyslots),
        (r#""version":1"#, r#""version":2"#, R::TokenVersion),
        (r#""node_name":""#, r#""node_name":"../"#, R::TokenState),
        (r#""cluster_id":"c1"#, r#""cluster_id":""#, R::TokenState),
        (r#""measurement_salt":"5a"#, r#""measurement_salt":""#, R::TokenState),
        (r#""mac":""#, r#""mac":"00"#, R::TokenMac),
        // Shape.
        (r#""stripes":4000"#, r#""stripes":4000.0"#, R::JsonSchema),
        (r#""stripes":4000"#, r#""stripes":-4000"#, R::JsonSchema),
        (r#""offset":"32768""#, r#""offset":"+32768""#, R::JsonSchema),
        (r#""offset":"32768""#, r#""offset":32768"#, R::JsonSchema),
        (r#""role":"worker""#, r#""role":"admin""#, R::JsonSchema),
        (r#""af":{"#, r#""af":{"unknown":1,"#, R::JsonSchema),
        (r#"{"keyslots""#, r#"{"surprise":{},"keyslots""#, R::JsonSchema),
        (r#""af":{"#, r#""af":null,"af":{"#, R::JsonSchema),
        (r#"{"keyslots""#, r#"{,"keyslots""#, R::JsonSyntax),
    ];
    for &(from, to, expected) in cases {
        assert_eq!(refusal(from, to), Some(expected), "{from} → {to}");
    }
}

#[test]
fn digest_salt_has_its_own_refusal() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let text = json(&disk);
    let (before, digests) = text.split_at(text.find("\"digests\"").unwrap());
    let digests = digests.replacen(r#""salt":""#, r#""salt":"AA"#, 1);
    let refused = check(&with_json(&disk, format!("{before}{digests}").as_bytes())).unwrap_err();
    assert_eq!(refused, HeaderRefusal::DigestSalt);
}

#[test]
fn more_than_one_of_anything_is_refused() {
    use HeaderRefusal as R;
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let whole: serde_json::Value = serde_json::from_str(&json(&disk)).unwrap();
    let cases = [
        ("keyslots", 2, R::KeyslotCount),
        ("keyslots", 10, R::KeyslotCount),
        ("segments", 2, R::SegmentCount),
        ("digests", 2, R::DigestCount),
        ("tokens", 2, R::TokenCount),
    ];
    for (what, count, expected) in cases {
        let mut changed = whole.clone();
        let object = changed[what]["0"].clone();
        changed[what] = (0..count).map(|number| (number.to_string(), object.clone())).collect();
        assert_eq!(check(&with_json(&disk, changed.to_string().as_bytes())).unwrap_err(), expected, "{count} {what}");
    }
    for (what, expected) in [("keyslots", R::KeyslotCount), ("segments", R::SegmentCount), ("digests", R::DigestCount)]
    {
        let mut changed = whole.clone();
        changed[what] = serde_json::json!({});
        assert_eq!(check(&with_json(&disk, changed.to_string().as_bytes())).unwrap_err(), expected, "no {what}");
    }
}

/// The disk's metadata, changed, in two copies of 512 KiB: the largest that fit into what is read of a disk.
fn with_large_header(disk: &[u8], change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    const LARGE: usize = 0x8_0000;
    let mut metadata: serde_json::Value = serde_json::from_str(&json(disk)).unwrap();
    metadata["config"]["json_size"] = (LARGE - JSON).to_string().into();
    change(&mut metadata);
    let metadata = metadata.to_string();
    let mut large = vec![0; disk.len()];
    for (from, to) in [(0, 0), (COPY, LARGE)] {
        large[to..to + JSON].copy_from_slice(&disk[from..from + JSON]);
        large[to + 8..to + 16].copy_from_slice(&(LARGE as u64).to_be_bytes());
        large[to + 256..to + 264].copy_from_slice(&(to as u64).to_be_bytes());
        large[to + JSON..to + JSON + metadata.len()].copy_from_slice(metadata.as_bytes());
        fix_checksum(&mut large, to, LARGE);
    }
    large
}

#[test]
fn thirty_two_keyslots_in_a_large_header_are_refused() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let bomb = with_large_header(&disk, |metadata| {
        let slot = metadata["keyslots"]["0"].clone();
        metadata["keyslots"] = (0..32).map(|number| (number.to_string(), slot.clone())).collect();
    });
    assert_eq!(check(&bomb).unwrap_err(), HeaderRefusal::KeyslotCount);
    // With one key slot, such a header is read as far as to where the areas are.
    assert_eq!(check(&with_large_header(&disk, |_| ())).unwrap_err(), HeaderRefusal::AreaOffset);
}

#[test]
fn deeply_nested_json_is_refused() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let bomb = "[".repeat(12_000);
    assert_eq!(check(&with_json(&disk, bomb.as_bytes())).unwrap_err(), HeaderRefusal::JsonSchema);
    let text = json(&disk).replacen(r#""tokens""#, &format!(r#""tokens":{{"0":{}}},"x""#, "[".repeat(5_000)), 1);
    assert!(check(&with_json(&disk, text.as_bytes())).is_err());
}

#[test]
fn bytes_hidden_behind_the_json_are_refused() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let mut text = json(&disk).into_bytes();
    text.extend(b"\0{}");
    assert_eq!(check(&with_json(&disk, &text)).unwrap_err(), HeaderRefusal::JsonPadding);
    let mut full = json(&disk).into_bytes();
    full.resize(COPY - JSON, b' ');
    assert_eq!(check(&with_json(&disk, &full)).unwrap_err(), HeaderRefusal::JsonPadding);
}

/// Each field of the binary header, changed in both copies with the checksum fixed up.
#[test]
fn every_binary_field_has_its_own_refusal() {
    use HeaderRefusal as R;
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let cases: &[(usize, &[u8], HeaderRefusal)] = &[
        (0, b"XXXX", R::Magic),
        (6, &[0, 1], R::Luks1),
        (6, &[0, 3], R::Version),
        (8, &0x4001_u64.to_be_bytes(), R::HeaderSize),
        (8, &0_u64.to_be_bytes(), R::HeaderSize),
        (8, &u64::MAX.to_be_bytes(), R::HeaderSize),
        (8, &0x80_0000_u64.to_be_bytes(), R::HeaderSize),
        (8, &0x40_0000_u64.to_be_bytes(), R::Truncated),
        (16, &u64::MAX.to_be_bytes(), R::SequenceId),
        (24, b"other\0\0\0\0\0\0\0\0\0", R::Label),
        (24 + 47, b"x", R::Label),
        (72, b"sha1\0\0", R::ChecksumAlgorithm),
        (168, b"zzzzzzzz", R::Uuid),
        (208, b"other\0\0\0", R::Subsystem),
        (256, &0x8000_u64.to_be_bytes(), R::HeaderOffset),
        (264, &[1], R::BinaryPadding),
        (447, &[1], R::BinaryPadding),
        (480, &[1], R::BinaryPadding),
        (4095, &[1], R::BinaryPadding),
    ];
    for &(at, bytes, expected) in cases {
        assert_eq!(check(&with_binary(&disk, at, bytes)).unwrap_err(), expected, "{bytes:?} at {at}");
    }
}

#[test]
fn without_the_checksum_fixed_up_every_change_is_a_checksum_error() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    for at in (512..COPY).step_by(97).chain([16, 104, 171, 448, 479]) {
        let mut changed = disk.clone();
        for offset in [0, COPY] {
            changed[offset + at] ^= 0x01;
        }
        assert_eq!(check(&changed).unwrap_err(), HeaderRefusal::Checksum, "byte {at}");
    }
}

/// Header region and region's end in all lengths: a short read never panics and never passes.
#[test]
fn truncated_regions_are_refused() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    for length in [0, 1, 511, 4095, 4096, COPY - 1, COPY, 2 * COPY, 2 * COPY + 4096, 2 * COPY + 255_999] {
        assert!(
            UncheckedHeader::from_bytes(disk[..length].to_vec(), 4 << 20).check(SegmentMode::Confidential).is_err(),
            "{length}"
        );
    }
}

#[test]
fn swapped_copies_are_refused() {
    let mut disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let (primary, rest) = disk.split_at_mut(COPY);
    primary.swap_with_slice(&mut rest[..COPY]);
    assert_eq!(check(&disk).unwrap_err(), HeaderRefusal::Magic);
}

#[test]
fn the_secondary_stands_in_for_a_broken_primary_and_the_other_way_round() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    for broken in [0, COPY] {
        for damage in [0..6, 100..101, 0..COPY] {
            let mut disk = disk.clone();
            disk[broken + damage.start..broken + damage.end].fill(0xa5);
            assert_eq!(check(&disk).unwrap().unlock(&key()).unwrap().state(), &state());
        }
    }
}

#[test]
fn the_newer_copy_wins_and_is_held_to_the_same_list() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let mut newer = disk.clone();
    newer[COPY + 16..COPY + 24].copy_from_slice(&9_u64.to_be_bytes());
    fix_checksum(&mut newer, COPY, COPY);
    assert_eq!(newest(&newer).unwrap().sequence_id, 9);
    assert!(check(&newer).unwrap().unlock(&key()).is_ok());

    // A newer secondary outside the list is refused although the primary would pass: no fall-back to a second try.
    let text = json(&disk).replacen(r#""sector_size":4096"#, r#""sector_size":512"#, 1);
    let bad = with_json(&newer, text.as_bytes());
    newer[COPY..2 * COPY].copy_from_slice(&bad[COPY..2 * COPY]);
    assert_eq!(check(&newer).unwrap_err(), HeaderRefusal::SegmentSectorSize);
}

#[test]
fn codes_are_unique_and_kebab_case() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let refusal = check(&with_binary(&disk, 480, &[1])).unwrap_err();
    assert_eq!(refusal.to_string().matches("luks-padding").count(), 1);
    let codes: Vec<&str> = crate::reason_codes().map(|reason| reason.code).collect();
    let unique: std::collections::BTreeSet<_> = codes.iter().collect();
    assert!(codes.len() > 60 && unique.len() == codes.len());
    assert!(codes.iter().all(|code| code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')));
}
