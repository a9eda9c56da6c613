//! Canonical logs: systemd's own replays to what its TPM had, and a log that hides or doubts something is refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use crate::support::{fixture, quoted};
use latchkey_attestation::PcrSet;
use latchkey_measurements::cel::{self, CelErrorKind, CelLog, Content, Form, Register};
use latchkey_measurements::{Bank, EventLog, EventType, Replay};

const SHA256: &str = "51e6b92f405d1f98d96e3de343d61d420ad6923b25de21d766f9298192f14fed";

fn systemd() -> CelLog {
    CelLog::parse(&fixture("systemd-257.cel")).unwrap()
}

/// A record of systemd's with `fields` instead of its own.
fn record(fields: &str) -> Vec<u8> {
    format!("\u{1e}{{{fields}}}\n").into_bytes()
}

fn good() -> String {
    format!(
        r#""pcr":11,"digests":[{{"hashAlg":"sha256","digest":"{SHA256}"}}],"content_type":"systemd","content":{{"string":"enter-initrd","eventType":"phase"}}"#
    )
}

fn refused(file: &[u8]) -> CelErrorKind {
    CelLog::parse(file).unwrap_err().kind
}

#[test]
fn systemds_log_replays_to_the_pcrs_of_its_tpm_in_every_bank() {
    let values: BTreeMap<String, BTreeMap<u8, String>> =
        serde_json::from_slice(&fixture("systemd-257.pcrs.json")).unwrap();
    let log = systemd();
    assert_eq!((log.form(), log.records().len(), log.report().pcrs), (Form::Sequence, 6, values));
}

#[test]
fn systemds_log_is_explained() {
    let report = systemd().report();
    let told: Vec<_> = report.events.iter().map(|event| (event.kind.as_str(), event.description.as_str())).collect();
    let expected = [
        ("systemd phase", "boot phase enter-initrd"),
        ("systemd phase", "boot phase leave-initrd"),
        ("systemd phase", "boot phase sysinit"),
        ("systemd phase", "boot phase ready"),
        ("systemd machine-id", "machine id 0123456789abcdef0123456789abcdef"),
        ("systemd filesystem", "file system at /proc, without identity"),
    ];
    assert_eq!(told, expected);
    assert!(report.events.iter().all(|event| event.data == "matches"));
    assert_eq!((report.format, report.banks.len()), ("cel-json-seq", 4));
}

#[test]
fn systemds_log_goes_on_where_the_firmwares_ended() {
    let bytes = fixture("honest.bin");
    let firmware = Replay::of(&EventLog::parse(&bytes).unwrap(), Bank::Sha256).unwrap();
    let whole = systemd().replay_after(&firmware).unwrap();
    assert_ne!(whole.value(11), firmware.value(11));
    assert_eq!(whole.value(4), firmware.value(4));
    let by_hand = systemd()
        .records()
        .iter()
        .filter(|record| record.extends() == Some(11))
        .fold(firmware.value(11).unwrap().to_vec(), |value, record| {
            Bank::Sha256.digest(&[&value, record.digest(Bank::Sha256).unwrap()])
        });
    assert_eq!(whole.value(11).unwrap(), by_hand);
}

#[test]
fn a_canonical_log_of_the_firmware_says_what_its_binary_log_says() {
    let file = fixture("pcrlock-257.json");
    let canonical = CelLog::parse(&file).unwrap();
    assert_eq!(canonical.form(), Form::Array);
    let bytes = fixture("honest.bin");
    let binary = EventLog::parse(&bytes).unwrap();
    let (ours, theirs) = (canonical.report(), latchkey_measurements::report::Report::of(&binary));
    // Theirs has the header first.
    for (event, expected) in ours.events.iter().zip(&theirs.events[1..]) {
        let plain = |event: &latchkey_measurements::report::EventReport| {
            (event.pcr, event.kind.clone(), event.digests["sha256"].clone(), event.description.clone(), event.data)
        };
        assert_eq!(plain(event), plain(expected));
    }
    let replay = canonical.replay(Bank::Sha256).unwrap();
    for pcr in [0, 1, 2, 3, 4, 5, 6, 7, 9] {
        assert_eq!(replay.value(pcr).unwrap(), quoted("honest").value(pcr).unwrap().as_bytes(), "PCR {pcr}");
    }
    let firmware = Replay::of(&binary, Bank::Sha256).unwrap();
    assert_eq!(replay.value(11), systemd().replay_after(&firmware).unwrap().value(11));
}

