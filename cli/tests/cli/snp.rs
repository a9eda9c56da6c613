//! Launch digests of SEV-SNP guests on their way: from the image's configuration into the manifest, over its revisions, to
//! what a policy says of a report.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::firmware_sample::Sample;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::command::{Ran, latchkey};
use latchkey_initramfs::elf_sample::agent;
use latchkey_measurements::launch::{CpuSignature, Firmware, GuestFeatures, KernelHashes, SnpGuest};
use latchkey_measurements::pe_sample;
use serde_json::{Value, json};
use tempfile::TempDir;

const STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
/// SHA-256 of the endorsement key of no TPM.
const EK: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// What a small image is made of; `None`, and a line that says so, without Debian's boot stub.
struct Parts(TempDir);

impl Parts {
    fn new() -> Option<Self> {
        if !Path::new(STUB).is_file() {
            latchkey_test_support::skip(format_args!("{STUB} is missing: apt-get install systemd-boot-efi"));
            return None;
        }
        let parts = Self(TempDir::new().unwrap());
        for directory in [
            "root/dev",
            "root/etc",
            "root/proc",
            "root/run",
            "root/sbin",
            "root/sys",
            "root/tmp",
            "root/usr/lib",
            "root/var",
            "modules",
        ] {
            fs::create_dir_all(parts.0.path().join(directory)).unwrap();
        }
        // More than one block after compression: each number's bits, well mixed.
        let mixed = (0..4096_u64)
            .map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(number | 1));
        let mixed: Vec<u8> = mixed.flat_map(u64::to_le_bytes).collect();
        let mut kernel = pe_sample::stub(0);
        kernel.resize(0x500, 0);
        kernel[0x202..0x206].copy_from_slice(b"HdrS");
        kernel[0x20e..0x210].copy_from_slice(&0x200_u16.to_le_bytes());
        kernel[0x400..0x406].copy_from_slice(b"6.1.0\0");
        // What a kernel that measures its command line and initrd has in it.
        kernel[0x480..0x4a7].copy_from_slice(b"LOADED_IMAGE::LoadOptions\0Linux initrd\0");
        let old = Sample { metadata: false, ..Sample::plain() };
        for (name, content) in [
            ("kernel", &kernel[..]),
            ("agent", &agent()),
            ("root/sbin/init", &agent()),
            ("root/usr/lib/os-release", b"ID=sample\n"),
            ("root/usr/lib/mixed", &mixed),
            ("sev.fd", &Sample::amd_sev().build()),
            ("plain.fd", &Sample::plain().build()),
            ("old.fd", &old.build()),
        ] {
            fs::write(parts.0.path().join(name), content).unwrap();
        }
        let init = parts.0.path().join("root/sbin/init");
        fs::set_permissions(init, fs::Permissions::from_mode(0o755)).unwrap();
        Some(parts)
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        latchkey(self.0.path(), arguments)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.path().join(name)).unwrap()
    }

    /// Builds a version for guests with this description, into the directory of the version.
    fn build(&self, version: &str, snp: &Value, more: &[&str]) -> Ran {
        let machine = json!({
            "name": "sealed", "boot": "qemu-kernel", "secure_boot": "off", "secure_boot_variable": "empty", "snp": snp,
        });
        let config = json!({
            "schema": 1, "name": "edge", "version": version, "kernel": "kernel", "modules": "modules",
            "module_names": [], "agent": "agent", "root": "root", "machines": [machine], "recover_only": true,
            "command_line": format!("quiet latchkey.network=none latchkey.cluster_step=kubeadm version={version}"),
        });
        fs::write(self.0.path().join("edge.json"), config.to_string()).unwrap();
        self.run(&[&["image", "build", "edge.json", "--out", version], more].concat())
    }
}

fn sealed() -> Value {
    json!({"firmware": "sev.fd", "vcpus": [4, 1], "vcpu_type": "EPYC-Milan", "kernel_hashes": true})
}

