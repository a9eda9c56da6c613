//! Attacks on the header. The attacker owns the disk: every change is made with the checksum made right again.

use super::binary::{fix_checksum, newest};
use super::*;
use crate::probe::{Probe, probe};
use crate::random::fixed::Counting;
use crate::testing::{DISK_SIZE, MemoryDisk, format, key, state, uuid};
use latchkey_keys::Secret;
use proptest::prelude::*;

const COPY: usize = 0x4000;
const JSON: usize = 0x1000;

fn check(disk: &[u8]) -> Result<CheckedHeader, HeaderRefusal> {
    UncheckedHeader::from_bytes(disk[..1 << 20].to_vec(), disk.len() as u64).check()
}

fn json(disk: &[u8]) -> String {
    let area = &disk[JSON..COPY];
    String::from_utf8(area[..area.iter().position(|&byte| byte == 0).unwrap()].to_vec()).unwrap()
}

/// Replaces the JSON of both copies and fixes both checksums.
fn with_json(disk: &[u8], json: &[u8]) -> Vec<u8> {
    let mut disk = disk.to_vec();
    for offset in [0, COPY] {
        let area = &mut disk[offset + JSON..offset + COPY];
        area.fill(0);
        area[..json.len()].copy_from_slice(json);
        fix_checksum(&mut disk, offset, COPY);
    }
    disk
}

/// Writes into the binary header of both copies and fixes both checksums.
fn with_binary(disk: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut disk = disk.to_vec();
    for offset in [0, COPY] {
        disk[offset + at..offset + at + bytes.len()].copy_from_slice(bytes);
        fix_checksum(&mut disk, offset, COPY);
    }
    disk
}

/// What the check says after `from` was replaced by `to` in the metadata, once and from the left.
fn refusal(from: &str, to: &str) -> Option<HeaderRefusal> {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let text = json(&disk);
    assert!(text.contains(from), "{from} is not in {text}");
    check(&with_json(&disk, text.replacen(from, to, 1).as_bytes())).err()
}

#[test]
fn what_format_makes_is_opened_by_its_key_only() {
    let mut disk = MemoryDisk::blank(DISK_SIZE);
    let made = format(&mut disk);
    let header = check(&disk.bytes).unwrap();
    assert_eq!((header.uuid(), header.claimed_state()), (uuid(), Some(&state())));
    let opened = header.unlock(&key()).unwrap();
    assert_eq!(opened.state(), &state());
    assert_eq!(opened.volume_key(), made.volume_key());
    assert_eq!(opened.token_key(), made.token_key());
    assert_eq!((opened.data_offset(), opened.data_length()), (1 << 20, 3 << 20));
    assert_eq!(header.unlock(&Secret::from_slice(&[0x43; 32]).unwrap()).unwrap_err(), UnlockError::WrongKey);
}

#[test]
fn two_disks_share_neither_volume_key_nor_salt() {
    let mut one = MemoryDisk::blank(DISK_SIZE);
    let first = format(&mut one);
    let mut two = MemoryDisk::blank(DISK_SIZE);
    let fresh = crate::testing::fresh(&two);
    let second = fresh.format(&mut two, uuid(), &key(), state(), &mut Counting::new(4)).unwrap();
    assert_ne!(first.volume_key(), second.volume_key());
    assert_ne!(json(&one.bytes), json(&two.bytes));
}

