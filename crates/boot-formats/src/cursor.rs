//! Little-endian fields of bytes that somebody else wrote: `None` beyond their end.

use crate::Guid;

/// `length` bytes from `offset` on.
pub fn slice_at(bytes: &[u8], offset: usize, length: usize) -> Option<&[u8]> {
    bytes.get(offset..offset.checked_add(length)?)
}

/// The `N` bytes from `offset` on.
pub fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// The number of two bytes at `offset`.
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array_at(bytes, offset).map(u16::from_le_bytes)
}

/// The number of four bytes at `offset`.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array_at(bytes, offset).map(u32::from_le_bytes)
}

/// The number of eight bytes at `offset`.
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    array_at(bytes, offset).map(u64::from_le_bytes)
}

/// Takes one field after the other. A field that is not there takes nothing.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    /// From the first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, offset: 0 }
    }

    /// How many bytes were taken.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// How many are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left; it is not taken.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next bytes; they are not taken.
    pub fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        self.rest.first_chunk().copied()
    }

    /// So many bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        self.offset += length;
        Some(taken)
    }

    /// Takes what brings the offset to a multiple of `alignment`, or all that is left.
    pub fn align(&mut self, alignment: usize) {
        let padding = self.offset.next_multiple_of(alignment) - self.offset;
        let _ = self.take(padding.min(self.rest.len()));
    }

    /// `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    /// A byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// A number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// A number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A GUID in the order of files and disks.
    pub fn guid(&mut self) -> Option<Guid> {
        self.array().map(Guid::from_disk_order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_in_order_and_one_that_is_not_there_takes_nothing() {
        let bytes: Vec<u8> = (1..=31).collect();
        let mut cursor = Cursor::new(&bytes);
        assert_eq!((cursor.u8(), cursor.u16(), cursor.u32()), (Some(1), Some(0x0302), Some(0x0706_0504)));
        assert_eq!(cursor.u64(), Some(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(cursor.peek(), Some([16, 17]));
        assert_eq!((cursor.offset(), cursor.remaining()), (15, 16));
        assert_eq!(cursor.take(17), None);
        assert_eq!(cursor.guid().map(Guid::disk_order), bytes[15..].first_chunk().copied());
        assert_eq!((cursor.is_empty(), cursor.u8(), cursor.offset()), (true, None, 31));
    }

    #[test]
    fn padding_ends_with_the_bytes() {
        let mut cursor = Cursor::new(&[0; 9]);
        cursor.align(8);
        assert_eq!(cursor.offset(), 0);
        let _ = cursor.u8();
        cursor.align(8);
        assert_eq!(cursor.offset(), 8);
        let _ = cursor.u8();
        cursor.align(8);
        assert_eq!(cursor.offset(), 9);
    }

    #[test]
    fn no_offset_reads_beyond_the_end() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(u16_at(&bytes, 6), Some(0x0807));
        assert_eq!(u64_at(&bytes, 0), Some(0x0807_0605_0403_0201));
        for offset in [5, 8, 9, usize::MAX] {
            assert_eq!(u32_at(&bytes, offset), None, "{offset}");
            assert_eq!(slice_at(&bytes, offset, 4), None, "{offset}");
        }
        assert_eq!(slice_at(&bytes, 8, 0), Some(&[][..]));
    }
}
