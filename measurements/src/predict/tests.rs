//! What predictions are held against here is put together by hand, without the code they come from.

use super::*;
use crate::bank::Bank;
use crate::log::EventLog;
use crate::pe_sample::{append, kernel, unified};

const LINE: &[u8] = b"console=ttyS0 quiet";
const OS_RELEASE: &[u8] = b"ID=test\nVERSION_ID=1\n";

fn hash(parts: &[&[u8]]) -> Vec<u8> {
    Bank::Sha256.digest(parts)
}

fn uki(version: u16, more: &[(&str, &[u8])]) -> Vec<u8> {
    let kernel = kernel();
    let mut sections: Vec<(&str, &[u8])> =
        vec![(".osrel", OS_RELEASE), (".cmdline", LINE), (".initrd", b"initrd"), (".linux", &kernel)];
    sections.extend(more);
    unified(&format!("systemd-stub {version}.1-1"), &sections)
}

fn machine(name: &str) -> Machine {
    MachineType::builtin(name).unwrap().with_variables(None).unwrap()
}

fn predict(bytes: &[u8]) -> Prediction {
    Uki::measure(bytes).unwrap().predict(&machine("debian-12-ovmf")).unwrap()
}

fn digests(prediction: &Prediction, pcr: u8) -> Vec<Vec<u8>> {
    prediction.events.iter().filter(|event| event.pcr == pcr).map(|event| event.digest.as_bytes().to_vec()).collect()
}

/// What the bytes of one file in `/.extra` are, written out.
fn extra(name: &str, content: &str) -> String {
    let pad = |text: String| format!("{text}{}", "\0".repeat(text.len().next_multiple_of(4) - text.len()));
    let directory =
        "0707010000000100004 16d00000000000000000000000100000000000000000000000000000000000000000000000000000007\
                  00000000.extra\0"
            .replace([' '], "");
    let path = format!(".extra/{name}\0");
    let file = format!(
        "0707010000000200008124000000000000000000000001000000 00{:08x}00000000000000000000000000000000{:08x}00000000{path}",
        content.len(),
        path.len()
    )
    .replace(' ', "");
    let trailer = "070701000000000000000000000000000000000000000100000000000000000000000000000000000000000000000000000\
                   00B00000000TRAILER!!!\0"
        .replace(' ', "");
    pad(directory) + &pad(file) + &pad(content.to_owned()) + &pad(trailer)
}

#[test]
fn stub_252_measures_and_hands_over_its_initrd_as_it_is() {
    let prediction = predict(&uki(252, &[]));
    let options: Vec<u8> = LINE.iter().chain(&[0]).flat_map(|byte| [*byte, 0]).collect();
    assert_eq!(digests(&prediction, 9), [hash(&[&options]), hash(&[b"initrd"])]);
    let names = [&b".linux\0"[..], b".osrel\0", b".cmdline\0", b".initrd\0"];
    let contents = [&kernel()[..], OS_RELEASE, LINE, b"initrd"];
    let expected: Vec<_> =
        names.iter().zip(contents).flat_map(|(name, content)| [hash(&[name]), hash(&[content])]).collect();
    assert_eq!(digests(&prediction, 11), expected);
}

