//! Images that somebody changed: each attack on what is measured is refused, and the join service names what differs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use latchkey_boot_formats::partition_type::{ROOT_VERITY_X86_64 as ROOT_VERITY, ROOT_X86_64 as ROOT};
use latchkey_measurements::predict::{MachineType, StubVersion, Uki};
use latchkey_qemu_tests::bootimage;
use latchkey_qemu_tests::cluster::Services;
use latchkey_qemu_tests::fleet::{Fleet, MEMBER, Plan, STEP};
use latchkey_qemu_tests::hardware::{Boot, Disk};
use latchkey_qemu_tests::tamper::{LOADER, Parts, TamperedDisk, addon, with_section};
use latchkey_qemu_tests::vm::Vm;
use latchkey_test_support::first;

/// Another loader, which Debian has beside the boot stub.
const SYSTEMD_BOOT: &str = "systemd-bootx64.efi";

/// How a changed section is refused, and another change of the loaded file.
const SECTIONS: (&str, u8) = ("image-differs", 11);
const LOADED: (&str, u8) = ("boot-loader-differs", 4);

/// `struct squashfs_super_block`: `mkfs_time`, after magic and inode count.
const SQUASHFS_TIME: u64 = 8;
/// Within the first 128 KiB of busybox, which is `/sbin/init`: mksquashfs goes by names, and puts the contents of files
/// right behind its superblock.
const PROGRAM: u64 = 0x4000;
/// Behind veritysetup's superblock, block by block: the hash tree's top, then what the top vouches for, first the hashes
/// of the root's first 128 blocks.
const TOP_HASHES: u64 = 4096;
const LOWEST_HASHES: u64 = 2 * 4096;
/// In the middle of a file of the root that nobody reads before the OS does.
const MARKER: &str = "MARKER as it was built";
/// Half of what squashfs compresses at a time.
const HALF_A_BLOCK: usize = 64 << 10;
/// Reads it.
const READ_MARKER: &str = "echo OS begins to read
echo \"OS reads $(dd if=/usr/share/marker bs=65536 skip=1 2>/dev/null | head -n 1)\"
echo OS lives on";

/// Noise, which no compression changes, with the marker in it.
fn marker_file() -> Vec<u8> {
    let xorshift = |state: &u64| {
        let state = state ^ (state << 13);
        let state = state ^ (state >> 7);
        Some(state ^ (state << 17))
    };
    let noise = std::iter::successors(Some(0x1234_5678_9abc_def1_u64), xorshift).flat_map(u64::to_le_bytes);
    let mut file: Vec<u8> = noise.take(2 * HALF_A_BLOCK).collect();
    let line = format!("{MARKER}\n");
    file[HALF_A_BLOCK..HALF_A_BLOCK + line.len()].copy_from_slice(line.as_bytes());
    file
}

/// A cluster with its services; its first node is off again.
struct Site {
    // Before the fleet, whose directory they use.
    services: Services,
    fleet: Fleet,
}

/// One site for all tests that run at the same time, and until the last of them ends.
fn site() -> Arc<Site> {
    static SITE: Mutex<Weak<Site>> = Mutex::new(Weak::new());
    let mut shared = SITE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(site) = shared.upgrade() {
        return site;
    }
    let programs = vec![("/usr/share/marker", marker_file())];
    let fleet = Fleet::planned("tampered", Plan { then: READ_MARKER, programs, ..Plan::default() }).unwrap();
    let (services, first) = fleet.found_cluster(fleet.machine("node-1").unwrap()).unwrap();
    first.expect(&format!("OS reads {MARKER}"), STEP).unwrap();
    drop(first);
    let site = Arc::new(Site { services, fleet });
    *shared = Arc::downgrade(&site);
    site
}

impl Site {
    /// The honest disk, in an attacker's hands.
    fn disk(&self, attack: &str) -> TamperedDisk {
        TamperedDisk::copy(self.fleet.run(), &format!("{attack}.raw"), &self.fleet.image().disk).unwrap()
    }

