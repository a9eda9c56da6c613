//! What was measured, in words; and which event of an impostor's boot is the first that differs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Agile, IPL, SEPARATOR, fixture, logs, utf16};
use latchkey_attestation::parse::PcrSet;
use latchkey_measurements::report::Report;
use latchkey_measurements::{Bank, EventLog, explain_difference, explain_differences, replay::firmware_pcrs};

fn descriptions(name: &str) -> Vec<String> {
    let bytes = fixture(name);
    let report = Report::of(&EventLog::parse(&bytes).unwrap());
    report.events.into_iter().map(|event| format!("{} {}", event.pcr.unwrap(), event.description)).collect()
}

#[test]
fn a_measured_boot_is_told_in_words() {
    let told = descriptions("honest.bin");
    for expected in [
        "0 firmware at 0x820000, 0xe0000 bytes",
        "7 Secure Boot is disabled",
        "7 EFI PK: empty",
        "7 EFI image security dbx: empty",
        "1 BootOrder: 0000",
        "4 Calling EFI Application from Boot Option",
        "4 15688704 bytes from VenMedia(1428f772-b64a-441e-b8c3-9ebdd7f893c7)/kernel",
        "6 end of the firmware's measurements",
        "11 name of section .linux",
        "11 content of section .linux",
        "11 content of section .cmdline",
        "9 kernel command line (LOADED_IMAGE::LoadOptions)",
        "9 initrd (Linux initrd)",
        "5 Exit Boot Services Returned with Success",
    ] {
        assert!(told.iter().any(|line| line == expected), "{expected:?} is not told: {told:#?}");
    }
    assert!(told.iter().any(|line| line.starts_with("1 Boot0000: UiApp, Fv(")), "{told:#?}");
}

#[test]
fn a_foreign_command_line_is_told_as_it_stands() {
    let told = descriptions("override.bin");
    assert!(told.iter().any(|line| line == "12 console=ttyS0 panic=-1 evil=1"), "{told:#?}");
}

#[test]
fn an_impostors_first_differing_part_is_its_command_line() {
    let (honest, impostor) = (fixture("honest.bin"), fixture("impostor.bin"));
    let (honest, impostor) = (EventLog::parse(&honest).unwrap(), EventLog::parse(&impostor).unwrap());
    let difference = explain_difference(&honest, &impostor, firmware_pcrs()).unwrap();
    let got = difference.got.as_ref().unwrap();
    assert_eq!((difference.pcr, got.index, got.description.as_str()), (11, 26, "content of section .cmdline"));
    let told = difference.to_string();
    assert!(
        told.starts_with(
            "PCR 11 (sections of the unified kernel image): event 26 (EV_IPL, content of section .cmdline): expected "
        ),
        "{told}"
    );
    let all: Vec<_> = explain_differences(&honest, &impostor, firmware_pcrs()).iter().map(|one| one.pcr).collect();
    assert_eq!(all, [4, 11, 9], "in the order of the log");
    assert_eq!(explain_difference(&honest, &honest, PcrSet::all()), None);
}

#[test]
fn an_event_too_many_or_too_few_is_named() {
    let (honest, foreign) = (fixture("honest.bin"), fixture("override.bin"));
    let (honest, foreign) = (EventLog::parse(&honest).unwrap(), EventLog::parse(&foreign).unwrap());
    let overrides = PcrSet::of(&[12]).unwrap();
    let more = explain_difference(&honest, &foreign, overrides).unwrap();
    assert_eq!(more.expected, None);
    assert!(more.to_string().contains("console=ttyS0 panic=-1 evil=1) is not expected"), "{more}");
    let less = explain_difference(&foreign, &honest, overrides).unwrap();
    assert_eq!(less.got, None);
    assert!(less.to_string().contains("without the event console=ttyS0"), "{less}");
}

#[test]
fn where_only_the_whole_image_differs_it_is_named() {
    let load = 0x8000_0003;
    let log = |content: &[u8]| Agile::new(&[Bank::Sha256]).event_of(4, load, content, b"").bytes;
    let (one, other) = (log(b"one"), log(b"other"));
    let (one, other) = (EventLog::parse(&one).unwrap(), EventLog::parse(&other).unwrap());
    assert_eq!(explain_difference(&one, &other, firmware_pcrs()).unwrap().pcr, 4);
}

