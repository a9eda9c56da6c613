//! Whatever is not an event log is refused, by name and place.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Agile, IPL, NO_ACTION, SEPARATOR, fixture, logs, sha1_event};
use latchkey_measurements::log::MAX_SIZE;
use latchkey_measurements::report::Report;
use latchkey_measurements::{AlgorithmId, Bank, EventLog, Format, LogError, LogErrorKind, Replay};
use proptest::prelude::*;

fn good() -> Agile {
    Agile::new(&[Bank::Sha1, Bank::Sha256]).event(0, SEPARATOR, &[0; 4]).event(4, IPL, b"loader\0")
}

/// Where the first event after the header begins.
const FIRST: usize = 32 + 37;
/// Bytes of `good`'s separator.
const SEPARATOR_SIZE: usize = 12 + 22 + 34 + 4 + 4;

fn refused(bytes: &[u8]) -> LogError {
    EventLog::parse(bytes).unwrap_err()
}

fn fault_with(offset: usize, bytes: &[u8]) -> LogError {
    let mut log = good().bytes;
    log[offset..offset + bytes.len()].copy_from_slice(bytes);
    refused(&log)
}

#[test]
fn nothing_and_nothing_but_padding_are_no_log() {
    for log in [vec![], vec![0; 4096], vec![0xff; 4096]] {
        assert_eq!(refused(&log), LogError { offset: 0, kind: LogErrorKind::Empty });
    }
}

#[test]
fn a_giant_log_is_refused_before_it_is_read() {
    let log = vec![1; MAX_SIZE + 1];
    assert_eq!(refused(&log).kind, LogErrorKind::TooLarge { size: MAX_SIZE + 1, limit: MAX_SIZE });
}

#[test]
fn a_log_cut_anywhere_is_refused_or_a_shorter_log() {
    let log = good().bytes;
    let ends = [32 + 37, FIRST + SEPARATOR_SIZE, log.len()];
    for length in 1..log.len() {
        match EventLog::parse(&log[..length]) {
            Ok(shorter) => assert!(ends.contains(&(length - shorter.padding())), "{length}"),
            Err(error) => {
                let cut = matches!(error.kind, LogErrorKind::Truncated { .. } | LogErrorKind::Empty);
                assert!(cut, "{length}: {error}");
            }
        }
    }
}

#[test]
fn padding_is_zeros_or_ones_and_nothing_else() {
    for fill in [0x00, 0xff] {
        for count in [1, 7, 12, 64, 4096] {
            let mut log = good().bytes;
            log.extend(std::iter::repeat_n(fill, count));
            let parsed = EventLog::parse(&log).unwrap();
            assert_eq!((parsed.events().len(), parsed.padding()), (3, count), "{fill:#x} {count}");
            log.push(1);
            assert!(EventLog::parse(&log).is_err(), "{fill:#x} {count}: something hides behind the padding");
        }
    }
    let mut log = good().bytes;
    log.extend([0, 0xff]);
    assert!(EventLog::parse(&log).is_err(), "mixed padding");
    let mut log = good().bytes;
    log.extend([0xaa; 64]);
    assert_eq!(refused(&log).kind, LogErrorKind::DigestCount { expected: 2, got: 0xaaaa_aaaa });
}

#[test]
fn an_event_that_claims_more_than_there_is_or_is_read_is_refused() {
    let size = FIRST + 12 + 22 + 34;
    assert_eq!(
        fault_with(size, &u32::MAX.to_le_bytes()),
        LogError { offset: size, kind: LogErrorKind::EventTooLarge { size: u32::MAX, limit: 1 << 20 } }
    );
    let kind = fault_with(size, &(1_u32 << 20).to_le_bytes());
    assert_eq!(kind, LogError { offset: size + 4, kind: LogErrorKind::Truncated { what: "an event's data" } });
}

