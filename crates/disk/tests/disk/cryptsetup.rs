//! Stock cryptsetup as the second implementation: it opens what we make, and we open what it makes.
//!
//! Works on plain files, as root or not: nothing is mapped. Needs `cryptsetup` (Debian: cryptsetup-bin).

use latchkey_disk::{
    BlockDevice, Disk, HeaderRefusal, KernelRandom, NodeState, Phase, Probe, Role, SegmentMode, TokenKey,
    UncheckedHeader, probe, update_state,
};
use latchkey_keys::{ClusterId, Secret, Uuid};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const SIZE: u64 = 32 << 20;

/// A directory of its own with an empty disk and the key's file; gone when dropped.
struct Bench {
    directory: TempDir,
    key: Secret<32>,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { directory: tempfile::tempdir().unwrap(), key: Secret::random().unwrap() };
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).mode(0o600).open(bench.key_file()).unwrap();
        file.write_all(bench.key.expose()).unwrap();
        File::create_new(bench.disk_file()).unwrap().set_len(SIZE).unwrap();
        bench
    }

    fn key_file(&self) -> PathBuf {
        self.directory.path().join("key")
    }

    fn disk_file(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    fn disk(&self) -> Disk {
        Disk::open_exclusive(&self.disk_file()).unwrap()
    }

    fn format(&self, uuid: Uuid) {
        let mut disk = self.disk();
        let Probe::Fresh(fresh) = probe(&disk).unwrap() else { panic!("an empty file is fresh") };
        fresh.format(&mut disk, uuid, &self.key, state(), &mut KernelRandom).unwrap();
    }

    fn luks_format(&self, options: &[&str]) {
        let key_file = self.key_file();
        let mut arguments = vec!["luksFormat", "--batch-mode", "--type", "luks2", "--key-file", text(&key_file)];
        arguments.extend(options);
        self.cryptsetup(&arguments).succeeded();
    }

    /// Runs cryptsetup with `arguments` and then the disk.
    fn cryptsetup(&self, arguments: &[&str]) -> Ran {
        let program = ["/usr/sbin/cryptsetup", "/sbin/cryptsetup", "/usr/bin/cryptsetup"];
        let program = program.into_iter().find(|path| Path::new(path).exists());
        let program = program.expect("these tests need cryptsetup: install cryptsetup-bin");
        Ran(latchkey_test_support::output(Command::new(program).args(arguments).arg(self.disk_file())).unwrap())
    }

    fn header(&self) -> UncheckedHeader {
        // Read whole, and not by `probe`, since cryptsetup's other header sizes reach beyond its region.
        UncheckedHeader::from_bytes(fs::read(self.disk_file()).unwrap(), SIZE)
    }
}

struct Ran(Output);

