//! Launch digests: those that sev-snp-measure computes, and a refusal for every firmware that promises less than it says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::peer;

use std::path::Path;
use std::process::Command;

use crate::firmware::{CPUID, HASHES, MEMORY, SECRETS, Sample};
use latchkey_measurements::launch::{
    CpuName, CpuSignature, Firmware, GuestFeatures, Guests, KernelHashes, LaunchError, SectionKind as Kind, SnpGuest,
    Vmm,
};

const KERNEL: &[u8] = b"a kernel, or a unified kernel image";
const INITRD: &[u8] = b"an initrd";
const COMMAND_LINE: &str = "console=ttyS0 latchkey.root_verity=00";

#[derive(Clone, Copy)]
struct Case {
    vcpus: u32,
    cpu: &'static str,
    features: u64,
    /// Initrd and command line.
    boot: Option<(&'static [u8], &'static str)>,
}

const BOOT: Option<(&[u8], &str)> = Some((INITRD, COMMAND_LINE));

const CASES: [Case; 8] = [
    Case { vcpus: 1, cpu: "EPYC-Milan", features: 1, boot: None },
    Case { vcpus: 4, cpu: "EPYC-Milan", features: 1, boot: None },
    Case { vcpus: 64, cpu: "EPYC-Genoa", features: 0x21, boot: None },
    Case { vcpus: 2, cpu: "EPYC-Turin", features: 1, boot: None },
    Case { vcpus: 1, cpu: "EPYC-v4", features: 1, boot: BOOT },
    Case { vcpus: 2, cpu: "EPYC-Rome-v2", features: 1, boot: BOOT },
    Case { vcpus: 3, cpu: "EPYC-Milan-v2", features: 0x201, boot: Some((b"", "")) },
    Case { vcpus: 8, cpu: "EPYC-Genoa-v1", features: 0xffff_ffff_ffff_ffff, boot: Some((b"", COMMAND_LINE)) },
];

/// What sev-snp-measure 0.0.13 gives for [`CASES`] with [`Sample::amd_sev`].
const KNOWN: [&str; 8] = [
    "1b622f7f8e0be330b891fe5a42605df70a0c1947dd42bf4617a561bd87becfd9e394b8aa59fa4c22dfe568bfc646ff75",
    "6436480d320763a0c0f32bad5dafd54f92a75b6b259c43be618e42687f19b362e222ad8e40359df0200fbea10c2e8877",
    "c58cb722092fe3b042a2b7f82c765163cd0f66a7f4d2e60a4e979b46e9d1c0c595233ef91525f3baf31e8fa5e84a423e",
    "9688b387bc840e81a2111098a5fb806046d085c7131c655a89e89f4a1b631745eac2b65761ca0b1acced5caea835bd09",
    "5da8c0878ec1b40eae9ade6ae5d4b47a8f482496949f8f3b94c8f9fa3a8626987cb2be2b407f471eea4c4e4cb20a0311",
    "1fa8a5830de37b1868a62d59e60080dc9bd31d19a866be571fa5a73303f046c48d5f5d63557807ce0c3d2b38cfebfafb",
    "a774df1eb963422d79651fcd6a3f81c02866d745cd6f8a898d540f35adf4092b8c6d6ab6db3ab1d20cf9dd02484ba82b",
    "425da320f58b7437751d9538af2b98aea3e831aa2c238c098c51f6fc9269cf1de93ae46bffde2a97bc7cb10f961e641f",
];

fn digest(firmware: &[u8], case: Case) -> Result<String, LaunchError> {
    digest_of(firmware, KERNEL, case)
}

fn digest_of(firmware: &[u8], kernel: &[u8], case: Case) -> Result<String, LaunchError> {
    let firmware = &Firmware::parse(firmware)?;
    let hashes = case.boot.map(|(initrd, line)| KernelHashes::of(kernel, initrd, line)).transpose()?;
    let (cpu, features) = (case.cpu.parse().unwrap(), GuestFeatures::new(case.features)?);
    let guest = SnpGuest { firmware, vcpus: case.vcpus, cpu, features, direct_boot: hashes.as_ref() };
    guest.digest().map(hex::encode)
}

#[test]
fn digests_are_the_known_ones() {
    let file = Sample::amd_sev().build();
    let digests = CASES.map(|case| digest(&file, case).unwrap());
    assert_eq!(digests, KNOWN);
}

