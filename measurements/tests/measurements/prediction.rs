//! What is predicted is what others compute from the same files: `systemd-measure`, `sbsign`, `mtools`, `sgdisk`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use latchkey_boot_formats::ReadAt;
use latchkey_image::Uki as UkiParts;
use latchkey_measurements::disk_image::{BootImage, ImageError, Influence};
use latchkey_measurements::pe::Image;
use latchkey_measurements::predict::variables::VariableStore;
use latchkey_measurements::predict::{MachineType, PHASES, PredictError, Prediction, Uki};
use tempfile::TempDir;

const STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
const SYSTEMD_MEASURE: &str = "/lib/systemd/systemd-measure";
const SNAKEOIL: &str = "/usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd";

const LINE: &str = "console=ttyS0 quiet panic=-1";
const OS_RELEASE: &str = "ID=test\nVERSION_ID=1\n";

/// A kernel as far as boot stubs and predictions look at it: a PE file that says what it measures.
fn kernel() -> Vec<u8> {
    let mut bytes = fs::read(STUB).unwrap();
    bytes.resize(bytes.len() + 300_000, 0x5a);
    bytes.extend(b"Linux initrd\0LOADED_IMAGE::LoadOptions\0");
    bytes
}

fn uki(initrd: &[u8]) -> Vec<u8> {
    let (stub, linux) = (fs::read(STUB).unwrap(), kernel());
    let parts = UkiParts {
        stub: &stub,
        linux: &linux,
        initrd,
        command_line: LINE,
        os_release: OS_RELEASE,
        uname: Some("6.1.0-test"),
    };
    parts.build().unwrap()
}

fn predict(bytes: &[u8], machine: &str) -> Result<Prediction, PredictError> {
    Uki::measure(bytes)?.predict(&MachineType::builtin(machine).unwrap().load(Path::new("/")).unwrap())
}

fn run(command: &mut Command) -> String {
    let output = latchkey_test_support::output(command).unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn write(directory: &TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, content).unwrap();
    path
}

#[test]
fn pcr_11_is_what_systemd_measure_calculates_in_every_phase() {
    let directory = directory();
    let bytes = uki(b"an initramfs");
    let image = Image::parse(&bytes).unwrap();
    let mut command = Command::new(SYSTEMD_MEASURE);
    command.args(["calculate", "--bank=sha256", "--json=short"]);
    for section in ["linux", "osrel", "cmdline", "initrd"] {
        let path = write(&directory, section, image.section(&format!(".{section}")).unwrap());
        command.arg(format!("--{section}={}", path.display()));
    }
    command.arg("--phase=");
    command.args(PHASES.map(|phase| format!("--phase={}", phase.path())));
    let calculated: serde_json::Value = serde_json::from_str(&run(&mut command)).unwrap();
    let calculated: Vec<&str> =
        calculated["sha256"].as_array().unwrap().iter().map(|value| value["hash"].as_str().unwrap()).collect();
    let prediction = predict(&bytes, "debian-12-ovmf").unwrap();
    let mut predicted = vec![prediction.pcr(11).unwrap().to_string()];
    predicted.extend(prediction.phases().into_iter().map(|(_, value)| value.to_string()));
    assert_eq!(predicted, calculated);
}

/// The test key that OVMF's package brings, without its password.
fn snakeoil_key(directory: &TempDir) -> PathBuf {
    let key = directory.path().join("key");
    let mut openssl = Command::new("openssl");
    openssl.args(["rsa", "-in", "/usr/share/ovmf/PkKek-1-snakeoil.key", "-passin", "pass:snakeoil", "-out"]).arg(&key);
    run(&mut openssl);
    key
}

