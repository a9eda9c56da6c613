//! Registers put together by hand, and event logs of the form that TDX firmware writes.

use super::*;
use crate::pe::Image;
use crate::pe_sample::{confidential_kernel, kernel, unified};
use crate::predict::MachineType;

const LINE: &[u8] = b"console=ttyS0 quiet";
const OS_RELEASE: &[u8] = b"ID=test\n";

fn uki(version: u16, kernel: &[u8]) -> Vec<u8> {
    let sections: [(&str, &[u8]); 4] =
        [(".osrel", OS_RELEASE), (".cmdline", LINE), (".initrd", b"initrd"), (".linux", kernel)];
    unified(&format!("systemd-stub {version}.1-1"), &sections)
}

fn machine(boot: &str, measures: &str) -> Machine {
    let text = format!(
        r#"{{"name": "trusted", "boot": "{boot}", "secure_boot": "off", "secure_boot_variable": "zero",
            "tdx": {{"kernel_measures": "{measures}"}}}}"#
    );
    MachineType::from_json(text.as_bytes()).unwrap().with_variables(None).unwrap()
}

fn predict(uki: &[u8], measures: &str) -> Result<TdxPrediction, PredictError> {
    TdxImage::measure(uki).unwrap().predict(&machine("disk", measures)).map(Option::unwrap)
}

fn hash(parts: &[&[u8]]) -> Vec<u8> {
    Bank::Sha384.digest(parts)
}

/// A register after these digests.
fn extended(digests: &[Vec<u8>]) -> Vec<u8> {
    digests.iter().fold(vec![0; 48], |value, digest| hash(&[&value, digest]))
}

fn sections(kernel: &[u8]) -> Vec<Vec<u8>> {
    let all: [(&[u8], &[u8]); 4] =
        [(b".linux\0", kernel), (b".osrel\0", OS_RELEASE), (b".cmdline\0", LINE), (b".initrd\0", b"initrd")];
    all.iter().flat_map(|(name, content)| [hash(&[name]), hash(&[content])]).collect()
}

fn options() -> Vec<u8> {
    LINE.iter().chain(&[0]).flat_map(|byte| [*byte, 0]).collect()
}

fn rtmr2(prediction: &TdxPrediction) -> Vec<u8> {
    let registers = prediction.registers();
    assert_eq!(registers.rtmrs.len(), 1, "RTMR 1 is not certain");
    registers.rtmrs[&Rtmr::R2].0.to_vec()
}

#[test]
fn rtmr_2_is_what_the_stub_measures_and_without_a_tpm_what_the_kernel_does() {
    let (kernel, confidential) = (kernel(), confidential_kernel());
    let prediction = predict(&uki(257, &kernel), "tpm").unwrap();
    assert_eq!(rtmr2(&prediction), extended(&sections(&kernel)));
    let prediction = predict(&uki(257, &confidential), "cc").unwrap();
    let mut digests = sections(&confidential);
    digests.push(hash(&[&options()]));
    let all: Vec<_> = prediction.events.iter().map(|event| event.digest.0.to_vec()).collect();
    // Stub 257 adds os-release to the initrd; how, the tests of PCR 9 say.
    let initrd = all.last().unwrap().clone();
    digests.push(initrd.clone());
    assert_eq!(rtmr2(&prediction), extended(&digests));
    // Stub 252 hands the initrd over as it is, and measures nothing itself.
    let prediction = predict(&uki(252, &confidential), "cc").unwrap();
    assert_eq!(rtmr2(&prediction), extended(&[hash(&[&options()]), hash(&[b"initrd"])]));
}

#[test]
fn what_the_kernel_is_handed_is_hashed_as_for_pcr_9() {
    // Every piece that the stub puts around `.initrd`, on both ways: SHA-256 is held against written bytes elsewhere.
    let kernel = confidential_kernel();
    let more: [(&str, &[u8]); 7] = [
        (".osrel", OS_RELEASE),
        (".cmdline", LINE),
        (".initrd", b"initrd"),
        (".linux", &kernel),
        (".ucode", b"code!"),
        (".pcrsig", b"{}"),
        (".pcrpkey", b"KEY"),
    ];
    let image = unified("systemd-stub 257.1-1", &more);
    let parts = Parts::of(&image[..]).unwrap();
    let message = parts.behind_more().unwrap();
    let size = message.size();
    let [hashed]: [Recorder; 1] = hashes(&image[..], [message]).unwrap();
    let (size, handed_over) = parts.handed_over(hashed, size).unwrap();
    assert_eq!(handed_over.0.len() as u64, size);
    let pcr_9 = crate::predict::Uki::measure(&image[..]).unwrap().initrd.unwrap();
    assert_eq!((size, Bank::Sha256.digest(&[&handed_over.0])), (pcr_9.0, pcr_9.1.as_bytes().to_vec()));
    let (size_of_rtmr, digest) = TdxImage::measure(&image[..]).unwrap().initrd.unwrap();
    assert_eq!((size_of_rtmr, digest.0.to_vec()), (size, hash(&[&handed_over.0])));
}

