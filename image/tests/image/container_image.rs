//! Container images of one program: what they are made of, and what the real containerd thinks of them.

use std::fs;
use std::io::Read as _;
use std::process::Command;

use latchkey_image::{ContainerImage, ContainerImageError};
use latchkey_initramfs::elf_sample::{self, Segment};
use latchkey_kubernetes::{Reference, Sha256};

use crate::container_store::CONTAINERD;
use crate::sample::{found, run};

fn reference() -> Reference {
    "registry.example/latchkey/join-service:0.1.0".to_owned().try_into().unwrap()
}

fn image() -> ContainerImage {
    ContainerImage::new(&elf_sample::static_executable(), "latchkey-join-service", &reference()).unwrap()
}

/// That a tar file says nothing of who made it, nor when.
fn is_nobodys(header: &tar::Header) -> bool {
    let numbers = [header.mtime(), header.uid(), header.gid()].map(Result::unwrap);
    numbers == [0; 3] && [header.username_bytes(), header.groupname_bytes()] == [Some(b"".as_slice()); 2]
}

#[test]
fn equal_programs_give_equal_images_and_others_give_others() {
    // What another build of the same program, elsewhere and later, would have otherwise.
    let archive = image().archive;
    let mut files = tar::Archive::new(archive.as_slice());
    let mut layers = 0;
    for mut file in files.entries().unwrap().map(Result::unwrap) {
        assert!(is_nobodys(file.header()), "{:?} {:?}", file.path(), file.header());
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        for file in tar::Archive::new(content.as_slice()).entries().unwrap().map_while(Result::ok) {
            layers += 1;
            assert!(is_nobodys(file.header()), "{:?} {:?}", file.path(), file.header());
        }
    }
    assert_eq!(layers, 1, "the layer's one file");
    let other = elf_sample::executable(2, &[Segment::code(&[0x90; 16])]);
    let other = ContainerImage::new(&other, "latchkey-join-service", &reference()).unwrap();
    assert_ne!(image().digest, other.digest);
    // Its name decides nothing of what it is.
    let name = "registry.example/other:1".to_owned().try_into().unwrap();
    let renamed = ContainerImage::new(&elf_sample::static_executable(), "latchkey-join-service", &name).unwrap();
    assert_eq!(image().digest, renamed.digest);
}

#[test]
fn a_program_that_needs_more_than_itself_is_refused() {
    let refused = |program: &[u8], name| ContainerImage::new(program, name, &reference()).unwrap_err();
    let code = Segment::code(&[0xf4; 16]);
    let dynamic = elf_sample::executable(3, &[code, Segment { kind: 3, flags: 4, content: b"/lib64/ld.so\0" }]);
    assert!(matches!(refused(&dynamic, "join-service"), ContainerImageError::Program(_)));
    assert!(matches!(refused(b"#!/bin/sh\n", "join-service"), ContainerImageError::Program(_)));
    let program = elf_sample::static_executable();
    for name in ["", "..", ".hidden", "a/b", "a b", "a\"b"] {
        assert!(matches!(refused(&program, name), ContainerImageError::FileName), "{name}");
    }
}

/// The one program of ours that loads libraries has those of this machine beside it.
#[test]
fn a_helper_and_all_that_it_loads_are_in_the_image() {
    let own = fs::read(std::env::current_exe().unwrap()).unwrap();
    let libraries = latchkey_image::libraries(std::path::Path::new("/"), &own, &[]).unwrap();
    assert!(libraries.contains_key("lib64/ld-linux-x86-64.so.2"), "{:?}", libraries.keys());
    assert!(libraries.keys().any(|path| path.ends_with("/libc.so.6")), "{:?}", libraries.keys());
    // MIT looks for it there alone.
    if found("/usr/lib/x86_64-linux-gnu/krb5/plugins/preauth/spake.so", "libkrb5-3").is_some() {
        let kerberos = latchkey_image::libraries(std::path::Path::new("/"), &own, &latchkey_image::KERBEROS).unwrap();
        assert!(
            kerberos.contains_key("usr/lib/x86_64-linux-gnu/krb5/plugins/preauth/spake.so"),
            "{:?}",
            kerberos.keys()
        );
    }
    let missing = latchkey_image::libraries(std::path::Path::new("/"), &own, &["libnowhere.so.1"]).unwrap_err();
    assert!(missing.to_string().contains("libnowhere.so.1"), "{missing}");
    let mut more = libraries;
    more.insert("helper".into(), own);
    let made = || ContainerImage::with(&elf_sample::static_executable(), "krb-keys", &reference(), &more).unwrap();
    let image = made();
    assert_eq!((image.archive == made().archive, image.digest != self::image().digest), (true, true));
    // With nothing but the image, the helper runs: here this test itself, which lists its tests.
    let Some(unshare) = found("unshare", "util-linux") else { return };
    let directory = tempfile::tempdir().unwrap();
    for (path, content) in &more {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
    }
    let mut command = Command::new(unshare);
    command.args(["--user", "--map-root-user", "chroot"]).arg(directory.path()).args(["/helper", "--list"]);
    assert!(run(&mut command).contains("container_image::"));
}

/// Takes the image in, and says what it is called and what it hashes to.
const IMPORT: &str = r#"c images import --snapshotter native "$2" > /dev/null
c images ls
c content get "$3"
"#;

#[test]
fn containerd_takes_the_image_and_unpacks_the_program() {
    let (Some(_), Some(unshare)) = (found("containerd", "containerd"), found("unshare", "util-linux")) else { return };
    let directory = tempfile::tempdir().unwrap();
    let (home, archive) = (directory.path().join("home"), directory.path().join("image.tar"));
    fs::create_dir(&home).unwrap();
    let image = image();
    fs::write(&archive, &image.archive).unwrap();
    let mut command = Command::new(unshare);
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &format!("{CONTAINERD}{IMPORT}"), "sh"]);
    let said = run(command.arg(&home).arg(&archive).arg(&image.digest));
    assert!(said.contains("registry.example/latchkey/join-service:0.1.0 "), "{said}");
    assert!(said.contains(&image.digest) && said.contains("linux/amd64"), "{said}");
    let snapshots = home.join("root/io.containerd.snapshotter.v1.native/snapshots");
    let unpacked: Vec<_> = fs::read_dir(&snapshots).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(unpacked.len(), 1, "{unpacked:?}");
    let files: Vec<_> = fs::read_dir(&unpacked[0]).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["latchkey-join-service"]);
    let program = fs::read(unpacked[0].join("latchkey-join-service")).unwrap();
    assert_eq!(program, elf_sample::static_executable());
}

/// What a registry would be given of it, as skopeo reads the archive.
#[test]
fn skopeo_copies_the_image_with_its_digest() {
    let Some(skopeo) = found("skopeo", "skopeo") else { return };
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("image.tar");
    let image = image();
    fs::write(&archive, &image.archive).unwrap();
    let source = format!("oci-archive:{}", archive.display());
    let copy = directory.path().join("copy");
    let mut command = Command::new(skopeo);
    run(command.args(["--insecure-policy", "copy", &source]).arg(format!("dir:{}", copy.display())));
    let manifest = fs::read(copy.join("manifest.json")).unwrap();
    assert_eq!(format!("sha256:{}", Sha256::of(&manifest)), image.digest);
}