#[test]
fn a_pcr_that_a_record_extends_without_a_digest_has_no_value() {
    // The firmware's records have SHA-256 only, systemd's all banks: PCR 11 has both.
    let log = CelLog::parse(&fixture("pcrlock-257.json")).unwrap();
    let replay = log.replay(Bank::Sha384).unwrap();
    assert_eq!(replay.iter().map(|(pcr, _)| pcr).collect::<Vec<_>>(), [15]);
    assert_eq!(replay.value(15), systemd().replay(Bank::Sha384).unwrap().value(15));
}

#[test]
fn the_first_record_that_differs_is_named() {
    let text = String::from_utf8(fixture("systemd-257.cel")).unwrap();
    let evil = Bank::ALL.map(|bank| (bank.digest(&[b"sysinit"]), bank.digest(&[b"evil"])));
    let evil = evil.iter().fold(text, |text, (good, evil)| text.replace(&hex::encode(good), &hex::encode(evil)));
    let evil = evil.replace("\"sysinit\"", "\"evil\"");
    let differences = cel::explain_differences(&systemd(), &CelLog::parse(evil.as_bytes()).unwrap(), PcrSet::all());
    let [difference] = differences.as_slice() else { panic!("{differences:?}") };
    let told = difference.to_string();
    assert!(told.ends_with("event 2 (systemd phase): expected boot phase sysinit, got boot phase evil"), "{told}");
    assert_eq!(cel::explain_differences(&systemd(), &systemd(), PcrSet::all()), []);
}

#[test]
fn words_that_were_not_measured_are_flagged() {
    let file = String::from_utf8(fixture("systemd-257.cel")).unwrap().replace("\"ready\"", "\"r\\u001b[2Jeady\"");
    let report = CelLog::parse(file.as_bytes()).unwrap().report();
    let flagged: Vec<_> = report.flagged().map(|event| (event.index, event.description.as_str())).collect();
    assert_eq!(flagged, [(3, r"boot phase r\u{1b}[2Jeady")]);
}

#[test]
fn what_is_unknown_is_named_and_still_replayed() {
    let sequence = [
        record(&good().replace("phase", "weather")),
        record(&good().replace("systemd", "vendor.thing-1").replace("enter-initrd", "\\u202e")),
        record(
            &good()
                .replace("\"pcr\":11", "\"nv_index\":30474752")
                .replace("\"eventType\"", "\"nvIndexName\":\"hardware\",\"x\""),
        ),
    ]
    .concat();
    let log = CelLog::parse(&sequence).unwrap();
    let report = log.report();
    let told: Vec<_> = report.events.iter().map(|event| (event.kind.as_str(), event.description.as_str())).collect();
    let expected = [
        ("systemd weather", "enter-initrd"),
        ("vendor.thing-1", "content that is unknown here"),
        ("systemd", "NV index 0x01d10200 (hardware): enter-initrd"),
    ];
    assert_eq!(told, expected);
    assert_eq!(log.records()[2].register, Register::Nv(0x01d1_0200));
    let digest = hex::decode(SHA256).unwrap();
    let twice = Bank::Sha256.digest(&[&Bank::Sha256.digest(&[&[0; 32], &digest]), &digest]);
    assert_eq!(log.replay(Bank::Sha256).unwrap().iter().collect::<Vec<_>>(), [(11, twice.as_slice())]);
}

