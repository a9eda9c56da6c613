//! What images bring for systemd, in the root file systems that are made of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::disk::{build, partition};
use crate::sample::{Sample, found, run};
use latchkey_image::systemd::{State, Systemd};
use latchkey_image::{Built, Image, RootFormat};

const AGENT: &[u8] = b"the agent";

fn systemd() -> Systemd {
    let state: State = serde_json::from_str(r#"{"persist": ["/etc/kubernetes", "/srv/a-b"]}"#).unwrap();
    Systemd { in_root: false, state: Some(state) }
}

fn image(sample: &Sample) -> Image {
    let mut image = sample.image();
    image.systemd = Some(systemd());
    image
}

pub(crate) fn archive(sample: &Sample) -> PathBuf {
    let archive = sample.path("root.tar");
    let mut tar = Command::new(found("tar", "tar").unwrap());
    tar.args(["--sort=name", "--owner=0", "--group=0", "-C"])
        .arg(sample.path("root"))
        .arg("-cf")
        .arg(&archive)
        .arg(".");
    run(&mut tar);
    archive
}

/// Every path of the root with kind, permissions, and target or content.
pub(crate) fn contents(sample: &Sample, built: &Built) -> Option<Vec<String>> {
    let (sgdisk, unsquashfs) = (found("sgdisk", "gdisk")?, found("unsquashfs", "squashfs-tools")?);
    let (packed, tree) = (sample.path("root.squashfs"), sample.path("unpacked"));
    fs::write(&packed, partition(&sgdisk, &built.disk, 2)).unwrap();
    let _ = fs::remove_dir_all(&tree);
    run(Command::new(unsquashfs).args(["-quiet", "-no-progress", "-dest"]).arg(&tree).arg(&packed));
    let mut lines = Vec::new();
    describe(&tree, &tree, &mut lines);
    lines.sort();
    Some(lines)
}

fn describe(tree: &Path, path: &Path, lines: &mut Vec<String>) {
    let about = fs::symlink_metadata(path).unwrap();
    let name = path.strip_prefix(tree).unwrap().display();
    let mode = about.permissions().mode();
    if about.is_symlink() {
        lines.push(format!("{name} -> {}", fs::read_link(path).unwrap().display()));
    } else if about.is_dir() {
        lines.push(format!("{name}/ {mode:o}"));
        for entry in fs::read_dir(path).unwrap() {
            describe(tree, &entry.unwrap().path(), lines);
        }
    } else {
        let content = fs::read(path).unwrap();
        lines.push(format!("{name} {mode:o} {} {:x?}", content.len(), content.iter().take(64).collect::<Vec<_>>()));
    }
}

/// A root with a file and a directory where additions go, and with a permission of its own.
fn sample() -> Sample {
    let sample = Sample::new();
    let root = sample.path("root");
    fs::write(root.join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::create_dir_all(root.join("etc/kubernetes/manifests")).unwrap();
    fs::set_permissions(root.join("etc/kubernetes"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir_all(root.join("etc/systemd/system/getty.target.wants")).unwrap();
    symlink("/lib/systemd/system/emergency.service", root.join("etc/systemd/system/emergency.service")).unwrap();
    sample
}

#[test]
fn a_directory_and_an_archive_give_the_same_files_and_equal_ones_equal_bytes() {
    if found("tar", "tar").is_none() {
        return;
    }
    let (one, other) = (sample(), sample());
    other.age();
    let from_directory = build(&image(&one), &one.out("a"));
    assert_eq!(from_directory.parts, build(&image(&other), &other.out("b")).parts);

    let from_archive = [&one, &other].map(|sample| {
        let mut image = image(sample);
        image.root = archive(sample);
        build(&image, &sample.out("tar"))
    });
    assert_eq!(from_archive[0].parts, from_archive[1].parts);

    let Some(files) = contents(&one, &from_directory) else { return };
    assert_eq!(Some(&files), contents(&one, &from_archive[0]).as_ref());
    let has = |line: &str| assert!(files.iter().any(|file| file.starts_with(line)), "{line}\n{}", files.join("\n"));
    has("etc/machine-id 100444 0 ");
    has("usr/bin/latchkey-agent 100755 9 ");
    has("etc/systemd/system/emergency.service -> /dev/null");
    has("usr/lib/systemd/system/srv-a\\x2db.mount 100644 ");
    has("usr/lib/systemd/system/local-fs.target.requires/srv-a\\x2db.mount -> ../srv-a\\x2db.mount");
    has("usr/lib/latchkey/state-directories 100755 ");
    // Nothing puts the machine to sleep.
    has("etc/systemd/system/sleep.target -> /dev/null");
    has("etc/systemd/system/suspend.target -> /dev/null");
    has("etc/systemd/system/hibernate.target -> /dev/null");
    has("etc/systemd/sleep.conf.d/zz-latchkey.conf 100644 ");
    has("etc/systemd/logind.conf.d/zz-latchkey.conf 100644 ");
    // What the root had stays as it was, and what it lacked is like any other directory.
    has("etc/kubernetes/ 40700");
    has("etc/kubernetes/manifests/ 40755");
    has("etc/systemd/system/getty.target.wants/ 40755");
    has("srv/a-b/ 40755");
    has("state/ 40755");
}

#[test]
fn a_later_member_of_an_archive_wins_in_the_image_as_it_does_in_tar() {
    let Some(tar) = found("tar", "tar") else { return };
    let sample = sample();
    let mut image = image(&sample);
    image.root = archive(&sample);
    fs::write(sample.path("root/usr/bin/tool"), "the later tool\n").unwrap();
    let mut append = Command::new(tar);
    append.args(["--owner=0", "--group=0", "-C"]).arg(sample.path("root")).arg("-rf").arg(&image.root);
    run(append.args(["--exclude=noise", "./usr"]));
    let built = build(&image, &sample.out("image"));
    let Some(files) = contents(&sample, &built) else { return };
    let has = |line: &str| assert!(files.iter().any(|file| file.starts_with(line)), "{line}\n{}", files.join("\n"));
    has("usr/bin/tool 100755 15 ");
    has("usr/bin/noise 100644 3145728 ");
    has("usr/lib/os-release ");
}

/// Harms a root.
type Change = fn(&Path);

#[test]
fn a_root_that_is_said_to_have_the_files_and_lacks_one_or_has_another_is_refused() {
    // As somebody else would put them there.
    let filled = |sample: &Sample| {
        let units = sample.path("units");
        let image = image(sample);
        image.write_units(&units).unwrap();
        let mut copy = Command::new(found("cp", "coreutils").unwrap());
        run(copy.args(["-a", "--remove-destination"]).arg(units.join(".")).arg(sample.path("root")));
        Image { systemd: Some(Systemd { in_root: true, ..systemd() }), ..image }
    };
    let changes: [(Change, &str); 6] = [
        (|root| fs::remove_dir_all(root.join("usr/lib/systemd")).unwrap(), "it has no /usr/lib/systemd/system/"),
        (
            |root| fs::remove_file(root.join("etc/systemd/system/getty@.service")).unwrap(),
            "no /etc/systemd/system/getty",
        ),
        (|root| fs::write(root.join("usr/bin/latchkey-agent"), "an agent").unwrap(), "its /usr/bin/latchkey-agent is"),
        (
            |root| {
                let agent = root.join("usr/bin/latchkey-agent");
                fs::set_permissions(agent, fs::Permissions::from_mode(0o644)).unwrap();
            },
            "its /usr/bin/latchkey-agent is",
        ),
        (
            |root| {
                let mask = root.join("etc/systemd/system/rescue.target");
                fs::remove_file(&mask).unwrap();
                symlink("/usr/lib/systemd/system/rescue.target", mask).unwrap();
            },
            "its /etc/systemd/system/rescue.target is",
        ),
        (|root| fs::remove_dir(root.join("state")).unwrap(), "it has no /state"),
    ];
    for (change, said) in changes {
        let sample = sample();
        let mut image = filled(&sample);
        build(&image, &sample.out("whole"));
        change(&sample.path("root"));
        for packed in [false, true] {
            if packed {
                image.root = archive(&sample);
            }
            let error = image.build(&sample.out("a"), &mut |_| {}).unwrap_err();
            let text = error.to_string();
            assert_eq!(error.code().as_str(), "image-root-unusable");
            assert!(text.contains(said) && error.remedy().contains("latchkey image units"), "{text}");
        }
    }
    let sample = sample();
    let mut image = filled(&sample);
    image.root = archive(&sample);
    build(&image, &sample.out("archive"));
}

#[test]
fn the_measured_command_line_keeps_the_host_s_credentials_out() {
    let sample = Sample::new();
    let built = build(&image(&sample), &sample.out("a"));
    assert!(
        built.command_line.contains(" systemd.import_credentials=no latchkey.root_verity="),
        "{}",
        built.command_line
    );
}

#[test]
fn what_is_in_the_way_is_named_and_a_finished_root_is_told_the_way_out() {
    let refused = |change: &dyn Fn(&Sample, &mut Image)| {
        let sample = Sample::new();
        let mut image = image(&sample);
        change(&sample, &mut image);
        let error = image.build(&sample.out("a"), &mut |_| {}).unwrap_err();
        format!("{error}; {}", error.remedy())
    };
    // Units would land wherever the link leads when the system runs.
    let linked = |sample: &Sample| symlink("/var", sample.path("root/etc/systemd")).unwrap();
    let said = refused(&|sample, _| linked(sample));
    assert!(said.contains("/etc/systemd is in the way"), "{said}");
    if found("tar", "tar").is_some() {
        let said = refused(&|sample, image| {
            linked(sample);
            image.root = archive(sample);
        });
        assert!(said.contains("/etc/systemd is in the way"), "{said}");
    }
    let said = refused(&|sample, _| fs::create_dir(sample.path("root/etc/machine-id")).unwrap());
    assert!(said.contains("/etc/machine-id is in the way"), "{said}");
    let said = refused(&|_, image| image.root_format = Some(RootFormat::Erofs));
    assert!(said.contains("latchkey image units"), "{said}");

    let Some(mksquashfs) = found("mksquashfs", "squashfs-tools") else { return };
    let finished = |sample: &Sample, image: &mut Image| {
        let file = sample.path("finished");
        run(Command::new(&mksquashfs).arg(sample.path("root")).arg(&file).args(["-quiet", "-no-progress"]));
        image.os_release = Some(latchkey_image::Source::Bytes(b"ID=x\n".to_vec()));
        image.root = file;
    };
    let said = refused(&finished);
    assert!(
        said.contains("nothing is added to a finished file system") && said.contains("\"in_root\": true"),
        "{said}"
    );
    let sample = Sample::new();
    let mut image = image(&sample);
    finished(&sample, &mut image);
    image.systemd = Some(Systemd { in_root: true, ..systemd() });
    assert!(build(&image, &sample.out("a")).command_line.contains("systemd.import_credentials=no"));
}

#[test]
fn the_same_files_are_written_into_a_directory_for_roots_that_others_build() {
    let sample = Sample::new();
    let mut image = image(&sample);
    let out = sample.path("units");
    assert_eq!(image.write_units(&out).unwrap(), Some(systemd().files(AGENT).len()));
    assert_eq!(fs::read(out.join("usr/bin/latchkey-agent")).unwrap(), AGENT);
    assert_eq!(
        fs::metadata(out.join("usr/lib/latchkey/state-file-system")).unwrap().permissions().mode() & 0o777,
        0o755
    );
    assert_eq!(fs::read_link(out.join("etc/systemd/system/rescue.target")).unwrap(), Path::new("/dev/null"));
    // Never over something that is there.
    assert!(image.write_units(&out).is_err());
    image.systemd = None;
    assert_eq!(image.write_units(&sample.path("more")).unwrap(), None);
}