#[test]
fn stub_257_measures_more_sections_and_adds_os_release_to_the_initrd() {
    let bytes = uki(
        257,
        &[
            (".uname", b"6.12"),
            (".sbat", b"sbat,1\n\0"),
            (".pcrpkey", b"KEY"),
            (".pcrsig", b"{}"),
            (".ucode", b"code!"),
        ],
    );
    let prediction = predict(&bytes);
    let described: Vec<_> =
        prediction.events.iter().filter(|event| event.pcr == 11).map(|event| event.what.clone()).collect();
    let order = [".linux", ".osrel", ".cmdline", ".initrd", ".ucode", ".uname", ".sbat", ".pcrpkey"];
    let expected: Vec<_> = order
        .iter()
        .flat_map(|name| [format!("name of section {name}"), format!("content of section {name}")])
        .collect();
    assert_eq!(described, expected);
    let initrd = format!(
        "code!\0\0\0initrd\0\0{}{}{}",
        extra("tpm2-pcr-signature.json", "{}"),
        extra("tpm2-pcr-public-key.pem", "KEY"),
        extra("os-release", std::str::from_utf8(OS_RELEASE).unwrap())
    );
    assert_eq!(digests(&prediction, 9)[1], hash(&[initrd.as_bytes()]));
    let plain = format!("initrd\0\0{}", extra("os-release", std::str::from_utf8(OS_RELEASE).unwrap()));
    assert_eq!(digests(&predict(&uki(257, &[])), 9)[1], hash(&[plain.as_bytes()]));
}

/// `systemd-measure calculate` of systemd 257.13 (Debian 13), given the same contents, says so.
#[test]
fn pcr_11_is_what_systemd_measure_257_calculates_of_every_section_it_knows() {
    let more: [(&str, &[u8]); 6] = [
        (".sbat", b"sbat,1\n\0"),
        (".pcrpkey", b"KEY"),
        (".ucode", b"code!"),
        (".uname", b"6.12"),
        (".dtb", b"tree"),
        (".splash", b"picture"),
    ];
    let prediction = predict(&uki(257, &more));
    let calculated = [
        "f041539060bcbe13ab23c7822a6e4ae31bcc113df0367343f83cf990d02f51fd",
        "b6f0afbd187f2c1ed9db0dd9f817ce700686d7bd929da06c9e81dd0925b575a3",
        "63e7b687d2dbd2908c44e01980b6516981d41cc0cc6f60f965ff566ec2d73cb7",
        "0f77f25d9f47d58c35edf890cdf5d3863ca800bd23c42082552e4411f03a4489",
        "53ab0d7ad0d2285ccdc3572b8380a10b215a88a6f73289782000c1d6ae7c2970",
    ];
    let mut predicted = vec![prediction.pcr(11).unwrap().to_string()];
    predicted.extend(prediction.phases().into_iter().take(4).map(|(_, value)| value.to_string()));
    assert_eq!(predicted, calculated);
}

#[test]
fn firmware_starts_the_image_before_or_after_it_says_so() {
    let bytes = uki(252, &[]);
    let uki = Uki::measure(&bytes).unwrap();
    let order = |name| {
        let prediction = uki.predict(&machine(name)).unwrap();
        prediction.events.into_iter().filter(|event| event.pcr == 4).map(|event| event.kind).collect::<Vec<_>>()
    };
    let (image, calling, end) = (EventType::EFI_BOOT_SERVICES_APPLICATION, EventType::EFI_ACTION, EventType::SEPARATOR);
    assert_eq!(order("debian-12-ovmf"), [calling, end, image, image]);
    assert_eq!(order("debian-12-ovmf-kernel"), [image, calling, end, image]);
}

#[test]
fn secure_boot_off_is_said_in_two_ways() {
    let bytes = uki(252, &[]);
    let uki = Uki::measure(&bytes).unwrap();
    let events = |name| uki.predict(&machine(name)).unwrap();
    let (zero, empty) = (events("debian-12-ovmf"), events("debian-13-ovmf"));
    assert_ne!(zero.pcr(7), empty.pcr(7));
    // Of the recorded log of a machine with Debian 12's firmware.
    let recorded = [
        "115aa827dbccfb44d216ad9ecfda56bdea620b860a94bed5b7a27bba1c4d02d8",
        "dea7b80ab53a3daaa24d5cc46c64e1fa9ffd03739f90aadbd8c0867c4a5b4890",
        "e670e121fcebd473b8bc41bb801301fc1d9afa33904f06f7149b74f12c47a68f",
        "baf89a3ccace52750c5f0128351e0422a41597a1adfd50822aa363b9d124ea7c",
        "9f75b6823bff6af1024a4e2036719cdd548d3cbc2bf1de8e7ef4d0ed01f94bf9",
        "df3f619804a92fdb4057192dc43dd748ea778adc52bc498ce80524c014b81119",
    ];
    assert_eq!(digests(&zero, 7).iter().map(hex::encode).collect::<Vec<_>>(), recorded);
}

