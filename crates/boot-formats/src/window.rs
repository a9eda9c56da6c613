//! A part of bytes that can be read at any place: a partition of a disk, a volume.

use std::io;

use crate::ReadAt;

/// A part of bytes that can be read at any place. Nothing outside of it is read.
#[derive(Debug)]
pub struct Window<'a, R: ?Sized> {
    file: &'a R,
    start: u64,
    size: u64,
}

impl<'a, R: ReadAt + ?Sized> Window<'a, R> {
    /// `size` bytes from `start` on.
    pub fn new(file: &'a R, start: u64, size: u64) -> Self {
        Self { file, start, size }
    }

    /// All bytes.
    ///
    /// # Errors
    /// As [`ReadAt::size`].
    pub fn whole(file: &'a R) -> io::Result<Self> {
        Ok(Self { file, start: 0, size: file.size()? })
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// So many bytes from `offset` on. Nothing is allocated for what the part does not have.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when there are not enough; the operating system's.
    pub fn bytes(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let end = u64::try_from(length).ok().and_then(|length| offset.checked_add(length));
        let position = self.start.checked_add(offset).filter(|_| end.is_some_and(|end| end <= self.size));
        let position = position.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, position)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_read_and_nothing_is_allocated_for_it() {
        let bytes: Vec<u8> = (0..16).collect();
        let window = Window::new(&bytes, 4, 8);
        assert_eq!(window.bytes(0, 8).unwrap(), bytes[4..12]);
        assert_eq!(window.bytes(8, 0).unwrap(), []);
        for (offset, length) in [(0, 9), (8, 1), (u64::MAX, 1), (1, usize::MAX), (9, 0)] {
            let error = window.bytes(offset, length).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{offset} {length}");
        }
        // A part that promises more than there is.
        assert!(Window::new(&bytes, 8, 100).bytes(0, 9).is_err());
        assert!(Window::new(&bytes, u64::MAX, 100).bytes(1, 1).is_err());
        assert_eq!(Window::whole(&bytes).unwrap().size(), 16);
    }
}
