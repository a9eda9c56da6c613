//! Logs of confidential machines (CCEL): read, explained, replayed to RTMRs. Logs of TPMs stay logs of TPMs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Agile, IPL, NO_ACTION, SEPARATOR, fixture, logs};
use latchkey_measurements::cc::{CcLog, Mr, RtmrSet, Rtmrs};
use latchkey_measurements::predict::{BootPath, MachineType};
use latchkey_measurements::report::Report;
use latchkey_measurements::{Bank, EventLog, LogErrorKind, Replay};
use proptest::prelude::*;
use sha2::{Digest, Sha384};

/// The log of a TDX machine of Google's; `None`, and a skip, without the folder of vectors.
fn real() -> Option<Vec<u8>> {
    latchkey_test_support::vector("eventlog/ccel-gce-tdx.bin")
}

/// A log as TDX firmware begins it: for register 1, and SHA-384 alone.
fn tdx() -> Agile {
    let mut log = Agile::new(&[Bank::Sha384]);
    log.bytes[0] = 1;
    log
}

fn good() -> Agile {
    tdx().event(1, SEPARATOR, &[0; 4]).event(3, IPL, b".linux\0").event(4, IPL, b"application")
}

fn refused(log: &[u8]) -> LogErrorKind {
    CcLog::parse(log).unwrap_err().kind
}

/// The registers by a second reader, which trusts the log's sizes: index, type, one digest of 48 bytes, size, data.
fn oracle(log: &[u8]) -> [[u8; 48]; 4] {
    let u32_at = |at: usize| u32::from_le_bytes(log[at..at + 4].try_into().unwrap());
    let mut registers = [[0; 48]; 4];
    let mut at = 32 + u32_at(28) as usize;
    while at < log.len() {
        let (index, kind, digest) = (u32_at(at) as usize, u32_at(at + 4), &log[at + 14..at + 62]);
        if kind != NO_ACTION {
            let register = &mut registers[index - 1];
            *register = Sha384::new().chain_update(*register).chain_update(digest).finalize().into();
        }
        at += 66 + u32_at(at + 62) as usize;
    }
    registers
}

#[test]
fn a_real_log_replays_as_a_second_reader_has_it() {
    let Some(bytes) = real() else { return };
    assert!(CcLog::is_one(&bytes));
    let log = CcLog::parse(&bytes).unwrap();
    assert_eq!((log.events().len(), log.padding()), (20, 0));
    let replayed = log.replay();
    assert_eq!(replayed.values(), &oracle(&bytes));
    // By Python's hashlib.
    let known = KNOWN.map(|register| hex::decode(register).unwrap());
    assert_eq!(replayed.values().map(|register| register.to_vec()), known);
    assert_eq!(replayed.values()[3], [0; 48]);
}

#[test]
fn a_real_log_is_explained_and_names_registers_and_the_pcrs_that_they_stand_for() {
    let Some(bytes) = real() else { return };
    let report = CcLog::parse(&bytes).unwrap().report();
    let text = report.to_text();
    assert!(text.contains("   0  -       EV_NO_ACTION"), "{text}");
    assert!(text.contains("RTMR0   EV_EFI_VARIABLE_DRIVER_CONFIG     Secure Boot is disabled"), "{text}");
    assert!(text.contains("RTMR1   EV_EFI_ACTION                     Exit Boot Services Invocation"), "{text}");
    assert!(text.contains("as a TPM's PCR 1, 7"), "{text}");
    assert_eq!(report.flagged().count(), 0, "{text}");
    assert!(report.pcrs.is_empty() && report.events.iter().all(|event| event.pcr.is_none()));
    assert_eq!(report.rtmrs[&Mr::Rtmr1].pcrs, [2, 3, 4, 5, 6]);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["format"], "ccel");
    assert_eq!(json["events"][1]["mr"], "RTMR0");
    assert_eq!(json["rtmrs"]["RTMR0"]["value"], KNOWN[0]);
}

#[test]
fn every_changed_byte_and_every_cut_is_read_or_refused() {
    let Some(bytes) = real() else { return };
    let honest = CcLog::parse(&bytes).unwrap().replay();
    let mut others = 0;
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        if let Ok(log) = CcLog::parse(&changed) {
            log.report().to_text();
            others += usize::from(log.replay() != honest);
        }
        if let Ok(log) = CcLog::parse(&bytes[..at]) {
            assert_ne!(log.events().len(), 20, "cut at {at}");
        }
    }
    // Every byte of the 19 digests counts.
    assert!(others >= 19 * 48, "{others}");
}