#[test]
fn overrides_and_extensions_are_zero_and_other_registers_unknown() {
    let prediction = predict(&uki(252, &[]));
    assert_eq!((prediction.pcr(12), prediction.pcr(13)), (Some(Digest::ZERO), Some(Digest::ZERO)));
    assert_eq!((prediction.pcr(0), prediction.pcr(5), prediction.pcr(15)), (None, None, None));
}

#[test]
fn any_changed_byte_of_a_section_changes_the_image_and_its_sections() {
    let honest = uki(252, &[(".splash", b"picture")]);
    let image = crate::pe::Image::parse(&honest).unwrap();
    let expected = predict(&honest);
    for name in [".linux", ".osrel", ".cmdline", ".initrd", ".splash"] {
        let section = image.sections.iter().find(|section| section.name == name).unwrap();
        let (start, size) = (section.raw_offset as usize, section.virtual_size as usize);
        let unread_in_kernel = |at: usize| name != ".linux" || at >= size - 0x100;
        for at in (0..size).filter(|at| unread_in_kernel(*at)).step_by(3) {
            let mut bytes = honest.clone();
            bytes[start + at] ^= 1;
            let changed = predict(&bytes);
            assert_ne!(changed.pcr(11), expected.pcr(11), "{name} {at}");
            assert_ne!(changed.pcr(4), expected.pcr(4), "{name} {at}");
        }
    }
}

#[test]
fn what_lies_behind_the_sections_is_hashed_and_a_signature_is_not() {
    let honest = uki(252, &[]);
    let mut appended = honest.clone();
    appended.extend([1; 8]);
    assert_ne!(predict(&appended).pcr(4), predict(&honest).pcr(4));
    assert_eq!(predict(&appended).pcr(11), predict(&honest).pcr(11));
    let mut signed = honest.clone();
    let image = crate::pe::Image::parse(&honest).unwrap();
    let entry = image.certificate_entry_field().unwrap();
    signed[entry..entry + 4].copy_from_slice(&u32::try_from(honest.len()).unwrap().to_le_bytes());
    signed[entry + 4..entry + 8].copy_from_slice(&16_u32.to_le_bytes());
    signed[image.checksum_field()] ^= 0xff;
    signed.extend([7; 16]);
    assert_eq!(predict(&signed).pcrs(), predict(&honest).pcrs());
}

#[test]
fn what_is_not_certain_is_refused_by_name() {
    let refused = |bytes: &[u8]| Uki::measure(bytes).unwrap_err();
    let unknown = refused(&uki(259, &[]));
    assert_eq!(unknown, PredictError::UnknownStub("systemd-stub 259.1-1".to_owned()));
    assert!(unknown.to_string().contains("systemd-stub 259.1-1"), "{unknown}");
    assert_eq!(refused(&kernel()), PredictError::NoStub);
    for name in [".profile", ".dtbauto", ".hwids", ".efifw"] {
        assert_eq!(refused(&uki(257, &[(name, b"x")])), PredictError::UnpredictableSection(name));
    }
    assert_eq!(refused(&uki(252, &[(".cmdline", b"evil")])), PredictError::SectionTwice(".cmdline"));
    let build = |sections: &[(&str, &[u8])]| unified("systemd-stub 252.1", sections);
    let kernel = kernel();
    assert_eq!(refused(&build(&[(".cmdline", LINE)])), PredictError::NoSection(".linux"));
    assert_eq!(refused(&build(&[(".linux", &kernel)])), PredictError::NoSection(".cmdline"));
    let silent = crate::pe_sample::stub(0);
    assert_eq!(refused(&build(&[(".linux", &silent), (".cmdline", LINE)])), PredictError::SilentKernel);
    for line in [&b"a\nb"[..], b"a ", b"\xff", b"  ", "😀".as_bytes()] {
        let refusal = refused(&build(&[(".linux", &kernel), (".cmdline", line)]));
        assert!(matches!(refusal, PredictError::CommandLine(_)), "{line:?} {refusal}");
    }
    let mut grown = uki(252, &[]);
    append(&mut grown, ".dtb", b"tree");
    let image = crate::pe::Image::parse(&grown).unwrap();
    let header = image.section_table() + 40 * (image.sections.len() - 1);
    grown[header + 8..header + 12].copy_from_slice(&0x201_u32.to_le_bytes());
    assert_eq!(refused(&grown), PredictError::SectionLargerInMemory(".dtb"));
}