/// What QEMU's guest will report, computed without the command under test.
fn expected(parts: &Parts, version: &str, vcpus: u32) -> String {
    let firmware = &Firmware::parse(&Sample::amd_sev().build()).unwrap();
    let hashes = KernelHashes::of(&parts.read(&format!("{version}/edge_{version}.efi")), b"", "").unwrap();
    let (cpu, features) = (CpuSignature::of_model("EPYC-Milan").unwrap(), GuestFeatures::default());
    hex::encode(SnpGuest { firmware, vcpus, cpu, features, direct_boot: Some(&hashes) }.digest().unwrap())
}

#[test]
fn a_build_writes_the_launch_digests_of_its_machines_into_the_manifest_and_shows_them() {
    let Some(parts) = Parts::new() else { return };
    let built = parts.build("1.0.0", &sealed(), &["--output", "json"]).succeeded().json();
    let manifest: Value = serde_json::from_slice(&parts.read("1.0.0/reference.json")).unwrap();
    let launches = &manifest["images"][0]["machines"][0]["snp_launch"];
    for (at, vcpus) in [(0, 4), (1, 1)] {
        let firmware = hex::encode(ring::digest::digest(&ring::digest::SHA256, &parts.read("sev.fd")));
        assert_eq!(
            launches[at],
            json!({
                "digest": expected(&parts, "1.0.0", vcpus), "firmware_sha256": firmware, "kernel_hashes": true,
                "vcpus": vcpus, "vcpu_type": "EPYC-Milan", "guest_features": 1,
            })
        );
    }
    assert_eq!(&built["machines"][0]["snp_launch"], launches);
    let text = parts.build("1.0.0", &sealed(), &[]).succeeded().out;
    assert!(text.contains(&expected(&parts, "1.0.0", 4)) && text.contains("4 × EPYC-Milan"), "{text}");
    // Whoever signs computes the same from the image.
    fs::write(parts.0.path().join("sealed.json"), serde_json::to_vec(&machine_of(&parts)).unwrap()).unwrap();
    let measure = ["measure", "image", "1.0.0/edge_1.0.0.raw", "--machine", "sealed.json", "--output", "json"];
    let measured = parts.run(&measure).succeeded().json();
    assert_eq!(&measured["machines"][0]["snp_launch"], launches);
}

fn machine_of(parts: &Parts) -> Value {
    let config: Value = serde_json::from_slice(&parts.read("edge.json")).unwrap();
    config["machines"][0].clone()
}

#[test]
fn a_firmware_that_cannot_keep_what_is_asked_of_it_is_refused_with_the_mend() {
    let Some(parts) = Parts::new() else { return };
    let described = |firmware: &str, kernel_hashes: bool, vcpus: Value| {
        let snp = json!({"firmware": firmware, "vcpus": vcpus, "kernel_hashes": kernel_hashes});
        parts.build("1.0.0", &snp, &["--output", "json"])
    };
    for (ran, reason, mend) in [
        (described("old.fd", false, json!([1])), "no SEV metadata", "use an OVMF that was built for SEV-SNP"),
        (
            described("plain.fd", true, json!([1])),
            "it would boot any kernel",
            "use edk2's OvmfPkg/AmdSev/AmdSevX64.dsc",
        ),
        (
            described("kernel", false, json!([1])),
            "not whole pages of 4096",
            "give the one file that QEMU gets with -bios",
        ),
        (described("sev.fd", true, json!([])), "0 numbers of processors", "expected 1 to 64"),
        (described("sev.fd", true, json!([2, 2])), "2 processors are listed twice", "machine sealed: snp"),
        (described("gone.fd", true, json!([1])), "gone.fd", "No such file"),
    ] {
        let error = ran.failed(2).json()["error"].clone();
        assert_eq!(error["code"], "image-config-unusable");
        let because = error["because"].to_string();
        assert!(because.contains(reason) && because.contains(mend), "{because}");
    }
    assert!(!parts.0.path().join("1.0.0").exists());
    // Without the hashes, the same firmware has a digest that names no image.
    described("plain.fd", false, json!([1])).succeeded();
}