#[test]
fn endless_events_are_refused() {
    let mut log = Agile::new(&[Bank::Sha256]);
    for _ in 0..16 * 1024 {
        log = log.event(16, IPL, b"");
    }
    assert_eq!(refused(&log.bytes).kind, LogErrorKind::TooManyEvents { limit: 16 * 1024 });
}

#[test]
fn a_header_that_lies_is_refused() {
    let spec = 32;
    let sha256 = Bank::Sha256.algorithm();
    for (offset, bytes, expected) in [
        (0, vec![1, 0, 0, 0], LogErrorKind::HeaderPcr(1)),
        (8, vec![1], LogErrorKind::HeaderDigest),
        (spec + 14, vec![b'9'], LogErrorKind::SpecIdUnknown),
        (spec + 16, vec![2], LogErrorKind::PlatformClass(2)),
        (spec + 21, vec![1], LogErrorKind::SpecVersion { major: 1, minor: 0 }),
        (spec + 21, vec![3], LogErrorKind::SpecVersion { major: 3, minor: 0 }),
        (spec + 23, vec![0], LogErrorKind::UintnSize(0)),
        (spec + 24, vec![0], LogErrorKind::AlgorithmCount(0)),
        (spec + 24, vec![9], LogErrorKind::AlgorithmCount(9)),
        (spec + 24, vec![1], LogErrorKind::Truncated { what: "the header's vendor information" }),
        (spec + 28, vec![0x0b, 0, 32, 0], LogErrorKind::AlgorithmTwice(sha256)),
        (spec + 34, vec![20], LogErrorKind::DigestSize { algorithm: sha256, size: 20 }),
        (spec + 32, vec![0x77, 0x77], LogErrorKind::DigestSize { algorithm: AlgorithmId(0x7777), size: 32 }),
        (spec + 36, vec![1], LogErrorKind::Truncated { what: "the header's vendor information" }),
    ] {
        assert_eq!(fault_with(offset, &bytes).kind, expected, "byte {offset}");
    }
}

#[test]
fn a_header_with_something_behind_it_is_refused() {
    let good = good().bytes;
    let spec = [&good[32..FIRST], &[0xee; 3]].concat();
    let log = sha1_event(0, NO_ACTION, &[0; 20], &spec);
    assert_eq!(refused(&log), LogError { offset: FIRST, kind: LogErrorKind::SpecIdTrailing(3) });
}

#[test]
fn an_event_that_lies_about_its_digests_or_pcr_is_refused() {
    // Of the first event, so that a file of another kind is no log.
    assert_eq!(fault_with(0, &[24]), LogError { offset: 0, kind: LogErrorKind::PcrUnknown(24) });
    let count = FIRST + 8;
    let sha512 = Bank::Sha512.algorithm();
    for (offset, bytes, expected) in [
        (count, vec![3], LogErrorKind::DigestCount { expected: 2, got: 3 }),
        (count, vec![0xff; 4], LogErrorKind::DigestCount { expected: 2, got: u32::MAX }),
        (count + 4, vec![0x0d], LogErrorKind::DigestUnlisted(sha512)),
        (count + 4 + 22, vec![0x04], LogErrorKind::DigestTwice(Bank::Sha1.algorithm())),
    ] {
        let error = fault_with(offset, &bytes);
        assert_eq!((error.kind, error.offset), (expected, offset.max(FIRST)), "byte {offset}");
    }
}