#[test]
fn files_that_ima_measured_are_named() {
    let mut data = Vec::new();
    for field in [&b"sha256:\0\x01\x02"[..], b"/usr/bin/kubelet\0"] {
        data.extend(u32::try_from(field.len()).unwrap().to_le_bytes());
        data.extend(field);
    }
    let digest = hex::encode(Bank::Sha256.digest(&[&data]));
    let content = format!(r#"{{"template_name":"ima-ng","template_data":"{}"}}"#, hex::encode(&data));
    let file = format!(
        r#" [ {{"recnum":0,"pcr":10,"digests":[{{"hashAlg":"sha256","digest":"{digest}"}}],"content_type":"ima_template","content":{content}}} ] "#
    );
    let log = CelLog::parse(file.as_bytes()).unwrap();
    let report = log.report();
    assert_eq!(report.events[0].description, "file /usr/bin/kubelet");
    assert_eq!((report.events[0].kind.as_str(), report.events[0].data), ("IMA ima-ng", "matches"));
    assert_eq!(log.records()[0].number, Some(0));
}

#[test]
fn informational_records_extend_nothing_and_the_startup_locality_counts() {
    let event = |pcr: u8, kind: &str, data: &[u8]| {
        let digest = if kind == "EV_NO_ACTION" { vec![0; 32] } else { Bank::Sha256.digest(&[data]) };
        format!(
            r#"{{"pcr":{pcr},"digests":[{{"hashAlg":"sha256","digest":"{}"}}],"content_type":"pcclient_std","content":{{"event_type":"{kind}","event_data":"{}"}}}}"#,
            hex::encode(digest),
            hex::encode(data)
        )
    };
    let locality = event(0, "EV_NO_ACTION", b"StartupLocality\0\x03");
    let separator = event(0, "EV_SEPARATOR", &[0; 4]);
    let log = CelLog::parse(format!("[{locality},{separator}]").as_bytes()).unwrap();
    assert!(matches!(&log.records()[0].content, Content::PcClient { kind: EventType::NO_ACTION, .. }));
    let mut first = [0; 32];
    first[31] = 3;
    let expected = Bank::Sha256.digest(&[&first, &Bank::Sha256.digest(&[&[0; 4]])]);
    assert_eq!(log.replay(Bank::Sha256).unwrap().value(0), Some(expected.as_slice()));
    let late = format!("[{separator},{locality}]");
    let from_zero = Bank::Sha256.digest(&[&[0; 32], &Bank::Sha256.digest(&[&[0; 4]])]);
    let log = CelLog::parse(late.as_bytes()).unwrap();
    assert_eq!(log.replay(Bank::Sha256).unwrap().value(0), Some(from_zero.as_slice()));
    let none = format!("[{separator},{}]", event(0, "EV_NO_ACTION", b"StartupLocality\0\x02"));
    let error = CelLog::parse(none.as_bytes()).unwrap_err();
    assert!(matches!((error.record, &error.kind), (1, CelErrorKind::Locality(_))), "{error}");
    // An H-CRTM begins PCR 0 with 4, whatever the locality of TPM2_Startup.
    let log =
        format!("[{},{}]", event(0, "EV_NO_ACTION", b"StartupLocality\0\0"), event(0, "EV_EFI_HCRTM_EVENT", b"abc"));
    let log = CelLog::parse(log.as_bytes()).unwrap();
    // As swtpm has it (`swtpm_ioctl -h abc`).
    let of_tpm = "15703cc929081671c587dad9b09606521a35aa6bf4741df448d22c4b307acc71";
    assert_eq!(hex::encode(log.replay(Bank::Sha256).unwrap().value(0).unwrap()), of_tpm);
}

#[test]
fn a_record_cut_off_or_hidden_between_others_is_refused() {
    let whole = fixture("systemd-257.cel");
    let begins: Vec<_> = whole.iter().enumerate().filter(|(_, byte)| **byte == 0x1e).map(|(at, _)| at).collect();
    for length in 1..whole.len() {
        // What is cut between two records cannot be told from a shorter log.
        assert_eq!(CelLog::parse(&whole[..length]).is_ok(), begins.contains(&length), "cut at {length}");
    }
    assert_eq!(refused(b"\x1e\n"), CelErrorKind::Json("EOF while parsing a value at line 2 column 0".to_owned()));
    assert_eq!(refused(&[record(&good()), b"x".to_vec()].concat()), CelErrorKind::Truncated);
    assert_eq!(refused(&[b"\x1e".to_vec(), record(&good())].concat()), CelErrorKind::Truncated);
    assert!(matches!(refused(&[record(&good())[1..].to_vec()].concat()), CelErrorKind::NoForm));
    let array = fixture("pcrlock-257.json");
    for length in 1..array.trim_ascii_end().len() {
        assert!(CelLog::parse(&array[..length]).is_err(), "cut at {length}");
    }
    for text in ["[", "[{", "[]", "[ ]", "[1]", "[{}", "[{}{}]", "[{},]", "[{}]x", "[{},,{}]", "[[{}]]", "[\"{}\"]"] {
        assert!(CelLog::parse(text.as_bytes()).is_err(), "{text}");
    }
    for text in ["", "{}", "x", "\u{1e}", "\u{1e}\u{1e}\n"] {
        assert!(CelLog::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn each_lie_of_a_record_has_its_own_reason() {
    let with = |from: &str, to: &str| refused(&record(&good().replace(from, to)));
    assert!(matches!(with("\"pcr\":11", "\"pcr\":11,\"rtmr\":1"), CelErrorKind::Json(_)));
    assert!(matches!(with("\"pcr\":11", "\"pcr\":11,\"pcr\":11"), CelErrorKind::Json(_)));
    assert!(matches!(with("\"pcr\":11", "\"pcr\":-1"), CelErrorKind::Json(_)));
    assert_eq!(with("\"pcr\":11", "\"recnum\":1"), CelErrorKind::Register);
    assert_eq!(with("\"pcr\":11", "\"pcr\":11,\"nv_index\":1"), CelErrorKind::Register);
    assert_eq!(with("\"pcr\":11", "\"pcr\":24"), CelErrorKind::PcrUnknown(24));
    assert_eq!(with("sha256", "md5"), CelErrorKind::AlgorithmUnknown("md5".to_owned()));
    assert_eq!(with("sha256", "sha384"), CelErrorKind::Digest(Bank::Sha384.algorithm()));
    assert_eq!(with("51e6", "5!e6"), CelErrorKind::Digest(Bank::Sha256.algorithm()));
    assert_eq!(with("systemd", "a b"), CelErrorKind::ContentType);
    assert_eq!(with("systemd", ""), CelErrorKind::ContentType);
    assert_eq!(with("systemd", "pcclient_std"), CelErrorKind::Content("an event's type and data"));
    assert_eq!(with("systemd", "ima_template"), CelErrorKind::Content("an IMA template's name and data"));
    assert_eq!(with("\"enter-initrd\"", "1"), CelErrorKind::Content("an object of systemd's"));
    let digest = format!(r#"{{"hashAlg":"sha256","digest":"{SHA256}"}}"#);
    assert_eq!(with(&digest, ""), CelErrorKind::DigestCount(0));
    assert_eq!(with(&digest, &format!("{digest},{digest}")), CelErrorKind::DigestTwice(Bank::Sha256.algorithm()));
    assert_eq!(with(&digest, &[digest.as_str(); 9].join(",")), CelErrorKind::DigestCount(9));
}

#[test]
fn numbers_must_rise() {
    let numbered = |number: u8| record(&format!("\"recnum\":{number},{}", good()));
    assert!(CelLog::parse(&[numbered(1), record(&good()), numbered(3)].concat()).is_ok());
    let error = CelLog::parse(&[numbered(2), record(&good()), numbered(2)].concat()).unwrap_err();
    assert_eq!((error.record, error.kind), (2, CelErrorKind::NumberOrder { last: 2, number: 2 }));
}

#[test]
fn too_many_records_and_too_many_bytes_are_refused() {
    let size = CelLog::MAX_SIZE + 1;
    assert_eq!(refused(&vec![0x1e; size]), CelErrorKind::TooLarge { size, limit: size - 1 });
    assert_eq!(refused(&b"\x1e{}\n".repeat(16 * 1024 + 1)), CelErrorKind::TooManyRecords { limit: 16 * 1024 });
    assert_eq!(
        refused(format!("[{}{{}}]", "{},".repeat(16 * 1024)).as_bytes()),
        CelErrorKind::TooManyRecords { limit: 16 * 1024 }
    );
    // serde_json's own bound of depth.
    let deep = format!("{}1{}", "[".repeat(1000), "]".repeat(1000));
    assert!(matches!(refused(&record(&good().replace("\"phase\"", &deep))), CelErrorKind::Json(_)));
}

#[test]
fn every_byte_of_a_record_may_lie_without_panic() {
    let whole = record(&good());
    for position in 0..whole.len() {
        for value in [0x00, 0x1e, b'"', b'{', b'}', b'[', b'\\', b'1', 0x80, 0xff] {
            let mut file = whole.clone();
            file[position] = value;
            if let Ok(log) = CelLog::parse(&file) {
                assert!(!log.report().to_text().chars().any(|c| c.is_control() && c != '\n'));
            }
        }
    }
}
