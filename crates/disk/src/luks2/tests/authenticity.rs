//! What is inside the closed list opens only as it was written, and only with the disk's key.

use super::*;
use crate::probe::{Probe, probe};
use crate::random::fixed::Counting;
use crate::testing::{format, key, state, uuid};
use latchkey_keys::Secret;
use proptest::prelude::*;

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
    assert_eq!(error.code(), crate::StorageCode::State);
    assert!(disk.log.is_empty(), "nothing was written");
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
        (r#""mac":"a6"#, r#""mac":"a7"#),
    ] {
        assert!(text.contains(from), "{from} is not in {text}");
        let header = check(&with_json(&disk, text.replacen(from, to, 1).as_bytes())).unwrap();
        assert_eq!(header.unlock(&key()).map(drop), Err(UnlockError::TokenForged), "{from} → {to}");
    }
    let other_uuid = with_binary(&disk, 168, b"e");
    let unlabelled = with_binary(&with_binary(&disk, 24, &[0; 48]), 208, &[0; 48]);
    for changed in [other_uuid, unlabelled] {
        assert_eq!(check(&changed).unwrap().unlock(&key()).map(drop), Err(UnlockError::TokenForged));
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
        match UncheckedHeader::from_bytes(region.clone(), disk.len() as u64).check(SegmentMode::Confidential) {
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
    let header = header.check(SegmentMode::Confidential).unwrap();
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
    assert!(matches!(error, crate::DiskError::State(StateError::WentBack("phase"))), "{error}");
}

type Change = fn(&mut NodeState);

#[test]
fn who_the_node_is_cannot_be_changed_even_with_the_token_key() {
    let token_key = TokenKey::derive(&key(), uuid());
    let changes: [(&str, Change); 6] = [
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
            crate::DiskError::State(StateError::Changed(got) | StateError::WentBack(got)) => assert_eq!(got, field),
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
    assert_eq!(error.code(), crate::UnlockCode::TokenForged);
    assert!(disk.log.is_empty(), "nothing was written");
}

#[test]
fn the_longest_node_name_fits() {
    let mut disk = MemoryDisk::blank(DISK_SIZE);
    let name = [63, 63, 63, 61].map(|length| "a".repeat(length)).join(".");
    assert_eq!(name.len(), 253);
    let long = NodeState { node_name: name.parse().unwrap(), epoch: u64::MAX, attempt: u32::MAX, ..state() };
    let fresh = crate::testing::fresh(&disk);
    fresh.format(&mut disk, uuid(), &key(), long.clone(), &mut Counting::new(1)).unwrap();
    assert_eq!(check(&disk.bytes).unwrap().unlock(&key()).unwrap().state(), &long);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..20_000)) {
        let _ = UncheckedHeader::from_bytes(bytes, 4 << 20).check(SegmentMode::Confidential);
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
