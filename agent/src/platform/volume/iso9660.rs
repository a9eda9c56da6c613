//! A bounded reader of ISO 9660 (ECMA-119), with the names of Joliet or of Rock Ridge (IEEE P1282 over SUSP, P1281).
//!
//! Where a volume has a Joliet tree, that is the one that is read; else the primary one, whose names are those of Rock Ridge
//! where a record has them, else its own, in small letters and without version. A name of Rock Ridge that goes on elsewhere
//! (`CE`) is not followed: those that are looked for are short. Files in several extents, and interleaved ones, are refused.

use std::io;
use std::ops::Range;

use latchkey_boot_formats::{Cursor, ReadAt, Window, array_at, slice_at, u16_at, u32_at};

use super::{Files, VolumeError};

/// A logical sector, and the only size of blocks that tools write.
const SECTOR: usize = 2048;
/// Before the volume descriptors: the system area.
const SYSTEM_AREA: u64 = 16;
/// Volumes have two to five.
const MAX_DESCRIPTORS: u64 = 16;
/// A directory of some thousand files.
const MAX_DIRECTORY: u32 = 256 * 1024;
const NO_ISO: VolumeError = VolumeError::Damaged("a volume descriptor that is none of ISO 9660");

/// A volume: where its root directory is, and what names look like.
#[derive(Debug)]
pub(super) struct Iso<'a, R: ?Sized> {
    volume: &'a Window<'a, R>,
    root: Record,
    is_joliet: bool,
}

/// A file or directory.
#[derive(Debug)]
pub(super) struct Record {
    name: String,
    flags: u8,
    /// The first block of the content.
    block: u64,
    size: u32,
    is_interleaved: bool,
}

/// Section 9.1.6.
const DIRECTORY: u8 = 1 << 1;
const ASSOCIATED: u8 = 1 << 2;
const GOES_ON: u8 = 1 << 7;

/// The volume identifier of the primary descriptor; `None` of what is no ISO 9660.
pub(super) fn label<R: ReadAt + ?Sized>(volume: &Window<'_, R>) -> Option<String> {
    for descriptor in descriptors(volume) {
        let descriptor = descriptor.ok()?;
        if kind(&descriptor)? == PRIMARY {
            let text = slice_at(&descriptor, 40, 32)?.iter().map(|byte| char::from(*byte)).collect::<String>();
            return Some(text.trim_end_matches([' ', '\0']).to_owned());
        }
    }
    None
}

/// The volume descriptors as far as they are read.
fn descriptors<R: ReadAt + ?Sized>(volume: &Window<'_, R>) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    (SYSTEM_AREA..SYSTEM_AREA + MAX_DESCRIPTORS).map(|sector| volume.bytes(sector * SECTOR as u64, SECTOR))
}

/// The type of a descriptor, if it is one (section 8.1; version 2 is that of ECMA-119's enhanced ones).
fn kind(descriptor: &[u8]) -> Option<u8> {
    let is_one = slice_at(descriptor, 1, 5) == Some(b"CD001") && matches!(descriptor.get(6), Some(1 | 2));
    descriptor.first().copied().filter(|_| is_one)
}

const PRIMARY: u8 = 1;
const SUPPLEMENTARY: u8 = 2;
const END: u8 = 255;

impl<'a, R: ReadAt + ?Sized> Iso<'a, R> {
    /// Reads the descriptors; `None` of what is no ISO 9660.
    pub(super) fn open(volume: &'a Window<'a, R>) -> Result<Option<Self>, VolumeError> {
        let (mut primary, mut joliet) = (None, None);
        for (index, descriptor) in descriptors(volume).enumerate() {
            let descriptor = match descriptor {
                Err(error) if index == 0 && error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                descriptor => descriptor?,
            };
            match kind(&descriptor) {
                None if index == 0 => return Ok(None),
                None => return Err(NO_ISO),
                Some(END) => break,
                Some(PRIMARY) if primary.is_none() => primary = Some(root(&descriptor)?),
                Some(SUPPLEMENTARY) if joliet.is_none() && is_joliet(&descriptor) => joliet = Some(root(&descriptor)?),
                Some(_) => {}
            }
        }
        let is_joliet = joliet.is_some();
        let root = joliet.or(primary).ok_or(NO_ISO)?;
        Ok(Some(Self { volume, root, is_joliet }))
    }
}

/// The three levels of UCS-2 in Joliet's specification.
fn is_joliet(descriptor: &[u8]) -> bool {
    matches!(array_at(descriptor, 88), Some([b'%', b'/', b'@' | b'C' | b'E']))
}

