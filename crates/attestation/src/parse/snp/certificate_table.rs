//! The certificates that a host gives its guest beside a report.
//!
//! Specification: AMD 56421, "SEV-ES Guest-Hypervisor Communication Block Standardization", chapter "SNP Extended Guest
//! Request": rows of a GUID, an offset and a length (4 bytes each, little-endian), the last one zero; the certificates behind
//! them. The same bytes are `auxblob` of configfs-tsm.
//!
//! The standard does not say how a GUID stands there. Hosts write it as RFC 4122 does, in the order of its text (AWS; the libraries of AMD,
//! Google and virtee read it so), or as EFI does, with its first three groups reversed. Both are read: no known GUID is another
//! one in the other order.

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
    /// certificate that lies outside, over the rows or over another one; one kind twice; GUIDs in both orders.
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
        let mut order = None;
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
            let Some((known, its_order)) = known(guid) else { continue };
            if *order.get_or_insert(its_order) != its_order {
                return Err(malformed("its GUIDs stand in the order of RFC 4122 and in EFI's"));
            }
            let place = match known {
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

/// How a GUID's bytes stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GuidOrder {
    Rfc4122,
    Efi,
}

/// Which of the GUIDs that the standard names it is, and in which order it stands.
fn known(bytes: [u8; 16]) -> Option<(u128, GuidOrder)> {
    let [a0, a1, a2, a3, b0, b1, c0, c1, rest @ ..] = bytes;
    let [d0, d1, d2, d3, d4, d5, d6, d7] = rest;
    let turned = [a3, a2, a1, a0, b1, b0, c1, c0, d0, d1, d2, d3, d4, d5, d6, d7];
    let orders = [(bytes, GuidOrder::Rfc4122), (turned, GuidOrder::Efi)];
    let read = orders.map(|(bytes, order)| (u128::from_be_bytes(bytes), order));
    read.into_iter().find(|(guid, _)| [VCEK, VLEK, ASK, ARK].contains(guid))
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(ReasonCode::SnpCertificateTableMalformed, detail)
}

const ROW: usize = 24;
/// ASK or ASVK, ARK, VCEK, VLEK and a list of revoked ones: the standard names five.
const MAX_ROWS: usize = 16;
const VCEK: u128 = 0x63da758d_e664_4564_adc5_f4b93be8accd;
const VLEK: u128 = 0xa8074bc2_a25a_483e_aae6_39c045a0b8a1;
/// ASVK stands under it, too.
const ASK: u128 = 0x4ab7b379_bbac_4fe4_a02f_05aef327c782;
const ARK: u128 = 0xc0b406a4_a803_4952_9743_3fb6014cd0ae;
