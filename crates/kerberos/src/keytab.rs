//! Keytab files, as MIT documents them ("The Kerberos keytab binary file format", version 2).
//!
//! Such a file is two bytes, 5 and 2, and records: a length (four bytes, big endian, signed; a negative one is a hole of so
//! many bytes), and then, big endian: components (2), realm and each component (a length of 2, and text), type of name (4), time
//! (4), version (1), type of encryption (2), key (a length of 2, and bytes), and, where four bytes are left, the version
//! again (4).

use latchkey_durable_file::{Existing, put};
use latchkey_factory_plus::Upn;
use std::io;
use std::path::Path;
use thiserror::Error;
use zeroize::Zeroizing;

const MAGIC: [u8; 2] = [5, 2];
/// `KRB5_NT_PRINCIPAL`.
const NAME_TYPE: u32 = 1;
/// No keytab of ours has more.
const MAX_ENTRIES: usize = 1024;
/// Longer files are not read.
const MAX_FILE: usize = 1024 * 1024;
const MAX_KEY: usize = 256;

/// A key of a principal.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_debug_implementations)] // it holds a key
pub struct Entry {
    /// Whose.
    pub principal: Upn,
    /// When it was written, in seconds since 1970; nobody decides by it.
    pub time: u32,
    /// Its version.
    pub version: u32,
    /// Its type of encryption, as RFC 3961 numbers it.
    pub kind: u16,
    /// Its bytes.
    pub key: Zeroizing<Vec<u8>>,
}

/// The keys in a keytab.
#[derive(Clone, Default, PartialEq, Eq)]
#[allow(missing_debug_implementations)] // it holds keys
pub struct Keytab(Vec<Entry>);

/// Why bytes are no keytab, or an entry is not taken.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum KeytabError {
    /// Of version 1, or no keytab.
    #[error("a keytab begins with the bytes 5 and 2")]
    Magic,
    /// Over 1 MiB, or 1024 entries.
    #[error("a keytab has at most 1 MiB and {MAX_ENTRIES} entries")]
    TooLarge,
    /// It ends inside of a record, or a field does not fit into its record.
    #[error("the record at byte {0} does not fit")]
    Record(usize),
    /// A principal that [`Upn`] cannot name.
    #[error("the record at byte {0} is for no principal that is accepted here")]
    Principal(usize),
    /// A key of no bytes, or of more than any has.
    #[error("a key has between 1 and {MAX_KEY} bytes")]
    Key,
}

impl Keytab {
    /// The keys, in the order of the file.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Adds a key.
    ///
    /// # Errors
    /// There are too many already, or its length is none of a key.
    pub fn add(&mut self, entry: Entry) -> Result<(), KeytabError> {
        if self.0.len() >= MAX_ENTRIES {
            return Err(KeytabError::TooLarge);
        }
        if !(1..=MAX_KEY).contains(&entry.key.len()) {
            return Err(KeytabError::Key);
        }
        self.0.push(entry);
        Ok(())
    }

    /// Adds the keys of another keytab, which may be those of further principals.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn extend(&mut self, other: Self) -> Result<(), KeytabError> {
        other.0.into_iter().try_for_each(|entry| self.add(entry))
    }

    /// Reads a file's bytes. Total, and bounded by their number.
    ///
    /// # Errors
    /// Names the place.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeytabError> {
        if bytes.len() > MAX_FILE {
            return Err(KeytabError::TooLarge);
        }
        let mut rest = bytes.strip_prefix(&MAGIC).ok_or(KeytabError::Magic)?;
        let mut keytab = Self::default();
        while !rest.is_empty() {
            let at = bytes.len() - rest.len();
            let (head, after) = rest.split_first_chunk::<4>().ok_or(KeytabError::Record(at))?;
            let length = i32::from_be_bytes(*head);
            // MIT ends there, too.
            if length == 0 {
                break;
            }
            let (record, after) =
                after.split_at_checked(length.unsigned_abs() as usize).ok_or(KeytabError::Record(at))?;
            if length > 0 {
                keytab.add(entry(record, at)?)?;
            }
            rest = after;
        }
        Ok(keytab)
    }

    /// As bytes of a file, which wipe themselves.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        // Room for all, so that no key stays in a block that was outgrown.
        let mut bytes = Zeroizing::new(Vec::with_capacity(2 + self.0.len() * (MAX_KEY + 400)));
        bytes.extend_from_slice(&MAGIC);
        for entry in &self.0 {
            let record = record(entry);
            bytes.extend_from_slice(&long(record.len()));
            bytes.extend_from_slice(&record);
        }
        bytes
    }

    /// Writes the file for its owner alone (0600), whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        put(path, 0o600, &self.to_bytes(), Existing::Replace)
    }
}

