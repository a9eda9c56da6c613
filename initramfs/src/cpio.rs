//! The "newc" archive the Linux kernel unpacks as its first root file system.
//!
//! Format: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.

use std::collections::BTreeMap;

/// "magic: The string "070701" or "070702""; the second is with checksums, which nobody needs here.
const MAGIC: &[u8; 6] = b"070701";
/// The name that ends an archive.
const TRAILER: &str = "TRAILER!!!";
/// Header, names and contents are padded to 4 bytes.
const ALIGNMENT: usize = 4;
/// `PATH_MAX` of the kernel, which skips longer names without a word.
const MAX_NAME: usize = 4095;

/// `S_IFMT`: the bits of the mode that say what kind of file it is.
const MODE_TYPE: u32 = 0o170_000;
const MODE_DIRECTORY: u32 = 0o040_000;
const MODE_REGULAR: u32 = 0o100_000;
const MODE_SYMLINK: u32 = 0o120_777;
const MODE_CHARACTER_DEVICE: u32 = 0o020_000;

/// An archive in the making. Entries may be added in any order; parents appear by themselves.
#[derive(Debug, Default)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    mode: u32,
    device: (u32, u32),
    content: Vec<u8>,
}

/// Why an entry cannot go into the archive.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpioError {
    /// Not a plain relative path: empty, absolute, with `.` or `..`, a NUL or too long.
    #[error("{0:?} is no relative path without '.' and '..'")]
    BadName(String),
    /// The same path twice.
    #[error("{0} is there twice")]
    Duplicate(String),
    /// 4 GiB or more, which the format's 8 hexadecimal digits cannot say.
    #[error("{0} is 4 GiB or more, which a cpio archive cannot hold")]
    TooLarge(String),
    /// A file is in the place of a parent directory.
    #[error("{0} is a file, but another entry lies below it")]
    NotADirectory(String),
}

impl Archive {
    /// An empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory (mode 0755). Adding one that exists changes nothing.
    pub fn directory(&mut self, path: &str) -> Result<(), CpioError> {
        check_name(path)?;
        let mut end = 0;
        while let Some(length) = path[end..].find('/') {
            self.one_directory(&path[..end + length])?;
            end += length + 1;
        }
        self.one_directory(path)
    }

    /// Adds a regular file with the permission bits `permissions` (for example `0o755`).
    pub fn file(&mut self, path: &str, permissions: u32, content: Vec<u8>) -> Result<(), CpioError> {
        self.entry(path, Entry { mode: MODE_REGULAR | (permissions & 0o7777), device: (0, 0), content })
    }

    /// Adds a symbolic link to `target`.
    pub fn symlink(&mut self, path: &str, target: &str) -> Result<(), CpioError> {
        self.entry(path, Entry { mode: MODE_SYMLINK, device: (0, 0), content: target.as_bytes().to_vec() })
    }

    /// Adds a character device node (mode 0600).
    pub fn character_device(&mut self, path: &str, major: u32, minor: u32) -> Result<(), CpioError> {
        let mode = MODE_CHARACTER_DEVICE | 0o600;
        self.entry(path, Entry { mode, device: (major, minor), content: Vec::new() })
    }

    /// The archive as bytes, every entry with the modification time `mtime` (seconds since the epoch).
    pub fn finish(&self, mtime: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.entries.values().map(|entry| entry.content.len() + 256).sum());
        for (inode, (name, entry)) in (1..).zip(&self.entries) {
            record(&mut out, inode, mtime, name, entry);
        }
        let trailer = Entry { mode: 0, device: (0, 0), content: Vec::new() };
        record(&mut out, 0, 0, TRAILER, &trailer);
        out
    }

    fn entry(&mut self, path: &str, entry: Entry) -> Result<(), CpioError> {
        check_name(path)?;
        if u32::try_from(entry.content.len()).is_err() {
            return Err(CpioError::TooLarge(path.into()));
        }
        if self.entries.contains_key(path) {
            return Err(CpioError::Duplicate(path.into()));
        }
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.directory(parent)?;
        }
        self.entries.insert(path.into(), entry);
        Ok(())
    }

    fn one_directory(&mut self, path: &str) -> Result<(), CpioError> {
        let fresh = || Entry { mode: MODE_DIRECTORY | 0o755, device: (0, 0), content: Vec::new() };
        match self.entries.entry(path.into()).or_insert_with(fresh).mode & MODE_TYPE {
            MODE_DIRECTORY => Ok(()),
            _ => Err(CpioError::NotADirectory(path.into())),
        }
    }
}

