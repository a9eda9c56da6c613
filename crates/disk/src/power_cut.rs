//! Power cuts: what a disk holds after losing power at any sector of a format, a state change or a reset.
//!
//! The model: a disk writes sectors of 512 bytes whole or not at all. What was written before the last flush is there;
//! of what was written since, any subset may be, in any order.

use crate::bytes::place;
use crate::luks2::{NodeState, Phase, SegmentMode, TokenKey, UnlockedDisk, update_state};
use crate::marker::ResetMarker;
use crate::probe::{Probe, probe};
use crate::random::Random;
use crate::random::fixed::Counting;
use crate::reset::reset;
use crate::superblock::fixture::superblock;
use crate::superblock::{Geometry, read_expecting};
use crate::testing::{DISK_SIZE, Event, MemoryDisk, format, format_authenticated, fresh, key, state, uuid};

const SECTOR: usize = 512;

/// Calls `look` with the disk as every power cut during `log` can leave it, beginning from `before`.
fn after_each_cut(before: &[u8], log: &[Event], mut look: impl FnMut(&str, MemoryDisk)) {
    let mut durable = before.to_vec();
    let mut pending: Vec<(usize, &[u8])> = Vec::new();
    let mut coin = Coin(1);
    for event in log {
        match event {
            Event::Flush => {
                for (offset, sector) in pending.drain(..) {
                    place(&mut durable, offset, sector);
                }
            }
            Event::Write { offset, bytes } => {
                for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                    pending.push((offset + index * SECTOR, sector));
                    // Key slots are long: not every sector of them is a case of its own.
                    if bytes.len() > 1 << 17 && index % 61 != 0 {
                        continue;
                    }
                    let keep: [(&str, &mut dyn FnMut(usize) -> bool); 4] = [
                        ("all so far", &mut |_| true),
                        ("only the last", &mut |index| index + 1 == pending.len()),
                        ("all but the first", &mut |index| index > 0),
                        ("some", &mut |_| coin.toss()),
                    ];
                    for (which, keep) in keep {
                        let mut disk = durable.clone();
                        for (_, (at, sector)) in pending.iter().enumerate().filter(|(index, _)| keep(*index)) {
                            place(&mut disk, *at, sector);
                        }
                        look(&format!("cut at {}, {which} kept", offset + index * SECTOR), MemoryDisk::holding(disk));
                    }
                }
            }
        }
    }
    look("no cut", MemoryDisk::holding(durable));
}

struct Coin(u64);

impl Coin {
    fn toss(&mut self) -> bool {
        let mut byte = [0];
        self.0 += 1;
        Counting::new(self.0).fill(&mut byte).unwrap();
        byte[0] & 1 == 1
    }
}

fn open(disk: &MemoryDisk, when: &str) -> UnlockedDisk {
    open_as(SegmentMode::Confidential, disk, when)
}

fn open_as(mode: SegmentMode, disk: &MemoryDisk, when: &str) -> UnlockedDisk {
    let Probe::Existing(header) = probe(disk).unwrap() else { panic!("{when}: no header") };
    header.check(mode).unwrap_or_else(|refusal| panic!("{when}: {refusal}")).unlock(&key()).unwrap()
}

#[test]
fn a_format_cut_anywhere_leaves_a_fresh_or_a_whole_disk() {
    let mut disk = MemoryDisk::blank(DISK_SIZE);
    format(&mut disk);
    let (mut fresh_cuts, mut whole_cuts) = (0, 0);
    after_each_cut(&vec![0; DISK_SIZE], &disk.log, |when, mut disk| match probe(&disk).unwrap() {
        Probe::Fresh(fresh) => {
            assert_eq!(fresh.reset_marker(), None, "{when}");
            fresh_cuts += 1;
            if fresh_cuts % 17 == 0 {
                format(&mut disk);
                assert_eq!(open(&disk, when).state(), &state(), "{when}, formatted again");
            }
        }
        Probe::Existing(_) => {
            assert_eq!(open(&disk, when).state(), &state(), "{when}");
            whole_cuts += 1;
        }
        Probe::Refused(refusal) => panic!("{when}: {refusal}"),
    });
    assert!(fresh_cuts > 150 && whole_cuts > 20, "{fresh_cuts} fresh, {whole_cuts} whole");
}

