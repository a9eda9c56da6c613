//! `latchkey image build`, as its users run it.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use latchkey_initramfs::elf_sample;
use latchkey_measurements::{pe, pe_sample};
use latchkey_test_support::skip;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with what a small image is made of. Everybody may read it.
struct Parts(TempDir);

impl Parts {
    fn new() -> Self {
        let parts = Self(TempDir::new().unwrap());
        for directory in
            ["usr/lib", "etc", "dev", "proc", "run", "sys", "sbin"].map(|directory| format!("root/{directory}"))
        {
            fs::create_dir_all(parts.path(&directory)).unwrap();
        }
        for directory in ["modules", "out"] {
            fs::create_dir_all(parts.path(directory)).unwrap();
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
        for (name, content) in [
            ("kernel", &kernel[..]),
            ("stub", &pe_sample::stub(8)),
            ("agent", &elf_sample::agent()),
            ("root/sbin/init", b"#!/bin/sh\n"),
            ("root/usr/lib/os-release", b"ID=sample\n"),
            ("root/etc/secret", &mixed),
        ] {
            fs::write(parts.path(name), content).unwrap();
        }
        parts.configure(&json!({}));
        for (directory, mode) in [("", 0o755), ("out", 0o777), ("root/sbin/init", 0o755)] {
            fs::set_permissions(parts.path(directory), fs::Permissions::from_mode(mode)).unwrap();
        }
        parts
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the configuration, with these fields besides what it must have.
    fn configure(&self, more: &Value) {
        let mut config = json!({
            "schema": 1, "name": "sample", "version": "1.0.0", "kernel": "kernel", "modules": "modules",
            "module_names": [], "agent": "agent", "stub": "stub", "root": "root", "machines": [], "recover_only": true,
            "command_line": "quiet latchkey.network=none latchkey.cluster_step=kubeadm",
        });
        for (name, value) in more.as_object().unwrap() {
            config[name] = value.clone();
        }
        fs::write(self.path("sample.json"), config.to_string()).unwrap();
    }

    /// Runs the command below what stands before it, such as `setpriv`.
    fn run(&self, before: &[&str], out: &str) -> Output {
        let [program, rest @ ..] = before else {
            return self.with(&mut Command::new(env!("CARGO_BIN_EXE_latchkey")), out, None);
        };
        // Where it was built, others may not reach it.
        let latchkey = self.path("latchkey");
        fs::copy(env!("CARGO_BIN_EXE_latchkey"), &latchkey).unwrap();
        self.with(Command::new(program).args(rest).arg(latchkey), out, None)
    }

    fn with(&self, command: &mut Command, out: &str, epoch: Option<&str>) -> Output {
        match epoch {
            Some(epoch) => command.env("SOURCE_DATE_EPOCH", epoch),
            None => command.env_remove("SOURCE_DATE_EPOCH"),
        };
        let command = command.args(["image", "build"]).arg(self.path("sample.json")).arg("--out").arg(self.path(out));
        latchkey_test_support::output(command.args(["--output", "json"]).current_dir("/")).unwrap()
    }
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Whether the tests may become somebody else, and mksquashfs is there.
fn can_change_user() -> bool {
    let here =
        |path: &str| ["/usr/bin", "/usr/sbin", "/bin"].iter().any(|directory| Path::new(directory).join(path).exists());
    let root = fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
    let can = root && here("setpriv") && here("mksquashfs");
    if !can {
        skip("needs root, setpriv (apt-get install util-linux) and mksquashfs (apt-get install squashfs-tools)");
    }
    can
}

const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

#[test]
fn two_users_on_two_days_build_the_same_bytes() {
    if !can_change_user() {
        return;
    }
    let parts = Parts::new();
    let mine = document(&parts.run(&[], "out/mine"));
    let later = ["faketime", "2031-05-06 07:08:09"];
    let faketime = latchkey_test_support::output(Command::new("faketime").arg("--version")).is_ok();
    if !faketime {
        skip("in part: faketime is missing (apt-get install faketime), so both users build today");
    }
    let before: Vec<&str> = NOBODY.into_iter().chain(later.into_iter().filter(|_| faketime)).collect();
    let theirs = document(&parts.run(&before, "out/theirs"));
    assert_eq!((&mine["error"], &theirs["error"]), (&Value::Null, &Value::Null));
    assert_eq!(mine["parts"], theirs["parts"]);
    assert!(mine["parts"].as_array().unwrap().len() >= 6, "{mine}");
    let disk = |which: &Value| fs::read(which["disk"].as_str().unwrap()).unwrap();
    assert!(disk(&mine) == disk(&theirs));
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_not_an_empty_file() {
    if !can_change_user() {
        return;
    }
    let parts = Parts::new();
    fs::set_permissions(parts.path("root/etc/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let output = parts.run(&NOBODY, "out/theirs");
    let error = document(&output)["error"].clone();
    assert_eq!((output.status.code(), error["code"].as_str()), (Some(1), Some("program-failed")), "{error}");
    assert!(error.to_string().contains("secret"), "{error}");
    assert_eq!(fs::read_dir(parts.path("out/theirs")).unwrap().count(), 0);
}

#[test]
fn what_the_agent_would_refuse_at_boot_is_refused_here() {
    let parts = Parts::new();
    for (words, code, said) in [
        ("latchkey.networking=none", "image-command-line-refused", "latchkey.networking"),
        ("quiet latchkey.network=none", "image-command-line-refused", "does not have latchkey.cluster_step"),
        ("quiet systemd.debug-shell", "image-command-line-refused", "systemd.debug-shell"),
        ("latchkey.root_verity=x", "image-command-line-refused", "the builder writes it"),
    ] {
        parts.configure(&json!({"command_line": words}));
        let output = parts.run(&[], "out/a");
        let error = document(&output)["error"].clone();
        if error["code"] == "program-missing" {
            skip(error);
            return;
        }
        assert_eq!((output.status.code(), error["code"].as_str()), (Some(2), Some(code)), "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn what_a_node_could_not_boot_is_refused_and_what_opens_a_way_in_is_told() {
    let parts = Parts::new();
    let built = document(&parts.run(&[], "out/a"));
    if built["error"]["code"] == "program-missing" {
        skip(built);
        return;
    }
    assert_eq!((&built["warnings"], &built["root_examined"]), (&json!([]), &json!(true)), "{built}");
    assert_eq!(built["manifest"], Value::Null);

    fs::write(parts.path("root/etc/shadow"), "root::1::::::\n").unwrap();
    let latchkey = Command::new(env!("CARGO_BIN_EXE_latchkey"))
        .args(["image", "build"])
        .arg(parts.path("sample.json"))
        .arg("--out")
        .arg(parts.path("out/a"))
        .output()
        .unwrap();
    let [out, err] = [latchkey.stdout, latchkey.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(err.contains("the root's /etc/shadow: root logs in without a password"), "{err}");
    assert!(out.contains("1 way in was found") && out.contains("none, since \"machines\" is empty"), "{out}");
    assert_eq!(document(&parts.run(&[], "out/a"))["warnings"][0]["code"], "password-empty");

    fs::copy("/bin/ls", parts.path("agent")).unwrap();
    let output = parts.run(&[], "out/a");
    let error = document(&output)["error"].clone();
    assert_eq!((output.status.code(), error["code"].as_str()), (Some(2), Some("image-agent-unusable")), "{error}");
    assert!(error.to_string().contains("x86_64-unknown-linux-musl"), "{error}");
    fs::remove_file(parts.path("agent")).unwrap();
    let error = document(&parts.run(&[], "out/a"))["error"].clone();
    assert_eq!(error["code"], "image-agent-unusable");
    assert!(
        error["because"][0].as_str().unwrap().starts_with("agent: ") && error.to_string().contains("cargo build"),
        "{error}"
    );
    fs::write(parts.path("agent"), elf_sample::agent()).unwrap();
    parts.configure(&json!({"recover_only": false}));
    let error = document(&parts.run(&[], "out/a"))["error"].clone();
    assert_eq!(error["code"], "image-command-line-refused");
    assert!(error.to_string().contains("neither found a cluster"), "{error}");
    parts.configure(&json!({"command_line": "latchkey.init=/usr/sbin/init latchkey.cluster_step=kubeadm"}));
    let error = document(&parts.run(&[], "out/a"))["error"].clone();
    assert!(error.to_string().contains("it has no /usr/sbin/init"), "{error}");
}

#[test]
fn a_configuration_that_is_none_and_a_missing_program_are_named() {
    let parts = Parts::new();
    parts.configure(&json!({"rooot": "root"}));
    let output = parts.run(&[], "out/a");
    let error = document(&output)["error"].clone();
    assert_eq!((output.status.code(), error["code"].as_str()), (Some(2), Some("image-config-unusable")), "{error}");
    assert!(error.to_string().contains("rooot"), "{error}");

    parts.configure(&json!({"qcow2": true}));
    // Administrators' directories are looked into all the same, so the program must be one that lies elsewhere.
    let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey"));
    let output = parts.with(command.env("PATH", "/nowhere"), "out/a", None);
    let error = document(&output)["error"].clone();
    assert_eq!((output.status.code(), error["code"].as_str()), (Some(1), Some("program-missing")), "{error}");
    assert!(error.to_string().contains("apt-get install squashfs-tools"), "{error}");
}

#[test]
fn an_image_for_clouds_has_their_forms_words_and_commands() {
    let parts = Parts::new();
    let network = "quiet latchkey.network=dhcp4 latchkey.cluster_step=kubeadm";
    parts.configure(&json!({ "clouds": ["gcp", "azure", "aws"], "command_line": network }));
    let built = document(&parts.run(&[], "out/a"));
    assert_eq!(built["error"], Value::Null, "{built}");
    let line = built["command_line"].as_str().unwrap();
    assert!(line.contains("console=tty0 console=ttyS0,115200 latchkey.metadata=auto"), "{line}");
    let raw = fs::metadata(built["disk"].as_str().unwrap()).unwrap().len();
    let vhd = fs::read(built["vhd"].as_str().unwrap()).unwrap();
    assert_eq!((vhd.len() as u64, &vhd[vhd.len() - 512..][..8]), (raw + 512, &b"conectix"[..]));
    assert!(built["tar_gz"].as_str().unwrap().ends_with("sample_1.0.0.tar.gz"), "{built}");
    assert_eq!(built["qcow2"], Value::Null);
    let uploads: Vec<_> = built["uploads"].as_array().unwrap().iter().map(|upload| upload["cloud"].clone()).collect();
    assert_eq!(uploads, ["aws", "gcp", "azure"]);
    assert!(built["uploads"][2]["commands"][0].as_str().unwrap().contains("sample_1.0.0.vhd"), "{built}");
    // Equal inputs give equal bytes, in every form.
    let again = document(&parts.run(&[], "out/b"));
    assert_eq!(built["parts"], again["parts"]);

    // What a later build does not make is removed, and a word that the operator said stands.
    parts.configure(&json!({ "command_line": format!("{network} latchkey.metadata=aws") }));
    let later = document(&parts.run(&[], "out/a"));
    assert_eq!((&later["vhd"], &later["tar_gz"], &later["uploads"]), (&Value::Null, &Value::Null, &Value::Null));
    assert!(!parts.path("out/a/sample_1.0.0.vhd").exists() && !parts.path("out/a/sample_1.0.0.tar.gz").exists());
    let config = parts.path("sample.json").display().to_string();
    let out = parts.path("out/c").display().to_string();
    let for_cloud = |cloud: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey"));
        let arguments = ["image", "build", &config, "--out", &out, "--output", "json", "--for", cloud];
        document(&latchkey_test_support::output(command.args(arguments)).unwrap())
    };
    let azure = for_cloud("azure");
    assert!(azure["command_line"].as_str().unwrap().contains("latchkey.metadata=aws") && azure["vhd"].is_string());
    let unknown = for_cloud("clouds9")["error"].clone();
    assert!(unknown.to_string().contains("aws, gcp, azure, openstack, hetzner, qemu"), "{unknown}");

    parts.configure(
        &json!({ "command_line": "latchkey.network=none latchkey.metadata=gcp latchkey.cluster_step=kubeadm" }),
    );
    let error = document(&parts.run(&[], "out/d"))["error"].clone();
    assert!(error.to_string().contains("latchkey.metadata means nothing without a network"), "{error}");
}

/// Seconds of the epoch, and how provenance writes them.
const RELEASED: (u32, &str) = (1_700_000_000, "2023-11-14T22:13:20Z");

#[test]
fn source_date_epoch_is_the_time_of_all_that_has_one() {
    let parts = Parts::new();
    // What predictions want to see of a stub and a kernel, for the manifest.
    let (mut stub, mut kernel) = (pe_sample::stub(9), fs::read(parts.path("kernel")).unwrap());
    pe_sample::append(&mut stub, ".sdmagic", b"#### LoaderInfo: systemd-stub 252.39-1~deb12u2 ####\0");
    kernel.extend(b"Linux initrd\0LOADED_IMAGE::LoadOptions\0");
    kernel.resize(kernel.len().next_multiple_of(0x200), 0);
    fs::write(parts.path("stub"), stub).unwrap();
    fs::write(parts.path("kernel"), kernel).unwrap();
    parts.configure(&json!({"machines": ["debian-12-ovmf"]}));
    let (seconds, written) = RELEASED;
    for (epoch, out, expected) in [(None, "out/without", 0), (Some(seconds.to_string()), "out/with", seconds)] {
        let built = document(&parts.with(&mut Command::new(env!("CARGO_BIN_EXE_latchkey")), out, epoch.as_deref()));
        assert_eq!(built["error"], Value::Null);
        let file = |name: &str| fs::read(parts.path(out).join(name)).unwrap();

        let image = file("sample_1.0.0.efi");
        let initrd = pe::Image::parse(&image).unwrap().section(".initrd").unwrap().to_vec();
        let archive = zstd::bulk::decompress(&initrd, 1 << 20).unwrap();
        // "newc": magic of six characters, then eight each for inode, mode, owner, group, links, and the time.
        let entries = archive.windows(6).enumerate().filter(|(_, window)| *window == b"070701");
        let times: Vec<&[u8]> = entries.map(|(at, _)| &archive[at + 46..at + 54]).collect();
        // The last one is the archive's end and no file.
        let (_, files) = times.split_last().unwrap();
        assert!(files.len() > 3 && files.iter().all(|time| *time == format!("{expected:08X}").as_bytes()), "{times:?}");

        // `struct squashfs_super_block`: magic, count of inodes, `mkfs_time`.
        let disk = file("sample_1.0.0.raw");
        let root = disk.chunks(1 << 20).find(|chunk| chunk.starts_with(b"hsqs")).unwrap();
        assert_eq!(root[8..12], expected.to_le_bytes());

        let manifest: Value = serde_json::from_slice(&file("reference.json")).unwrap();
        assert_eq!(manifest["serial"], expected.max(1), "{manifest}");
        assert_eq!(manifest.to_string().contains(written), expected == seconds, "{manifest}");
    }
    let with = |epoch| parts.with(&mut Command::new(env!("CARGO_BIN_EXE_latchkey")), "out/bad", Some(epoch));
    for epoch in ["", "yesterday", "-1", "4294967296"] {
        assert_eq!(with(epoch).status.code(), Some(2), "{epoch}");
    }
}

#[test]
fn what_systemd_needs_is_written_into_a_directory_and_never_over_one() {
    let parts = Parts::new();
    let units = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey"));
        let command = command.args(["image", "units"]).arg(parts.path("sample.json")).arg("--out");
        latchkey_test_support::output(command.arg(parts.path("units")).args(["--output", "json"])).unwrap()
    };
    let asked_for_nothing = units();
    assert_eq!(asked_for_nothing.status.code(), Some(2), "{asked_for_nothing:?}");
    parts.configure(&json!({"systemd": {"state": {}}}));
    let written = units();
    assert!(written.status.success(), "{written:?}");
    let agent = fs::read(parts.path("units/usr/bin/latchkey-agent")).unwrap();
    assert!(agent == elf_sample::agent());
    assert!(parts.path("units/usr/lib/systemd/system/var-lib-kubelet.mount").is_file());
    assert_eq!(units().status.code(), Some(2));
    fs::remove_dir_all(parts.path("units")).unwrap();
    fs::write(parts.path("agent"), elf_sample::static_executable()).unwrap();
    let refused = units();
    assert_eq!(document(&refused)["error"]["code"], "image-agent-unusable", "{refused:?}");
    assert!(!parts.path("units").exists());
}

#[test]
fn a_build_whose_result_cannot_be_printed_is_a_failure() {
    let parts = Parts::new();
    parts.configure(&json!({"systemd": {}}));
    for command in ["build", "units"] {
        let mut latchkey = Command::new(env!("CARGO_BIN_EXE_latchkey"));
        let latchkey = latchkey.args(["image", command]).arg(parts.path("sample.json")).arg("--out");
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child = latchkey.arg(parts.path(command)).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let ended = latchkey_test_support::finish("latchkey", child);
        let said = String::from_utf8(ended.stderr).unwrap();
        if said.contains("mksquashfs is missing") {
            skip(said);
            continue;
        }
        assert_eq!(ended.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains("cannot be written to standard output"), "{command}: {said}");
    }
}

#[test]
fn a_static_program_becomes_a_container_image_and_another_is_refused_by_name() {
    let parts = Parts::new();
    let image = |program: &str, name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey"));
        command.args(["image", "container"]).arg(parts.path(program)).args(["--name", name]);
        let command = command.arg("--out").arg(parts.path("out/image.tar")).args(["--output", "json"]);
        let output = latchkey_test_support::output(command).unwrap();
        (output.status.code(), document(&output))
    };
    fs::write(parts.path("join-service"), elf_sample::static_executable()).unwrap();
    let (code, report) = image("join-service", "registry.example/join-service:0.1.0");
    assert_eq!(code, Some(0), "{report}");
    assert!(report["digest"].as_str().unwrap().starts_with("sha256:"), "{report}");
    assert_eq!(report["name"], "registry.example/join-service:0.1.0");
    assert!(parts.path("out/image.tar").is_file());

    fs::write(parts.path("script"), "#!/bin/sh\n").unwrap();
    let (code, report) = image("script", "registry.example/script:1");
    assert_eq!((code, &report["error"]["code"]), (Some(2), &"image-program-unusable".into()), "{report}");
    let (code, report) = image("join-service", "join-service");
    assert_eq!((code, &report["error"]["code"]), (Some(2), &"usage".into()), "{report}");
}
