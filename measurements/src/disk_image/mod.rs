//! What firmware boots from a disk image, and what else there would be measured with it.
//!
//! 1. [`gpt`] finds the EFI system partition of a raw disk image,
//! 2. [`latchkey_boot_formats::fat`] reads its file system,
//! 3. [`esp`] takes `EFI/BOOT/BOOTX64.EFI` from it and judges every other file by its name.
//!
//! A unified kernel image by itself is taken as it is. The readers are our own: the crates that write such disks for us
//! trust what they read (they assert, and compute with unchecked numbers), and these images may come from anywhere.

mod error;
mod esp;
mod gpt;

use std::fs::File;
use std::io;
use std::path::Path;

use latchkey_boot_formats::fat::FatError;
use latchkey_boot_formats::{ReadAt, Window};

pub use error::ImageError;
pub use esp::{Influence, OtherFile};

use crate::read_at::Pieces;

/// What is booted.
#[derive(Debug)]
pub struct BootImage<R = File> {
    /// The unified kernel image, where it lies in the file.
    pub uki: Pieces<R>,
    /// The other files of the EFI system partition, sorted by path; none for a file that is a unified kernel image itself.
    pub others: Vec<OtherFile>,
    /// Whether it came from a disk.
    pub from_disk: bool,
}

impl BootImage<File> {
    /// Reads a disk image or a unified kernel image.
    ///
    /// # Errors
    /// [`ImageError`]: it is neither, or malformed.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        Self::read(File::open(path).map_err(unreadable)?)
    }
}

impl<R: ReadAt> BootImage<R> {
    /// The same, from bytes wherever they are.
    ///
    /// # Errors
    /// As [`BootImage::open`].
    pub fn read(file: R) -> Result<Self, ImageError> {
        let size = file.size().map_err(unreadable)?;
        let magic =
            Window::new(&file, 0, size).bytes(0, 4.min(usize::try_from(size).unwrap_or(4))).map_err(unreadable)?;
        if magic == *QCOW2 {
            return Err(ImageError::Qcow2);
        }
        if magic.starts_with(b"MZ") {
            fitting(size)?;
            let uki = Pieces::new(file, std::iter::once(0..size));
            return Ok(Self { uki, others: Vec::new(), from_disk: false });
        }
        let (start, size) = gpt::esp(&file, size)?;
        let (ranges, others) = esp::read(&Window::new(&file, start, size))?;
        let ranges: Vec<_> = ranges.into_iter().map(|range| range.start + start..range.end + start).collect();
        Ok(Self { uki: Pieces::new(file, ranges), others, from_disk: true })
    }

    /// The files that change what is measured, so that no prediction from the image alone would hold.
    pub fn measured(&self) -> impl Iterator<Item = &OtherFile> {
        self.others.iter().filter(|file| matches!(file.influence, Influence::Measured(_)))
    }
}

/// Bytes of the largest unified kernel image that is read.
pub const MAX_UKI: u64 = 512 << 20;

fn fitting(size: u64) -> Result<usize, ImageError> {
    let small = usize::try_from(size).ok().filter(|_| size <= MAX_UKI);
    small.ok_or(ImageError::TooLarge { what: "the unified kernel image", size, limit: MAX_UKI })
}

impl From<FatError> for ImageError {
    fn from(error: FatError) -> Self {
        match error {
            FatError::Io(error) => unreadable(error),
            FatError::Bad(what) => Self::BadFileSystem(what),
            FatError::TableTooLarge { size, limit } => {
                Self::TooLarge { what: "the file allocation table", size, limit }
            }
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unreadable(error: io::Error) -> ImageError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ImageError::Truncated,
        _ => ImageError::Unreadable(error.to_string()),
    }
}

/// The first bytes of a qcow2 file.
const QCOW2: &[u8; 4] = b"QFI\xfb";
