//! What would else be found at boot is found when the image is built; and what opens a way in is said.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use latchkey_image::{Built, Image, ImageError, Source, WarningCode};
use latchkey_initramfs::elf_sample;

use crate::sample::{Sample, found, run};

/// An image that a node could boot.
fn bootable(sample: &Sample) -> Image {
    let root = sample.path("root");
    fs::create_dir_all(root.join("usr/lib/systemd/system")).unwrap();
    fs::create_dir_all(root.join("sbin")).unwrap();
    fs::write(root.join("usr/lib/systemd/systemd"), "x").unwrap();
    fs::set_permissions(root.join("usr/lib/systemd/systemd"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("/usr/lib/systemd/systemd", root.join("sbin/init")).unwrap();
    let mut image = sample.image();
    image.agent = Source::Bytes(elf_sample::agent());
    image.command_line =
        "quiet latchkey.metadata=qemu latchkey.cluster_step=command latchkey.command=/usr/bin/tool".into();
    image.is_agent = true;
    image
}

fn build(sample: &Sample, image: &Image) -> Result<Built, ImageError> {
    image.build(&sample.out("a"), &mut |_| {})
}

/// The same root, as an archive.
fn packed(sample: &Sample, image: &mut Image) -> Option<()> {
    let archive = sample.path("root.tar");
    run(Command::new(found("tar", "tar")?).arg("-C").arg(sample.path("root")).arg("-cf").arg(&archive).arg("."));
    image.root = archive;
    Some(())
}

#[test]
fn a_root_that_a_node_would_refuse_is_refused_as_a_directory_and_as_an_archive() {
    type Change = fn(&Sample);
    let changes: [(Change, &str); 6] = [
        (|sample| fs::remove_file(sample.path("root/sbin/init")).unwrap(), "it has no /sbin/init"),
        (
            |sample| {
                fs::remove_file(sample.path("root/sbin/init")).unwrap();
                // There on this machine, not in the root.
                symlink("/bin/sh", sample.path("root/sbin/init")).unwrap();
            },
            "it has no /sbin/init",
        ),
        (
            |sample| {
                let init = sample.path("root/usr/lib/systemd/systemd");
                fs::set_permissions(init, fs::Permissions::from_mode(0o644)).unwrap();
            },
            "no file that may be executed",
        ),
        (|sample| fs::remove_dir(sample.path("root/sys")).unwrap(), "/sys must be a directory"),
        (|sample| fs::remove_file(sample.path("root/usr/bin/tool")).unwrap(), "it has no /usr/bin/tool, the program"),
        (
            |sample| {
                let command = sample.path("root/usr/bin/tool");
                fs::set_permissions(command, fs::Permissions::from_mode(0o644)).unwrap();
            },
            "/usr/bin/tool, the program that makes the machine a member, is no file",
        ),
    ];
    for (change, said) in changes {
        let sample = Sample::new();
        let mut image = bootable(&sample);
        change(&sample);
        for form in ["directory", "archive"] {
            if form == "archive" && packed(&sample, &mut image).is_none() {
                return;
            }
            let error = build(&sample, &image).unwrap_err();
            assert_eq!(error.code().as_str(), "image-root-unusable");
            assert!(error.to_string().contains(said), "{form}: {error}");
            assert!(!sample.out("a").exists(), "refused before any work: {form}");
        }
    }
}

/// Its machines would boot, and wait for ever.
#[test]
fn an_image_that_can_neither_found_nor_join_a_cluster_is_for_recovery_alone_and_says_so() {
    let sample = Sample::new();
    let mut image = bootable(&sample);
    let step = "latchkey.cluster_step=command latchkey.command=/usr/bin/tool";
    let key = format!("latchkey.join_service_key=sha256:{}", "0".repeat(64));
    let said = |image: &Image| {
        let error = build(&sample, image).unwrap_err();
        assert_eq!(error.code().as_str(), "image-command-line-refused");
        format!("{error}; {}", error.remedy())
    };
    image.command_line = step.to_owned();
    let refused = said(&image);
    assert!(refused.contains("neither found a cluster") && refused.contains("recover_only"), "{refused}");
    image.recover_only = true;
    build(&sample, &image).unwrap();
    image.recover_only = false;
    image.command_line = format!("{step} latchkey.join_service=10.0.0.4:9010 {key}");
    build(&sample, &image).unwrap();
    // No node takes a ticket from a service that proves nothing, whatever else it could do.
    for words in ["latchkey.join_service=10.0.0.4:9010", "latchkey.metadata=qemu latchkey.join_service=10.0.0.4:9010"] {
        image.command_line = format!("{step} {words}");
        let refused = said(&image);
        assert!(refused.contains("without latchkey.join_service_key") && refused.contains("--new-key"), "{refused}");
    }
}

#[test]
fn a_directory_that_gets_memory_of_its_own_must_be_one() {
    let sample = Sample::new();
    let mut image = bootable(&sample);
    image.command_line += " latchkey.writable=tmpfs:/var";
    build(&sample, &image).unwrap();
    fs::remove_dir(sample.path("root/var")).unwrap();
    symlink("run", sample.path("root/var")).unwrap();
    let error = build(&sample, &image).unwrap_err();
    assert!(error.to_string().contains("/var must be a directory"), "{error}");
}

#[test]
fn an_agent_that_is_no_static_executable_is_refused() {
    let sample = Sample::new();
    let mut image = bootable(&sample);
    build(&sample, &image).unwrap();
    let linker = elf_sample::Segment { kind: 3, flags: 4, content: b"/lib64/ld-linux-x86-64.so.2\0" };
    let dynamic = elf_sample::executable(3, &[linker, elf_sample::Segment::code(&[0xf4; 16])]);
    for (agent, said) in [
        (Source::Bytes(br#"{"schema": 1}"#.to_vec()), "not a 64-bit ELF executable"),
        (Source::Bytes(dynamic), "linked dynamically"),
        (Source::Bytes(elf_sample::static_executable()), "not the node agent"),
    ] {
        image.agent = agent;
        let error = build(&sample, &image).unwrap_err();
        assert_eq!(error.code().as_str(), "image-agent-unusable");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn a_kernel_without_efi_stub_and_a_state_disk_that_is_too_small_are_refused() {
    let sample = Sample::new();
    let mut image = bootable(&sample);
    image.state_size = 4 << 20;
    build(&sample, &image).unwrap();
    image.state_size -= 1;
    assert!(build(&sample, &image).unwrap_err().to_string().contains("state_size: 4194303 bytes"));
    let mut image = bootable_again(&sample);
    let Source::Bytes(kernel) = &mut image.kernel else { panic!("the sample's kernel is bytes") };
    kernel[..2].copy_from_slice(b"\xea\x05");
    let error = build(&sample, &image).unwrap_err();
    assert!(error.remedy().contains("CONFIG_EFI_STUB"), "{error}");
}

fn bootable_again(sample: &Sample) -> Image {
    fs::remove_file(sample.path("root/sbin/init")).unwrap();
    bootable(sample)
}

#[test]
fn a_login_audit_tells_of_directories_and_archives_and_a_finished_root_is_not_looked_into() {
    let sample = Sample::new();
    let mut image = bootable(&sample);
    assert_eq!(build(&sample, &image).unwrap().warnings, Some(Vec::new()));
    let root = sample.path("root");
    fs::write(root.join("etc/shadow"), "root::1::::::\n").unwrap();
    fs::write(root.join("usr/lib/systemd/system/serial-getty@.service"), "x").unwrap();
    fs::create_dir_all(root.join("etc/systemd/system/getty.target.wants")).unwrap();
    let wanted = root.join("etc/systemd/system/getty.target.wants/serial-getty@ttyS0.service");
    symlink("/usr/lib/systemd/system/serial-getty@.service", wanted).unwrap();
    let expected = [WarningCode::ConsoleLogin, WarningCode::PasswordEmpty];
    let codes = |built: &Built| built.warnings.iter().flatten().map(|warning| warning.code).collect::<Vec<_>>();
    assert_eq!(codes(&build(&sample, &image).unwrap()), expected);
    if packed(&sample, &mut image).is_some() {
        assert_eq!(codes(&build(&sample, &image).unwrap()), expected);
    }
    let Some(mksquashfs) = found("mksquashfs", "squashfs-tools") else { return };
    let finished = sample.path("finished.squashfs");
    run(Command::new(mksquashfs).arg(&root).arg(&finished).args(["-noappend", "-quiet", "-no-progress"]));
    image.root = finished;
    image.os_release = Some(Source::Bytes(b"ID=x\n".to_vec()));
    assert_eq!(build(&sample, &image).unwrap().warnings, None);
}