/// RTMR 0 to 2 to which go-eventlog's tests hold logs of real TDX machines (`ccel/replay_test.go`), and how many separators are in RTMR 0
/// and 1: of two builds of one cloud's firmware, the older one ends RTMR 0 twice.
const KNOWN_TO_OTHERS: [(&str, [usize; 2], [&str; 3]); 2] = [
    (
        "cos-113-intel-tdx.bin",
        [1, 1],
        [
            "3fa2f61f395b7f5feefb4ec2df61297f109ad8abcd6410c1b7df60f21f37b19297fc35e544039c7e1edece752afd17f6",
            "f62dbc072bd5d3f3438b7b35c39a727f5aea2ffc2473f43723953f530daf62504f0a7944aa62c41a86e8a878c2b122c1",
            "4969684dc87381fc3b3134176c8d8806eaf0a901859f5f70cfae8d17714b46c10a8de219048c9fc09f11f381a6fbe7c1",
        ],
    ),
    (
        "cos-113-intel-tdx-dupe-separator.bin",
        [2, 0],
        [
            "a4de2df23e9611299123ba4359c42a5e578b0f8488bf1bba8ef5606d9ea5d81c97c064b482a5eac537d166bd0f0f752d",
            "0ee9366c928a77092f55e9e114c7394181fd264699155f0df77d23577618d5f650568a17d379355a07bd846e552f4e20",
            "4969684dc87381fc3b3134176c8d8806eaf0a901859f5f70cfae8d17714b46c10a8de219048c9fc09f11f381a6fbe7c1",
        ],
    ),
];

#[test]
#[ignore = "needs the directory that LATCHKEY_TDX_LOGS names: ./dev e2e tdx-logs"]
fn logs_of_tdx_machines_replay_to_the_registers_that_others_know() {
    let store =
        std::env::var_os("LATCHKEY_TDX_LOGS").expect("a directory, such as go-eventlog's testdata/eventlogs/ccel");
    for (name, separators, known) in KNOWN_TO_OTHERS {
        let bytes = std::fs::read(std::path::Path::new(&store).join(name)).unwrap();
        let log = CcLog::parse(&bytes).unwrap();
        let replayed = log.replay();
        let mut registers = [[0; 48]; 4];
        for (register, hex) in registers.iter_mut().zip(known) {
            hex::decode_to_slice(hex, register).unwrap();
        }
        replayed.check(&registers, RtmrSet::ALL).unwrap();
        let kinds = |mr| -> Vec<String> {
            let of = log.events().iter().filter(|event| event.extends_mr() == Some(mr));
            of.map(|event| event.kind.to_string()).collect()
        };
        let ends = |mr| kinds(mr).iter().filter(|kind| *kind == "EV_SEPARATOR").count();
        assert_eq!([Mr::Rtmr0, Mr::Rtmr1].map(ends), separators, "{name}");
        // The partition table is measured before any program, so RTMR 1 of a boot from a disk cannot be predicted.
        let loaded: Vec<_> = kinds(Mr::Rtmr1)
            .into_iter()
            .filter(|kind| kind.starts_with("EV_EFI_") && !kind.ends_with("ACTION"))
            .collect();
        assert_eq!(loaded[..2], ["EV_EFI_GPT_EVENT", "EV_EFI_BOOT_SERVICES_APPLICATION"], "{name}");
    }
}

#[test]
fn the_kernels_padding_changes_nothing() {
    let log = good().bytes;
    let replayed = CcLog::parse(&log).unwrap().replay();
    assert_eq!(replayed.values(), &oracle(&log));
    for fill in [0x00, 0xff] {
        let mut padded = log.clone();
        padded.resize(64 * 1024, fill);
        let read = CcLog::parse(&padded).unwrap();
        assert_eq!((read.padding(), read.replay()), (padded.len() - log.len(), replayed.clone()));
        padded.push(1);
        CcLog::parse(&padded).unwrap_err();
    }
    assert_eq!(refused(&[0xff; 4096]), LogErrorKind::Empty);
}

