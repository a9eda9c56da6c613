//! A log replays to what the TPM has, or says nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::Command;

use crate::support::{Agile, IPL, NO_ACTION, SEPARATOR, fixture, logs, quoted, sha1_event};
use latchkey_attestation::PcrSet;
use latchkey_measurements::replay::{check, firmware_pcrs};
use latchkey_measurements::report::Report;
use latchkey_measurements::{Bank, EventLog, Replay, ReplayError};
use latchkey_test_support::output;

#[test]
fn a_machines_log_replays_to_the_pcrs_of_its_tpm() {
    for name in ["honest", "impostor", "override"] {
        let bytes = fixture(&format!("{name}.bin"));
        check(&EventLog::parse(&bytes).unwrap(), &quoted(name), firmware_pcrs()).unwrap();
    }
}

#[test]
fn a_log_of_another_boot_is_refused_and_the_first_pcr_named() {
    let bytes = fixture("honest.bin");
    let log = EventLog::parse(&bytes).unwrap();
    let refusal = check(&log, &quoted("impostor"), firmware_pcrs()).unwrap_err();
    assert!(matches!(refusal, ReplayError::Differs { pcr: 4, .. }), "{refusal}");
    assert!(refusal.to_string().contains("PCR 4 (boot loader or unified kernel image)"), "{refusal}");
}

#[test]
fn a_log_with_an_event_hidden_is_refused() {
    let bytes = fixture("override.bin");
    let log = EventLog::parse(&bytes).unwrap();
    let event = log.events().iter().find(|event| event.pcr() == Some(12)).expect("the foreign command line");
    let end = log.events()[event.index + 1].offset;
    let hidden = [&bytes[..event.offset], &bytes[end..]].concat();
    let hidden = EventLog::parse(&hidden).unwrap();
    let refusal = check(&hidden, &quoted("override"), firmware_pcrs()).unwrap_err();
    assert!(matches!(refusal, ReplayError::Differs { pcr: 12, .. }), "{refusal}");
}

#[test]
fn ima_and_the_lock_are_not_the_firmwares_to_log() {
    let bytes = fixture("honest.bin");
    let all = check(&EventLog::parse(&bytes).unwrap(), &quoted("honest"), PcrSet::all());
    assert!(matches!(all, Err(ReplayError::Differs { pcr: 10, .. })), "{all:?}");
}

#[test]
fn a_log_without_sha256_proves_nothing() {
    let bytes = Agile::new(&[Bank::Sha384]).event(4, IPL, b"x").bytes;
    let refusal = check(&EventLog::parse(&bytes).unwrap(), &quoted("honest"), firmware_pcrs());
    assert!(matches!(refusal, Err(ReplayError::NoSha256(_))), "{refusal:?}");
}

#[test]
fn every_bank_is_replayed() {
    let bytes = Agile::new(&Bank::ALL).event(4, IPL, b"one").event(9, IPL, b"two").event(4, IPL, b"three").bytes;
    let log = EventLog::parse(&bytes).unwrap();
    for bank in Bank::ALL {
        let first = bank.digest(&[&vec![0; bank.digest_size()], &bank.digest(&[b"one"])]);
        let replay = Replay::of(&log, bank).unwrap();
        assert_eq!(replay.value(4), Some(bank.digest(&[&first, &bank.digest(&[b"three"])]).as_slice()), "{bank}");
        assert_eq!(replay.iter().map(|(pcr, _)| pcr).collect::<Vec<_>>(), [4, 9]);
        assert_eq!(replay.value(5), None);
    }
}

#[test]
fn informational_events_extend_nothing() {
    let bytes = Agile::new(&[Bank::Sha256]).event(4, NO_ACTION, b"nothing").bytes;
    assert_eq!(Replay::of(&EventLog::parse(&bytes).unwrap(), Bank::Sha256).unwrap().iter().count(), 0);
}