/// A site that follows the manifest `next.json`, and a report whose measurement is this.
fn told(parts: &Parts, measurement: &str, more: &[&str]) -> Ran {
    let mut report = vec![0; 0x4a0];
    report[0] = 2;
    report[0x0a] = 2;
    report[0x34] = 1;
    report[0x90..0xc0].copy_from_slice(&hex::decode(measurement).unwrap());
    fs::write(parts.0.path().join("report.bin"), report).unwrap();
    if !parts.0.path().join("policy.json").exists() {
        let new = ["policy", "new", "--ek-pin", EK, "--manifest", "edge", "--unsigned", "--out", "policy.json"];
        parts.run(&new).succeeded();
    }
    let check =
        ["policy", "check", "--policy", "policy.json", "--reference", "next.json", "--snp-report", "report.bin"];
    parts.run(&[&check[..], more].concat())
}

#[test]
fn revisions_keep_launch_digests_and_a_policy_names_the_image_of_a_report_that_nobody_verified() {
    let Some(parts) = Parts::new() else { return };
    for version in ["1.0.0", "2.0.0"] {
        parts.build(version, &sealed(), &[]).succeeded();
    }
    let add = ["reference", "add", "1.0.0/reference.json", "2.0.0/reference.json", "--out", "next.json"];
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| expected(&parts, version, 4));
    let shown = parts.run(&add).succeeded().out;
    assert!(shown.contains(&old) && shown.contains(&new), "{shown}");

    let text = told(&parts, &new, &[]).succeeded().out;
    for part in ["NOT VERIFIED", "the launch digest of an image that may run", "edge 2.0.0", "4 × EPYC-Milan", &old] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = told(&parts, &new, &["--output", "json"]).succeeded().json();
    let report = &json["snp_report"];
    assert_eq!((&report["verified"], &report["claimed_measurement"]), (&json!(false), &json!(new)));
    assert_eq!(report["recognised"]["covers"], "image");
    assert_eq!(report["recognised"]["launches"][0]["image"]["version"], "2.0.0");
    assert_eq!(json["images"][0]["snp_launch"][0]["digest"], json!(old));

    // Revoked: its digest is known, and refused.
    let revoke = ["reference", "revoke", "next.json", "edge", "1.0.0", "--why", "a hole", "--out", "revoked.json"];
    parts.run(&revoke).succeeded();
    fs::rename(parts.0.path().join("revoked.json"), parts.0.path().join("next.json")).unwrap();
    let json = told(&parts, &old, &["--output", "json"]).succeeded().json();
    assert_eq!(json["snp_report"]["refusal"]["code"], "image-revoked");
    let json = told(&parts, &"ee".repeat(48), &["--output", "json"]).succeeded().json();
    assert_eq!(json["snp_report"]["refusal"]["code"], "launch-unknown");
    assert_eq!(json["snp_report"]["recognised"], Value::Null);
}

#[test]
fn a_file_that_is_no_report_is_refused() {
    let Some(parts) = Parts::new() else { return };
    parts.build("1.0.0", &sealed(), &[]).succeeded();
    fs::copy(parts.0.path().join("1.0.0/reference.json"), parts.0.path().join("next.json")).unwrap();
    told(&parts, &"ee".repeat(48), &[]).succeeded();
    fs::write(parts.0.path().join("report.bin"), [0; 0x49f]).unwrap();
    let check =
        ["policy", "check", "--policy", "policy.json", "--reference", "next.json", "--snp-report", "report.bin"];
    let ran = parts.run(&[&check[..], &["--output", "json"]].concat()).failed(2);
    assert_eq!(ran.json()["error"]["code"], "snp-report-malformed");
}

