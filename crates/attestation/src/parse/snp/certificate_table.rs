//! The certificates that a host gives its guest beside a report.
//!
//! Specification: AMD 56421, "SEV-ES Guest-Hypervisor Communication Block Standardization", chapter "SNP Extended Guest
//! Request": rows of a GUID, an offset and a length (4 bytes each, little-endian), the last one zero; the certificates behind
//! them. The same bytes are `auxblob` of configfs-tsm.

use crate::refusal::{ReasonCode, Refusal};

/// Where the certificates of a table are, each inside the table and apart from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCertificates<'a> {
    /// DER of the chip's key.
    pub vcek: Option<&'a [u8]>,
    /// DER of the provider's key.
    pub vlek: Option<&'a [u8]>,
}

/// Reads tables.
#[derive(Debug)]
pub struct CertificateTable;

impl CertificateTable {
    /// Largest table that is read: Linux hands over at most four pages.
    pub const MAX: usize = 16 * 1024;

    /// Finds VCEK and VLEK. Authorities are left where they are, since nobody takes one from a host; rows of other kinds are
    /// passed over, but held to the same bounds. No bytes are no table: the host gave none.
    ///
    /// # Errors
    /// `snp-certificate-table-malformed`: longer than [`Self::MAX`]; more than [`MAX_ROWS`] rows or none that ends them; a
    /// certificate that lies outside, over the rows or over another one; one kind twice.
    pub fn parse(table: &[u8]) -> Result<HostCertificates<'_>, Refusal> {
        if table.len() > Self::MAX {
            return Err(malformed(format!("{} bytes, at most {}", table.len(), Self::MAX)));
        }
        if table.is_empty() {
            return Ok(HostCertificates::default());
        }
        let rows = rows(table)?;
        let behind_rows = (rows.len() + 1) * ROW;
        let mut taken = Vec::new();
        let mut found = HostCertificates::default();
        for Row { guid, offset, length } in rows {
            let end =
                offset.checked_add(length).filter(|end| *end <= table.len() && offset >= behind_rows && length > 0);
            let Some(end) = end else {
                return Err(malformed(format!("a certificate of {length} bytes at {offset} of {}", table.len())));
            };
            if taken.iter().any(|(from, to)| offset < *to && *from < end) {
                return Err(malformed(format!("the certificate at {offset} lies over another one")));
            }
            taken.push((offset, end));
            let place = match guid {
                VCEK => &mut found.vcek,
                VLEK => &mut found.vlek,
                _ => continue,
            };
            if place.replace(&table[offset..end]).is_some() {
                return Err(malformed("two certificates of one kind"));
            }
        }
        Ok(found)
    }
}

struct Row {
    guid: [u8; 16],
    offset: usize,
    length: usize,
}

fn rows(table: &[u8]) -> Result<Vec<Row>, Refusal> {
    let mut rows = Vec::new();
    for row in table.chunks_exact(ROW) {
        if row.iter().all(|byte| *byte == 0) {
            return Ok(rows);
        }
        if rows.len() == MAX_ROWS {
            return Err(malformed(format!("more than {MAX_ROWS} rows")));
        }
        let (guid, numbers) = row.split_first_chunk::<16>().ok_or_else(|| malformed("half a row"))?;
        let number = |at: usize| {
            let bytes = numbers.get(at..).and_then(|rest| rest.first_chunk::<4>()).copied();
            bytes.and_then(|bytes| usize::try_from(u32::from_le_bytes(bytes)).ok())
        };
        let (Some(offset), Some(length)) = (number(0), number(4)) else {
            return Err(malformed("half a row"));
        };
        rows.push(Row { guid: *guid, offset, length });
    }
    Err(malformed("its rows do not end"))
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(ReasonCode::SnpCertificateTableMalformed, detail)
}

const ROW: usize = 24;
/// ASK or ASVK, ARK, VCEK, VLEK and a list of revoked ones: the standard names five.
const MAX_ROWS: usize = 16;
/// 63da758d-e664-4564-adc5-f4b93be8accd, as a GUID is stored.
const VCEK: [u8; 16] = [0x8d, 0x75, 0xda, 0x63, 0x64, 0xe6, 0x64, 0x45, 0xad, 0xc5, 0xf4, 0xb9, 0x3b, 0xe8, 0xac, 0xcd];
/// a8074bc2-a25a-483e-aae6-39c045a0b8a1, as a GUID is stored.
const VLEK: [u8; 16] = [0xc2, 0x4b, 0x07, 0xa8, 0x5a, 0xa2, 0x3e, 0x48, 0xaa, 0xe6, 0x39, 0xc0, 0x45, 0xa0, 0xb8, 0xa1];