    fn honest_image(&self) -> Vec<u8> {
        std::fs::read(&self.fleet.image().uki).unwrap()
    }

    /// The parts of the honest image.
    fn parts(&self) -> Parts {
        let stub = std::fs::read(bootimage::stub().unwrap()).unwrap();
        Parts::of(&self.honest_image(), stub).unwrap()
    }

    fn boot(&self, attack: &str, disk: &TamperedDisk) -> Vm {
        let boot = Boot::Disk(Disk::new(disk.path(), "os").read_only());
        let tpm = self.fleet.tpm(attack).unwrap();
        self.fleet.machine_of(attack, boot, &tpm).unwrap().start().unwrap()
    }

    /// Boots the disk: the node is refused, and the join service names the component that differs, and all
    /// registers; the line with `mark` in it is about this node.
    fn refused(&self, attack: &str, disk: &TamperedDisk, component: &str, registers: &str, mark: &str) {
        let node = self.boot(attack, disk);
        node.expect("no ticket yet: measurements-refused", STEP).unwrap();
        let parts = [&format!("{component}: PCR"), &format!("PCRs that differ: {registers} ("), mark];
        // The node may be told before the service's own line is read.
        self.services.join.console().find(&parts, STEP).unwrap_or_else(|error| panic!("{attack}: {error}"));
        assert!(!node.console().contains("lock: begin"));
    }

    /// The same for a disk with this unified kernel image; it measures what is predicted of it, too.
    fn image_refused(&self, attack: &str, image: &[u8], (component, pcr): (&str, u8), registers: &str) {
        let kind = MachineType::builtin(&bootimage::machine_type().unwrap()).unwrap().load(Path::new("/")).unwrap();
        let measured = Uki::measure(image).unwrap().predict(&kind).unwrap().pcr(pcr).unwrap();
        let disk = self.disk(attack);
        disk.write(LOADER, image).unwrap();
        self.refused(attack, &disk, component, registers, &format!("got {measured}"));
    }
}

