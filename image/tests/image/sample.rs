//! A small kernel, agent and root to build images of, and other programs to judge them.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use latchkey_attestation::ImageVersion;
use latchkey_image::{Image, Source};
use latchkey_initramfs::Wanted;
use latchkey_measurements::pe_sample;

/// The release of the sample kernel.
pub(crate) const RELEASE: &str = "6.1.0-sample";

/// A directory with everything an image is made of.
pub(crate) struct Sample(tempfile::TempDir);

impl Sample {
    pub(crate) fn new() -> Self {
        let sample = Self(tempfile::tempdir().unwrap());
        let root = sample.path("root");
        for directory in ["dev", "etc", "proc", "run", "sys", "tmp", "usr/lib", "usr/bin", "var"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("usr/lib/os-release"), "ID=sample\nNAME=\"Sample\"\n").unwrap();
        std::os::unix::fs::symlink("../usr/lib/os-release", root.join("etc/os-release")).unwrap();
        // More than one block of hashes: 3 MiB that do not compress.
        fs::write(root.join("usr/bin/noise"), noise(3 << 20)).unwrap();
        fs::write(root.join("usr/bin/tool"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(root.join("usr/bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(sample.path("modules")).unwrap();
        sample
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn out(&self, name: &str) -> PathBuf {
        self.path("out").join(name)
    }

    /// An image of it, without modules.
    pub(crate) fn image(&self) -> Image {
        let source = Source::Bytes;
        let agent = source(b"the agent".to_vec());
        let (modules, root) = (self.path("modules"), self.path("root"));
        let mut image = Image::new("sample", ImageVersion::new(1, 2, 3), source(kernel()), modules, agent, root);
        image.module_names = vec![Wanted::parse("?dm_verity")];
        image.stub = source(pe_sample::stub(8));
        image.command_line = "console=ttyS0  quiet".into();
        image.is_agent = false;
        image
    }

    /// Gives every file another time, as another day would.
    pub(crate) fn age(&self) {
        age(self.0.path());
    }
}

/// A kernel that is a PE file, says its release, and looks as if it measured.
fn kernel() -> Vec<u8> {
    let mut kernel = pe_sample::stub(0);
    kernel.resize(kernel.len().max(0x500), 0);
    kernel[0x202..0x206].copy_from_slice(b"HdrS");
    kernel[0x20e..0x210].copy_from_slice(&0x200_u16.to_le_bytes());
    kernel[0x400..0x400 + RELEASE.len()].copy_from_slice(RELEASE.as_bytes());
    // What a kernel that measures its command line and initrd has in it.
    let texts = b"LOADED_IMAGE::LoadOptions\0Linux initrd\0";
    kernel[0x480..0x480 + texts.len()].copy_from_slice(texts);
    kernel
}

/// Bytes that no compressor shortens, the same each time.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..count / 8).flat_map(|_| next()).collect()
}

fn age(path: &Path) {
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_symlink() {
        return;
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            age(&entry.unwrap().path());
        }
    }
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::open(path).unwrap().set_times(FileTimes::new().set_modified(long_ago).set_accessed(long_ago)).unwrap();
}

/// Where a program lies; a test without it says so.
#[track_caller]
pub(crate) fn found(program: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let file = directories.find_map(|directory| Some(directory.join(program)).filter(|file| file.is_file()));
    if file.is_none() {
        latchkey_test_support::skip(format_args!("{program} is missing: apt-get install {package}"));
    }
    file
}

/// What a program says, which must not fail.
pub(crate) fn run(command: &mut Command) -> String {
    let output = latchkey_test_support::output(command).unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
    said
}
