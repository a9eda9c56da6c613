//! Directories: short names, and long ones in front of them.

use crate::Cursor;

/// A file or directory.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name: the long one, where it has one that is whole.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Bytes of a file.
    pub size: u32,
    pub(super) first_cluster: u32,
}

/// The entries of a directory, without itself, its parent and the volume's label.
pub(super) fn entries(bytes: &[u8]) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut long = LongName::default();
    for record in bytes.chunks_exact(32) {
        match record.first() {
            // "there are no allocated directory entries after this one"
            None | Some(0) => break,
            Some(0xe5) => long = LongName::default(),
            _ => match Record::parse(record) {
                Some(Record::Long { ordinal, checksum, units }) => long.add(ordinal, checksum, &units),
                Some(Record::Short { name, entry }) => {
                    let long = std::mem::take(&mut long).text(&name);
                    if !name.starts_with(b".") {
                        found.push(Entry { name: long.unwrap_or(entry.name), ..entry });
                    }
                }
                Some(Record::Label { .. }) | None => long = LongName::default(),
            },
        }
    }
    found
}

/// The label of a volume, from its root directory: of "only one file on the volume that has this attribute set", the first.
pub(super) fn label(bytes: &[u8]) -> Option<String> {
    let records = bytes.chunks_exact(32).take_while(|record| !record.starts_with(&[0]));
    records.filter(|record| !record.starts_with(&[0xe5])).find_map(|record| match Record::parse(record)? {
        Record::Label { name } => Some(label_text(&name)),
        _ => None,
    })
}

/// Padded with spaces.
pub(super) fn label_text(name: &[u8; 11]) -> String {
    let text: String = name.iter().map(|&byte| char::from(byte)).collect();
    text.trim_end().to_owned()
}

enum Record {
    Long { ordinal: u8, checksum: u8, units: Vec<u16> },
    Short { name: [u8; 11], entry: Entry },
    Label { name: [u8; 11] },
}

impl Record {
    fn parse(record: &[u8]) -> Option<Self> {
        let mut fields = Cursor::new(record);
        let name: [u8; 11] = fields.array()?;
        let attributes = fields.u8()?;
        if attributes & 0x3f == LONG_NAME {
            let checksum = *record.get(13)?;
            // Characters 1 to 5, 6 to 11, 12 and 13.
            let places = [1..11, 14..26, 28..32];
            let bytes = places.into_iter().filter_map(|place| record.get(place)).flatten().copied();
            let bytes: Vec<u8> = bytes.collect();
            let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
            return Some(Self::Long { ordinal: *name.first()?, checksum, units });
        }
        if attributes & LABEL != 0 {
            return Some(Self::Label { name });
        }
        let case = fields.u8()?;
        let _times = fields.take(7)?;
        let high = fields.u16()?;
        let _time = fields.take(4)?;
        let low = fields.u16()?;
        let size = fields.u32()?;
        let first_cluster = u32::from(high) << 16 | u32::from(low);
        let entry =
            Entry { name: short_name(&name, case), is_directory: attributes & DIRECTORY != 0, size, first_cluster };
        Some(Self::Short { name, entry })
    }
}

/// `BOOTX64 EFI` is `BOOTX64.EFI`.
///
/// Two bits say which part is to be shown in small letters (Windows NT's use of the reserved byte).
fn short_name(name: &[u8; 11], case: u8) -> String {
    let text = |part: &[u8], small: u8| {
        let text = part.iter().map(|&byte| char::from(byte)).collect::<String>().trim_end().to_owned();
        if case & small == 0 { text } else { text.to_ascii_lowercase() }
    };
    let (stem, extension) = name.split_at(8);
    let (stem, extension) = (text(stem, 0x08), text(extension, 0x10));
    if extension.is_empty() { stem } else { format!("{stem}.{extension}") }
}

/// The parts of a long name, the last first.
#[derive(Default)]
struct LongName {
    expected: u8,
    checksum: u8,
    parts: Vec<Vec<u16>>,
}

impl LongName {
    fn add(&mut self, ordinal: u8, checksum: u8, units: &[u16]) {
        let number = ordinal & 0x3f;
        if ordinal & LAST_PART != 0 {
            *self = Self { expected: number, checksum, parts: Vec::new() };
        }
        // 255 characters have 20 parts of 13.
        if number == 0 || number > 20 || number != self.expected || checksum != self.checksum {
            *self = Self::default();
            return;
        }
        self.parts.push(units.to_vec());
        self.expected = number - 1;
    }

    /// The name, if it is whole and belongs to this short name.
    fn text(self, short: &[u8; 11]) -> Option<String> {
        let sum = short.iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
        if self.parts.is_empty() || self.expected != 0 || self.checksum != sum {
            return None;
        }
        let units: Vec<u16> = self.parts.into_iter().rev().flatten().take_while(|unit| *unit != 0).collect();
        Some(String::from_utf16_lossy(&units))
    }
}

/// `ATTR_LONG_NAME`
const LONG_NAME: u8 = 0x0f;
/// `ATTR_VOLUME_ID`
const LABEL: u8 = 0x08;
/// `ATTR_DIRECTORY`
const DIRECTORY: u8 = 0x10;
/// `LAST_LONG_ENTRY`
const LAST_PART: u8 = 0x40;