#[test]
fn digests_are_those_of_sev_snp_measure() {
    let Some(program) = peer::sev_snp_measure() else { return };
    let directory = tempfile::tempdir().unwrap();
    let sample = directory.path().join("AMDSEV.fd");
    std::fs::write(&sample, Sample::amd_sev().build()).unwrap();
    for case in CASES {
        assert_eq!(
            digest(&std::fs::read(&sample).unwrap(), case).unwrap(),
            theirs(&program, &sample, case, directory.path())
        );
    }
    for path in ["/usr/share/ovmf/OVMF.fd", "/usr/share/OVMF/OVMF_CODE.fd"].map(Path::new) {
        let Ok(file) = std::fs::read(path) else {
            latchkey_test_support::skip(format_args!("{} is missing: apt-get install ovmf", path.display()));
            continue;
        };
        for case in CASES.into_iter().filter(|case| case.boot.is_none()) {
            assert_eq!(
                digest(&file, case).unwrap(),
                theirs(&program, path, case, directory.path()),
                "{}",
                path.display()
            );
        }
    }
}

/// The ends of two builds of edk2, which are somebody else's code and so not part of this project: compared where the
/// directory of shared vectors lies beside the checkout. The digests are those of sev-snp-measure's own tests.
#[test]
fn digests_of_real_builds_of_edk2_are_the_published_ones() {
    let boot = Some((&b""[..], "console=ttyS0 loglevel=7"));
    let plain = Some((&b""[..], ""));
    for (name, features, boot, expected) in [
        (
            "amdsev",
            0x21,
            boot,
            "803f691094946e42068aaa3a8f9e26a5c89f36f7b73ecfb28c653360fe4b3aba7e534442e7e1e17895dfe778d0228977",
        ),
        (
            "amdsev",
            0x1,
            boot,
            "6d287813eb5222d770f75005c664e34c204f385ce832cc2ce7d0d6f354454362f390ef83a92046c042e706363b4b08fa",
        ),
        (
            "amdsev",
            0x21,
            plain,
            "329c8ce0972ae52343b64d34a434a86f245dfd74f5ed7aae15d22efc78fb9683632b9b50e4e1d7fa41179ef98a7ef198",
        ),
        (
            "amdsev",
            0x21,
            None,
            "e1e1ca029dd7973ab9513295be68198472dcd4fc834bd9af9b63f6e8a1674dbf281a9278a4a2ebe0eed9f22adbcd0e2b",
        ),
        (
            "x64",
            0x21,
            None,
            "28797ae0afaba4005a81e629acebfb59e6687949d6be44007cd5506823b0dd66f146aaae26ff291eed7b493d8a64c385",
        ),
        (
            "x64",
            0x1,
            None,
            "da0296de8193586a5512078dcd719eccecbd87e2b825ad4148c44f665dc87df21e5b49e21523a9ad993afdb6a30b4005",
        ),
    ] {
        let Some(file) = latchkey_test_support::vector(&format!("snp/ovmf-{name}-suffix.bin")) else { return };
        let case = Case { vcpus: 1, cpu: "EPYC-v4", features, boot };
        assert_eq!(digest_of(&file, b"", case).unwrap(), expected, "{name}, {features:#x}");
    }
}

