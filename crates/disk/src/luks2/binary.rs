//! The binary header: 4096 bytes in front of the JSON area, in two copies.
//!
//! Source: LUKS2 On-Disk Format Specification 1.1, section 2.1. All integers are big-endian.

use super::HeaderRefusal as Refusal;
use crate::bytes::{is_zero, place};
use latchkey_boot_formats::{array_at, slice_at};
use latchkey_keys::Uuid;
use ring::digest::{Context, SHA256};

/// Bytes of the binary header; the JSON area begins behind it.
pub(crate) const BINARY: usize = 4096;

/// What both copies can measure, and so where the secondary can stand. Specification, table 1: "Possible LUKS2
/// secondary header offsets and JSON area size".
pub(crate) const HEADER_SIZES: [u64; 9] =
    [0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];

pub(crate) const MAGIC_PRIMARY: [u8; 6] = *b"LUKS\xba\xbe";
pub(crate) const MAGIC_SECONDARY: [u8; 6] = *b"SKUL\xba\xbe";
const VERSION: u16 = 2;

/// A header is rewritten a few times in its life. Half the range is out of reach by counting, and keeps `+ 1` safe.
const MAX_SEQUENCE_ID: u64 = 1 << 63;

// Offsets of the fields; specification, figure 2.
const AT_VERSION: usize = 6;
const AT_HEADER_SIZE: usize = 8;
const AT_SEQUENCE_ID: usize = 16;
const AT_LABEL: usize = 24;
const AT_CHECKSUM_ALGORITHM: usize = 72;
const AT_SALT: usize = 104;
const AT_UUID: usize = 168;
const AT_SUBSYSTEM: usize = 208;
const AT_HEADER_OFFSET: usize = 256;
const AT_PADDING: usize = 264;
const AT_CHECKSUM: usize = 448;
const AT_CHECKSUM_REST: usize = AT_CHECKSUM + 32;

const LABEL: usize = 48;
const CHECKSUM_ALGORITHM: usize = 32;
pub(crate) const SALT: usize = 64;
const UUID: usize = 40;
const SUBSYSTEM: usize = 48;
const SHA256_NAME: &str = "sha256";

/// Which of the two copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Primary,
    Secondary,
}

impl Place {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Primary => Self::Secondary,
            Self::Secondary => Self::Primary,
        }
    }

    pub(crate) const fn offset(self, header_size: u64) -> u64 {
        match self {
            Self::Primary => 0,
            Self::Secondary => header_size,
        }
    }

    const fn magic(self) -> [u8; 6] {
        match self {
            Self::Primary => MAGIC_PRIMARY,
            Self::Secondary => MAGIC_SECONDARY,
        }
    }
}

/// One copy whose magic, place, checksum and text fields are right. Nothing is known of its JSON yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binary<'a> {
    pub(crate) place: Place,
    pub(crate) header_size: u64,
    pub(crate) sequence_id: u64,
    pub(crate) label: &'a str,
    pub(crate) subsystem: &'a str,
    pub(crate) uuid: Uuid,
    /// The whole JSON area with its padding.
    pub(crate) json_area: &'a [u8],
}

/// Finds the newest valid copy in `region`, the device's beginning.
///
/// A copy with a broken checksum may have been torn by a power cut, so the other one stands in for it. A copy that is
/// whole but outside the closed list is not replaced: the caller refuses it.
pub(crate) fn newest(region: &[u8]) -> Result<Binary<'_>, Refusal> {
    let primary = parse(region, Place::Primary, 0);
    let secondary = match &primary {
        Ok(primary) => parse(region, Place::Secondary, primary.header_size),
        // The primary's size is not to be trusted: look at every place the specification allows.
        Err(_) => HEADER_SIZES
            .iter()
            .map(|&offset| parse(region, Place::Secondary, offset))
            .reduce(|found, next| match (&found, &next) {
                (Err(Refusal::Magic | Refusal::Truncated), _) => next,
                _ => found,
            })
            .unwrap_or(Err(Refusal::Magic)),
    };
    match (primary, secondary) {
        (Ok(primary), Ok(secondary)) if secondary.sequence_id > primary.sequence_id => Ok(secondary),
        (Ok(primary), _) => Ok(primary),
        (Err(_), Ok(secondary)) => Ok(secondary),
        (Err(Refusal::Magic), Err(Refusal::Truncated)) => Err(Refusal::Magic),
        (Err(Refusal::Magic), Err(refusal)) | (Err(refusal), Err(_)) => Err(refusal),
    }
}