#[test]
fn a_disk_cannot_be_born_bootstrapped() {
    let mut disk = MemoryDisk::blank(DISK_SIZE);
    let bootstrapped = NodeState { phase: Phase::Bootstrapped, ..state() };
    let fresh = crate::testing::fresh(&disk);
    let error = fresh.format(&mut disk, uuid(), &key(), bootstrapped, &mut Counting::new(1)).unwrap_err();
    assert_eq!(error.code(), "disk-state");
    assert!(disk.log.is_empty(), "nothing was written");
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
        (r#""plain64","key_size":64"#, r#""plain64","key_size":32"#, R::AreaKeySize),
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

#[test]
fn thirty_two_keyslots_in_a_large_header_are_refused() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let slots: Vec<_> = (0..32).map(|number| format!("\"{number}\":{{}}")).collect();
    let text = json(&disk);
    let first = &text[text.find("{\"0\":").unwrap() + 5..text.find(",\"tokens\"").unwrap() - 1];
    let bomb = slots.join(",").replacen("\"0\":{}", &format!("\"0\":{first}"), 1);
    let text = text.replacen(&format!("\"0\":{first}"), &bomb, 1);
    assert_eq!(check(&with_json(&disk, text.as_bytes())).unwrap_err(), HeaderRefusal::KeyslotCount);
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
    for at in (300..COPY).step_by(97) {
        let mut changed = disk.clone();
        for offset in [0, COPY] {
            changed[offset + at] ^= 0x40;
        }
        assert_eq!(check(&changed).unwrap_err(), HeaderRefusal::Checksum, "byte {at}");
    }
}

/// Header region and region's end in all lengths: a short read never panics and never passes.
#[test]
fn truncated_regions_are_refused() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    for length in [0, 1, 511, 4095, 4096, COPY - 1, COPY, 2 * COPY, 2 * COPY + 4096, 2 * COPY + 258_047] {
        assert!(UncheckedHeader::from_bytes(disk[..length].to_vec(), 4 << 20).check().is_err(), "{length}");
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

/// Changes that stay inside the closed list: only the MAC sees them.
#[test]
fn tampering_inside_the_closed_list_is_caught_by_the_mac() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let text = json(&disk);
    for (from, to) in [
        (r#""phase":"formatted""#, r#""phase":"bootstrapped""#),
        (r#""role":"worker""#, r#""role":"first""#),
        (r#""role":"worker""#, r#""role":"control-plane""#),
        (r#""node_name":"node-1.edge""#, r#""node_name":"node-2.edge""#),
        (r#""cluster_id":"c1"#, r#""cluster_id":"c2"#),
        (r#""measurement_salt":"5a"#, r#""measurement_salt":"5b"#),
        (r#""epoch":7"#, r#""epoch":8"#),
        (r#""attempt":1"#, r#""attempt":0"#),
        (r#""keyslots_size":"1015808""#, r#""keyslots_size":"1011712""#),
        (r#""offset":"1048576""#, r#""offset":"2097152""#),
        (r#""mac":""#, r#""mac":"0"#),
    ] {
        let mut changed = text.replacen(from, to, 1);
        if from.starts_with(r#""mac""#) {
            changed.remove(changed.len() - changed.chars().rev().position(|c| c == 'c').unwrap_or(0) - 1);
        }
        let outcome = check(&with_json(&disk, changed.as_bytes())).map(|header| header.unlock(&key()).map(drop));
        match outcome {
            Ok(result) => assert_eq!(result, Err(UnlockError::TokenForged), "{from} → {to}"),
            Err(refusal) => assert_eq!(refusal, HeaderRefusal::JsonSyntax, "{from} → {to}"),
        }
    }
    for (at, bytes) in [(168, &b"e"[..]), (24, &[0; 14]), (208, &[0; 8])] {
        let mut changed = with_binary(&disk, at, bytes);
        if at != 168 {
            // Label and subsystem go together or not at all.
            changed = with_binary(&with_binary(&disk, 24, &[0; 48]), 208, &[0; 48]);
        }
        let result = check(&changed).unwrap().unlock(&key()).map(drop);
        assert_eq!(result, Err(UnlockError::TokenForged), "{bytes:?} at {at}");
    }
}

/// An attacker's own volume, opened by an attacker's own key, has no valid token under the issued key.
#[test]
fn a_header_made_with_another_key_never_opens_with_ours() {
    let theirs = Secret::from_slice(&[0x66; 32]).unwrap();
    let mut disk = MemoryDisk::blank(DISK_SIZE);
    let fresh = crate::testing::fresh(&disk);
    fresh.format(&mut disk, uuid(), &theirs, state(), &mut Counting::new(9)).unwrap();
    assert_eq!(check(&disk.bytes).unwrap().unlock(&key()).unwrap_err(), UnlockError::WrongKey);
    let ours = TokenKey::derive(&key(), uuid());
    assert_eq!(check(&disk.bytes).unwrap().authenticate(&ours).unwrap_err(), UnlockError::TokenForged);
}

#[test]
fn a_token_moved_to_another_disk_is_forged_there() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let mut other = MemoryDisk::blank(DISK_SIZE);
    let fresh = crate::testing::fresh(&other);
    fresh.format(&mut other, uuid(), &key(), state(), &mut Counting::new(5)).unwrap();
    let token = |text: &str| text[text.find("\"tokens\"").unwrap()..text.find("\"segments\"").unwrap()].to_owned();
    let (ours, theirs) = (json(&disk), json(&other.bytes));
    let mixed = theirs.replacen(&token(&theirs), &token(&ours), 1);
    let header = check(&with_json(&other.bytes, mixed.as_bytes())).unwrap();
    assert_eq!(header.unlock(&key()).unwrap_err(), UnlockError::TokenForged);
}

#[test]
fn a_header_without_a_token_is_not_ours() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let text = json(&disk);
    let (start, end) = (text.find("\"tokens\"").unwrap(), text.find("\"segments\"").unwrap());
    let bare = format!("{}\"tokens\":{{}},{}", &text[..start], &text[end..]);
    let header = check(&with_json(&disk, bare.as_bytes())).unwrap();
    assert_eq!(header.unlock(&key()).unwrap_err(), UnlockError::TokenMissing);
    assert!(header.volume_key_without_authentication(key().expose()).is_ok());
    assert!(header.claims_unfinished_bootstrap().is_none());
}

/// Every bit of the metadata flipped, checksum fixed up: refused, or not opened, or exactly the state that was written.
#[test]
fn no_flipped_bit_of_the_metadata_opens_to_another_state() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let text = json(&disk);
    let token_key = TokenKey::derive(&key(), uuid());
    let (mut refused, mut forged, mut same) = (0, 0, 0);
    let mut region = disk[..1 << 20].to_vec();
    // The secondary is out of the way, so that one copy has to be flipped only.
    region[COPY..2 * COPY].fill(0);
    for bit in 0..text.len() * 8 {
        let at = JSON + bit / 8;
        region[at] ^= 1 << (bit % 8);
        fix_checksum(&mut region, 0, COPY);
        match UncheckedHeader::from_bytes(region.clone(), disk.len() as u64).check() {
            Err(_) => refused += 1,
            Ok(header) => match header.authenticate(&token_key) {
                Err(error) => {
                    assert_eq!(error, UnlockError::TokenForged);
                    forged += 1;
                }
                // Such as a hexadecimal digit in upper case.
                Ok(authentic) => {
                    assert_eq!(authentic, state());
                    assert_eq!(header.unlock(&key()).unwrap().state(), &state());
                    same += 1;
                }
            },
        }
        region[at] ^= 1 << (bit % 8);
    }
    assert!(refused > forged && forged > same, "{refused} refused, {forged} forged, {same} the same");
}

#[test]
fn a_damaged_key_slot_does_not_open() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    for at in [2 * COPY, 2 * COPY + 128_000, 2 * COPY + 255_999] {
        let mut disk = disk.clone();
        disk[at] ^= 1;
        assert_eq!(check(&disk).unwrap().unlock(&key()).unwrap_err(), UnlockError::WrongKey, "byte {at}");
    }
}

/// The header is swapped on the disk between check and use: the checked copy is what opens.
#[test]
fn a_header_swapped_after_the_check_is_never_looked_at() {
    let mut disk = MemoryDisk::formatted(DISK_SIZE);
    let Probe::Existing(header) = probe(&disk).unwrap() else { panic!("a header is there") };
    let header = header.check().unwrap();
    disk.bytes[..1 << 20].fill(0xee);
    assert_eq!(header.unlock(&key()).unwrap().state(), &state());
}

#[test]
fn the_os_stage_moves_the_phase_with_the_token_key_alone() {
    let mut disk = MemoryDisk::formatted(DISK_SIZE);
    let token_key = TokenKey::derive(&key(), uuid());
    let done = |state: &NodeState| NodeState { phase: Phase::Bootstrapped, ..state.clone() };
    update_state(&mut disk, &token_key, done, &mut Counting::new(6)).unwrap();
    let opened = check(&disk.bytes).unwrap().unlock(&key()).unwrap();
    assert_eq!(opened.state(), &NodeState { phase: Phase::Bootstrapped, ..state() });
    assert!(opened.reset_permit().is_none(), "a bootstrapped disk cannot be reset");
    assert!(check(&disk.bytes).unwrap().claims_unfinished_bootstrap().is_none());

    let back = |state: &NodeState| NodeState { phase: Phase::Formatted, ..state.clone() };
    let error = update_state(&mut disk, &token_key, back, &mut Counting::new(7)).unwrap_err();
    assert!(matches!(error, crate::DiskError::State(StateFault::WentBack("phase"))), "{error}");
}

#[test]
fn who_the_node_is_cannot_be_changed_even_with_the_token_key() {
    let token_key = TokenKey::derive(&key(), uuid());
    let changes: [(&str, fn(&mut NodeState)); 6] = [
        ("role", |state| state.role = Role::First),
        ("node_name", |state| state.node_name = "other".parse().unwrap()),
        ("cluster_id", |state| state.cluster_id = latchkey_keys::ClusterId::from_bytes([1; 32])),
        ("measurement_salt", |state| state.measurement_salt = [1; 32]),
        ("epoch", |state| state.epoch -= 1),
        ("attempt", |state| state.attempt -= 1),
    ];
    for (field, change) in changes {
        let mut disk = MemoryDisk::formatted(DISK_SIZE);
        let next = |state: &NodeState| {
            let mut next = state.clone();
            change(&mut next);
            next
        };
        match update_state(&mut disk, &token_key, next, &mut Counting::new(7)).unwrap_err() {
            crate::DiskError::State(StateFault::Changed(got) | StateFault::WentBack(got)) => assert_eq!(got, field),
            other => panic!("{field}: {other}"),
        }
        assert!(disk.log.is_empty(), "nothing was written");
    }
}

#[test]
fn a_state_is_not_replaced_with_the_wrong_token_key() {
    let mut disk = MemoryDisk::formatted(DISK_SIZE);
    let wrong = TokenKey::from_secret(Secret::from_slice(&[1; 32]).unwrap());
    let error = update_state(&mut disk, &wrong, NodeState::clone, &mut Counting::new(7)).unwrap_err();
    assert_eq!(error.code(), "disk-token-forged");
    assert!(disk.log.is_empty(), "nothing was written");
}

#[test]
fn the_longest_node_name_fits() {
    let mut disk = MemoryDisk::blank(DISK_SIZE);
    let long = NodeState { node_name: "a".repeat(253).parse().unwrap(), epoch: u64::MAX, attempt: u32::MAX, ..state() };
    let fresh = crate::testing::fresh(&disk);
    fresh.format(&mut disk, uuid(), &key(), long.clone(), &mut Counting::new(1)).unwrap();
    assert_eq!(check(&disk.bytes).unwrap().unlock(&key()).unwrap().state(), &long);
}

#[test]
fn codes_are_unique_and_kebab_case() {
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let refusal = check(&with_binary(&disk, 480, &[1])).unwrap_err();
    assert_eq!(refusal.to_string().matches("luks-padding").count(), 1);
    let source = include_str!("refusal.rs");
    let codes: Vec<&str> = source.split("(\"luks-").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let unique: std::collections::BTreeSet<_> = codes.iter().collect();
    assert!(codes.len() > 60 && unique.len() == codes.len());
    assert!(codes.iter().all(|code| code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..20_000)) {
        let _ = UncheckedHeader::from_bytes(bytes, 4 << 20).check();
    }

    #[test]
    fn arbitrary_json_with_a_right_checksum_never_panics_and_never_passes(text in "[\\[{\"0:,a-z}\\]\\\\ ]{0,400}") {
        let disk = MemoryDisk::holding(template());
        prop_assert!(check(&with_json(&disk.bytes, text.as_bytes())).is_err());
    }

    #[test]
    fn arbitrary_damage_with_a_right_checksum_never_opens_to_another_state(
        damage in proptest::collection::vec((0..COPY, any::<u8>()), 1..8),
    ) {
        let mut disk = template();
        for (at, byte) in damage {
            disk[at] = byte;
            disk[COPY + at] = byte;
        }
        for offset in [0, COPY] {
            fix_checksum(&mut disk, offset, COPY);
        }
        if let Ok(header) = check(&disk) {
            let authentic = header.authenticate(&TokenKey::derive(&key(), uuid()));
            prop_assert!(authentic.is_err() || authentic == Ok(state()));
        }
    }
}

/// A formatted disk, made once.
fn template() -> Vec<u8> {
    static DISK: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    DISK.get_or_init(|| MemoryDisk::formatted(DISK_SIZE).bytes).clone()
}
