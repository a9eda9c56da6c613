//! Bytes that can be read at any place, by several threads at once: a file, a disk, memory.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// Bytes that can be read at any place, by several threads at once.
pub trait ReadAt: Sync {
    /// How many there are.
    ///
    /// # Errors
    /// The operating system's.
    fn size(&self) -> io::Result<u64>;

    /// Fills the buffer with those from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when there are not enough; the operating system's.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// All of them in memory.
    ///
    /// # Errors
    /// As [`Self::read_exact_at`].
    fn to_vec(&self) -> io::Result<Vec<u8>> {
        let size = usize::try_from(self.size()?).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut bytes = vec![0; size];
        self.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        // Of disks, too.
        let mut file = self;
        file.seek(SeekFrom::End(0))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| crate::slice_at(self, start, buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        self.as_slice().size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_slice().read_exact_at(buffer, offset)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buffer, offset)
    }
}