#[test]
fn data_that_was_not_measured_is_flagged() {
    let log =
        Agile::new(&Bank::ALL).event_of(7, 0x8000_0007, b"measured", b"claimed").event(7, SEPARATOR, &[0; 4]).bytes;
    let report = Report::of(&EventLog::parse(&log).unwrap());
    assert_eq!(report.flagged().map(|event| event.index).collect::<Vec<_>>(), [1]);
    assert!(report.to_text().contains("claimed  (its digest is not that of its data)"), "{}", report.to_text());
}

#[test]
fn no_real_log_is_flagged_but_for_an_old_shim() {
    for path in logs() {
        let bytes = std::fs::read(&path).unwrap();
        let report = Report::of(&EventLog::parse(&bytes).unwrap());
        let flagged: Vec<_> = report.flagged().map(|event| event.index).collect();
        // Debian 10's shim measured one byte less than it logged.
        let expected: &[usize] = if path.ends_with("gce-debian-10.bin") { &[23] } else { &[] };
        assert_eq!(flagged, expected, "{}", path.display());
    }
}

#[test]
fn a_log_cannot_write_to_the_terminal() {
    let evil = utf16("\u{1b}]0;owned\u{7}\u{202e}");
    let log = Agile::new(&[Bank::Sha256]).event(12, IPL, &evil).event(9, IPL, b"a\rb\x1b[2J").bytes;
    let text = Report::of(&EventLog::parse(&log).unwrap()).to_text();
    assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text:?}");
}

#[test]
fn only_what_was_asked_for_is_shown() {
    let bytes = Agile::new(&Bank::ALL).event(4, IPL, b"x").event(9, IPL, b"y").bytes;
    let log = EventLog::parse(&bytes).unwrap();
    let report = Report::of(&log).only_pcrs(PcrSet::of(&[9]).unwrap()).only_bank(Bank::Sha256);
    assert_eq!(report.events.iter().map(|event| event.index).collect::<Vec<_>>(), [2]);
    assert_eq!(report.pcrs.keys().collect::<Vec<_>>(), ["sha256"]);
    assert_eq!(report.pcrs["sha256"].keys().collect::<Vec<_>>(), [&9]);
    assert_eq!(report.events[0].digests.keys().collect::<Vec<_>>(), ["sha256"]);
}

fn told(pcr: u32, kind: u32, measured: &[u8], data: &[u8]) -> String {
    let log = Agile::new(&[Bank::Sha256]).event_of(pcr, kind, measured, data).bytes;
    let report = Report::of(&EventLog::parse(&log).unwrap());
    report.events[1].description.clone()
}

#[test]
fn each_kind_of_event_is_read_as_the_text_that_it_has() {
    const VERSION: u32 = 8;
    const ACTION: u32 = 5;
    // All units of this GUID are characters of UTF-16.
    let guid = b"\x6b\x54\x0c\x1d\x93\x96\xd2\x51\x0a\x4d\xe0\x50\x98\x03\x2b\x8c";
    assert_eq!(told(0, VERSION, guid, guid), "firmware version 1d0c546b-9693-51d2-0a4d-e05098032b8c");
    assert_eq!(told(0, VERSION, b"", &utf16("2025.02")), "firmware version 2025.02");
    assert_eq!(told(4, ACTION, b"", guid), format!("16 bytes: {}", hex::encode(guid)));
    assert_eq!(told(8, IPL, b"", "grub: größer".as_bytes()), "grub: größer");
}

#[test]
fn a_separator_says_that_the_firmware_failed_only_where_its_digest_does() {
    let failed = [1, 0, 0, 0];
    assert_eq!(told(0, SEPARATOR, &failed, &failed), "the firmware could not measure");
    assert_eq!(told(0, SEPARATOR, &failed, b"no ROM"), "the firmware could not measure: no ROM");
    assert_eq!(told(12, SEPARATOR, b"WBCL", b"WBCL"), "end of what Windows' boot manager measures here (WBCL)");
    assert_eq!(told(5, SEPARATOR, b"other", b"other"), "a separator: other");
}

#[test]
fn a_digest_of_an_informational_event_is_no_lie_about_its_data() {
    let zero = Agile::new(&[Bank::Sha256]).event(0, 3, b"Something\0\0\0\0\0\0\0").bytes;
    let digest = zero.len() - 4 - 16 - 32;
    let mut log = zero;
    log[digest] = 1;
    let log = EventLog::parse(&log).unwrap();
    assert_eq!(log.events()[1].digests[0].1[0], 1);
    assert_eq!(Report::of(&log).flagged().count(), 0);
}