#[test]
fn the_startup_locality_is_the_first_value_of_pcr_0_alone() {
    let log = Agile::new(&[Bank::Sha256]).event(0, NO_ACTION, b"StartupLocality\0\x03");
    let bytes = log.event(0, SEPARATOR, &[0; 4]).event(1, SEPARATOR, &[0; 4]).bytes;
    let replay = Replay::of(&EventLog::parse(&bytes).unwrap(), Bank::Sha256).unwrap();
    let mut first = [0; 32];
    let separator = Bank::Sha256.digest(&[&[0; 4]]);
    assert_eq!(replay.value(1).unwrap(), Bank::Sha256.digest(&[&first, &separator]));
    first[31] = 3;
    assert_eq!(replay.value(0).unwrap(), Bank::Sha256.digest(&[&first, &separator]));
}

/// `EV_EFI_HCRTM_EVENT`
const H_CRTM: u32 = 0x8000_0010;

/// What swtpm had in PCR 0 when its H-CRTM had measured `abc` (`swtpm_ioctl -h abc`) and `TPM2_Startup` had come from locality 0.
#[test]
fn pcr_0_of_a_machine_with_an_h_crtm_is_that_of_a_tpm() {
    let of_tpm = "15703cc929081671c587dad9b09606521a35aa6bf4741df448d22c4b307acc71";
    let locality = |value: u8| [b"StartupLocality\0".as_slice(), &[value]].concat();
    let log = || Agile::new(&[Bank::Sha1, Bank::Sha256]);
    let h_crtm = |log: Agile| log.event_of(0, H_CRTM, b"abc", b"HCRTM");
    for (what, log) in [
        ("alone", h_crtm(log())),
        ("behind a StartupLocality", h_crtm(log().event(0, NO_ACTION, &locality(0)))),
        ("before one", h_crtm(log()).event(0, NO_ACTION, &locality(3))),
    ] {
        let log = EventLog::parse(&log.bytes).unwrap();
        assert_eq!(hex::encode(Replay::of(&log, Bank::Sha256).unwrap().value(0).unwrap()), of_tpm, "{what}");
        assert_eq!(log.startup_locality(), Some(4));
    }
    // One that comes later began nothing.
    let late = h_crtm(log().event(0, SEPARATOR, &[0; 4])).bytes;
    assert_eq!(EventLog::parse(&late).unwrap().startup_locality(), None);
}

/// By Python's hashlib.
const OF_H_CRTM: &str = "016b63bc8d3e7e1b68051214a20f18aa7eb069b01089c889f709f08e8e921bbe";
const OF_COREBOOT: &str = "dd7a16f7b0c6d4a108a31c30dbd437f73d223b99bd7b9066c9e58965a7f74ddc";

#[test]
fn logs_of_firmware_with_an_h_crtm_and_of_coreboot_replay() {
    let cases = [("hcrtm.bin", 4, OF_H_CRTM), ("coreboot-locality-padded.bin", 3, OF_COREBOOT)];
    for (name, locality, pcr_0) in cases {
        let Some(bytes) = latchkey_test_support::vector(&format!("foreign/{name}")) else { return };
        let log = EventLog::parse(&bytes).unwrap();
        assert_eq!(log.startup_locality(), Some(locality), "{name}");
        assert_eq!(hex::encode(Replay::of(&log, Bank::Sha256).unwrap().value(0).unwrap()), pcr_0, "{name}");
    }
}

#[test]
fn a_log_of_the_old_format_replays_in_sha1() {
    let bytes = sha1_event(4, IPL, &[7; 20], b"loader");
    let log = EventLog::parse(&bytes).unwrap();
    assert_eq!(Replay::of(&log, Bank::Sha1).unwrap().value(4).unwrap(), Bank::Sha1.digest(&[&[0; 20], &[7; 20]]));
    assert_eq!(Replay::of(&log, Bank::Sha256), None);
}

#[test]
fn events_and_values_are_those_of_tpm2_eventlog() {
    if output(Command::new("tpm2_eventlog").arg("--version")).is_err() {
        latchkey_test_support::skip("tpm2_eventlog is missing: apt-get install tpm2-tools");
        return;
    }
    for path in logs() {
        let output = output(Command::new("tpm2_eventlog").arg(&path)).unwrap();
        assert!(output.status.success(), "{}", path.display());
        let theirs = String::from_utf8_lossy(&output.stdout).into_owned();
        let bytes = std::fs::read(&path).unwrap();
        let report = Report::of(&EventLog::parse(&bytes).unwrap());
        assert_eq!(report.pcrs, their_pcrs(&theirs), "{}", path.display());
        if report.format == "crypto-agile" {
            let ours: Vec<_> =
                report.events.iter().map(|event| (event.pcr.unwrap().to_string(), event.kind.clone())).collect();
            assert_eq!(ours, their_events(&theirs), "{}", path.display());
        }
    }
}

