//! The whole build, beside what other programs think of its result.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::sample::{self, Sample, found, run};
use latchkey_image::{Built, Compression, Form, Image, ImageError, Part, RootFormat, Source, verity};
use latchkey_test_support::output;

pub(crate) fn build(image: &Image, out: &Path) -> Built {
    image.build(out, &mut |_| {}).unwrap()
}

fn refused(change: impl FnOnce(&mut Image)) -> String {
    let sample = Sample::new();
    let mut image = sample.image();
    change(&mut image);
    let error: ImageError = image.build(&sample.out("a"), &mut |_| {}).unwrap_err();
    // Nothing half finished stays.
    let left = fs::read_dir(sample.out("a")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "{error}");
    format!("{error}; {}", error.remedy())
}

pub(crate) fn part<'a>(built: &'a Built, what: &str) -> &'a Part {
    built.parts.iter().find(|part| part.what == what).unwrap()
}

/// First sector and sectors of a partition, as sgdisk reads them.
fn extent(sgdisk: &Path, disk: &Path, number: u32) -> (u64, u64) {
    let info = run(Command::new(sgdisk).arg(format!("-i{number}")).arg(disk));
    let value = |key: &str| {
        let line = info.lines().find(|line| line.starts_with(key)).unwrap();
        line[key.len()..].split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    (value("First sector: "), value("Partition size: "))
}

/// A partition's bytes.
pub(crate) fn partition(sgdisk: &Path, disk: &Path, number: u32) -> Vec<u8> {
    let bytes = fs::read(disk).unwrap();
    let (first, sectors) = extent(sgdisk, disk, number);
    let at = usize::try_from(first * 512).unwrap();
    bytes[at..at + usize::try_from(sectors * 512).unwrap()].to_vec()
}

#[test]
fn two_directories_and_two_days_give_the_same_bytes() {
    let (one, other) = (Sample::new(), Sample::new());
    other.age();
    let (first, second) = (build(&one.image(), &one.out("a")), build(&other.image(), &other.out("a-longer-name")));
    assert_eq!(first.root_hash, second.root_hash);
    assert_eq!(first.parts, second.parts);
    assert!(fs::read(&first.disk).unwrap() == fs::read(&second.disk).unwrap());
    // Nothing is left of the build but what it was for.
    assert_eq!(fs::read_dir(one.out("a")).unwrap().count(), 2);
}

#[test]
fn another_version_is_another_image_of_the_same_root() {
    let sample = Sample::new();
    let first = build(&sample.image(), &sample.out("a"));
    let mut newer = sample.image();
    newer.version = latchkey_attestation::ImageVersion::new(1, 2, 4);
    let second = build(&newer, &sample.out("a"));
    assert_eq!(part(&first, "root").sha256, part(&second, "root").sha256);
    assert_ne!(first.root_hash, second.root_hash);
    assert_ne!(part(&first, "uki").sha256, part(&second, "uki").sha256);
}

#[test]
fn veritysetup_makes_the_same_tree_and_accepts_ours() {
    let Some(veritysetup) = found("veritysetup", "cryptsetup-bin") else { return };
    let directory = tempfile::tempdir().unwrap();
    let (data, theirs, ours) =
        (directory.path().join("data"), directory.path().join("theirs"), directory.path().join("ours"));
    for (blocks, salt) in [(1, "00"), (2, "-"), (128, "aabb"), (129, "ff"), (20_000, "0123456789abcdef")] {
        let content: Vec<u8> =
            (0..blocks * 512_u32).flat_map(|n| u64::from(n).wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
        fs::write(&data, &content).unwrap();
        let uuid = "00112233-4455-8677-8899-aabbccddeeff";
        drop(fs::remove_file(&theirs));
        let options = [format!("--salt={salt}"), format!("--uuid={uuid}")];
        let said = run(Command::new(&veritysetup).arg("format").args(&options).args([&data, &theirs]));
        let salt = if salt == "-" { Vec::new() } else { hex::decode(salt).unwrap() };
        let uuid = hex::decode(uuid.replace('-', "")).unwrap().try_into().unwrap();
        let tree = verity::hash(&fs::File::open(&data).unwrap(), blocks.into(), &salt, uuid).unwrap();
        let root_hash = hex::encode(tree.root_hash);
        assert!(said.contains(&root_hash), "{blocks} blocks: {said}");
        assert!(fs::read(&theirs).unwrap() == tree.bytes, "{blocks} blocks");
        fs::write(&ours, &tree.bytes).unwrap();
        run(Command::new(&veritysetup).arg("verify").args([&data, &ours]).arg(&root_hash));
    }
}

#[test]
fn the_disk_is_one_that_other_programs_read() {
    let Some(sgdisk) = found("sgdisk", "gdisk") else { return };
    let sample = Sample::new();
    let built = build(&sample.image(), &sample.out("a"));
    let said = run(Command::new(&sgdisk).arg("-v").arg(&built.disk));
    assert!(said.contains("No problems found"), "{said}");

    let hash = hex::encode(built.root_hash);
    let dashed = |half: &str| {
        let parts = [&half[..8], &half[8..12], &half[12..16], &half[16..20], &half[20..]];
        format!("Partition unique GUID: {}", parts.join("-").to_uppercase())
    };
    let expected = [
        (1, "C12A7328-F81F-11D2-BA4B-00A0C93EC93B", String::new()),
        (2, "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709", dashed(&hash[..32])),
        (3, "2C7357ED-EBD2-46D9-AEC1-23D437EC2BF5", dashed(&hash[32..])),
        (4, "8F1D5A2E-6C37-4B0E-9A54-1CE07AD3926B", String::new()),
    ];
    for (number, kind, id) in expected {
        let info = run(Command::new(&sgdisk).arg(format!("-i{number}")).arg(&built.disk));
        assert!(info.contains(kind) && info.contains(&id), "{info}");
    }

    let uki = fs::read(&built.uki).unwrap();
    let image = latchkey_measurements::pe::Image::parse(&uki).unwrap();
    let os_release = String::from_utf8_lossy(image.section(".osrel").unwrap()).into_owned();
    assert_eq!(os_release, "ID=sample\nNAME=\"Sample\"\nIMAGE_ID=sample\nIMAGE_VERSION=1.2.3\n");
    assert_eq!(image.section(".uname"), Some(sample::RELEASE.as_bytes()));
    assert_eq!(image.section(".cmdline"), Some(built.command_line.as_bytes()));
    let protections =
        "init_on_free=1 module.sig_enforce=1 hibernate=no mem_sleep_default=s2idle lockdown=confidentiality";
    let begins = format!("console=ttyS0 quiet latchkey.ek=ecc-p256 {protections} latchkey.root_verity={hash},salt=");
    assert!(built.command_line.starts_with(&begins), "{}", built.command_line);
    assert!(built.command_line.ends_with(" latchkey.root_fs=squashfs"), "{}", built.command_line);

    let esp = sample.path("esp");
    fs::write(&esp, partition(&sgdisk, &built.disk, 1)).unwrap();
    if let Some(fsck) = found("fsck.fat", "dosfstools") {
        run(Command::new(fsck).arg("-n").arg(&esp));
    }
    if let Some(mcopy) = found("mcopy", "mtools") {
        let loader = sample.path("loader");
        run(Command::new(mcopy).arg("-i").arg(&esp).arg("::/EFI/BOOT/BOOTX64.EFI").arg(&loader));
        assert!(fs::read(&loader).unwrap() == uki);
    }
    if let Some(veritysetup) = found("veritysetup", "cryptsetup-bin") {
        let (root, tree) = (sample.path("root.img"), sample.path("tree.img"));
        fs::write(&root, partition(&sgdisk, &built.disk, 2)).unwrap();
        fs::write(&tree, partition(&sgdisk, &built.disk, 3)).unwrap();
        run(Command::new(&veritysetup).arg("verify").args([&root, &tree]).arg(&hash));
        let mut changed = fs::read(&root).unwrap();
        changed[1 << 20] ^= 1;
        fs::write(&root, changed).unwrap();
        let verify = output(Command::new(&veritysetup).arg("verify").args([&root, &tree]).arg(&hash)).unwrap();
        assert!(!verify.status.success());
    }
}

#[test]
fn a_root_may_be_an_archive_or_a_finished_file_system() {
    let Some(tar) = found("tar", "tar") else { return };
    let sample = Sample::new();
    let archive = sample.path("root.tar");
    run(Command::new(&tar)
        .arg("-C")
        .arg(sample.path("root"))
        .args(["--owner=7", "--group=8", "-cf"])
        .arg(&archive)
        .arg("."));
    let mut image = sample.image();
    image.root = archive.clone();
    let from_tar = build(&image, &sample.out("tar"));
    // The same archive, packed.
    let packed = sample.path("root.tar.zst");
    fs::write(&packed, zstd::bulk::compress(&fs::read(&archive).unwrap(), 1).unwrap()).unwrap();
    image.root = packed;
    assert_eq!(build(&image, &sample.out("zst")).parts, from_tar.parts);
    // Owners stay as in the archive: a directory's files would be root's.
    assert_ne!(build(&sample.image(), &sample.out("dir")).root_hash, from_tar.root_hash);

    let Some(mksquashfs) = found("mksquashfs", "squashfs-tools") else { return };
    let finished = sample.path("finished.squashfs");
    run(Command::new(mksquashfs).arg(sample.path("root")).arg(&finished).args(["-noappend", "-quiet", "-no-progress"]));
    image.root = finished.clone();
    image.os_release = Some(Source::Bytes(b"ID=x\n".to_vec()));
    let built = build(&image, &sample.out("ready"));
    assert_eq!(part(&built, "root").size, fs::metadata(&finished).unwrap().len().next_multiple_of(4096));
    image.root_format = Some(RootFormat::Erofs);
    assert!(image.build(&sample.out("x"), &mut |_| {}).unwrap_err().to_string().contains("finished squashfs"));
}

#[test]
fn erofs_and_qcow2_are_reproducible_too() {
    if found("mkfs.erofs", "erofs-utils").is_none() || found("qemu-img", "qemu-utils").is_none() {
        return;
    }
    let (one, other) = (Sample::new(), Sample::new());
    other.age();
    let built = [&one, &other].map(|sample| {
        let mut image = sample.image();
        image.root_format = Some(RootFormat::Erofs);
        image.qcow2 = true;
        build(&image, &sample.out("a"))
    });
    assert_eq!(built[0].parts, built[1].parts);
    assert!(built[0].command_line.ends_with(" latchkey.root_fs=erofs"));
    assert!(built[0].forms.iter().any(|(form, file)| *form == Form::Qcow2 && file.is_file()));
}

#[test]
fn what_cannot_become_an_image_is_refused_with_its_reason() {
    let said = refused(|image| image.command_line = "quiet rd.break".into());
    assert!(said.contains("\"rd.break\""), "{said}");
    let said = refused(|image| image.name = "../../etc/passwd".into());
    assert!(said.contains("name: "), "{said}");
    for words in ["latchkey.debug=1", "latchkey.network=maybe", "latchkey.cluster_step=command", "quiet"] {
        let said = refused(|image| {
            image.is_agent = true;
            image.command_line = words.into();
        });
        assert!(said.contains("the agent would refuse it: "), "{words}: {said}");
    }
    let said = refused(|image| image.root = image.modules.join("nowhere"));
    assert!(said.contains("nowhere"), "{said}");
    let said = refused(|image| fs::remove_file(image.root.join("usr/lib/os-release")).unwrap());
    assert!(said.contains("os_release"), "{said}");
    let said = refused(|image| image.esp_size = Some(1));
    assert!(said.contains("boot partition"), "{said}");
    let said = refused(|image| image.kernel = Source::Bytes(b"no kernel".to_vec()));
    assert!(said.contains("kernel: "), "{said}");
    let said = refused(|image| {
        image.root_format = Some(RootFormat::Erofs);
        image.compression = Some(Compression::Xz);
    });
    assert!(said.contains("erofs is not compressed with xz"), "{said}");
    let said = refused(|image| image.command_line = "x".repeat(2000));
    assert!(said.contains("command line has"), "{said}");
}