/// Reports and certificates of real chips, from public projects.
fn real(name: &str) -> Option<Vec<u8>> {
    latchkey_test_support::vector(&format!("snp/{name}"))
}

#[test]
fn a_real_report_is_verified_with_its_certificate_and_judged_by_the_policy() {
    let (Some(report), Some(debugged), Some(vcek), Some(chain)) =
        (real("report-milan-1.hex"), real("report-milan-2.bin"), real("vcek-milan-1.der"), real("chain-milan.pem"))
    else {
        return;
    };
    let Some(parts) = Parts::new() else { return };
    parts.build("1.0.0", &sealed(), &[]).succeeded();
    let place = |name: &str| parts.0.path().join(name);
    fs::copy(place("1.0.0/reference.json"), place("next.json")).unwrap();
    told(&parts, &"ee".repeat(48), &[]).succeeded();
    fs::write(place("report.bin"), hex::decode(String::from_utf8(report).unwrap().trim()).unwrap()).unwrap();
    fs::write(place("vcek.der"), &vcek).unwrap();
    fs::create_dir_all(place("amd/snp")).unwrap();
    fs::write(place("amd/snp/chain.pem"), chain).unwrap();
    let verdict = |certificates: &str| {
        let check = ["policy", "check", "--policy", "policy.json", "--reference", "next.json", "--output", "json"];
        let snp = ["--snp-report", "report.bin", "--snp-certificates", certificates, "--collateral", "amd"];
        parts.run(&[&check[..], &snp].concat()).succeeded().json()["snp_report"].clone()
    };
    let with_section = |section: Value| {
        let mut policy: Value = serde_json::from_slice(&fs::read(place("policy.json")).unwrap()).unwrap();
        policy["snp"] = section;
        fs::write(place("policy.json"), policy.to_string()).unwrap();
    };
    // AMD's list of what it revoked is not there, and nothing says that this may be.
    assert_eq!(verdict("vcek.der")["processor"]["refusal"]["code"], "snp-revocation-list-missing");
    let section = json!({
        "tcb_floor": {"milan": {}}, "keys": ["vcek"], "revocation_list": "if-there", "vmpl": 0, "minimum_abi": "0.0",
        "allow": ["smt", "provisional-firmware"],
    });
    with_section(section.clone());
    let admitted = verdict("vcek.der");
    assert_eq!(
        (&admitted["verified"], &admitted["processor"]["product"]),
        (&json!(true), &json!("Milan")),
        "{admitted}"
    );
    assert_eq!(admitted["processor"]["admitted"]["product"], "milan");
    let mut demanding = section.clone();
    demanding["tcb_floor"]["milan"]["microcode"] = 255.into();
    with_section(demanding);
    assert_eq!(verdict("vcek.der")["processor"]["refusal"]["code"], "snp-tcb-too-old");
    // A host's table around the same certificate.
    let guid: [u8; 16] = hex::decode("8d75da6364e66445adc5f4b93be8accd").unwrap().try_into().unwrap();
    let length = u32::try_from(vcek.len()).unwrap().to_le_bytes();
    let table = [&guid[..], &48_u32.to_le_bytes(), &length, &[0; 24], &vcek].concat();
    fs::write(place("table.bin"), table).unwrap();
    assert_eq!(verdict("table.bin")["processor"]["refusal"]["code"], "snp-tcb-too-old");
    // Another chip's; then its own report, of a guest whose host may debug it.
    fs::write(place("vcek.der"), real("vcek-milan-2.der").unwrap()).unwrap();
    assert_eq!(verdict("vcek.der")["processor"]["refusal"]["code"], "snp-certificate-of-another-chip");
    fs::write(place("report.bin"), debugged).unwrap();
    with_section(section);
    assert_eq!(verdict("vcek.der")["processor"]["refusal"]["code"], "snp-debug-allowed");
}