fn theirs(program: &Path, firmware: &Path, case: Case, directory: &Path) -> String {
    let mut command = Command::new(program);
    command.args(["--mode", "snp", "--vmm-type", "QEMU", "--ovmf"]).arg(firmware);
    command.args(["--vcpus", &case.vcpus.to_string(), "--guest-features", &format!("{:#x}", case.features)]);
    command.args(["--vcpu-type", case.cpu]);
    if let Some((initrd, line)) = case.boot {
        let (kernel, file) = (directory.join("kernel"), directory.join("initrd"));
        std::fs::write(&kernel, KERNEL).unwrap();
        std::fs::write(&file, initrd).unwrap();
        command.args(["--append", line, "--kernel"]).arg(&kernel).arg("--initrd").arg(&file);
    }
    let output = latchkey_test_support::output(&mut command).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn everything_that_is_launched_changes_the_digest() {
    let file = Sample::amd_sev().build();
    let case = CASES[5];
    let first = digest(&file, case).unwrap();
    let mut others = vec![
        digest(&file, Case { vcpus: case.vcpus + 1, ..case }),
        digest(&file, Case { cpu: "EPYC-Milan", ..case }),
        digest(&file, Case { features: 3, ..case }),
        digest(&file, Case { boot: None, ..case }),
        digest(&file, Case { boot: Some((b"another initrd", COMMAND_LINE)), ..case }),
        digest(&file, Case { boot: Some((INITRD, "console=ttyS0 evil=1")), ..case }),
    ];
    for at in [0, 4096, file.len() - 1] {
        let mut changed = file.clone();
        changed[at] ^= 1;
        others.push(digest(&changed, case));
    }
    let mut moved = Sample::amd_sev();
    moved.reset = Some(0x80_b008);
    others.push(digest(&moved.build(), case));
    let mut all: Vec<String> = others.into_iter().map(Result::unwrap).chain([first]).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn a_digest_for_a_manifest_says_what_it_depends_on() {
    let file = Sample::amd_sev().build();
    let (cpu, features) = ("EPYC-Milan-v2".parse().unwrap(), GuestFeatures::new(0x201).unwrap());
    let hashes = KernelHashes::of(KERNEL, b"", "").unwrap();
    let guests = Guests::new(&file, vec![3, 1], cpu, features).unwrap();
    let [plain, direct] = [None, Some(&hashes)].map(|boot| guests.launches(boot).unwrap());
    let launch = &direct[0];
    assert_eq!((launch.vcpus, launch.vcpu_type.as_str(), launch.guest_features), (3, "EPYC-Milan-v2", 0x201));
    assert_eq!(launch.digest.to_string(), KNOWN[6]);
    assert_eq!(launch.firmware_sha256.as_bytes()[..], *sha256(&file));
    assert_eq!([&plain, &direct].map(|launches| launches[1].kernel_hashes), [false, true]);
    assert_ne!(plain[0].digest, direct[0].digest);
}

fn sha256(file: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, file).as_ref().to_vec()
}

#[test]
fn guests_have_a_bounded_number_of_sizes_each_once() {
    let file = Sample::plain().build();
    let guests = |vcpus| Guests::new(&file, vcpus, CpuName::default(), GuestFeatures::default());
    let limit = SnpGuest::MAX_VCPUS;
    assert_eq!(guests(vec![]).unwrap_err(), LaunchError::Sizes { count: 0, limit: Guests::MAX_SIZES });
    assert_eq!(guests((1..=65).collect()).unwrap_err(), LaunchError::Sizes { count: 65, limit: Guests::MAX_SIZES });
    assert_eq!(guests(vec![2, 0]).unwrap_err(), LaunchError::VcpuCount { count: 0, limit });
    assert_eq!(guests(vec![limit + 1]).unwrap_err(), LaunchError::VcpuCount { count: limit + 1, limit });
    assert_eq!(guests(vec![2, 4, 2]).unwrap_err(), LaunchError::SizeTwice(2));
    assert_eq!(guests(vec![2]).unwrap().check_kernel_hashes(), Err(LaunchError::NoKernelHashes));
    assert_eq!(CpuName::default(), "EPYC-v4".parse().unwrap());
}

#[test]
fn another_kernel_is_another_digest() {
    let file = Sample::amd_sev().build();
    let firmware = &Firmware::parse(&file).unwrap();
    let [one, other] = [KERNEL, b"another kernel"].map(|kernel| {
        let hashes = KernelHashes::of(kernel, INITRD, COMMAND_LINE).unwrap();
        let (cpu, features) = (CpuSignature::of_model("EPYC-Milan").unwrap(), GuestFeatures::default());
        SnpGuest { firmware, vcpus: 1, cpu, features, direct_boot: Some(&hashes) }.digest().unwrap()
    });
    assert_ne!(one, other);
}

#[test]
fn a_firmware_that_would_boot_any_kernel_is_refused_for_direct_boot() {
    let file = Sample::plain().build();
    assert!(!Firmware::parse(&file).unwrap().takes_kernel_hashes());
    assert!(digest(&file, CASES[0]).is_ok());
    let refusal = digest(&file, CASES[4]).unwrap_err();
    assert_eq!(refusal, LaunchError::NoKernelHashes);
    assert!(refusal.to_string().contains("it would boot any kernel"), "{refusal}");
    assert!(refusal.remedy().unwrap().contains("AmdSevX64.dsc"));
}

#[test]
fn a_hash_table_outside_of_the_measured_page_is_refused() {
    let with = |table| Sample { hash_table: table, ..Sample::amd_sev() }.build();
    assert_eq!(digest(&with(None), CASES[4]), Err(LaunchError::NoHashTable));
    for (address, size) in
        [(0x80_ec00, 0x400), (0x81_0000, 0x400), (0x80_ff80, 0x80), (0x80_ff80, 0x400), (0x80_fc00, 0x20)]
    {
        assert_eq!(digest(&with(Some((address, size))), CASES[4]), Err(LaunchError::HashTable { address, size }));
    }
    let place = |at| digest(&with(Some((at, 0x400))), CASES[4]).unwrap();
    assert_ne!(place(0x80_f000), place(0x80_fc00));
}

#[test]
fn a_firmware_without_sev_metadata_is_refused_with_a_reason() {
    let file = Sample { metadata: false, ..Sample::amd_sev() }.build();
    let refusal = Firmware::parse(&file).unwrap_err();
    assert_eq!(refusal, LaunchError::NoSevMetadata);
    assert!(refusal.to_string().contains("does not start as an SNP guest") && refusal.remedy().is_some());
    let file = Sample { reset: None, ..Sample::amd_sev() }.build();
    assert_eq!(Firmware::parse(&file).unwrap_err(), LaunchError::NoResetAddress);
}

/// Of the entry of the table of GUIDs that says where the metadata is (edk2, `OvmfPkg/ResetVector/X64/OvmfSevMetadata.asm`):
/// dc886566-984a-4798-a75e-5585a7bf67cc.
const METADATA_ENTRY: [u8; 16] =
    [0x66, 0x65, 0x88, 0xdc, 0x4a, 0x98, 0x98, 0x47, 0xa7, 0x5e, 0x55, 0x85, 0xa7, 0xbf, 0x67, 0xcc];

/// Debian 12 has two builds: a large one without metadata, and a small one with it. Debian 13's large one has it.
#[test]
fn debian_s_firmware_is_read_if_and_only_if_it_has_sev_metadata() {
    for path in ["/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/ovmf/OVMF.fd"].map(Path::new) {
        let Ok(file) = std::fs::read(path) else {
            latchkey_test_support::skip(format_args!("{} is missing: apt-get install ovmf", path.display()));
            continue;
        };
        let (_, last_page) = file.split_last_chunk::<4096>().unwrap();
        let has_metadata = last_page.windows(16).any(|window| window == METADATA_ENTRY);
        let refusal = (!has_metadata).then_some(LaunchError::NoSevMetadata);
        assert_eq!(Firmware::parse(&file).err(), refusal, "{}", path.display());
    }
}

#[test]
fn what_is_no_firmware_is_refused() {
    let refused = |file: &[u8]| Firmware::parse(file).unwrap_err();
    assert_eq!(refused(b""), LaunchError::NotPages { size: 0 });
    assert_eq!(refused(&[0; 4095]), LaunchError::NotPages { size: 4095 });
    assert_eq!(refused(&[0; 4096]), LaunchError::NoTable);
    let limit = Firmware::MAX_SIZE;
    assert_eq!(refused(&vec![0; limit + 4096]), LaunchError::TooLarge { size: limit + 4096, limit });
}

#[test]
fn each_lie_of_the_metadata_has_its_own_reason() {
    let refused = |sections: &[(u32, u32, u32)]| {
        let sample = Sample { sections: sections.to_vec(), ..Sample::amd_sev() };
        Firmware::parse(&sample.build()).unwrap_err()
    };
    let place = |kind, address, size| LaunchError::SectionPlace { kind, address, size };
    assert_eq!(refused(&[(0x1000, 0x1000, 7)]), LaunchError::SectionUnknown(7));
    assert_eq!(refused(&[(0x1001, 0x1000, MEMORY)]), place(Kind::Memory, 0x1001, 0x1000));
    assert_eq!(refused(&[(0x1000, 0x1001, MEMORY)]), place(Kind::Memory, 0x1000, 0x1001));
    assert_eq!(refused(&[(0x1000, 0, MEMORY)]), place(Kind::Memory, 0x1000, 0));
    assert_eq!(refused(&[(0xffff_f000, 0x1000, MEMORY)]), place(Kind::Memory, 0xffff_f000, 0x1000));
    assert_eq!(refused(&[(0xffff_f000, 0xffff_f000, MEMORY)]), place(Kind::Memory, 0xffff_f000, 0xffff_f000));
    for (code, kind) in [(SECRETS, Kind::Secrets), (CPUID, Kind::Cpuid), (HASHES, Kind::KernelHashes)] {
        assert_eq!(refused(&[(0x1000, 0x2000, code)]), place(kind, 0x1000, 0x2000));
        let twice = LaunchError::SectionConflict { kind, address: 0x3000 };
        assert_eq!(refused(&[(0x1000, 0x1000, code), (0x3000, 0x1000, code)]), twice);
    }
    let over = LaunchError::SectionConflict { kind: Kind::Cpuid, address: 0x2000 };
    assert_eq!(refused(&[(0x1000, 0x3000, MEMORY), (0x2000, 0x1000, CPUID)]), over);
    assert_eq!(refused(&[(0x1000, 0x7000_0000, MEMORY)]), LaunchError::SectionsTooLarge { limit: 0x4000 });
    let file = Sample { version: 2, ..Sample::amd_sev() }.build();
    assert_eq!(Firmware::parse(&file).unwrap_err(), LaunchError::MetadataVersion(2));
}

#[test]
fn every_byte_of_the_tables_may_lie_without_panic() {
    let whole = Sample { pages: 1, ..Sample::amd_sev() }.build();
    let mut refused = 0;
    for position in 0xc00..whole.len() {
        for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
            let mut file = whole.clone();
            file[position] = value;
            refused += usize::from(digest(&file, CASES[5]).is_err());
        }
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn guests_that_cannot_be_are_refused() {
    let file = Sample::amd_sev().build();
    for vcpus in [0, SnpGuest::MAX_VCPUS + 1] {
        let refusal = digest(&file, Case { vcpus, ..CASES[0] }).unwrap_err();
        assert_eq!(refusal, LaunchError::VcpuCount { count: vcpus, limit: 4096 });
    }
    assert_eq!(KernelHashes::of(KERNEL, INITRD, "a\0b"), Err(LaunchError::CommandLineNul));
    assert_eq!("0x20".parse::<GuestFeatures>(), Err(LaunchError::FeaturesWithoutSnp(0x20)));
    assert_eq!("21".parse::<GuestFeatures>().unwrap().bits(), 0x21);
    for text in ["", "0x", "+1", "0x1_", "x", "0x10000000000000001"] {
        assert_eq!(text.parse::<GuestFeatures>(), Err(LaunchError::FeaturesMalformed(text.to_owned())));
    }
    for other in ["ec2", "gce", "krun"] {
        assert_eq!(other.parse::<Vmm>(), Err(LaunchError::Vmm(other.to_owned())));
    }
    assert_eq!("qemu".parse::<Vmm>(), Ok(Vmm::Qemu));
}

#[test]
fn processors_are_named_or_given_by_their_signature() {
    // What CPUID gives on a 7003 (Milan) and a 9004 (Genoa), with QEMU's steppings.
    assert_eq!("EPYC-Milan".parse(), Ok(CpuSignature(0x00a0_0f11)));
    assert_eq!("EPYC-Genoa-v3".parse(), Ok(CpuSignature(0x00a1_0f10)));
    assert_eq!("EPYC-Rome".parse(), Ok(CpuSignature(0x0083_0f10)));
    assert_eq!("0x00b00f00".parse(), Ok(CpuSignature::of_model("EPYC-Turin").unwrap()));
    for name in ["", "epyc-milan", "EPYC-Milan-v", "EPYC-Milan-vx", "qemu64", "0x", "0x1_0", "0x+1", "0x100000000"] {
        let refusal = name.parse::<CpuSignature>().unwrap_err();
        assert!(refusal.to_string().contains("EPYC-Genoa"), "{refusal}");
    }
    assert_eq!(
        (CpuSignature::new(14, 1, 1), CpuSignature::new(25, 1, 16), CpuSignature::new(271, 0, 0)),
        (None, None, None)
    );
}
