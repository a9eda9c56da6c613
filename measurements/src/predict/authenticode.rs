//! The Authenticode hash: what firmware measures of a PE file that it starts.
//!
//! As EDK II computes it (`DxeTpm2MeasureBootLib`), which is Microsoft's "Windows Authenticode Portable Executable
//! Signature Format", section "Calculating the PE Image Hash", without padding the file to eight bytes.

use std::ops::Range;

use latchkey_attestation::Digest;

use crate::pe::{Headers, Image};

use super::PredictError;
use super::sha256::sha256;

/// The hash, which is what a signature is over too.
///
/// # Errors
/// [`PredictError::OverlappingSections`], [`PredictError::Image`].
pub fn authenticode(image: &Image<'_>) -> Result<Digest, PredictError> {
    let bytes = image.bytes();
    let part = |range: Range<u64>| bytes.get(to_usize(range.start)?..to_usize(range.end)?);
    let parts: Option<Vec<&[u8]>> = ranges(image, bytes.len() as u64)?.into_iter().map(part).collect();
    parts.map(|parts| sha256(&parts)).ok_or(PredictError::OverlappingSections)
}

/// The parts of a file of `size` bytes that are hashed, in that order; what touches is one part.
pub(super) fn ranges(image: &Headers, size: u64) -> Result<Vec<Range<u64>>, PredictError> {
    let headers = u64::from(image.headers_size);
    // Without the checksum, and without the entry that says where the signature is.
    let checksum = image.checksum_field() as u64;
    let mut ranges = match image.certificate_entry_field().map(|entry| entry as u64) {
        Some(entry) => vec![0..checksum, checksum + 4..entry, entry + 8..headers],
        None => vec![0..checksum, checksum + 4..headers],
    };
    // Sections in the order of their bytes in the file; those without any are left out.
    let mut sections: Vec<_> = image.sections.iter().filter(|section| section.raw_size > 0).collect();
    sections.sort_by_key(|section| section.raw_offset);
    let mut hashed = headers;
    let mut end = 0;
    for section in sections {
        let start = u64::from(section.raw_offset);
        if start < end {
            return Err(PredictError::OverlappingSections);
        }
        // At most 96 sections, each less than 4 GiB.
        end = start + u64::from(section.raw_size);
        hashed += end - start;
        ranges.push(start..end);
    }
    // What the file has behind the bytes counted so far, the signature left out.
    let certificates = image.certificates(size)?.map_or(0, |range| range.end - range.start);
    let unsigned = size.saturating_sub(certificates);
    if unsigned > hashed {
        ranges.push(hashed..unsigned);
    }
    // A header that ends before its own fields, for example.
    let bad = |range: &Range<u64>| range.start > range.end || range.end > size;
    if ranges.iter().any(bad) { Err(PredictError::OverlappingSections) } else { Ok(joined(ranges)) }
}

/// Neighbours become one: a hash function likes long inputs.
fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range),
        }
    }
    all
}

fn to_usize(value: u64) -> Option<usize> {
    usize::try_from(value).ok()
}