fn signed(directory: &TempDir, bytes: &[u8], key: &Path, certificate: &Path) -> Vec<u8> {
    let (plain, signed) = (write(directory, "plain.efi", bytes), directory.path().join("signed.efi"));
    run(Command::new("sbsign")
        .arg("--key")
        .arg(key)
        .arg("--cert")
        .arg(certificate)
        .arg("--output")
        .arg(&signed)
        .arg(&plain));
    fs::read(signed).unwrap()
}

#[test]
fn a_signature_changes_nothing_that_is_measured_and_holds_the_predicted_hash() {
    let directory = directory();
    let plain = uki(b"an initramfs");
    let signed =
        signed(&directory, &plain, &snakeoil_key(&directory), Path::new("/usr/share/ovmf/PkKek-1-snakeoil.pem"));
    assert_ne!(plain, signed);
    let expected = predict(&plain, "debian-12-ovmf").unwrap();
    assert_eq!(predict(&signed, "debian-12-ovmf").unwrap(), expected);
    // The hash that sbsign signed is in the signature.
    let hash = Uki::measure(&plain).unwrap().authenticode();
    let table = Image::parse(&signed).unwrap().certificates(signed.len() as u64).unwrap().unwrap();
    let signature = &signed[usize::try_from(table.start).unwrap()..];
    assert!(signature.windows(32).any(|window| window == hash.as_bytes()));
}

#[test]
fn under_secure_boot_the_admitting_certificate_is_measured_and_the_kernel_is_not() {
    let directory = directory();
    let plain = uki(b"an initramfs");
    let certificate = Path::new("/usr/share/ovmf/PkKek-1-snakeoil.pem");
    let signed = signed(&directory, &plain, &snakeoil_key(&directory), certificate);
    let prediction = predict(&signed, "debian-ovmf-snakeoil").unwrap();
    let kinds =
        |pcr| prediction.events.iter().filter(move |event| event.pcr == pcr).map(|event| event.kind.to_string());
    assert_eq!(kinds(4).collect::<Vec<_>>().len(), 3);
    assert_eq!(kinds(7).next_back().as_deref(), Some("EV_EFI_VARIABLE_AUTHORITY"));
    let authority = prediction.events.iter().rfind(|event| event.pcr == 7).unwrap().data.clone().unwrap();
    let der = directory.path().join("certificate.der");
    run(Command::new("openssl").args(["x509", "-outform", "der", "-in"]).arg(certificate).arg("-out").arg(&der));
    assert!(authority.ends_with(&fs::read(der).unwrap()));
    assert!(prediction.events.iter().any(|event| event.what == "Secure Boot is enabled"));
    assert_eq!(predict(&plain, "debian-ovmf-snakeoil"), Err(PredictError::Unsigned));
}

