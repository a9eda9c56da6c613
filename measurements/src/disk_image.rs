//! What firmware boots from a disk image, and what else there would be measured with it.
//!
//! 1. [`gpt`] finds the EFI system partition of a raw disk image,
//! 2. [`fat`] reads its file system,
//! 3. [`esp`] takes `EFI/BOOT/BOOTX64.EFI` from it and judges every other file by its name.
//!
//! A unified kernel image by itself is taken as it is. The readers are our own: the crates that write such disks for us
//! trust what they read (they assert, and compute with unchecked numbers), and these images may come from anywhere.

mod error;
mod esp;
mod fat;
mod gpt;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

pub use error::ImageError;
pub use esp::{Influence, OtherFile};

/// What is booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootImage {
    /// The bytes of the unified kernel image.
    pub uki: Vec<u8>,
    /// The other files of the EFI system partition, sorted by path; none for a file that is a unified kernel image itself.
    pub others: Vec<OtherFile>,
    /// Whether it came from a disk.
    pub from_disk: bool,
}

impl BootImage {
    /// Reads a disk image or a unified kernel image.
    ///
    /// # Errors
    /// [`ImageError`]: it is neither, or malformed.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        Self::read(File::open(path).map_err(|error| ImageError::Unreadable(error.to_string()))?)
    }

    /// The same, from what a file is read like.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn read<R: Read + Seek>(mut file: R) -> Result<Self, ImageError> {
        let size = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        let mut window = Window { file, start: 0, size };
        let magic = window.bytes(0, 4.min(usize::try_from(size).unwrap_or(4)))?;
        if magic == *QCOW2 {
            return Err(ImageError::Qcow2);
        }
        if magic.starts_with(b"MZ") {
            let uki = window.bytes(0, fitting(size)?)?;
            return Ok(Self { uki, others: Vec::new(), from_disk: false });
        }
        let (start, size) = gpt::esp(&mut window)?;
        let mut partition = Window { file: window.file, start, size };
        let (uki, others) = esp::read(&mut partition)?;
        Ok(Self { uki, others, from_disk: true })
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

/// A part of a file.
struct Window<R> {
    file: R,
    start: u64,
    size: u64,
}

impl<R: Read + Seek> Window<R> {
    /// So many bytes from `offset` on. Nothing is allocated for what the part does not have.
    fn bytes(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        self.append(offset, length, &mut bytes)?;
        Ok(bytes)
    }

    fn append(&mut self, offset: u64, length: usize, bytes: &mut Vec<u8>) -> Result<(), ImageError> {
        let end = u64::try_from(length).ok().and_then(|length| offset.checked_add(length));
        let (true, Some(position)) = (end.is_some_and(|end| end <= self.size), self.start.checked_add(offset)) else {
            return Err(ImageError::Truncated);
        };
        self.file.seek(SeekFrom::Start(position)).map_err(unreadable)?;
        bytes.reserve_exact(length);
        let limit = u64::try_from(length).unwrap_or(u64::MAX);
        let read = self.file.by_ref().take(limit).read_to_end(bytes).map_err(unreadable)?;
        if read == length { Ok(()) } else { Err(ImageError::Truncated) }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unreadable(error: std::io::Error) -> ImageError {
    ImageError::Unreadable(error.to_string())
}

/// The first bytes of a qcow2 file.
const QCOW2: &[u8; 4] = b"QFI\xfb";
