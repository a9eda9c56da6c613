//! Parts of bytes that threads can read at any place, and a file that lies in pieces on a disk.
//!
//! What is hashed is read in small pieces, each hash on its own: fresh memory for a whole image costs more than reading it
//! twice. Whoever changes a file meanwhile gets a prediction that fits neither state, as with any reader.

use std::io;
use std::ops::Range;

use latchkey_boot_formats::ReadAt;

/// The bytes of a range. Nothing is allocated for what is not there.
///
/// # Errors
/// As [`ReadAt::read_exact_at`].
pub(crate) fn read_range<R: ReadAt + ?Sized>(source: &R, range: Range<u64>) -> io::Result<Vec<u8>> {
    if range.end > source.size()? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = vec![0; length];
    source.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

/// A file that lies in pieces on a disk: runs of bytes, one after the other.
#[derive(Debug)]
pub struct Pieces<R> {
    disk: R,
    /// Where a piece begins in the file, and where on the disk.
    runs: Vec<(u64, u64)>,
    size: u64,
}

impl<R: ReadAt> Pieces<R> {
    /// The file whose pieces are these ranges of `disk`, in this order.
    pub(crate) fn new(disk: R, ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut size = 0;
        let mut runs = Vec::new();
        for range in ranges {
            runs.push((size, range.start));
            size += range.end.saturating_sub(range.start);
        }
        Self { disk, runs, size }
    }
}

impl<R: ReadAt> ReadAt for Pieces<R> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let first = self.runs.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
        let ends = self.runs.iter().skip(1).map(|(start, _)| *start).chain([self.size]);
        for ((start, place), end) in self.runs.iter().zip(ends).skip(first) {
            let here = usize::try_from(end - offset).unwrap_or(usize::MAX).min(buffer.len());
            let (now, later) = buffer.split_at_mut(here);
            self.disk.read_exact_at(now, place + (offset - start))?;
            (buffer, offset) = (later, end);
            if buffer.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_pieces_reads_as_one_from_every_place() {
        let disk: Vec<u8> = (0..100).collect();
        let file = Pieces::new(&disk, [50..60, 10..11, 11..11, 0..5]);
        let expected: Vec<u8> = (50..60).chain(10..11).chain(0..5).collect();
        assert_eq!(file.to_vec().unwrap(), expected);
        for start in 0..=expected.len() {
            for end in start..=expected.len() {
                let mut buffer = vec![0; end - start];
                file.read_exact_at(&mut buffer, start as u64).unwrap();
                assert_eq!(buffer, expected[start..end], "{start}..{end}");
            }
        }
        assert!(file.read_exact_at(&mut [0; 17], 0).is_err());
        assert!(file.read_exact_at(&mut [0], u64::MAX).is_err());
    }
}