#[test]
fn a_file_cut_or_changed_anywhere_is_refused_or_measures_something_else() {
    let whole = uki(257, &[(".sbat", b"sbat")]);
    let measured = |bytes: &[u8]| Uki::measure(bytes).ok().map(|uki| uki.authenticode);
    let honest = measured(&whole).unwrap();
    for length in (0..whole.len()).step_by(7) {
        assert_ne!(measured(&whole[..length]), Some(honest), "cut at {length}");
    }
    // Authenticode ("Windows Authenticode Portable Executable Signature Format", 1.0) leaves out the header's checksum, the entry that
    // says where the signatures are, and bytes between the headers, as long as they say, and the first section.
    let word = |at: usize| usize::try_from(u32::from_le_bytes(whole[at..at + 4].try_into().unwrap())).unwrap();
    let pe = word(0x3c);
    let headers = word(pe + 24 + 60);
    let left_out = [pe + 24 + 64..pe + 24 + 68, pe + 24 + 144..pe + 24 + 152];
    let (mut refused, mut others) = (0, 0);
    for position in 0..headers {
        for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            if std::mem::replace(&mut bytes[position], value) == value {
                continue;
            }
            match measured(&bytes) {
                None => refused += 1,
                Some(other) if other != honest => others += 1,
                Some(_) => {
                    assert!(left_out.iter().any(|range| range.contains(&position)), "{value:#x} at {position:#x}");
                }
            }
        }
    }
    assert!(refused > 100 && others > 1000, "{refused} refused, {others} with another hash");
}

/// A log with the predicted events, and these instead of some.
fn log_of(prediction: &Prediction, instead: &[(usize, &[u8], &[u8])]) -> Vec<u8> {
    let mut log = [&[0; 4][..], &3_u32.to_le_bytes(), &[0; 20], &33_u32.to_le_bytes(), b"Spec ID Event03\0"].concat();
    log.extend([0, 0, 0, 0, 0, 2, 0, 2, 1, 0, 0, 0, 0x0b, 0, 32, 0, 0]);
    for (index, event) in prediction.events.iter().enumerate() {
        let other = instead.iter().find(|(at, _, _)| *at == index);
        let data = other.map_or_else(|| event.data.clone().unwrap_or_default(), |(_, _, data)| data.to_vec());
        let digest = other.map_or(event.digest.as_bytes().to_vec(), |(_, measured, _)| hash(&[measured]));
        log.extend(u32::from(event.pcr).to_le_bytes());
        log.extend(event.kind.0.to_le_bytes());
        log.extend([1, 0, 0, 0, 0x0b, 0]);
        log.extend(digest);
        log.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        log.extend(data);
    }
    log
}

