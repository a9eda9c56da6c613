//! Why a file is no image to predict from.

use crate::MeasurementCode;

/// What is wrong with an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The file cannot be read; in the system's words.
    #[error("{0}")]
    Unreadable(String),
    /// It is a qcow2 file.
    #[error("a qcow2 file: make a raw image of it")]
    Qcow2,
    /// It is neither a disk with a GPT nor a PE file.
    #[error("neither a raw disk image with a GUID partition table nor a unified kernel image")]
    NotAnImage,
    /// The partition table contradicts itself.
    #[error("the partition table: {0}")]
    BadPartitionTable(String),
    /// There is no EFI system partition.
    #[error("the disk has no EFI system partition")]
    NoEsp,
    /// There is more than one: which one firmware boots from is not certain.
    #[error("the disk has several EFI system partitions: which is booted is not certain")]
    SeveralEsps,
    /// The EFI system partition has no file system that firmware reads, or a broken one.
    #[error("the file system of the EFI system partition: {0}")]
    BadFileSystem(&'static str),
    /// The EFI system partition has no such file.
    #[error("the EFI system partition has no {0}")]
    NoFile(&'static str),
    /// The image ends before what it promises.
    #[error("the image is cut short")]
    Truncated,
    /// More bytes than are read.
    #[error("{what} has {size} bytes, at most {limit} are read")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// Bytes it has.
        size: u64,
        /// Bytes that are read.
        limit: u64,
    },
}

impl ImageError {
    /// The stable reason code.
    pub fn code(&self) -> MeasurementCode {
        MeasurementCode::ImageUnusable
    }
}
