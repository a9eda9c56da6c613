//! The Authenticode hash: what firmware measures of a PE file that it starts.
//!
//! As EDK II computes it (`DxeTpm2MeasureBootLib`), which is Microsoft's "Windows Authenticode Portable Executable
//! Signature Format", section "Calculating the PE Image Hash", without padding the file to eight bytes.

use std::ops::Range;

use latchkey_attestation::Digest;

use crate::pe::Image;

use super::PredictError;
use super::uki::sha256;

/// The hash, which is what a signature is over too.
///
/// # Errors
/// [`PredictError::OverlappingSections`], [`PredictError::Image`].
pub fn authenticode(image: &Image<'_>) -> Result<Digest, PredictError> {
    parts(image).map(|parts| sha256(&parts))
}

/// The parts of the file that are hashed, in that order; what touches is one part.
pub(super) fn parts<'a>(image: &Image<'a>) -> Result<Vec<&'a [u8]>, PredictError> {
    let bytes = image.bytes();
    let headers = to_usize(image.headers_size)?;
    // Without the checksum, and without the entry that says where the signature is.
    let checksum = image.checksum_field();
    let mut ranges = match image.certificate_entry_field() {
        Some(entry) => vec![0..checksum, checksum + 4..entry, entry + 8..headers],
        None => vec![0..checksum, checksum + 4..headers],
    };
    // Sections in the order of their bytes in the file; those without any are left out.
    let mut sections: Vec<_> = image.sections.iter().filter(|section| section.raw_size > 0).collect();
    sections.sort_by_key(|section| section.raw_offset);
    let mut hashed = headers;
    let mut end = 0;
    for section in sections {
        let start = to_usize(section.raw_offset)?;
        if start < end {
            return Err(PredictError::OverlappingSections);
        }
        end = start.checked_add(to_usize(section.raw_size)?).ok_or(PredictError::OverlappingSections)?;
        hashed = hashed.checked_add(end - start).ok_or(PredictError::OverlappingSections)?;
        ranges.push(start..end);
    }
    // What the file has behind the bytes counted so far, the signature left out.
    let certificates = image.certificates()?.map_or(0, <[u8]>::len);
    let unsigned = bytes.len().saturating_sub(certificates);
    if unsigned > hashed {
        ranges.push(hashed..unsigned);
    }
    joined(ranges).into_iter().map(|range| bytes.get(range).ok_or(PredictError::OverlappingSections)).collect()
}

/// Neighbours become one: a hash function likes long inputs.
fn joined(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range),
        }
    }
    all
}

fn to_usize(value: u32) -> Result<usize, PredictError> {
    usize::try_from(value).map_err(|_| PredictError::OverlappingSections)
}