/// Keeps what is hashed.
#[derive(Clone)]
struct Recorder(Vec<u8>);

impl super::super::pass::Hash for Recorder {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn update(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

#[test]
fn what_could_not_be_told_from_another_image_or_is_not_certain_is_refused() {
    assert_eq!(predict(&uki(252, &confidential_kernel()), "tpm").unwrap_err(), PredictError::RegisterUntouched(252));
    assert_eq!(predict(&uki(257, &kernel()), "cc").unwrap_err(), PredictError::KernelWithoutCc);
    let ordinary = MachineType::builtin("debian-13-ovmf").unwrap().with_variables(None).unwrap();
    assert_eq!(TdxImage::measure(&uki(257, &kernel())[..]).unwrap().predict(&ordinary).unwrap(), None);
    for wrong in ["{}", r#"{"kernel_measures": "both"}"#, r#"{"kernel_measures": "tpm", "vcpus": 4}"#] {
        let text =
            format!(r#"{{"name": "trusted", "secure_boot": "off", "secure_boot_variable": "zero", "tdx": {wrong}}}"#);
        MachineType::from_json(text.as_bytes()).unwrap_err();
    }
}

#[test]
fn programs_are_started_in_the_order_of_pcr_4_and_hashed_as_firmware_does() {
    let bytes = uki(257, &kernel());
    let image = TdxImage::measure(&bytes[..]).unwrap();
    let started = |boot| -> Vec<EventType> {
        let prediction = image.predict(&machine(boot, "tpm")).unwrap().unwrap();
        prediction.events.iter().filter(|event| event.register == Rtmr::R1).map(|event| event.kind).collect()
    };
    let (program, calling) = (EventType::EFI_BOOT_SERVICES_APPLICATION, EventType::EFI_ACTION);
    assert_eq!(started("disk"), [calling, program, program]);
    assert_eq!(started("qemu-kernel"), [program, calling, program]);
    let parsed = Image::parse(&bytes).unwrap();
    let ranges = super::super::authenticode::ranges(&parsed, bytes.len() as u64).unwrap();
    let part = |range: &std::ops::Range<u64>| {
        &bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]
    };
    let parts: Vec<&[u8]> = ranges.iter().map(part).collect();
    assert_eq!(image.authenticode.0.to_vec(), hash(&parts));
}

/// The log of a guest whose firmware and image did what is predicted, with what no image knows between it.
fn log(prediction: &TdxPrediction, change: impl Fn(usize, &mut Vec<u8>)) -> Vec<u8> {
    let mut log = [1, 3].map(u32::to_le_bytes).concat();
    log.extend([0; 20]);
    log.extend(33_u32.to_le_bytes());
    log.extend(b"Spec ID Event03\0");
    log.extend([0, 0, 0, 0, 0, 2, 0, 2]);
    log.extend(1_u32.to_le_bytes());
    log.extend([0x0c, 0, 48, 0, 0]);
    let mut put = |mr: u32, kind: u32, digest: &[u8], data: &[u8]| {
        log.extend([mr, kind, 1].map(u32::to_le_bytes).concat());
        log.extend(0x000c_u16.to_le_bytes());
        log.extend(digest);
        log.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        log.extend(data);
    };
    if !prediction.rtmr1_is_whole {
        put(2, EventType::SEPARATOR.0, &hash(&[&[0; 4]]), &[0; 4]);
    }
    for (at, event) in prediction.events.iter().enumerate() {
        let mut digest = event.digest.0.to_vec();
        change(at, &mut digest);
        let data = if event.kind == EventType::EFI_ACTION { CALLING } else { b"data" };
        let mr = if event.register == Rtmr::R1 { 2 } else { 3 };
        if !digest.is_empty() {
            put(mr, event.kind.0, &digest, data);
        }
    }
    if !prediction.rtmr1_is_whole {
        put(2, EventType::EFI_ACTION.0, &hash(&[LEAVING]), LEAVING);
    }
    log
}

#[test]
fn a_log_of_the_image_has_no_difference_and_makes_the_predicted_register() {
    let prediction = predict(&uki(257, &confidential_kernel()), "cc").unwrap();
    let bytes = log(&prediction, |_, _| ());
    let log = CcLog::parse(&bytes).unwrap();
    assert_eq!(prediction.differences(&log), []);
    assert_eq!(log.replay().values()[2].to_vec(), rtmr2(&prediction));
}

#[test]
fn the_first_event_that_differs_is_named_for_each_register() {
    let prediction = predict(&uki(257, &kernel()), "tpm").unwrap();
    for at in 0..prediction.events.len() {
        for cut in [false, true] {
            let bytes = log(&prediction, |other, digest| match (other == at, cut) {
                (true, true) => digest.clear(),
                (true, false) => digest[0] ^= 1,
                _ => (),
            });
            let log = CcLog::parse(&bytes).unwrap();
            let differences = prediction.differences(&log);
            let [difference] = differences.as_slice() else { panic!("{at}: {differences:?}") };
            let event = &prediction.events[at];
            assert_eq!(difference.expected.as_ref().map(|it| &it.description), Some(&event.what));
            assert_eq!(difference.register == Mr::Rtmr1, event.register == Rtmr::R1);
            assert!(difference.to_string().contains(&event.what), "{difference}");
        }
    }
    // A kernel that measured by the other protocol.
    let other = predict(&uki(257, &confidential_kernel()), "cc").unwrap();
    let bytes = log(&other, |_, _| ());
    let expected = TdxPrediction {
        events: other.events.iter().filter(|event| event.kind != EventType::EVENT_TAG).cloned().collect(),
        ..other.clone()
    };
    let differences = expected.differences(&CcLog::parse(&bytes).unwrap());
    assert!(differences[0].to_string().contains("is not expected"), "{differences:?}");
}

fn direct(separator: &str) -> Result<Machine, PredictError> {
    let text = format!(
        r#"{{"name": "trusted", "boot": "qemu-kernel", "secure_boot": "off", "secure_boot_variable": "zero",
            "tdx": {{"kernel_measures": "tpm", "separator": "{separator}"}}}}"#
    );
    MachineType::from_json(text.as_bytes())?.with_variables(None)
}

