//! The OEM strings of SMBIOS (DMTF DSP0134 3.7, section 7.12, structure type 11), read from the raw table.

use std::path::Path;

use super::{MAX_BYTES, MetadataError, read_bounded};

const TABLE: &str = "firmware/dmi/tables/DMI";
/// Tables of real machines have some kilobytes.
const MAX_TABLE: usize = 256 * 1024;
const PREFIX: &[u8] = b"latchkey.metadata=";
const OEM_STRINGS: u8 = 11;
const END_OF_TABLE: u8 = 127;
/// Type, length and handle.
const HEADER: usize = 4;

pub(super) fn read(sysfs: &Path) -> Result<Option<Vec<u8>>, MetadataError> {
    let Some(table) = read_bounded(&sysfs.join(TABLE), MAX_TABLE)? else { return Ok(None) };
    let Some(value) = oem_string(&table)? else { return Ok(None) };
    if value.len() > MAX_BYTES {
        return Err(MetadataError::TooLarge { limit: MAX_BYTES });
    }
    Ok(Some(value.to_vec()))
}

/// The first OEM string with our prefix, `latchkey.metadata=`, in a raw table; without the prefix.
pub fn oem_string(table: &[u8]) -> Result<Option<&[u8]>, MetadataError> {
    let mut rest = table;
    while !rest.is_empty() {
        let structure = Structure::split(rest).ok_or(MetadataError::Smbios)?;
        match structure.kind {
            OEM_STRINGS => {
                let mut strings = structure.strings.split(|byte| *byte == 0);
                if let Some(value) = strings.find_map(|string| string.strip_prefix(PREFIX)) {
                    return Ok(Some(value));
                }
            }
            END_OF_TABLE => return Ok(None),
            _ => {}
        }
        rest = structure.rest;
    }
    Ok(None)
}

struct Structure<'a> {
    kind: u8,
    strings: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Structure<'a> {
    /// Section 6.1.3: the formatted area has the length in the header; strings follow, each ended by a zero, all ended
    /// by one more; a structure without strings is followed by two zeros.
    fn split(table: &'a [u8]) -> Option<Self> {
        let (&kind, &length) = (table.first()?, table.get(1)?);
        let unformatted = table.get(usize::from(length)..).filter(|_| usize::from(length) >= HEADER)?;
        let end = unformatted.windows(2).position(|pair| pair == [0, 0])?;
        Some(Self { kind, strings: unformatted.get(..end)?, rest: unformatted.get(end + 2..)? })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A table of a BIOS structure without strings, one with OEM strings, and the end.
    pub(in super::super) fn table(strings: &[&str]) -> Vec<u8> {
        let mut table = vec![0, 6, 0, 0, 1, 2, 0, 0];
        table.extend([OEM_STRINGS, 5, 0, 1, u8::try_from(strings.len()).unwrap()]);
        for string in strings {
            table.extend(string.as_bytes());
            table.push(0);
        }
        table.extend([0, END_OF_TABLE, 4, 0, 2, 0, 0]);
        table
    }

    #[test]
    fn the_string_with_our_prefix_is_found_among_others() {
        let table = table(&["io.systemd.credential:x=y", "latchkey.metadata={}", "latchkey.metadata=second"]);
        assert_eq!(oem_string(&table).unwrap(), Some(&b"{}"[..]));
    }

    #[test]
    fn a_string_of_another_structure_does_not_count() {
        let mut table = table(&["latchkey.metadata={}"]);
        table[8] = 1;
        assert_eq!(oem_string(&table).unwrap(), None);
    }

    #[test]
    fn a_table_cut_at_any_place_is_refused_or_read_never_overrun() {
        let table = table(&["a=b", "latchkey.metadata={}"]);
        for cut in 0..table.len() {
            match oem_string(&table[..cut]) {
                Ok(found) => assert!(found.is_none() || found == Some(&b"{}"[..]), "{cut}"),
                Err(error) => assert_eq!(error.code().as_str(), "smbios-damaged"),
            }
        }
        assert!(oem_string(&[11, 3, 0, 0, 0, 0]).is_err(), "a structure shorter than its header");
    }

    proptest! {
        #[test]
        fn no_table_makes_the_reader_panic(bytes in proptest::collection::vec(0u8..14, 0..200)) {
            let _ = oem_string(&bytes);
        }
    }
}