/// The record of the root directory in a descriptor (section 8.4.18).
fn root(descriptor: &[u8]) -> Result<Record, VolumeError> {
    if u16_at(descriptor, 128) != Some(2048) {
        return Err(VolumeError::Damaged("its blocks have another size than 2048 bytes"));
    }
    let record = slice_at(descriptor, 156, 34).and_then(|record| Record::parse(record, false));
    record.filter(|root| root.flags & DIRECTORY != 0).ok_or(VolumeError::Damaged("it has no root directory"))
}

impl Record {
    /// Section 9.1. The bytes are those of one record, whose first one is their number.
    fn parse(bytes: &[u8], is_joliet: bool) -> Option<Self> {
        let attributes = *bytes.get(1)?;
        let block = u64::from(u32_at(bytes, 2)?) + u64::from(attributes);
        let (size, flags) = (u32_at(bytes, 10)?, *bytes.get(25)?);
        let is_interleaved = bytes.get(26..28)? != [0, 0];
        let length = usize::from(*bytes.get(32)?);
        let own = slice_at(bytes, 33, length)?;
        // What follows begins at an even place.
        let more = bytes.get(33 + length + usize::from(length.is_multiple_of(2))..).unwrap_or_default();
        let name = match own {
            _ if is_joliet => without_version(&utf16(own)).to_owned(),
            _ => rock_ridge(more).unwrap_or_else(|| {
                let text: String = own.iter().map(|byte| char::from(*byte)).collect();
                without_version(&text).trim_end_matches('.').to_ascii_lowercase()
            }),
        };
        Some(Self { name, flags, block, size, is_interleaved })
    }
}

fn utf16(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
    String::from_utf16_lossy(&units)
}

/// `name;1` is `name`.
fn without_version(name: &str) -> &str {
    match name.rsplit_once(';') {
        Some((stem, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    }
}

/// The name in the entries `NM` of a record's system use area (SUSP 1.12, section 4; RRIP 1.12, section 4.1.4).
fn rock_ridge(area: &[u8]) -> Option<String> {
    let mut fields = Cursor::new(area);
    let mut name: Option<Vec<u8>> = None;
    while let Some([kind, of_kind, length, _version]) = fields.array() {
        let content = usize::from(length).checked_sub(4).and_then(|length| fields.take(length));
        let Some(content) = content else { break };
        if [kind, of_kind] == *b"NM" {
            name.get_or_insert_default().extend(content.get(1..)?);
        }
    }
    name.and_then(|name| String::from_utf8(name).ok())
}

impl<R: ReadAt + ?Sized> Files for Iso<'_, R> {
    type Entry = Record;

    fn entries(&self, directory: Option<&Record>) -> Result<Vec<Record>, VolumeError> {
        let directory = directory.unwrap_or(&self.root);
        if directory.size > MAX_DIRECTORY {
            let (size, limit) = (directory.size.into(), MAX_DIRECTORY.into());
            return Err(VolumeError::Oversized { what: "a directory", size, limit });
        }
        let length = usize::try_from(directory.size).unwrap_or(usize::MAX);
        let bytes = self.volume.bytes(directory.block * SECTOR as u64, length)?;
        let mut entries = Vec::new();
        // No record goes over the end of a sector: zeros fill it.
        for sector in bytes.chunks(SECTOR) {
            let mut rest = sector;
            while let Some(&length @ 1..) = rest.first() {
                let damaged = VolumeError::Damaged("a directory has a record that is none");
                let Some((record, next)) = rest.split_at_checked(length.into()) else { return Err(damaged) };
                // The directory itself, and its parent.
                let is_name = !matches!((record.get(32), record.get(33)), (Some(1), Some(0 | 1)));
                let entry = Record::parse(record, self.is_joliet).ok_or(damaged)?;
                if is_name && entry.flags & ASSOCIATED == 0 {
                    entries.push(entry);
                }
                rest = next;
            }
        }
        Ok(entries)
    }

    fn is_called(entry: &Record, name: &str) -> bool {
        entry.name == name
    }

    fn is_directory(entry: &Record) -> bool {
        entry.flags & DIRECTORY != 0
    }

    fn size(entry: &Record) -> u32 {
        entry.size
    }

    fn places(&self, entry: &Record) -> Result<Vec<Range<u64>>, VolumeError> {
        if entry.flags & GOES_ON != 0 || entry.is_interleaved {
            return Err(VolumeError::Damaged("a file lies in several extents"));
        }
        let start = entry.block * SECTOR as u64;
        Ok(std::iter::once(start..start + u64::from(entry.size)).collect())
    }
}
