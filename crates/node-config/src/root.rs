//! Values that say what the operating system's root is and what of it can be written.

use std::fmt;
use std::path::{Path, PathBuf};

use super::value::{Parsed, absolute_path, decimal};

/// The root file system, by its dm-verity hash tree: SHA-256, format 1, blocks of 4096 bytes.
///
/// Nothing else is needed to open it, so nothing on the disk is believed: not the superblock that veritysetup writes, not
/// the partition table, which is only a hint where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootVerity {
    /// The hash over the hash tree's top block.
    pub root_hash: [u8; 32],
    /// What every hash begins with, up to 256 bytes (`veritysetup`: "maximum salt size is 256 bytes").
    pub salt: Vec<u8>,
    /// How many blocks of 4096 bytes the file system has, at least two.
    pub blocks: u32,
}

const VERITY_FORM: &str =
    "64 hex digits of the root hash, then ,salt= and up to 512 hex digits, then ,blocks= and a number from 2";
const MAX_SALT: usize = 256;

impl RootVerity {
    pub(super) fn parse(value: &str) -> Parsed<Self> {
        Self::read(value).ok_or(VERITY_FORM)
    }

    fn read(value: &str) -> Option<Self> {
        let mut parts = value.split(',');
        let mut root_hash = [0; 32];
        hex::decode_to_slice(parts.next()?, &mut root_hash).ok()?;
        let salt = hex::decode(parts.next()?.strip_prefix("salt=")?).ok()?;
        // A tree over one block has no block of its own: nobody's root.
        let blocks = decimal(parts.next()?.strip_prefix("blocks=")?).filter(|blocks| *blocks >= 2)?;
        (salt.len() <= MAX_SALT && parts.next().is_none()).then_some(Self { root_hash, salt, blocks })
    }
}

impl fmt::Display for RootVerity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { root_hash, salt, blocks } = self;
        write!(f, "{},salt={},blocks={blocks}", hex::encode(root_hash), hex::encode(salt))
    }
}

/// What can be written on the read-only root. All of it is in memory and gone with the next boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writable {
    /// Everything: changes lie in memory, over the root.
    Overlay,
    /// Nothing.
    None,
    /// These directories of the root, each an empty one in memory.
    Tmpfs(Vec<PathBuf>),
}

const WRITABLE_FORM: &str = "overlay, none or tmpfs: and up to 16 directories separated by commas, none in another and \
                             none in /dev, /proc, /run or /sys";
const MAX_DIRECTORIES: usize = 16;
/// Where stage 1 brings file systems of its own.
const TAKEN: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

impl Writable {
    pub(super) fn parse(value: &str) -> Parsed<Self> {
        match value {
            "overlay" => Ok(Self::Overlay),
            "none" => Ok(Self::None),
            _ => value.strip_prefix("tmpfs:").and_then(directories).map(Self::Tmpfs).ok_or(WRITABLE_FORM),
        }
    }
}

impl fmt::Display for Writable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlay => f.write_str("overlay"),
            Self::None => f.write_str("none"),
            Self::Tmpfs(paths) => {
                let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
                write!(f, "tmpfs:{}", paths.join(","))
            }
        }
    }
}

fn directories(value: &str) -> Option<Vec<PathBuf>> {
    let paths: Option<Vec<PathBuf>> = value.split(',').take(MAX_DIRECTORIES + 1).map(directory).collect();
    let paths = paths.filter(|paths| paths.len() <= MAX_DIRECTORIES)?;
    let nested = paths
        .iter()
        .enumerate()
        .any(|(index, path)| paths.iter().enumerate().any(|(other, outer)| other != index && path.starts_with(outer)));
    (!nested).then_some(paths)
}

/// Written as the kernel would show it: no `//`, no `/./`, no `/` at the end.
fn directory(text: &str) -> Option<PathBuf> {
    let path = absolute_path(text).ok()?;
    let plain = path.components().collect::<PathBuf>().as_os_str() == text;
    let free = !TAKEN.iter().any(|taken| path.starts_with(Path::new(taken)));
    (plain && free).then_some(path)
}