fn record(entry: &Entry) -> Zeroizing<Vec<u8>> {
    let mut record = Zeroizing::new(Vec::with_capacity(MAX_KEY + 400));
    record.extend_from_slice(&short(entry.principal.components().count()));
    for text in std::iter::once(entry.principal.realm()).chain(entry.principal.components()) {
        record.extend_from_slice(&short(text.len()));
        record.extend_from_slice(text.as_bytes());
    }
    record.extend_from_slice(&NAME_TYPE.to_be_bytes());
    record.extend_from_slice(&entry.time.to_be_bytes());
    let [.., low] = entry.version.to_be_bytes();
    record.push(low);
    record.extend_from_slice(&entry.kind.to_be_bytes());
    record.extend_from_slice(&short(entry.key.len()));
    record.extend_from_slice(&entry.key);
    record.extend_from_slice(&entry.version.to_be_bytes());
    record
}

fn entry(record: &[u8], at: usize) -> Result<Entry, KeytabError> {
    let mut fields = Fields { rest: record, at };
    let components = fields.short()?;
    let realm = fields.text()?;
    let mut name = String::new();
    for place in 0..components {
        if place > 0 {
            name.push('/');
        }
        let component = fields.text()?;
        // Before it is added: a part with a slash in it must not become two.
        if !Upn::is_part(component) {
            return Err(KeytabError::Principal(at));
        }
        name.push_str(component);
    }
    let principal = format!("{name}@{realm}").parse::<Upn>().map_err(|_| KeytabError::Principal(at))?;
    let _name_type = fields.long()?;
    let time = fields.long()?;
    let [low] = fields.take()?;
    let kind = fields.short()?;
    let length = fields.short()?.into();
    let key = Zeroizing::new(fields.slice(length)?.to_vec());
    let version = if fields.rest.len() >= 4 { fields.long()? } else { 0 };
    // Zero there means that the one byte counts.
    let version = if version == 0 { low.into() } else { version };
    Ok(Entry { principal, time, version, kind, key })
}

struct Fields<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn slice(&mut self, length: usize) -> Result<&'a [u8], KeytabError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(KeytabError::Record(self.at))?;
        self.rest = rest;
        Ok(taken)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], KeytabError> {
        self.slice(N)?.try_into().map_err(|_| KeytabError::Record(self.at))
    }

    fn short(&mut self) -> Result<u16, KeytabError> {
        Ok(u16::from_be_bytes(self.take()?))
    }

    fn long(&mut self) -> Result<u32, KeytabError> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    fn text(&mut self) -> Result<&'a str, KeytabError> {
        let length = self.short()?.into();
        std::str::from_utf8(self.slice(length)?).map_err(|_| KeytabError::Principal(self.at))
    }
}

/// Parts of a principal and keys are far shorter.
fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

fn long(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn sample() -> Keytab {
        let mut keytab = Keytab::default();
        for (name, version) in [("HTTP/localhost@R", 2), ("op1flux/Test@R", 300)] {
            let (principal, key) = (name.parse::<Upn>().unwrap(), Zeroizing::new(vec![7; 32]));
            keytab.add(Entry { principal, time: 5, version, kind: 18, key }).unwrap();
        }
        keytab
    }

    #[test]
    fn what_is_written_is_read_again() {
        let keytab = sample();
        assert!(Keytab::parse(&keytab.to_bytes()).unwrap() == keytab);
    }

    #[test]
    fn a_file_is_for_its_owner_alone_and_replaced_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("service.keytab");
        std::fs::write(&path, "old").unwrap();
        sample().write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Keytab::parse(&std::fs::read(&path).unwrap()).unwrap() == sample());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_hole_is_passed_over_and_a_zero_ends() {
        let whole = sample().to_bytes();
        let holed = [&MAGIC[..], &(-3_i32).to_be_bytes(), b"xyz", &whole[2..], &[0; 4], b"junk"].concat();
        assert!(Keytab::parse(&holed).unwrap() == sample());
    }

    #[test]
    fn a_slash_inside_of_a_component_makes_no_other_principal() {
        let bytes = sample().to_bytes();
        let at = bytes.windows(4).position(|window| window == b"HTTP").unwrap();
        let mut forged = bytes.clone();
        forged[at + 1] = b'/';
        assert!(Keytab::parse(&forged).err() == Some(KeytabError::Principal(2)));
    }

    #[test]
    fn cut_files_and_others_are_refused() {
        let bytes = sample().to_bytes();
        let first = 2 + 4 + usize::from(bytes[5]);
        for end in (0..bytes.len()).filter(|end| ![2, first].contains(end)) {
            assert!(Keytab::parse(&bytes[..end]).is_err(), "{end}");
        }
        assert!(Keytab::parse(b"\x05\x01").err() == Some(KeytabError::Magic));
        assert!(Keytab::parse(&[5, 2, 0x80, 0, 0, 0]).err() == Some(KeytabError::Record(2)));
        assert!(Keytab::parse(&vec![5; MAX_FILE + 1]).err() == Some(KeytabError::TooLarge));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Keytab::parse(&[&MAGIC[..], &bytes].concat());
        }
    }
}