#[test]
fn the_first_event_that_is_not_as_predicted_is_named_in_words() {
    let prediction = predict(&uki(252, &[]));
    let all = PcrSet::all();
    let honest = log_of(&prediction, &[]);
    assert_eq!(prediction.differences(&EventLog::parse(&honest).unwrap(), all), []);
    let position = |what: &str| prediction.events.iter().position(|event| event.what.starts_with(what)).unwrap();
    let foreign: Vec<u8> = "console=ttyS0 evil=1\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let tagged = |text: &str| {
        let size = u32::try_from(text.len()).unwrap().to_le_bytes();
        [&0x8f3b_22ed_u32.to_le_bytes()[..], &size, text.as_bytes()].concat()
    };
    let options = tagged("LOADED_IMAGE::LoadOptions\0");
    let section = [".initrd".as_bytes(), &[0]].concat();
    let instead = [
        (position("kernel command line"), &foreign[..], &options[..]),
        (position("content of section .initrd"), b"other", &section),
    ];
    let mut changed = log_of(&prediction, &instead);
    let said = |log: &[u8]| {
        let differences = prediction.differences(&EventLog::parse(log).unwrap(), all);
        differences.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let lines = said(&changed);
    assert!(lines[0].starts_with("PCR 11 (sections of the unified kernel image): event "), "{lines:?}");
    assert!(lines[0].contains("content of section .initrd): expected "), "{lines:?}");
    assert!(
        lines[1].ends_with(
            r#"expected kernel command line "console=ttyS0 quiet", got kernel command line (LOADED_IMAGE::LoadOptions)"#
        ),
        "{lines:?}"
    );
    // What the stub logs when it takes a command line from outside.
    let mut event = [12_u32.to_le_bytes(), 0xd_u32.to_le_bytes(), [1, 0, 0, 0]].concat();
    event.extend([0x0b, 0]);
    event.extend(hash(&[&foreign]));
    event.extend(u32::try_from(foreign.len()).unwrap().to_le_bytes());
    event.extend(&foreign);
    changed.extend(event);
    let lines = said(&changed);
    assert!(
        lines[1].ends_with(
            r#"expected kernel command line "console=ttyS0 quiet", got kernel command line "console=ttyS0 evil=1""#
        ),
        "{lines:?}"
    );
    assert!(lines[2].starts_with("PCR 12 (") && lines[2].ends_with("evil=1\") is not expected"), "{lines:?}");
}

#[test]
fn phases_follow_each_other() {
    let prediction = predict(&uki(252, &[]));
    let phases = prediction.phases();
    assert_eq!(phases.len(), 6);
    let first = hash(&[prediction.pcr(11).unwrap().as_bytes(), &hash(&[b"enter-initrd"])]);
    assert_eq!(phases[0].1.as_bytes()[..], first[..]);
    assert_eq!(phases[3].0.path(), "enter-initrd:leave-initrd:sysinit:ready");
}

#[test]
fn a_machine_type_is_closed_and_says_all_that_is_needed() {
    let parse = |json: &str| MachineType::from_json(json.as_bytes());
    let machine = parse(r#"{"name": "edge", "secure_boot": "off", "secure_boot_variable": "zero"}"#).unwrap();
    assert_eq!((machine.boot, machine.with_variables(None).is_ok()), (BootPath::Disk, true));
    for wrong in [
        r#"{"name": "edge", "secure_boot": "off"}"#,
        r#"{"name": "edge", "secure_boot": "on"}"#,
        r#"{"name": "Edge", "secure_boot": "off", "secure_boot_variable": "zero"}"#,
        r#"{"name": "edge", "secure_boot": "off", "secure_boot_variable": "zero", "more": 1}"#,
        r#"{"name": "edge", "secure_boot": "on", "variables": "v.fd", "secure_boot_variable": "zero"}"#,
    ] {
        assert!(matches!(parse(wrong), Err(PredictError::Machine(_))), "{wrong}");
    }
    for name in MachineType::BUILTIN {
        let machine = MachineType::builtin(name).unwrap();
        assert_eq!(MachineType::from_json(serde_json::to_string(&machine).unwrap().as_bytes()).unwrap(), machine);
    }
    assert_eq!(MachineType::builtin("pdp-11"), None);
}
