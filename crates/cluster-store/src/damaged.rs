//! A file in `nodes/` that is no record: what it still names, so that it costs that and no more.

use crate::atomic;
use crate::error::StoreError;
use crate::name::NodeName;
use crate::store::MAX_RECORD;
use latchkey_attestation::EkDigest;
use latchkey_keys::Uuid;
use std::collections::BTreeSet;

/// The text form of a UUID.
const UUID_LENGTH: usize = 36;

/// A file among the records that cannot be used.
///
/// What it names is searched for in its bytes, not parsed: half a record, or one of a later release, still says whose machine,
/// name and disks it is about. A file that holds none of that, or cannot be read, names the machine in its own name at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamagedRecord {
    /// The file's name.
    pub file: String,
    /// What is wrong with it.
    pub why: String,
    /// The TPMs it names.
    pub eks: BTreeSet<EkDigest>,
    /// The node names.
    pub names: BTreeSet<NodeName>,
    /// The disks, in use or replaced.
    pub disks: BTreeSet<Uuid>,
}

impl DamagedRecord {
    /// Looks at the file that could not be used.
    pub fn look(error: &StoreError) -> Self {
        let path = error.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self::of(file, error.to_string(), &atomic::read(path, MAX_RECORD).unwrap_or_default())
    }

    /// Looks at content that could not be used. `file` is the name it stands under, with or without an ending.
    pub fn of(file: String, why: String, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let named = named_by(&file);
        Self {
            eks: named.into_iter().chain(strings_of(&text, "ek_sha256").filter_map(EkDigest::from_hex)).collect(),
            names: strings_of(&text, "name").filter_map(|name| name.parse().ok()).collect(),
            disks: (0..bytes.len()).filter_map(|at| quoted_uuid(bytes, at)).collect(),
            why,
            file,
        }
    }

    /// The machine in the file's own name, if there is one.
    pub fn named(&self) -> Option<EkDigest> {
        named_by(&self.file)
    }
}

fn named_by(file: &str) -> Option<EkDigest> {
    EkDigest::from_hex(file.strip_suffix(".json").unwrap_or(file))
}

/// The string that begins here, if it is a UUID. Not one that has a UUID in it, and not the words of a firmware's event: they are
/// the machine's own, and name no disk.
fn quoted_uuid(bytes: &[u8], at: usize) -> Option<Uuid> {
    let (before, from) = bytes.split_at_checked(at)?;
    let found = uuid(from.get(..UUID_LENGTH + 2)?.strip_prefix(b"\"")?.strip_suffix(b"\"")?)?;
    (!before.trim_ascii_end().ends_with(b"\"what\":")).then_some(found)
}

fn uuid(bytes: &[u8]) -> Option<Uuid> {
    // Cheaper than parsing at every place.
    let dashes = [8, 13, 18, 23].iter().all(|at| bytes.get(*at) == Some(&b'-'));
    std::str::from_utf8(bytes).ok().filter(|_| dashes)?.parse().ok()
}

/// Strings that stand behind `"field":`. A backslash in one makes it no name and no digest, so none is undone.
fn strings_of<'a>(text: &'a str, field: &str) -> impl Iterator<Item = &'a str> {
    let quoted = format!("\"{field}\"");
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&quoted)?;
        rest = after;
        let value = after.trim_start().strip_prefix(':').and_then(|value| value.trim_start().strip_prefix('"'));
        Some(value.and_then(|value| value.split('"').next()))
    })
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ContentError;
    use std::fs;

    const EK: &str = "abababababababababababababababababababababababababababababababab";
    const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";

    fn look(file: &str, content: &[u8]) -> DamagedRecord {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(file);
        fs::write(&path, content).unwrap();
        DamagedRecord::look(&StoreError::malformed(&path)(ContentError::NotRegular))
    }

    #[test]
    fn half_a_record_still_says_whose_it_is() {
        let half = format!(r#"{{"version": 1, "ek_sha256": "{EK}", "name": "cp-1", "disks": [{{"uuid": "{DISK}", "ep"#);
        let found = look("x.json", half.as_bytes());
        assert_eq!(found.eks.iter().map(ToString::to_string).collect::<Vec<_>>(), [EK]);
        assert_eq!(found.names.iter().map(NodeName::as_str).collect::<Vec<_>>(), ["cp-1"]);
        assert!(found.disks.iter().eq([&DISK.parse().unwrap()]));
    }

    /// Whoever writes a firmware's event log must not take another machine's disk, should the record be damaged.
    #[test]
    fn words_in_a_damaged_record_name_no_disk() {
        let other = "0b0b0b0b-0000-4000-8000-000000000002";
        let half = format!(
            r#"{{"disks": [{{"uuid": "{DISK}"}}], "firmware": {{"events": [{{"what": "\"{other}\""}}, {{"what": "{other}"}}, {{"what": "Fv({other})"#
        );
        let found = look("x.json", half.as_bytes());
        assert!(found.disks.iter().eq([&DISK.parse().unwrap()]), "{found:?}");
    }

    #[test]
    fn a_file_without_content_names_the_machine_in_its_own_name_at_most() {
        for content in [&b""[..], b"\xff\xfe", b"\"name\"", b"\"name\": \"", b"\"name\": 7"] {
            let found = look(&format!("{EK}.json"), content);
            assert_eq!((found.eks.len(), found.names.len(), found.disks.len()), (1, 0, 0), "{content:?}");
            assert_eq!(look("stray.json", content).eks.len(), 0);
        }
    }
}
