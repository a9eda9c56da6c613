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
    use std::fs;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use latchkey_test_support::{Lines, Process, skip, spawn};
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

    /// The structures that QEMU writes for a machine with these arguments, got from it as firmware gets them (`docs/specs/fw_cfg.rst`).
    fn of_qemu(smbios: &str) -> Option<Vec<u8>> {
        const SELECT_AND_READ: u32 = 0x08 | 0x02;
        const DIRECTORY: u16 = 0x19;
        let mut command = Command::new("qemu-system-x86_64");
        // Its processor stands still: only its memory and ports are asked.
        command.args(["-machine", "q35", "-accel", "tcg", "-S", "-display", "none", "-nodefaults"]);
        command.args(["-qtest", "stdio", "-qtest-log", "none", "-smbios", smbios]);
        let Ok(mut child) = spawn(tied(command)) else {
            skip("qemu-system-x86_64 is missing: apt-get install qemu-system-x86");
            return None;
        };
        let (mut input, answers) = (child.stdin.take().unwrap(), Lines::of(child.stdout.take().unwrap()));
        let _machine = Process::watch(child).unwrap();
        let mut ask = |question: String| {
            writeln!(input, "{question}").unwrap();
            let answer = answers.next(&question).unwrap();
            answer.strip_prefix("OK").unwrap_or_else(|| panic!("{question}: {answer}")).trim().to_owned()
        };
        let mut read = |selector: u16, length: u32| {
            let control = u32::from(selector) << 16 | SELECT_AND_READ;
            ask(format!("write 0x1000 0x10 0x{control:08x}{length:08x}{:016x}", 0x10_0000));
            ask("outl 0x514 0x0".into());
            ask(format!("outl 0x518 {:#x}", 0x1000_u32.swap_bytes()));
            hex::decode(ask(format!("read 0x100000 {length:#x}")).trim_start_matches("0x")).unwrap()
        };
        let directory = read(DIRECTORY, 0x4000);
        let count = u32::from_be_bytes(directory[..4].try_into().unwrap());
        let mut files = directory[4..].chunks_exact(64).take(usize::try_from(count).unwrap());
        let file = files.find(|file| file[8..].starts_with(b"etc/smbios/smbios-tables\0")).unwrap();
        let (size, selector) = (file[..4].try_into().unwrap(), file[4..6].try_into().unwrap());
        Some(read(u16::from_be_bytes(selector), u32::from_be_bytes(size)))
    }

    fn tied(mut command: Command) -> Command {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    #[test]
    fn a_table_of_qemu_s_has_the_string_that_it_was_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("string");
        let long = format!(r#"{{"version":1,"node_name":"{}"}}"#, "a".repeat(20_000));
        fs::write(&file, format!("latchkey.metadata={long}")).unwrap();
        for (strings, expected) in [
            ("value=latchkey.metadata={}".to_owned(), Some("{}")),
            (
                "value=io.systemd.credential:x=y,value=latchkey.metadata={},value=latchkey.metadata=second".into(),
                Some("{}"),
            ),
            (format!("value=x,path={}", file.display()), Some(&*long)),
            ("value=LATCHKEY.METADATA={}".into(), None),
        ] {
            let Some(table) = of_qemu(&format!("type=11,{strings}")) else { return };
            let found = oem_string(&table).unwrap();
            assert_eq!(found, expected.map(str::as_bytes), "{strings}");
        }
        // A machine of QEMU's that is told nothing has no such structure.
        let Some(table) = of_qemu("type=1,serial=latchkey.metadata={}") else { return };
        assert_eq!((oem_string(&table).unwrap(), table.is_empty()), (None, false));
    }

    proptest! {
        #[test]
        fn no_table_makes_the_reader_panic(bytes in proptest::collection::vec(0u8..14, 0..200)) {
            let _ = oem_string(&bytes);
        }
    }
}