fn parse(region: &[u8], place: Place, offset: u64) -> Result<Binary<'_>, Refusal> {
    let offset_in_region = usize::try_from(offset).map_err(|_| Refusal::Truncated)?;
    let head = slice_at(region, offset_in_region, BINARY).ok_or(Refusal::Truncated)?;
    if array_at::<6>(head, 0) != Some(place.magic()) {
        return Err(Refusal::Magic);
    }
    match array_at(head, AT_VERSION).map(u16::from_be_bytes) {
        Some(VERSION) => {}
        Some(1) => return Err(Refusal::Luks1),
        _ => return Err(Refusal::Version),
    }
    let header_size = integer(head, AT_HEADER_SIZE);
    if !HEADER_SIZES.contains(&header_size) || (place == Place::Secondary && header_size != offset) {
        return Err(Refusal::HeaderSize);
    }
    if integer(head, AT_HEADER_OFFSET) != offset {
        return Err(Refusal::HeaderOffset);
    }
    if text(head, AT_CHECKSUM_ALGORITHM, CHECKSUM_ALGORITHM) != Some(SHA256_NAME) {
        return Err(Refusal::ChecksumAlgorithm);
    }
    let length = usize::try_from(header_size).map_err(|_| Refusal::Truncated)?;
    let whole = slice_at(region, offset_in_region, length).ok_or(Refusal::Truncated)?;
    if array_at(head, AT_CHECKSUM) != Some(checksum(whole)) {
        return Err(Refusal::Checksum);
    }
    let paddings = [(AT_PADDING, AT_CHECKSUM), (AT_CHECKSUM_REST, BINARY)];
    if !paddings.iter().all(|&(from, to)| slice_at(head, from, to - from).is_some_and(is_zero)) {
        return Err(Refusal::BinaryPadding);
    }
    let sequence_id = integer(head, AT_SEQUENCE_ID);
    if sequence_id >= MAX_SEQUENCE_ID {
        return Err(Refusal::SequenceId);
    }
    Ok(Binary {
        place,
        header_size,
        sequence_id,
        label: text(head, AT_LABEL, LABEL).ok_or(Refusal::Label)?,
        subsystem: text(head, AT_SUBSYSTEM, SUBSYSTEM).ok_or(Refusal::Subsystem)?,
        uuid: text(head, AT_UUID, UUID).and_then(|text| text.parse().ok()).ok_or(Refusal::Uuid)?,
        json_area: slice_at(whole, BINARY, length - BINARY).ok_or(Refusal::Truncated)?,
    })
}

/// Writes one copy: binary header, JSON text, zeros up to the header's size.
///
/// # Errors
/// [`Refusal::JsonSchema`] when the JSON text and its final NUL do not fit.
pub(crate) fn write(binary: &Binary<'_>, salt: &[u8; SALT], json: &[u8]) -> Result<Vec<u8>, Refusal> {
    let length = usize::try_from(binary.header_size).map_err(|_| Refusal::HeaderSize)?;
    if json.len() >= length.saturating_sub(BINARY) {
        return Err(Refusal::JsonSchema);
    }
    let mut copy = vec![0; length];
    place(&mut copy, 0, &binary.place.magic());
    place(&mut copy, AT_VERSION, &VERSION.to_be_bytes());
    place(&mut copy, AT_HEADER_SIZE, &binary.header_size.to_be_bytes());
    place(&mut copy, AT_SEQUENCE_ID, &binary.sequence_id.to_be_bytes());
    place(&mut copy, AT_LABEL, binary.label.as_bytes());
    place(&mut copy, AT_CHECKSUM_ALGORITHM, SHA256_NAME.as_bytes());
    place(&mut copy, AT_SALT, salt);
    place(&mut copy, AT_UUID, binary.uuid.to_string().as_bytes());
    place(&mut copy, AT_SUBSYSTEM, binary.subsystem.as_bytes());
    place(&mut copy, AT_HEADER_OFFSET, &binary.place.offset(binary.header_size).to_be_bytes());
    place(&mut copy, BINARY, json);
    let checksum = checksum(&copy);
    place(&mut copy, AT_CHECKSUM, &checksum);
    Ok(copy)
}

/// SHA-256 over the copy with its checksum field as zeros (specification, 2.1: `csum`).
pub(crate) fn checksum(copy: &[u8]) -> [u8; 32] {
    let (before, rest) = copy.split_at_checked(AT_CHECKSUM).unwrap_or((copy, &[]));
    let mut hash = Context::new(&SHA256);
    hash.update(before);
    hash.update(&[0; 64]);
    hash.update(rest.get(64..).unwrap_or_default());
    let mut sum = [0; 32];
    sum.copy_from_slice(hash.finish().as_ref());
    sum
}

fn integer(head: &[u8], at: usize) -> u64 {
    array_at(head, at).map_or(0, u64::from_be_bytes)
}

/// A text field: ended by NUL, and nothing hidden behind it.
fn text(head: &[u8], at: usize, length: usize) -> Option<&str> {
    let field = slice_at(head, at, length)?;
    let end = field.iter().position(|&byte| byte == 0)?;
    let (text, rest) = field.split_at_checked(end)?;
    is_zero(rest).then(|| core::str::from_utf8(text).ok()).flatten()
}

/// Recomputes the checksum of the copy at `offset`, as an attacker would who changed it.
#[cfg(test)]
pub(crate) fn fix_checksum(region: &mut [u8], offset: usize, length: usize) {
    let copy = &mut region[offset..offset + length];
    let sum = checksum(copy);
    copy[AT_CHECKSUM..AT_CHECKSUM_REST].copy_from_slice(&sum);
}