/// Changes a byte of the text `of`, which nothing reads.
fn with_another_letter(bytes: &[u8], of: &str) -> Vec<u8> {
    let at = bytes.windows(of.len()).position(|window| window == of.as_bytes()).unwrap();
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

#[test]
fn a_changed_kernel_is_refused() {
    let site = site();
    let mut parts = site.parts();
    // Text of its part for firmware of before UEFI.
    parts.linux = with_another_letter(&parts.linux, "Probing EDD");
    site.image_refused("kernel", &parts.build().unwrap(), SECTIONS, "[4, 11]");
}

#[test]
fn a_changed_initrd_is_refused() {
    let site = site();
    let mut parts = site.parts();
    // The kernel skips zeros between archives.
    parts.initrd.extend([0; 512]);
    site.image_refused("initrd", &parts.build().unwrap(), SECTIONS, "[4, 9, 11]");
}

#[test]
fn a_changed_boot_stub_is_refused() {
    let site = site();
    let mut parts = site.parts();
    // The name of a source file, for an assertion that fails.
    parts.stub = with_another_letter(&parts.stub, "src/boot/");
    site.image_refused("stub", &parts.build().unwrap(), LOADED, "[4]");
}

#[test]
fn an_appended_section_is_refused() {
    let site = site();
    // Sections of this name are data for nobody: only the hash of the whole file shows it.
    let image = with_section(&site.honest_image(), ".evil", b"evil").unwrap();
    site.image_refused("section", &image, LOADED, "[4]");
}

#[test]
fn a_second_loader_before_the_honest_image_is_refused() {
    let site = site();
    let disk = site.disk("loader");
    disk.write(LOADER, &std::fs::read(bootimage::stub().unwrap().with_file_name(SYSTEMD_BOOT)).unwrap()).unwrap();
    disk.write("EFI/Linux/honest.efi", &site.honest_image()).unwrap();
    // The older one hands a command line over, which the boot stub measures.
    let registers = match bootimage::stub_version().unwrap() {
        StubVersion::V252 => "[4, 12]",
        StubVersion::V257 => "[4]",
    };
    site.refused("loader", &disk, "boot-loader-differs", registers, "");
}

#[test]
fn credentials_beside_the_honest_image_are_refused() {
    let site = site();
    let disk = site.disk("credential");
    disk.write(&format!("{LOADER}.extra.d/passwd.cred"), b"evil").unwrap();
    site.refused("credential", &disk, "overrides-differ", "[9, 12]", "");
}

#[test]
fn extensions_beside_the_honest_image_are_refused() {
    let site = site();
    let disk = site.disk("extension");
    disk.write(&format!("{LOADER}.extra.d/evil.raw"), b"evil").unwrap();
    site.refused("extension", &disk, "extensions-differ", "[9, 13]", "");
}

/// A stub that knows no addons leaves it alone, and the node joins; what one makes of it that does, its registers show.
#[test]
fn an_addon_beside_the_honest_image_is_refused_or_not_taken_up() {
    let site = site();
    let disk = site.disk("addon");
    disk.write(&format!("{LOADER}.extra.d/evil.addon.efi"), &addon(&[(".cmdline", b"init=/bin/sh")]).unwrap()).unwrap();
    match bootimage::stub_version().unwrap() {
        StubVersion::V252 => drop(site.boot("addon", &disk).expect(MEMBER, STEP).unwrap()),
        StubVersion::V257 => site.refused("addon", &disk, "boot-loader-differs", "[4, 9, 12]", ""),
    }
}

/// The key would be issued: nothing that is measured differs. What is not measured is hashed when it is read.
#[test]
fn a_changed_block_of_the_root_or_of_its_hashes_stops_the_node() {
    let site = site();
    let attacks = [
        ("program", ROOT, PROGRAM, "root-verity-corrupt"),
        ("top-hash", ROOT_VERITY, TOP_HASHES, "root-verity-wrong-tree"),
        ("hashes", ROOT_VERITY, LOWEST_HASHES, "root-verity-corrupt"),
        // When it was made: a reader without dm-verity would not mind.
        ("superblock", ROOT, SQUASHFS_TIME, "root-verity-corrupt"),
    ];
    for &(attack, partition, offset, code) in first(2, &attacks) {
        let disk = site.disk(attack);
        disk.flip(partition, offset).unwrap();
        let node = site.boot(attack, &disk);
        let line = node.expect("failed: ", STEP).unwrap().text;
        assert!(line.contains(&format!("failed: {code}: ")), "{attack}: {line}");
        let begun = ["lock: begin", "OS "].map(|text| node.console().contains(text));
        assert_eq!(begun, [false; 2], "{attack}: {}", node.console().text());
    }
}

#[test]
fn a_changed_block_that_the_os_reads_restarts_the_machine_and_is_never_seen() {
    let site = site();
    let disk = site.disk("late");
    disk.flip(ROOT, disk.find(ROOT, MARKER.as_bytes()).unwrap()).unwrap();
    let tpm = site.fleet.tpm("late").unwrap();
    let boot = Boot::Disk(Disk::new(disk.path(), "os").read_only());
    let machine = site.fleet.machine_of("late", boot, &tpm).unwrap();
    // Power stays on, as it does for a machine that nobody watches.
    let node = machine.arguments(&["-action", "reboot=reset"]).start().unwrap();
    node.expect("OS begins to read", STEP).unwrap();
    // The kernel's own words (drivers/md/dm-verity-target.c).
    let (which, line) = node.expect_any(&["dm-verity device corrupted", "OS lives on"], STEP).unwrap();
    assert_eq!(which, 0, "{}", line.text);
    node.expect("mounts: begin", STEP).unwrap();
    for text in ["OS reads", "OS lives on", "Kernel panic"] {
        assert!(!node.console().contains(text), "{text}: {}", node.console().text());
    }
}
