//! One group of changes, as the log has it: a head, then the body.
//!
//! | bytes | of the head |
//! |---|---|
//! | 4 | [`MARK`] |
//! | 8 | the group's number |
//! | 4 | the length of the body |
//! | 8 | the body's checksum |
//! | 8 | the checksum of the bytes before |
//!
//! The body is one change after the other: length (1 byte) and name of the table, length (2) and bytes of the key, then the
//! length of the value plus one (4) and its bytes; 0 takes the key away. Numbers are little-endian. Checksums are SipHash-1-3
//! with the log's own random key, so that bytes of a value, which a client chose, are never read as a record.

use std::ops::Range;

use siphasher::sip::SipHasher13;

use crate::{Change, WriteError};

const MARK: &[u8; 4] = b"LKgc";
/// Bytes of a head.
pub(super) const HEAD: usize = 32;
/// The most bytes of a body.
pub(crate) const LONGEST_BODY: usize = 512 << 20;

/// What keys the checksums of one log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) u128);

impl Key {
    pub(super) fn checksum(self, bytes: &[u8]) -> u64 {
        SipHasher13::new_with_key(&self.0.to_le_bytes()).hash(bytes)
    }
}

/// A change as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logged<'a> {
    pub(crate) table: &'a str,
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
}

/// A whole record.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) number: u64,
    pub(super) body: &'a [u8],
}

/// How long the record of these changes is.
pub(super) fn length(changes: &[Change]) -> u64 {
    let change =
        |change: &Change| 1 + change.table.len() + 2 + change.key.len() + 4 + change.value.as_ref().map_or(0, Vec::len);
    (HEAD + changes.iter().map(change).sum::<usize>()) as u64
}

/// Writes a record into `out`, in the place of what is there. The changes were checked.
pub(super) fn write(out: &mut Vec<u8>, key: Key, number: u64, changes: &[Change]) -> Result<(), WriteError> {
    let length = length(changes) - HEAD as u64;
    if length > LONGEST_BODY as u64 {
        return Err(WriteError::GroupTooLong(length));
    }
    out.clear();
    out.resize(HEAD, 0);
    for change in changes {
        write_change(out, change)?;
    }
    let (head, body) = out.split_at_mut(HEAD);
    let length = u32::try_from(body.len()).map_err(|_| WriteError::GroupTooLong(length))?;
    let sum = key.checksum(body);
    let fields = [&MARK[..], &number.to_le_bytes(), &length.to_le_bytes(), &sum.to_le_bytes()].concat();
    let sum = key.checksum(&fields).to_le_bytes();
    head.copy_from_slice(&[fields.as_slice(), &sum].concat());
    Ok(())
}

fn write_change(out: &mut Vec<u8>, Change { table, key, value }: &Change) -> Result<(), WriteError> {
    let name = u8::try_from(table.len()).map_err(|_| WriteError::UnknownTable(table))?;
    let length = u16::try_from(key.len()).map_err(|_| WriteError::KeyTooLong(key.len()))?;
    out.push(name);
    out.extend_from_slice(table.as_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(key);
    let value_length = value.as_ref().map_or(0, |value| value.len() + 1);
    let too_long = |_| WriteError::ValueTooLong(value_length);
    out.extend_from_slice(&u32::try_from(value_length).map_err(too_long)?.to_le_bytes());
    out.extend_from_slice(value.as_deref().unwrap_or_default());
    Ok(())
}

/// The number and the place of the body, if the bytes begin with a head that is as it was written.
fn head(bytes: &[u8], key: Key) -> Option<(u64, Range<usize>, u64)> {
    let (head, _) = bytes.split_first_chunk::<HEAD>()?;
    let (fields, sum) = head.split_last_chunk::<8>()?;
    let mut fields_left = fields.strip_prefix(MARK)?;
    if key.checksum(fields) != u64::from_le_bytes(*sum) {
        return None;
    }
    let number = u64::from_le_bytes(take(&mut fields_left)?);
    let length = usize::try_from(u32::from_le_bytes(take(&mut fields_left)?)).ok()?;
    Some((number, HEAD..HEAD.checked_add(length)?, u64::from_le_bytes(take(&mut fields_left)?)))
}

/// The record that the bytes begin with; none where it is not whole, or damaged.
pub(super) fn read(bytes: &[u8], key: Key) -> Option<Record<'_>> {
    let (number, place, sum) = head(bytes, key)?;
    let body = bytes.get(place)?;
    (key.checksum(body) == sum).then_some(Record { number, body })
}

/// The first head anywhere in the bytes whose number is above `number`: its place.
pub(super) fn find_above(bytes: &[u8], key: Key, number: u64) -> Option<usize> {
    let windows = bytes.windows(HEAD).enumerate();
    let mut heads = windows.filter(|(_, window)| window.starts_with(MARK)).map(|(at, window)| (at, head(window, key)));
    heads.find(|(_, head)| head.as_ref().is_some_and(|(found, ..)| *found > number)).map(|(at, _)| at)
}

impl<'a> Record<'a> {
    /// The bytes of the record, head and body.
    pub(super) const fn length(&self) -> usize {
        HEAD + self.body.len()
    }

    /// Its changes; none where its body is not as [`write`] makes it.
    pub(super) fn changes(&self) -> Option<Vec<Logged<'a>>> {
        let mut rest = self.body;
        let mut changes = Vec::new();
        while !rest.is_empty() {
            changes.push(read_change(&mut rest)?);
        }
        Some(changes)
    }
}

fn read_change<'a>(rest: &mut &'a [u8]) -> Option<Logged<'a>> {
    let name = usize::from(u8::from_le_bytes(take(rest)?));
    let table = str::from_utf8(take_slice(rest, name)?).ok()?;
    let length = usize::from(u16::from_le_bytes(take(rest)?));
    let key = take_slice(rest, length)?;
    let length = usize::try_from(u32::from_le_bytes(take(rest)?)).ok()?;
    let value = match length.checked_sub(1) {
        Some(length) => Some(take_slice(rest, length)?),
        None => None,
    };
    Some(Logged { table, key, value })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

fn take_slice<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}
