//! The layout of the initramfs, which is a contract with the agent's stage 1.
//!
//! | path | what |
//! |---|---|
//! | `/init` | the agent |
//! | `/dev/console` | character device 5:1: process 1 has a console before devtmpfs is mounted |
//! | `/dev` `/proc` `/sys` `/run` `/tmp` `/newroot` | mount points |
//! | `/lib/modules/NAME.ko` | decompressed kernel modules |
//! | `/lib/modules/order` | the order to load them in: `NAME.ko` or `?NAME.ko` (may fail) on each line; `[root]` and `[state-disk]` before those that are needed later |

use crate::cpio::Archive;
use crate::error::InitramfsError;
use crate::modules::{Module, Need};

/// Best ratio that still unpacks in milliseconds; its window of 8 MiB is within the kernel's 128 MiB.
const ZSTD_LEVEL: i32 = 19;
/// Mount points of stage 1 and of the root file system it switches to.
const MOUNT_POINTS: [&str; 6] = ["dev", "newroot", "proc", "run", "sys", "tmp"];

/// An initramfs in the making.
#[derive(Debug)]
pub struct Initramfs {
    archive: Archive,
}

impl Initramfs {
    /// Starts with `init`, the static executable that becomes process 1.
    pub fn new(init: Vec<u8>) -> Result<Self, InitramfsError> {
        let mut archive = Archive::new();
        for path in MOUNT_POINTS {
            archive.directory(path)?;
        }
        archive.character_device("dev/console", 5, 1)?;
        archive.file("init", 0o755, init)?;
        Ok(Self { archive })
    }

    /// Adds kernel modules, in the order given, which is the order they are loaded in.
    pub fn modules(&mut self, modules: Vec<Module>) -> Result<(), InitramfsError> {
        let mut order = String::new();
        let mut section = Need::Devices;
        for module in modules {
            if module.need > section {
                section = module.need;
                order.extend(["[", section.name(), "]\n"]);
            }
            let file = format!("{}.ko", module.name);
            if module.optional {
                order.push('?');
            }
            order.push_str(&file);
            order.push('\n');
            self.archive.file(&format!("lib/modules/{file}"), 0o644, module.bytes)?;
        }
        Ok(self.archive.file("lib/modules/order", 0o644, order.into_bytes())?)
    }

    /// Adds a file of the user's own.
    pub fn file(&mut self, path: &str, permissions: u32, content: Vec<u8>) -> Result<(), InitramfsError> {
        Ok(self.archive.file(path, permissions, content)?)
    }

    /// The compressed archive; every entry has the time `mtime` (seconds since the epoch).
    pub fn build(&self, mtime: u32) -> Result<Vec<u8>, InitramfsError> {
        zstd::bulk::compress(&self.archive.finish(mtime), ZSTD_LEVEL).map_err(InitramfsError::Compress)
    }
}

/// The time that a build puts where one belongs: `SOURCE_DATE_EPOCH` (reproducible-builds.org), or 0 if it is not set.
pub fn source_date_epoch() -> Result<u32, String> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Err(_) => Ok(0),
        Ok(text) => text.parse().map_err(|_| format!("SOURCE_DATE_EPOCH is {text:?}: give seconds below 2^32")),
    }
}