/// The authenticated mode writes marker, zeros, (kernel: superblock, journal and first sectors), key slot, headers. What the
/// kernel writes is one superblock here; of what a cut leaves of it nothing depends, since the header comes after it.
#[test]
fn an_authenticated_format_cut_anywhere_leaves_a_fresh_or_a_whole_disk() {
    const GEOMETRY: Geometry = Geometry { data_sectors: 4096, journal_sections: 3 };
    let stale = Geometry { data_sectors: 2048, journal_sections: 2 };
    let mut before = vec![0; DISK_SIZE];
    // A reset leaves the old superblock behind.
    place(&mut before, 1 << 20, &superblock(stale));
    let mut disk = MemoryDisk::holding(before.clone());
    format_authenticated(&mut disk, GEOMETRY);
    let (mut fresh_cuts, mut whole_cuts) = (0, 0);
    after_each_cut(&before, &disk.log, |when, mut disk| match probe(&disk).unwrap() {
        Probe::Fresh(_) => {
            fresh_cuts += 1;
            if fresh_cuts % 17 == 0 {
                format_authenticated(&mut disk, GEOMETRY);
                assert_eq!(
                    open_as(SegmentMode::Authenticated, &disk, when).geometry(),
                    Some(GEOMETRY),
                    "{when}, again"
                );
            }
        }
        Probe::Existing(_) => {
            let opened = open_as(SegmentMode::Authenticated, &disk, when);
            assert_eq!((opened.state(), opened.geometry()), (&state(), Some(GEOMETRY)), "{when}");
            read_expecting(&disk, opened.data_offset(), GEOMETRY).unwrap();
            whole_cuts += 1;
        }
        Probe::Refused(refusal) => panic!("{when}: {refusal}"),
    });
    assert!(fresh_cuts > 150 && whole_cuts > 20, "{fresh_cuts} fresh, {whole_cuts} whole");
}

#[test]
fn a_format_after_a_reset_keeps_the_count_of_attempts_until_it_is_whole() {
    let marker = ResetMarker { attempts: 3, reason: "init-timeout".parse().unwrap() };
    let mut disk = MemoryDisk::formatted(DISK_SIZE);
    let permit = open(&disk, "before").reset_permit().unwrap();
    reset(&mut disk, permit, &marker).unwrap();
    let before = disk.bytes.clone();
    disk.log.clear();
    format(&mut disk);
    after_each_cut(&before, &disk.log, |when, disk| match probe(&disk).unwrap() {
        Probe::Fresh(fresh) => assert_eq!(fresh.reset_marker(), Some(&marker), "{when}"),
        Probe::Existing(_) => assert_eq!(open(&disk, when).state(), &state(), "{when}"),
        Probe::Refused(refusal) => panic!("{when}: {refusal}"),
    });
}

#[test]
fn a_state_change_cut_anywhere_leaves_the_old_or_the_new_state() {
    let bootstrapped = |state: &NodeState| NodeState { phase: Phase::Bootstrapped, ..state.clone() };
    let token_key = TokenKey::derive(&key(), uuid());
    let mut formatted = MemoryDisk::formatted(DISK_SIZE);
    update_state(&mut formatted, &token_key, NodeState::clone, &mut Counting::new(8)).unwrap();
    // Whole; and with either copy broken, as an earlier cut may have left it: then the other one is all there is.
    for broken in [None, Some(0), Some(0x4000)] {
        let mut disk = MemoryDisk::holding(formatted.bytes.clone());
        if let Some(offset) = broken {
            disk.bytes[offset + 5000] ^= 1;
        }
        let before = disk.bytes.clone();
        update_state(&mut disk, &token_key, bootstrapped, &mut Counting::new(9)).unwrap();
        let (mut old, mut new) = (0, 0);
        after_each_cut(&before, &disk.log, |when, mut disk| {
            let when = format!("{when}, {broken:?} broken");
            match open(&disk, &when).state().phase {
                Phase::Formatted => old += 1,
                Phase::Bootstrapped => new += 1,
            }
            if (old + new) % 9 == 0 {
                update_state(&mut disk, &token_key, bootstrapped, &mut Counting::new(10)).unwrap();
                assert_eq!(open(&disk, &when).state().phase, Phase::Bootstrapped, "{when}, once more");
            }
        });
        assert!(old > 20 && new > 20, "{old} old, {new} new");
    }
}

#[test]
fn a_reset_cut_anywhere_is_resumed_and_never_leaves_half_a_header() {
    let marker = ResetMarker { attempts: 1, reason: "cluster-step-failed".parse().unwrap() };
    let mut disk = MemoryDisk::formatted(DISK_SIZE);
    let before = disk.bytes.clone();
    let permit = open(&disk, "before").reset_permit().unwrap();
    reset(&mut disk, permit, &marker).unwrap();
    let mut unfinished = 0;
    after_each_cut(&before, &disk.log, |when, mut disk| match probe(&disk).unwrap() {
        Probe::Fresh(fresh) => {
            assert_eq!(fresh.reset_marker(), Some(&marker), "{when}");
            if let Some(permit) = fresh.unfinished_reset() {
                unfinished += 1;
                reset(&mut disk, permit, &marker).unwrap();
            }
            assert!(disk.bytes[SECTOR..1 << 20].iter().all(|&byte| byte == 0), "{when}: something is left");
        }
        // The marker itself did not make it to the disk.
        Probe::Existing(_) => assert_eq!(open(&disk, when).state(), &state(), "{when}"),
        Probe::Refused(refusal) => panic!("{when}: {refusal}"),
    });
    assert!(unfinished > 100, "{unfinished}");
    assert!(fresh(&disk).unfinished_reset().is_none());
}
