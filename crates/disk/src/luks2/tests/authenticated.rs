//! The authenticated mode on the same closed list: what it adds, what the pin refuses, what the MAC covers.

use super::*;
use crate::superblock::Geometry;
use crate::testing::{format_authenticated, key, state, uuid};
use std::process::Command;

const GEOMETRY: Geometry = Geometry { data_sectors: 4096, journal_sections: 3 };

fn disk() -> Vec<u8> {
    static DISK: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    DISK.get_or_init(|| {
        let mut disk = MemoryDisk::blank(DISK_SIZE);
        format_authenticated(&mut disk, GEOMETRY);
        disk.bytes
    })
    .clone()
}

fn check_authenticated(disk: &[u8]) -> Result<CheckedHeader, HeaderRefusal> {
    UncheckedHeader::from_bytes(disk[..1 << 20].to_vec(), disk.len() as u64).check(SegmentMode::Authenticated)
}

#[test]
fn what_format_makes_is_opened_by_its_key_only() {
    let mut disk = MemoryDisk::blank(DISK_SIZE);
    let made = format_authenticated(&mut disk, GEOMETRY);
    let header = check_authenticated(&disk.bytes).unwrap();
    let opened = header.unlock(&key()).unwrap();
    assert_eq!(opened.state(), &state());
    assert_eq!(opened.volume_key().expose().len(), 96);
    assert_eq!(opened.volume_key(), made.volume_key());
    assert_eq!(opened.geometry(), Some(GEOMETRY));
    assert_eq!((opened.data_offset(), opened.data_length()), (1 << 20, 2 << 20));
    let wrong = latchkey_keys::Secret::from_slice(&[0x43; 32]).unwrap();
    assert_eq!(header.unlock(&wrong).unwrap_err(), UnlockError::WrongKey);
}

/// The host cannot choose the mode: it could otherwise give a node that expects authenticated sectors a disk without.
#[test]
fn a_disk_of_the_other_mode_is_refused_by_name() {
    let confidential = MemoryDisk::formatted(DISK_SIZE).bytes;
    assert_eq!(check_authenticated(&confidential).unwrap_err(), HeaderRefusal::ModeNotPinned);
    let authenticated = disk();
    assert_eq!(check(&authenticated).unwrap_err(), HeaderRefusal::ModeNotPinned);
    let header = UncheckedHeader::from_bytes(authenticated, DISK_SIZE as u64).check_either_mode().unwrap();
    assert_eq!(header.segment_mode(), SegmentMode::Authenticated);
}

