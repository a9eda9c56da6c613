//! The smallest executables that tests need. No part of any image.

use crate::executable::AGENT;

/// A part of the file, and what it is for.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// `p_type`
    pub kind: u32,
    /// `p_flags`
    pub flags: u32,
    /// Its bytes.
    pub content: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Loaded and executable.
    pub const fn code(content: &'a [u8]) -> Self {
        Self { kind: 1, flags: 5, content }
    }
}

/// A static executable that does nothing but halt.
pub fn static_executable() -> Vec<u8> {
    executable(2, &[Segment::code(&[0xf4; 16])])
}

/// The same, which says that it is the node agent.
pub fn agent() -> Vec<u8> {
    executable(2, &[Segment::code(&[0xf4; 16]), Segment { kind: 4, flags: 4, content: AGENT }])
}

/// An ELF file of this `e_type` for x86-64, each part of it loaded at its offset; its entry is the first that is loaded.
pub fn executable(kind: u16, segments: &[Segment<'_>]) -> Vec<u8> {
    const HEADER: usize = 64;
    const PROGRAM_HEADER: usize = 56;
    let mut at = HEADER + segments.len() * PROGRAM_HEADER;
    let places: Vec<usize> = segments
        .iter()
        .map(|segment| {
            at += segment.content.len();
            at - segment.content.len()
        })
        .collect();
    let first = segments.iter().position(|segment| segment.kind == 1);
    let entry = first.and_then(|first| places.get(first)).copied().unwrap_or(0);
    let count = u16::try_from(segments.len()).unwrap_or(u16::MAX);
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let word = |value: usize| u64::try_from(value).unwrap_or(u64::MAX).to_le_bytes();
    for field in [kind, 62] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(1_u32.to_le_bytes());
    for field in [entry, HEADER, 0] {
        bytes.extend(word(field));
    }
    bytes.extend(0_u32.to_le_bytes());
    for field in [64, 56, count, 64, 0, 0] {
        bytes.extend(field.to_le_bytes());
    }
    for (segment, place) in segments.iter().zip(&places) {
        bytes.extend(segment.kind.to_le_bytes());
        bytes.extend(segment.flags.to_le_bytes());
        let length = segment.content.len();
        for field in [*place, *place, *place, length, length, 1] {
            bytes.extend(word(field));
        }
    }
    for segment in segments {
        bytes.extend_from_slice(segment.content);
    }
    bytes
}