impl Ran {
    fn succeeded(&self) -> String {
        assert!(self.0.status.success(), "{}", String::from_utf8_lossy(&self.0.stderr));
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn state() -> NodeState {
    NodeState {
        role: Role::First,
        node_name: "first.edge.example".parse().unwrap(),
        cluster_id: ClusterId::from_bytes([7; 32]),
        measurement_salt: [9; 32],
        phase: Phase::Formatted,
        epoch: 1,
        attempt: 1,
    }
}

const PBKDF2: [&str; 4] = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
const SUITE: [&str; 6] = ["--cipher", "aes-xts-plain64", "--key-size", "512", "--sector-size", "4096"];

fn options(more: &[&'static str]) -> Vec<&'static str> {
    [&PBKDF2[..], &SUITE[..], more].concat()
}

#[test]
fn cryptsetup_opens_what_we_format_with_the_same_volume_key() {
    let bench = Bench::new();
    let uuid = Uuid::random().unwrap();
    bench.format(uuid);
    let key_file = bench.key_file();
    bench.cryptsetup(&["open", "--test-passphrase", "--key-file", text(&key_file)]).succeeded();

    let dump = bench.cryptsetup(&["luksDump"]).succeeded();
    for expected in [
        &uuid.to_string()[..],
        "latchkey-state",
        "offset: 1048576 [bytes]",
        "cipher: aes-xts-plain64",
        "sector: 4096 [bytes]",
        "0: latchkey",
        "AF stripes: 4000",
        "Iterations: 1000",
    ] {
        assert!(dump.contains(expected), "{expected} is not in {dump}");
    }

    let volume_key = bench.directory.path().join("volume-key");
    let arguments = ["luksDump", "--batch-mode", "--dump-volume-key", "--key-file", text(&key_file)];
    let arguments = [&arguments[..], &["--volume-key-file", text(&volume_key)]].concat();
    bench.cryptsetup(&arguments).succeeded();
    let opened = bench.header().check(SegmentMode::Confidential).unwrap().unlock(&bench.key).unwrap();
    assert!(fs::read(volume_key).unwrap() == opened.volume_key().expose(), "another volume key");
}

#[test]
fn cryptsetup_refuses_a_wrong_key_for_our_disk() {
    let bench = Bench::new();
    bench.format(Uuid::random().unwrap());
    let wrong = bench.directory.path().join("wrong");
    fs::write(&wrong, [1; 32]).unwrap();
    let ran = bench.cryptsetup(&["open", "--test-passphrase", "--key-file", text(&wrong)]);
    assert_eq!(ran.0.status.code(), Some(2), "no key available with this passphrase");
}

#[test]
fn we_open_what_cryptsetup_formats_within_the_closed_list() {
    let layouts: [&[&str]; 4] = [
        &[],
        &["--luks2-metadata-size", "16k", "--luks2-keyslots-size", "256k"],
        &["--luks2-metadata-size", "64k", "--luks2-keyslots-size", "512k"],
        &["--pbkdf-force-iterations", "5000"],
    ];
    for layout in layouts {
        let bench = Bench::new();
        bench.luks_format(&options(layout));
        let header =
            bench.header().check(SegmentMode::Confidential).unwrap_or_else(|refusal| panic!("{layout:?}: {refusal}"));
        let volume_key = header.volume_key_without_authentication(bench.key.expose()).unwrap();
        assert!(volume_key.expose().iter().any(|&byte| byte != 0));
        assert!(header.volume_key_without_authentication(&[1; 32]).is_err(), "{layout:?}");
        assert_eq!(
            header.unlock(&bench.key).unwrap_err().code(),
            latchkey_disk::UnlockCode::TokenMissing,
            "{layout:?}"
        );
    }
}

#[test]
fn what_cryptsetup_formats_outside_the_closed_list_is_refused_by_name() {
    use HeaderRefusal as R;
    let argon2 =
        ["--pbkdf", "argon2id", "--pbkdf-force-iterations", "4", "--pbkdf-memory", "32768", "--pbkdf-parallel", "1"];
    let argon2 = [&argon2[..], &SUITE[..]].concat();
    let cases: [(Vec<&str>, HeaderRefusal); 7] = [
        (argon2, R::KdfArgon2),
        (options(&["--sector-size", "512"]), R::SegmentSectorSize),
        (options(&["--key-size", "256"]), R::KeyslotKeySize),
        (options(&["--cipher", "aes-cbc-essiv:sha256", "--key-size", "256"]), R::KeyslotKeySize),
        (options(&["--cipher", "aes-xts-plain"]), R::AreaCipher),
        (options(&["--pbkdf-force-iterations", "200000"]), R::KdfIterations),
        (options(&["--label", "somebody"]), R::Label),
    ];
    for (options, expected) in cases {
        let bench = Bench::new();
        bench.luks_format(&options);
        assert_eq!(bench.header().check(SegmentMode::Confidential).unwrap_err(), expected, "{options:?}");
    }
}

#[test]
fn a_luks1_volume_is_refused_by_name() {
    let bench = Bench::new();
    let key_file = bench.key_file();
    let arguments = ["luksFormat", "--batch-mode", "--type", "luks1", "--pbkdf-force-iterations", "1000"];
    bench.cryptsetup(&[&arguments[..], &["--key-file", text(&key_file)]].concat()).succeeded();
    let Probe::Existing(header) = probe(&bench.disk()).unwrap() else { panic!("a header is there") };
    assert_eq!(header.check(SegmentMode::Confidential).unwrap_err(), HeaderRefusal::Luks1);
}

#[test]
fn a_second_key_slot_added_by_cryptsetup_is_refused() {
    let bench = Bench::new();
    bench.format(Uuid::random().unwrap());
    let second = bench.directory.path().join("second");
    fs::write(&second, [2; 32]).unwrap();
    let key_file = bench.key_file();
    // The disk stands between cryptsetup's two key files, so the new one is given by option.
    let arguments = ["luksAddKey", "--batch-mode", "--key-file", text(&key_file), "--new-keyfile", text(&second)];
    bench.cryptsetup(&[&arguments[..], &PBKDF2[..]].concat()).succeeded();
    assert_eq!(bench.header().check(SegmentMode::Confidential).unwrap_err(), HeaderRefusal::KeyslotCount);
}

#[test]
fn cryptsetup_still_opens_the_disk_after_our_state_change() {
    let bench = Bench::new();
    let uuid = Uuid::random().unwrap();
    bench.format(uuid);
    let token_key = TokenKey::derive(&bench.key, uuid);
    let done = |state: &NodeState| NodeState { phase: Phase::Bootstrapped, ..state.clone() };
    update_state(&mut bench.disk(), &token_key, done, &mut KernelRandom).unwrap();
    let key_file = bench.key_file();
    bench.cryptsetup(&["open", "--test-passphrase", "--key-file", text(&key_file)]).succeeded();
    let opened = bench.header().check(SegmentMode::Confidential).unwrap().unlock(&bench.key).unwrap();
    assert_eq!(opened.state().phase, Phase::Bootstrapped);
}

#[test]
fn a_copy_that_cryptsetup_repaired_keeps_our_mac() {
    let bench = Bench::new();
    bench.format(Uuid::random().unwrap());
    let mut disk = bench.disk();
    disk.write_at(0, &[0xff; 4096]).unwrap();
    disk.flush().unwrap();
    drop(disk);
    let key_file = bench.key_file();
    bench.cryptsetup(&["open", "--test-passphrase", "--key-file", text(&key_file)]).succeeded();
    let region = fs::read(bench.disk_file()).unwrap();
    assert_eq!(&region[..6], b"LUKS\xba\xbe", "cryptsetup restored the primary copy");
    assert_eq!(bench.header().check(SegmentMode::Confidential).unwrap().unlock(&bench.key).unwrap().state(), &state());
}