#[test]
fn registers_that_do_not_exist_or_cannot_be_extended_are_refused() {
    for index in [5, 7, 23, 0x0100_0001, u32::MAX] {
        assert_eq!(refused(&tdx().event(index, IPL, b"x").bytes), LogErrorKind::MrUnknown(index));
    }
    assert_eq!(refused(&tdx().event(5, NO_ACTION, b"x").bytes), LogErrorKind::MrUnknown(5));
    assert_eq!(refused(&tdx().event(0, IPL, b"x").bytes), LogErrorKind::MrtdExtended);
    let informational = tdx().event(0, NO_ACTION, b"x").event(u32::MAX, NO_ACTION, b"x").bytes;
    assert_eq!(CcLog::parse(&informational).unwrap().replay().values(), &[[0; 48]; 4]);
}

#[test]
fn digests_are_sha384_and_none_is_missing() {
    for banks in [&[Bank::Sha256][..], &[Bank::Sha384, Bank::Sha256], &[Bank::Sha512]] {
        for header in [0, 1] {
            let mut log = Agile::new(banks);
            log.bytes[0] = header;
            assert_eq!(refused(&log.bytes), LogErrorKind::NoConfidentialMachine, "{banks:?}");
        }
    }
    assert_eq!(refused(&fixture("gce-debian-10.bin")), LogErrorKind::NoConfidentialMachine);
    let other = tdx().event_in(Bank::Sha256, 1, IPL, b"x").bytes;
    assert_eq!(refused(&other), LogErrorKind::DigestUnlisted(Bank::Sha256.algorithm()));
    let none = [1, IPL, 0, 0].map(u32::to_le_bytes).concat();
    assert_eq!(refused(&[tdx().bytes, none, vec![1]].concat()[..69 - 4 + 16]), LogErrorKind::DigestMissing(Mr::Rtmr0));
    let mut size = tdx().bytes;
    let at = size.len() - 3;
    size[at] = 32;
    assert_eq!(refused(&size), LogErrorKind::DigestSize { algorithm: Bank::Sha384.algorithm(), size: 32 });
    let mut header = tdx().bytes;
    header[0] = 2;
    assert_eq!(refused(&header), LogErrorKind::HeaderPcr(2));
}

#[test]
fn a_tpms_log_of_sha384_alone_is_a_tpms_and_says_so() {
    let log = Agile::new(&[Bank::Sha384]).event(0, SEPARATOR, &[0; 4]).event(4, IPL, b"loader").bytes;
    assert!(!CcLog::is_one(&log));
    let read = EventLog::parse(&log).unwrap();
    assert!(Replay::of(&read, Bank::Sha384).unwrap().value(4).is_some());
    assert!(Report::of(&read).rtmrs.is_empty());
    // Who says that it is another one is refused where it has an event of PCR 0.
    assert_eq!(refused(&log), LogErrorKind::MrtdExtended);
    for path in logs() {
        assert!(!CcLog::is_one(&std::fs::read(path).unwrap()));
    }
}

#[test]
fn a_header_for_register_0_is_read_where_the_caller_says_what_it_is() {
    let mut log = good().bytes;
    let replayed = CcLog::parse(&log).unwrap().replay();
    log[0] = 0;
    assert!(!CcLog::is_one(&log));
    assert_eq!(CcLog::parse(&log).unwrap().replay(), replayed);
}

#[test]
fn a_quote_is_held_against_the_registers_that_are_asked_for() {
    let log = good().bytes;
    let replayed = CcLog::parse(&log).unwrap().replay();
    let mut quoted = *replayed.values();
    replayed.check(&quoted, RtmrSet::ALL).unwrap();
    quoted[3][47] ^= 1;
    replayed.check(&quoted, RtmrSet::new(&[Mr::Rtmr0, Mr::Rtmr1, Mr::Rtmr2]).unwrap()).unwrap();
    replayed.check(&quoted, RtmrSet::new(&[Mr::Rtmr0, Mr::Rtmr3]).unwrap()).unwrap_err();
    let mismatch = replayed.check(&quoted, RtmrSet::ALL).unwrap_err();
    assert_eq!((mismatch.mr, mismatch.quoted), (Mr::Rtmr3, hex::encode(quoted[3])));
    assert_eq!(Rtmrs::SIZE, 48);
    // A check of nothing would be passed by every quote.
    for none in [&[][..], &[Mr::Mrtd], &[Mr::Rtmr0, Mr::Mrtd]] {
        assert_eq!(RtmrSet::new(none), None);
    }
    assert_eq!(RtmrSet::new(&Mr::RTMRS), Some(RtmrSet::ALL));
}