#[test]
fn rtmr_1_is_predicted_for_a_direct_boot_of_which_everything_is_said() {
    let image = TdxImage::measure(&uki(257, &kernel())[..]).unwrap();
    let (program, inner) = (image.authenticode.0.to_vec(), image.linux_authenticode.0.to_vec());
    let [calling, leaving, left] = [CALLING, LEAVING, LEFT].map(|text| hash(&[text]));
    let separator = hash(&[&[0; 4]]);
    for (word, expected) in [
        ("rtmr0", vec![program.clone(), calling.clone(), inner.clone(), leaving.clone(), left.clone()]),
        ("rtmr1", vec![program, calling, separator, inner, leaving, left]),
    ] {
        let prediction = image.predict(&direct(word).unwrap()).unwrap().unwrap();
        let registers = prediction.registers();
        assert_eq!(registers.rtmrs[&Rtmr::R1].0.to_vec(), extended(&expected), "{word}");
        let bytes = log(&prediction, |_, _| ());
        let log = CcLog::parse(&bytes).unwrap();
        assert_eq!(prediction.differences(&log), []);
        assert_eq!(log.replay().values()[1], registers.rtmrs[&Rtmr::R1].0);
    }
    // The other firmware's log: the separator is what differs.
    let [one, other] = ["rtmr0", "rtmr1"].map(|word| image.predict(&direct(word).unwrap()).unwrap().unwrap());
    let bytes = log(&other, |_, _| ());
    let differences = one.differences(&CcLog::parse(&bytes).unwrap());
    assert!(differences[0].to_string().contains("EV_SEPARATOR"), "{differences:?}");
    let disk = r#"{"name": "x", "secure_boot": "off", "secure_boot_variable": "zero",
        "tdx": {"kernel_measures": "tpm", "separator": "rtmr1"}}"#;
    assert!(MachineType::from_json(disk.as_bytes()).unwrap_err().to_string().contains("partition table"));
    direct("none").unwrap_err();
}

/// Of a real machine without a boot stub: all of RTMR 1 but the program is as predicted.
#[test]
fn a_real_log_has_rtmr_1_as_predicted_of_a_direct_boot_with_another_program() {
    let Some(bytes) = latchkey_test_support::vector("eventlog/ccel-gce-tdx.bin") else { return };
    let log = CcLog::parse(&bytes).unwrap();
    let image = TdxImage::measure(&uki(257, &kernel())[..]).unwrap();
    let mut prediction = image.predict(&direct("rtmr0").unwrap()).unwrap().unwrap();
    let got = log.events().iter().find(|event| event.extends_mr() == Some(Mr::Rtmr1)).unwrap();
    prediction.events.retain(|event| !event.what.starts_with("the kernel in"));
    assert!(prediction.differences(&log)[0].expected.as_ref().unwrap().description.contains("unified kernel image"));
    prediction.events[0].digest.0.copy_from_slice(got.digest(Bank::Sha384).unwrap());
    assert_eq!(prediction.registers().rtmrs[&Rtmr::R1].0, log.replay().values()[1]);
    assert_eq!(prediction.first(&log, Rtmr::R1, Mr::Rtmr1), None);
}