/// The `pcrs:` part: bank names indented by two, values by four.
fn their_pcrs(yaml: &str) -> BTreeMap<String, BTreeMap<u8, String>> {
    let mut banks = BTreeMap::new();
    let mut bank = String::new();
    for line in yaml.lines().skip_while(|line| *line != "pcrs:").skip(1) {
        let (key, value) = line.split_once(':').unwrap();
        match value.trim().strip_prefix("0x") {
            None => key.trim().clone_into(&mut bank),
            Some(value) => {
                let pcrs: &mut BTreeMap<_, _> = banks.entry(bank.clone()).or_default();
                pcrs.insert(key.trim().parse().unwrap(), value.to_owned());
            }
        }
    }
    banks
}

fn their_events(yaml: &str) -> Vec<(String, String)> {
    let field = |name: &str| yaml.lines().filter_map(|line| Some(line.trim().strip_prefix(name)?.to_owned())).collect();
    let (pcrs, kinds): (Vec<String>, Vec<String>) = (field("PCRIndex: "), field("EventType: "));
    pcrs.into_iter().zip(kinds).collect()
}

/// As on a Windows machine whose firmware lists SHA-1, which Windows does not use.
#[test]
fn a_log_with_fewer_digests_than_its_header_lists_is_read_and_that_bank_is_not_replayed() {
    let log = Agile::new(&[Bank::Sha1, Bank::Sha256])
        .event(0, SEPARATOR, &[0; 4])
        .event_in(Bank::Sha256, 4, IPL, b"loader")
        .bytes;
    let log = EventLog::parse(&log).unwrap();
    assert_eq!(log.incomplete(), [Bank::Sha1.algorithm()]);
    assert_eq!(log.banks().collect::<Vec<_>>(), [Bank::Sha256]);
    assert_eq!(Replay::of(&log, Bank::Sha1), None);
    let expected = Bank::Sha256.digest(&[&[0; 32], &Bank::Sha256.digest(&[b"loader"])]);
    assert_eq!(Replay::of(&log, Bank::Sha256).unwrap().value(4), Some(&expected[..]));
    let report = Report::of(&log);
    assert_eq!(report.incomplete_banks, ["sha1"]);
    assert!(
        report.to_text().contains("sha1 is not replayed: not every event has a digest of it"),
        "{}",
        report.to_text()
    );
    // The other way round the log is none that a quote could be held against.
    let log = Agile::new(&[Bank::Sha1, Bank::Sha256]).event_in(Bank::Sha1, 4, IPL, b"loader").bytes;
    let refusal = check(&EventLog::parse(&log).unwrap(), &quoted("honest"), firmware_pcrs());
    assert_eq!(refusal, Err(ReplayError::Incomplete));
}

#[test]
fn a_log_of_banks_that_are_not_known_says_which_they_are() {
    // SM3-256 in place of SHA-256: digests are as long.
    let mut log = Agile::new(&[Bank::Sha256]).event(0, SEPARATOR, &[0; 4]).bytes;
    log[32 + 28..32 + 30].copy_from_slice(&0x12_u16.to_le_bytes());
    let digest = 32 + 33 + 12;
    assert_eq!(log[digest..digest + 2], [0x0b, 0]);
    log[digest..digest + 2].copy_from_slice(&0x12_u16.to_le_bytes());
    let log = EventLog::parse(&log).unwrap();
    let report = Report::of(&log).to_text();
    assert!(report.contains("sm3_256 is not replayed: its hash is not known here"), "{report}");
    let refusal = check(&log, &quoted("honest"), firmware_pcrs()).unwrap_err().to_string();
    assert!(refusal.contains("digests of sm3_256 and none of sha256"), "{refusal}");
}