#[test]
fn under_secure_boot_a_stranger_s_signature_or_one_of_another_image_is_refused() {
    let directory = directory();
    let (key, certificate) = (directory.path().join("k"), directory.path().join("c"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=stranger", "-keyout"]).arg(&key);
    run(openssl.arg("-out").arg(&certificate));
    let plain = uki(b"an initramfs");
    let stranger = signed(&directory, &plain, &key, &certificate);
    assert_eq!(predict(&stranger, "debian-ovmf-snakeoil"), Err(PredictError::NotAdmitted));
    let mut changed =
        signed(&directory, &plain, &snakeoil_key(&directory), Path::new("/usr/share/ovmf/PkKek-1-snakeoil.pem"));
    let at = changed.windows(12).position(|window| window == b"an initramfs").unwrap();
    changed[at] ^= 0x20;
    assert_eq!(predict(&changed, "debian-ovmf-snakeoil"), Err(PredictError::NotAdmitted));
}

#[test]
fn a_variable_store_says_whether_secure_boot_is_on() {
    let enrolled = fs::read(SNAKEOIL).unwrap();
    let fresh = fs::read("/usr/share/OVMF/OVMF_VARS_4M.fd").unwrap();
    assert!(VariableStore::parse(&enrolled).unwrap().secure_boot());
    assert!(!VariableStore::parse(&fresh).unwrap().secure_boot());
    let machine = |json: &str| MachineType::from_json(json.as_bytes()).unwrap();
    let on = machine(r#"{"name": "on", "secure_boot": "on", "variables": "v"}"#);
    let off = machine(r#"{"name": "off", "secure_boot": "off", "secure_boot_variable": "zero", "variables": "v"}"#);
    assert!(on.with_variables(Some(&enrolled)).is_ok());
    assert!(off.with_variables(Some(&fresh)).is_ok());
    assert!(matches!(on.with_variables(Some(&fresh)), Err(PredictError::Machine(_))));
    assert!(matches!(off.with_variables(Some(&enrolled)), Err(PredictError::Machine(_))));
}

#[test]
fn a_variable_store_cut_or_changed_anywhere_is_refused_or_read_without_panic() {
    let whole = fs::read(SNAKEOIL).unwrap();
    for length in (0..0x5000).step_by(97) {
        assert!(VariableStore::parse(&whole[..length]).is_err(), "{length}");
    }
    for position in (0..0x4a60).step_by(13) {
        for value in [0x00, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[position] = value;
            if let Ok(store) = VariableStore::parse(&bytes) {
                let _ = store.secure_boot();
            }
        }
    }
}

/// A disk with one partition, by the tools that everybody uses.
fn disk(directory: &TempDir, uki: &[u8], format: &[&str], megabytes: u32, more: &[(&str, &[u8])]) -> PathBuf {
    let (path, uki) = (directory.path().join("disk.raw"), write(directory, "uki.efi", uki));
    let _ = fs::remove_file(&path);
    fs::File::create(&path).unwrap().set_len(u64::from(megabytes + 2) << 20).unwrap();
    let new = format!("1:2048:+{}K", megabytes * 1024 - 1024);
    run(Command::new("sgdisk").args(["-n", &new, "-t", "1:ef00", "-c", "1:esp"]).arg(&path));
    let at = format!("{}@@1M", path.display());
    let sectors = (megabytes * 2048 - 2048).to_string();
    run(Command::new("mformat").args(["-i", &at, "-T", &sectors, "-h", "255", "-s", "63"]).args(format).arg("::"));
    let make = |name: &str| run(Command::new("mmd").args(["-i", &at, name]));
    let copy = |from: &Path, to: &str| run(Command::new("mcopy").args(["-i", &at]).arg(from).arg(format!("::{to}")));
    make("::/EFI");
    make("::/EFI/BOOT");
    // A file in several pieces: something lies where its second half would be.
    copy(&write(directory, "first", &vec![1; 100_000]), "/first");
    copy(&write(directory, "second", &vec![2; 100_000]), "/second");
    run(Command::new("mdel").args(["-i", &at, "::/first"]));
    copy(&uki, "/EFI/BOOT/BOOTX64.EFI");
    run(Command::new("mdel").args(["-i", &at, "::/second"]));
    for (name, content) in more {
        let directories: Vec<_> = name.match_indices('/').skip(1).map(|(end, _)| &name[..end]).collect();
        for directory in directories {
            // Some are there already.
            drop(
                latchkey_test_support::output(Command::new("mmd").args([
                    "-D",
                    "s",
                    "-i",
                    &at,
                    &format!("::{directory}"),
                ]))
                .unwrap(),
            );
        }
        copy(&write(directory, "more", content), name);
    }
    path
}

#[test]
fn the_booted_image_is_found_on_disks_of_other_tools_with_every_kind_of_fat() {
    let uki = uki(&vec![0x77; 2_000_000]);
    for (format, megabytes) in [(&["-c", "16"][..], 9), (&["-c", "2"][..], 33), (&["-F"][..], 70)] {
        let directory = directory();
        let image = BootImage::open(&disk(&directory, &uki, format, megabytes, &[])).unwrap();
        assert!(image.from_disk && image.uki.to_vec().unwrap() == uki, "{format:?}");
        assert_eq!(image.others, [], "{format:?}");
    }
    let directory = directory();
    let image = BootImage::open(&write(&directory, "uki", &uki)).unwrap();
    assert!(!image.from_disk && image.uki.to_vec().unwrap() == uki);
}

#[test]
fn what_else_is_measured_from_the_boot_partition_is_named() {
    let directory = directory();
    let more: [(&str, &[u8]); 6] = [
        ("/EFI/BOOT/BOOTX64.EFI.extra.d/evil.cred", b"x"),
        ("/EFI/BOOT/BOOTX64.EFI.extra.d/evil.addon.efi", b"x"),
        ("/loader/credentials/other.cred", b"x"),
        ("/EFI/debian/grubx64.efi", b"x"),
        ("/loader/entries/debian.conf", b"x"),
        ("/a long name that needs three entries.txt", b"x"),
    ];
    let image = BootImage::open(&disk(&directory, &uki(b"i"), &["-F"], 70, &more)).unwrap();
    let measured: Vec<_> = image.measured().map(|file| file.path.as_str()).collect();
    let expected = ["EFI/BOOT/BOOTX64.EFI.extra.d/evil.addon.efi", "EFI/BOOT/BOOTX64.EFI.extra.d/evil.cred"];
    assert_eq!(measured, [expected[0], expected[1], "loader/credentials/other.cred"]);
    let bootable = image.others.iter().filter(|file| matches!(file.influence, Influence::Bootable(_)));
    assert_eq!(
        bootable.map(|file| file.path.as_str()).collect::<Vec<_>>(),
        ["EFI/debian/grubx64.efi", "loader/entries/debian.conf"]
    );
    assert!(image.others.iter().any(|file| file.path == "a long name that needs three entries.txt"));
}

#[test]
fn what_is_no_disk_is_refused_with_the_reason() {
    let directory = directory();
    let open = |content: &[u8]| BootImage::open(&write(&directory, "image", content)).unwrap_err();
    assert_eq!(open(b"QFI\xfb\0\0\0\x03"), ImageError::Qcow2);
    assert_eq!(open(b""), ImageError::NotAnImage);
    assert_eq!(open(&[0; 4096]), ImageError::NotAnImage);
    let whole = fs::read(disk(&directory, &uki(b"i"), &["-F"], 70, &[])).unwrap();
    assert_eq!(
        open(&whole[..1 << 20]),
        ImageError::BadPartitionTable(
            "the header is wrong in its usable range, which ends behind the disk: the disk or image is cut short"
                .into()
        )
    );
    let mut table = whole.clone();
    table[1024 + 33] ^= 1;
    assert_eq!(open(&table), ImageError::BadPartitionTable("the checksum of the entries does not match".into()));
    let mut header = whole.clone();
    header[512 + 80] ^= 1;
    assert_eq!(open(&header), ImageError::BadPartitionTable("the checksum of the header does not match".into()));
}

#[test]
fn a_boot_partition_changed_anywhere_is_refused_or_read_as_it_is() {
    let directory = directory();
    let whole = fs::read(disk(&directory, &uki(b"i"), &["-c", "16"], 9, &[])).unwrap();
    let start = 1 << 20;
    let mut bytes = whole;
    let (mut refused, mut read) = (0, 0);
    for position in (start..start + 64).chain((start + 512..start + 0x6000).step_by(151)) {
        for value in [0x00, 0x7f, 0xff] {
            let honest = std::mem::replace(&mut bytes[position], value);
            match BootImage::read(&bytes[..]) {
                Err(_) => refused += 1,
                Ok(image) => {
                    assert!(image.from_disk, "{value:#x} at {position:#x}");
                    read += 1;
                }
            }
            bytes[position] = honest;
        }
    }
    assert!(refused > 20 && read > 500, "{refused} refused, {read} read");
}
