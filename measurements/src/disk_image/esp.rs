//! The EFI system partition: what is booted from it, and what else is on it.

use std::ops::Range;

use latchkey_boot_formats::fat::{Entry, Fat};
use latchkey_boot_formats::{ReadAt, Window};

use super::{ImageError, fitting};

/// Another file than what is booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherFile {
    /// Its path, with slashes.
    pub path: String,
    /// What it does to measurements.
    pub influence: Influence,
}

/// What a file on the EFI system partition does to measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Influence {
    /// The boot stub takes it up and measures it: what, in words.
    Measured(&'static str),
    /// A program or configuration that could be booted instead: what, in words.
    Bootable(&'static str),
    /// None that is known.
    None,
}

/// What firmware without boot entries starts.
const BOOTED: &str = "EFI/BOOT/BOOTX64.EFI";

/// Where on the volume what is booted lies, and the other files.
pub(super) fn read<R: ReadAt + ?Sized>(
    volume: &Window<'_, R>,
) -> Result<(Vec<Range<u64>>, Vec<OtherFile>), ImageError> {
    let fat = Fat::open(volume)?;
    let mut booted = None;
    let mut others = Vec::new();
    let mut directories = vec![(String::new(), None::<Entry>)];
    let mut seen = 0;
    while let Some((path, directory)) = directories.pop() {
        for entry in fat.directory(directory.as_ref())? {
            seen += 1;
            let path = if path.is_empty() { entry.name.clone() } else { format!("{path}/{}", entry.name) };
            if seen > MAX_FILES || path.matches('/').count() > MAX_DEPTH {
                return Err(ImageError::BadFileSystem("too many files, or too deep"));
            }
            if entry.is_directory {
                directories.push((path, Some(entry)));
            } else if path.eq_ignore_ascii_case(BOOTED) {
                if booted.replace(entry).is_some() {
                    return Err(ImageError::BadFileSystem("EFI/BOOT/BOOTX64.EFI is there twice"));
                }
            } else {
                let influence = influence(&path);
                others.push(OtherFile { path, influence });
            }
        }
    }
    let booted = booted.ok_or(ImageError::NoFile(BOOTED))?;
    fitting(booted.size.into())?;
    others.sort_by(|one, other| one.path.cmp(&other.path));
    Ok((fat.file(&booted)?, others))
}

/// By its name, as the firmware and `systemd-stub(7)` look for files.
fn influence(path: &str) -> Influence {
    let path = path.to_ascii_lowercase();
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let ends = |suffix: &str| name.ends_with(suffix);
    match directory {
        "efi/boot/bootx64.efi.extra.d" | "loader/addons" if ends(".addon.efi") => {
            Influence::Measured("an addon with a command line or more, measured into PCR 12")
        }
        "efi/boot/bootx64.efi.extra.d" | "loader/credentials" if ends(".cred") => {
            Influence::Measured("a credential, measured into PCR 12")
        }
        "efi/boot/bootx64.efi.extra.d" | "loader/extensions" if ends(".confext.raw") => {
            Influence::Measured("an extension of the configuration, measured into PCR 12, by boot stub 252 into PCR 13")
        }
        "efi/boot/bootx64.efi.extra.d" | "loader/extensions" if ends(".raw") => {
            Influence::Measured("an extension of the initramfs, measured into PCR 13")
        }
        "loader/entries" => Influence::Bootable("an entry for a boot loader"),
        "loader" if name == "loader.conf" => Influence::Bootable("the configuration of a boot loader"),
        "" if name == "startup.nsh" => Influence::Bootable("a script for the firmware's shell"),
        _ if ends(".efi") => Influence::Bootable("another EFI program"),
        _ => Influence::None,
    }
}

/// Boot partitions have tens.
const MAX_FILES: usize = 4096;
const MAX_DEPTH: usize = 16;