#[test]
fn every_field_of_the_mode_has_its_own_refusal() {
    use HeaderRefusal as R;
    let disk = disk();
    let text = json(&disk);
    let integrity = r#","integrity":{"type":"hmac(sha256)","journal_encryption":"none","journal_integrity":"none"}"#;
    let geometry = r#""geometry":{"data_sectors":"4096","journal_sections":3},"#;
    let cases: &[(&str, &str, HeaderRefusal)] = &[
        (r#""luks2","key_size":96"#, r#""luks2","key_size":64"#, R::AreaSize),
        (r#""luks2","key_size":96"#, r#""luks2","key_size":128"#, R::KeyslotKeySize),
        (r#""size":"385024""#, r#""size":"258048""#, R::AreaSize),
        (integrity, "", R::SegmentIntegrity),
        (integrity, r#","integrity":null"#, R::JsonSchema),
        (r#""type":"hmac(sha256)""#, r#""type":"aead""#, R::SegmentIntegrity),
        (r#""type":"hmac(sha256)""#, r#""type":"hmac(sha256)","key_size":16"#, R::JsonSchema),
        (r#""journal_encryption":"none""#, r#""journal_encryption":"ctr(aes)""#, R::SegmentIntegrity),
        (r#""journal_integrity":"none""#, r#""journal_integrity":"hmac(sha256)""#, R::SegmentIntegrity),
        ("aes-xts-random", "aes-xts-plain64", R::SegmentCipher),
        ("aes-xts-random", "cipher_null-random", R::SegmentCipherNull),
        (geometry, "", R::TokenGeometry),
        (geometry, r#""geometry":null,"#, R::JsonSchema),
        (r#""data_sectors":"4096""#, r#""data_sectors":"0""#, R::TokenGeometry),
        (r#""data_sectors":"4096""#, r#""data_sectors":"4095""#, R::TokenGeometry),
        (r#""data_sectors":"4096""#, r#""data_sectors":"18446744073709551608""#, R::TokenGeometry),
        (r#""journal_sections":3"#, r#""journal_sections":0"#, R::TokenGeometry),
        (r#""journal_sections":3"#, r#""journal_sections":4294967295"#, R::TokenGeometry),
        (r#""journal_sections":3"#, r#""journal_sections":3,"more":1"#, R::JsonSchema),
    ];
    for &(from, to, expected) in cases {
        assert!(text.contains(from), "{from} is not in {text}");
        let changed = with_json(&disk, text.replacen(from, to, 1).as_bytes());
        assert_eq!(check_authenticated(&changed).unwrap_err(), expected, "{from} → {to}");
    }
}

/// A header of the confidential mode that carries what only the other mode may.
#[test]
fn the_modes_do_not_mix() {
    use HeaderRefusal as R;
    let disk = MemoryDisk::formatted(DISK_SIZE).bytes;
    let text = json(&disk);
    for (from, to, expected) in [
        (r#""mac":""#, r#""geometry":{"data_sectors":"4096","journal_sections":3},"mac":""#, R::TokenGeometry),
        (r#""aes-xts-plain64","sector"#, r#""aes-xts-random","sector"#, R::SegmentCipher),
        (r#""luks2","key_size":64"#, r#""luks2","key_size":96"#, R::AreaSize),
    ] {
        assert!(text.contains(from), "{from} is not in {text}");
        assert_eq!(check(&with_json(&disk, text.replacen(from, to, 1).as_bytes())).unwrap_err(), expected, "{to}");
    }
}

/// What an attacker who cuts the disk short, or moves the journal over the data, would have to change.
#[test]
fn a_changed_geometry_is_caught_by_the_mac() {
    let disk = disk();
    let text = json(&disk);
    for (from, to) in [
        (r#""data_sectors":"4096""#, r#""data_sectors":"4088""#),
        (r#""data_sectors":"4096""#, r#""data_sectors":"8192""#),
        (r#""journal_sections":3"#, r#""journal_sections":2"#),
    ] {
        let header = check_authenticated(&with_json(&disk, text.replacen(from, to, 1).as_bytes())).unwrap();
        assert_eq!(header.unlock(&key()).unwrap_err(), UnlockError::TokenForged, "{from} → {to}");
    }
}

#[test]
fn no_flipped_bit_of_the_metadata_opens_to_another_state_or_geometry() {
    let disk = disk();
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
        let header = UncheckedHeader::from_bytes(region.clone(), disk.len() as u64).check(SegmentMode::Authenticated);
        match header.map(|header| (header.authenticate(&token_key), header)) {
            Err(_) => refused += 1,
            Ok((Err(error), _)) => {
                assert_eq!(error, UnlockError::TokenForged);
                forged += 1;
            }
            Ok((Ok(authentic), header)) => {
                assert_eq!(authentic, state());
                assert_eq!(header.unlock(&key()).unwrap().geometry(), Some(GEOMETRY));
                same += 1;
            }
        }
        region[at] ^= 1 << (bit % 8);
    }
    assert!(refused > forged && forged > same, "{refused} refused, {forged} forged, {same} the same");
}

#[test]
fn the_os_stage_moves_the_phase_and_the_geometry_stays() {
    let mut disk = MemoryDisk::holding(disk());
    let token_key = TokenKey::derive(&key(), uuid());
    let done = |state: &NodeState| NodeState { phase: Phase::Bootstrapped, ..state.clone() };
    update_state(&mut disk, &token_key, done, &mut crate::random::fixed::Counting::new(6)).unwrap();
    let opened = check_authenticated(&disk.bytes).unwrap().unlock(&key()).unwrap();
    assert_eq!((opened.state().phase, opened.geometry()), (Phase::Bootstrapped, Some(GEOMETRY)));
}

/// The header alone needs no device mapper, so stock cryptsetup judges it here; its data is judged in a machine.
#[test]
fn cryptsetup_reads_our_header_and_takes_our_key() {
    let directory = tempfile::tempdir().unwrap();
    let (image, secret) = (directory.path().join("disk"), directory.path().join("key"));
    std::fs::write(&image, disk()).unwrap();
    std::fs::write(&secret, key().expose()).unwrap();
    let cryptsetup = |arguments: &[&str]| {
        let mut command = Command::new("/usr/sbin/cryptsetup");
        command.args(arguments).arg("--key-file").args([&secret, &image]);
        let output =
            latchkey_test_support::output(&mut command).expect("these tests need cryptsetup: install cryptsetup-bin");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let opened = cryptsetup(&["open", "--test-passphrase"]);
    let dump = cryptsetup(&["luksDump"]);
    assert!(opened.0 && dump.0, "{dump:?}");
    for expected in
        ["cipher: aes-xts-random", "integrity: hmac(sha256)", "sector: 4096 [bytes]", "Key:        768 bits"]
    {
        assert!(dump.1.contains(expected), "{expected} is not in {}", dump.1);
    }
}