#[test]
fn a_startup_locality_is_believed_once_and_before_pcr_0_begins() {
    let statement = |locality: &[u8]| [b"StartupLocality\0".as_slice(), locality].concat();
    let log = || Agile::new(&[Bank::Sha256]);
    let of = |pcr, locality: &[u8]| log().event(pcr, NO_ACTION, &statement(locality));
    for (what, log, expected) in [
        ("good", of(0, &[3]).event(0, SEPARATOR, &[0; 4]), Some(3)),
        ("late", log().event(0, SEPARATOR, &[0; 4]).event(0, NO_ACTION, &statement(&[3])), None),
        ("twice", of(0, &[3]).event(0, NO_ACTION, &statement(&[0])), Some(3)),
        ("padded, as by coreboot", of(0, &[3, 0, 0, 0]), Some(3)),
        ("with more", of(0, &[3, 0, 1]), None),
        ("of another PCR", of(1, &[3]), None),
        ("of no PCR that there is", of(24, &[3]), None),
    ] {
        assert_eq!(EventLog::parse(&log.bytes).unwrap().startup_locality(), expected, "{what}");
    }
    for (what, locality) in [("unknown", &[1][..]), ("without one", &[]), ("unknown and padded", &[2, 0, 0])] {
        assert_eq!(refused(&of(0, locality).bytes).kind, LogErrorKind::LocalityMalformed, "{what}");
    }
}

#[test]
fn an_event_for_a_register_above_23_is_told_and_counts_nowhere() {
    let honest = good().bytes;
    for index in [24, 0xffff_ffff] {
        let odd = good().event(index, IPL, b"odd").event_in(Bank::Sha256, index, IPL, b"odd too").bytes;
        let (log, plain) = (EventLog::parse(&odd).unwrap(), EventLog::parse(&honest).unwrap());
        for bank in [Bank::Sha1, Bank::Sha256] {
            let values = |log: &EventLog<'_>| {
                Replay::of(log, bank).unwrap().iter().map(|(pcr, it)| (pcr, it.to_vec())).collect::<Vec<_>>()
            };
            assert_eq!(values(&log), values(&plain));
        }
        let report = Report::of(&log);
        assert_eq!(report.events[3].pcr, None);
        assert!(
            report.events[3].description.starts_with(&format!("for register {index}, which no TPM has")),
            "{report:?}"
        );
    }
}

#[test]
fn an_informational_event_may_belong_to_no_pcr() {
    let log = good().event(u32::MAX, NO_ACTION, b"SP800-155 Event\0").bytes;
    assert_eq!(EventLog::parse(&log).unwrap().events()[3].register, None);
}

#[test]
fn a_log_of_the_old_format_has_one_bank() {
    let log = [sha1_event(0, 8, &[1; 20], b"1.0"), sha1_event(4, SEPARATOR, &[2; 20], &[0; 4])].concat();
    let parsed = EventLog::parse(&log).unwrap();
    assert_eq!(parsed.format(), &Format::Sha1);
    assert_eq!(parsed.banks().collect::<Vec<_>>(), [Bank::Sha1]);
    assert_eq!(parsed.events().len(), 2);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        drop(EventLog::parse(&bytes));
    }

    #[test]
    fn no_change_of_a_real_log_makes_it_panic(at in 0_usize..2562, byte: u8, cut in 0_usize..2562) {
        let mut log = fixture("honest.bin");
        log[at] = byte;
        for log in [&log[..], &log[..cut]] {
            if let Ok(parsed) = EventLog::parse(log) {
                latchkey_measurements::report::Report::of(&parsed).to_text();
            }
        }
    }
}

#[test]
fn every_real_log_is_read_to_its_end() {
    let logs = logs();
    assert!(logs.len() >= 3);
    for path in logs {
        let bytes = std::fs::read(&path).unwrap();
        let log = EventLog::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let last = log.events().last().unwrap();
        assert!(last.offset + last.data.len() < bytes.len());
        assert!(log.padding() == 0, "{}: {}", path.display(), log.padding());
    }
}

#[test]
fn the_log_of_a_confidential_machine_is_called_that() {
    let mut log = Agile::new(&[Bank::Sha384]).bytes;
    log[0] = 1;
    assert_eq!(refused(&log).kind, LogErrorKind::ConfidentialMachine);
    assert!(refused(&log).to_string().contains("RTMR"), "{}", refused(&log));
}