fn check_name(path: &str) -> Result<(), CpioError> {
    let bad_part = |part: &str| part.is_empty() || part == "." || part == "..";
    if path.len() > MAX_NAME || path == TRAILER || path.contains('\0') || path.split('/').any(bad_part) {
        return Err(CpioError::BadName(path.into()));
    }
    Ok(())
}

fn record(out: &mut Vec<u8>, inode: u32, mtime: u32, name: &str, entry: &Entry) {
    let links = if entry.mode & MODE_TYPE == MODE_DIRECTORY { 2 } else { 1 };
    let length = u32::try_from(entry.content.len()).expect("checked when the entry was added");
    let name_length = u32::try_from(name.len() + 1).expect("checked when the entry was added");
    let (major, minor) = entry.device;
    // ino mode uid gid nlink mtime filesize maj min rmaj rmin namesize chksum
    let fields = [inode, entry.mode, 0, 0, links, mtime, length, 0, 0, major, minor, name_length, 0];
    out.extend_from_slice(MAGIC);
    for field in fields {
        out.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    pad(out);
    out.extend_from_slice(&entry.content);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_additions_does_not_show() {
        let mut one = Archive::new();
        one.file("b/two", 0o644, b"2".to_vec()).unwrap();
        one.file("a", 0o755, b"1".to_vec()).unwrap();
        let mut other = Archive::new();
        other.file("a", 0o755, b"1".to_vec()).unwrap();
        other.directory("b").unwrap();
        other.file("b/two", 0o644, b"2".to_vec()).unwrap();
        assert_eq!(one.finish(0), other.finish(0));
        assert_ne!(one.finish(0), other.finish(1));
    }

    #[test]
    fn a_file_record_is_what_the_kernel_documents() {
        let mut archive = Archive::new();
        archive.file("init", 0o755, b"hello".to_vec()).unwrap();
        let bytes = archive.finish(0);
        let header = "070701000000010000\
                      81ED0000000000000000000000010000000000000005\
                      00000000000000000000000000000000\
                      0000000500000000";
        assert_eq!(&bytes[..110], header.as_bytes());
        assert_eq!(&bytes[110..124], b"init\0\0hello\0\0\0");
        assert!(bytes[124..].windows(TRAILER.len()).any(|window| window == TRAILER.as_bytes()));
    }

    #[test]
    fn names_that_climb_out_are_refused() {
        let mut archive = Archive::new();
        for name in ["", "/init", "../init", "a/../b", "a//b", "./a", "a\0b", "TRAILER!!!", &"x".repeat(4096)] {
            assert_eq!(archive.file(name, 0o644, Vec::new()), Err(CpioError::BadName(name.into())), "{name:?}");
        }
        assert!(archive.entries.is_empty());
    }

    #[test]
    fn a_path_is_used_once_and_files_have_no_children() {
        let mut archive = Archive::new();
        archive.file("a", 0o644, Vec::new()).unwrap();
        assert_eq!(archive.symlink("a", "b"), Err(CpioError::Duplicate("a".into())));
        assert_eq!(archive.file("a/b", 0o644, Vec::new()), Err(CpioError::NotADirectory("a".into())));
        archive.character_device("dev/console", 5, 1).unwrap();
        assert_eq!(archive.entries.keys().collect::<Vec<_>>(), ["a", "dev", "dev/console"]);
    }
}