#[test]
fn sections_that_the_boot_stub_measures_are_named_as_in_a_tpms_log() {
    let log = good().bytes;
    let report = CcLog::parse(&log).unwrap().report();
    assert!(report.events[2].description.ends_with("of section .linux"), "{:?}", report.events[2]);
}

proptest! {
    #[test]
    fn events_of_any_kind_are_explained_and_replayed_as_a_second_reader_has_them(
        events in prop::collection::vec(
            (1_u32..=4, prop_oneof![Just(IPL), Just(SEPARATOR), 0x8000_0001_u32..0x8000_00f0], any::<u8>(), prop::collection::vec(any::<u8>(), 0..60)),
            0..8,
        ),
        tail in prop::collection::vec(any::<u8>(), 0..16),
    ) {
        let mut log = tdx().bytes;
        for (index, kind, digest, data) in &events {
            log.extend([*index, *kind, 1].map(u32::to_le_bytes).concat());
            log.extend(Bank::Sha384.algorithm().0.to_le_bytes());
            log.extend([*digest; 48]);
            log.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
            log.extend(data);
        }
        let read = CcLog::parse(&log).unwrap();
        let replayed = read.replay();
        prop_assert_eq!(replayed.values(), &oracle(&log));
        // The header is the first.
        prop_assert_eq!(read.report().events.len(), events.len() + 1);
        prop_assert!(read.report().to_text().lines().count() > events.len());
        // What is too short for an event is padding, or refused.
        let padded = [&log[..], &tail].concat();
        let is_padding = tail.iter().all(|byte| *byte == 0) || tail.iter().all(|byte| *byte == 0xff);
        prop_assert_eq!(CcLog::parse(&padded).ok().map(|log| log.replay()), is_padding.then_some(replayed));
    }

    #[test]
    fn the_headers_register_alone_says_what_a_log_is(at in any::<prop::sample::Index>(), byte: u8, head in 0_u8..3) {
        let mut log = good().bytes;
        let at = at.index(log.len());
        log[at] = byte;
        log[0] = head;
        let says_so = CcLog::is_one(&log);
        if let Ok(log) = CcLog::parse(&log) {
            log.report().to_text();
            log.replay();
            prop_assert_eq!(says_so, head == 1);
        }
    }
}

const KNOWN: [&str; 4] = [
    "8083cd6898cc52a90231cdf9c0532bf9513c40465c6f71e56cbe32ee2c11a9dfc030297ca3ca0f62477d6d1f610d3fdb",
    "6484f0d72c03521c0434553be34e8db8228b729e799666d2b7754085c77aa9981f5a440df3047194b24f212ff1160c1e",
    "c3e7ed9d7e909b29732f676d01dc63de869b049362b522a315cb042689670be07344c347cf85d985c7b928d4934e41e1",
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
];

/// What the prediction of RTMR 2 says of firmware, and why there is none of RTMR 1, as a real machine has it: OVMF that QEMU gave a kernel
/// with `-kernel`, without a boot stub.
#[test]
fn a_real_log_has_the_programs_in_the_predicted_order_and_nothing_of_the_firmware_in_rtmr_2() {
    let Some(bytes) = real() else { return };
    let log = CcLog::parse(&bytes).unwrap();
    let kinds = |mr| -> Vec<String> {
        log.events().iter().filter(|event| event.extends_mr() == Some(mr)).map(|event| event.kind.to_string()).collect()
    };
    // As machines with `"boot": "qemu-kernel"`: the image is loaded first; then what no image tells, how the kernel leaves.
    assert_eq!(
        kinds(Mr::Rtmr1),
        ["EV_EFI_BOOT_SERVICES_APPLICATION", "EV_EFI_ACTION", "EV_EFI_ACTION", "EV_EFI_ACTION"]
    );
    let image = MachineType::builtin("debian-13-ovmf-kernel").unwrap();
    assert_eq!(image.boot, BootPath::QemuKernel);
    // No separator: this firmware ends RTMR 0 twice, EDK II's present source ends RTMR 1.
    assert_eq!(kinds(Mr::Rtmr0).iter().filter(|kind| *kind == "EV_SEPARATOR").count(), 2);
    // The kernel measured its command line here, since it saw no TPM. It got no initrd that it measures.
    assert_eq!(kinds(Mr::Rtmr2), ["EV_EVENT_TAG"]);
    assert_eq!(kinds(Mr::Rtmr3), [""; 0]);
}
