//! The EFI system partition of a disk with a GUID partition table (UEFI 2.10, section 5.3), in sectors of 512 bytes.

use super::{ImageError, ReadAt, Window};
use crate::explain::fields::Fields;
use crate::explain::guid::Guid;

/// First byte and size of the one EFI system partition.
///
/// Only the first header is looked at: an image whose first header is broken is broken.
pub(super) fn esp<R: ReadAt + ?Sized>(disk: &Window<'_, R>) -> Result<(u64, u64), ImageError> {
    let sector = disk.bytes(SECTOR, 512).map_err(|_| ImageError::NotAnImage)?;
    let table = Header::parse(&sector)?;
    let size = usize::try_from(table.count * table.entry).map_err(|_| BAD_ENTRIES)?;
    let offset = table.first.checked_mul(SECTOR).ok_or(BAD_ENTRIES)?;
    let entries = disk.bytes(offset, size)?;
    if crc32(&entries) != table.checksum {
        return Err(ImageError::BadPartitionTable("its checksum differs"));
    }
    let entry = usize::try_from(table.entry).map_err(|_| BAD_ENTRIES)?;
    let mut found = entries.chunks_exact(entry).filter_map(extent_of_esp);
    let (first, last) = found.next().ok_or(ImageError::NoEsp)?;
    if found.next().is_some() {
        return Err(ImageError::SeveralEsps);
    }
    let sectors = last.checked_sub(first).and_then(|length| length.checked_add(1));
    let start = first.checked_mul(SECTOR).ok_or(BAD_EXTENT)?;
    let size = sectors.and_then(|sectors| sectors.checked_mul(SECTOR)).ok_or(BAD_EXTENT)?;
    if start.checked_add(size).is_none_or(|end| end > disk.size) {
        return Err(BAD_EXTENT);
    }
    Ok((start, size))
}

/// What the header says about the table of entries.
struct Header {
    first: u64,
    count: u32,
    entry: u32,
    checksum: u32,
}

impl Header {
    fn parse(sector: &[u8]) -> Result<Self, ImageError> {
        let short = ImageError::NotAnImage;
        let mut fields = Fields::new(sector);
        if fields.array() != Some(*b"EFI PART") {
            return Err(ImageError::NotAnImage);
        }
        let _revision = fields.u32();
        let size = fields.u32().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let checksum = fields.u32();
        let header = sector.get(..size).filter(|header| header.len() >= HEADER);
        let mut header = header.ok_or(ImageError::BadPartitionTable("its header has an impossible size"))?.to_vec();
        // "This value is computed by setting this field to 0".
        if let Some(field) = header.get_mut(16..20) {
            field.fill(0);
        }
        if Some(crc32(&header)) != checksum {
            return Err(ImageError::BadPartitionTable("the checksum of its header differs"));
        }
        // Reserved; this header's place, the other's, the first and last usable sector; the disk's GUID.
        let _ = fields.take(4 + 4 * 8 + 16).ok_or(short.clone())?;
        let first = fields.u64().ok_or(short.clone())?;
        let (count, entry) = (fields.u32().ok_or(short.clone())?, fields.u32().ok_or(short.clone())?);
        let checksum = fields.u32().ok_or(short)?;
        // "a value of 128 × 2^n"
        if count > MAX_ENTRIES || !(128..=4096).contains(&entry) || !entry.is_power_of_two() {
            return Err(BAD_ENTRIES);
        }
        Ok(Self { first, count, entry, checksum })
    }
}

/// First and last sector, if the entry is an EFI system partition.
fn extent_of_esp(entry: &[u8]) -> Option<(u64, u64)> {
    let mut fields = Fields::new(entry);
    let kind = Guid(fields.array()?);
    let _unique = fields.take(16)?;
    let extent = (fields.u64()?, fields.u64()?);
    (kind == Guid::ESP).then_some(extent)
}

/// CRC-32 as in IEEE 802.3.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

const BAD_ENTRIES: ImageError = ImageError::BadPartitionTable("impossible number, size or place of entries");
const BAD_EXTENT: ImageError = ImageError::BadPartitionTable("the EFI system partition lies outside the disk");
const SECTOR: u64 = 512;
const HEADER: usize = 92;
/// Every tool makes 128.
const MAX_ENTRIES: u32 = 1024;
