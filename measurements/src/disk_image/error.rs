//! Why a file is no image to predict from.

use std::fmt;

/// What is wrong with an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageError {
    /// The file cannot be read; in the system's words.
    Unreadable(String),
    /// It is a qcow2 file.
    Qcow2,
    /// It is neither a disk with a GPT nor a PE file.
    NotAnImage,
    /// The partition table contradicts itself.
    BadPartitionTable(&'static str),
    /// There is no EFI system partition.
    NoEsp,
    /// There is more than one: which one firmware boots from is not certain.
    SeveralEsps,
    /// The EFI system partition has no file system that firmware reads, or a broken one.
    BadFileSystem(&'static str),
    /// The EFI system partition has no such file.
    NoFile(&'static str),
    /// The image ends before what it promises.
    Truncated,
    /// More bytes than are read.
    TooLarge {
        /// Of what.
        what: &'static str,
        /// Bytes it has.
        size: u64,
        /// Bytes that are read.
        limit: u64,
    },
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => f.write_str(error),
            Self::Qcow2 => f.write_str("a qcow2 file: make a raw image of it"),
            Self::NotAnImage => {
                f.write_str("neither a raw disk image with a GUID partition table nor a unified kernel image")
            }
            Self::BadPartitionTable(why) => write!(f, "the partition table: {why}"),
            Self::NoEsp => f.write_str("the disk has no EFI system partition"),
            Self::SeveralEsps => {
                f.write_str("the disk has several EFI system partitions: which is booted is not certain")
            }
            Self::BadFileSystem(why) => write!(f, "the file system of the EFI system partition: {why}"),
            Self::NoFile(path) => write!(f, "the EFI system partition has no {path}"),
            Self::Truncated => f.write_str("the image is cut short"),
            Self::TooLarge { what, size, limit } => write!(f, "{what} has {size} bytes, at most {limit} are read"),
        }
    }
}

impl std::error::Error for ImageError {}
