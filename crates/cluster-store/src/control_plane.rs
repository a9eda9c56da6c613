//! `control-plane.json`: what all control planes of a Kubernetes cluster share, the keys of its authorities among it.
//!
//! `latchkey init` makes them, so that nothing has to be brought back from a node and an operator may put in authorities of his
//! own. The file is kept like the master secret; a join service that is to make control planes reads a copy of it.
//!
//! ```json
//! { "version": 1, "files": { "ca.crt": "<base64>", "ca.key": "<base64>", "etcd/ca.key": "<base64>" } }
//! ```

use crate::cluster::{VERSION, check_version};
use crate::error::{ContentError, StoreError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api::control_plane::{self, ControlPlaneFiles};
use latchkey_keys::{KeyError, read_private_file};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use zeroize::Zeroizing;

/// All files at their longest, as base64.
const MAX_FILE: usize = 256 * 1024;

/// Texts are read where they are: base64 has nothing that JSON writes in another way.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content<'a> {
    #[expect(dead_code, reason = "checked before the rest is read")]
    version: u64,
    #[serde(borrow)]
    files: BTreeMap<&'a str, &'a str>,
}

/// Reads the file at `path`, which nobody else may have read or written.
///
/// # Errors
/// [`StoreError`].
pub fn read(path: &Path) -> Result<ControlPlaneFiles, StoreError> {
    let text = read_private_file(path, MAX_FILE).map_err(|error| match error {
        KeyError::File(error) => StoreError::malformed(path)(ContentError::Secret(error.error)),
        other => StoreError::malformed(path)(ContentError::Rule(other.to_string())),
    })?;
    parse(text.expose()).map_err(StoreError::malformed(path))
}

/// Reads its JSON.
///
/// # Errors
/// [`ContentError`].
pub fn parse(json: &[u8]) -> Result<ControlPlaneFiles, ContentError> {
    check_version(json)?;
    let content: Content<'_> = serde_json::from_slice(json).map_err(ContentError::Syntax)?;
    let files = content.files.into_iter().map(|(name, text)| {
        let data = STANDARD.decode(text).map_err(|_| ContentError::Rule(format!("{name:?} is no base64")))?;
        Ok(control_plane::file(name, data))
    });
    let files = files.collect::<Result<_, ContentError>>()?;
    ControlPlaneFiles::new(files).map_err(|error| ContentError::Rule(error.to_string()))
}

/// Its JSON, in one block that is wiped.
pub fn to_json(files: &ControlPlaneFiles) -> Zeroizing<String> {
    let room = files.iter().map(|(name, data)| name.len() + data.len().div_ceil(3) * 4 + 16).sum::<usize>() + 64;
    let mut text = Zeroizing::new(String::with_capacity(room));
    // Writing to a string cannot fail.
    let _ = write!(text, "{{\n  \"version\": {VERSION},\n  \"files\": {{");
    for (at, (name, data)) in files.iter().enumerate() {
        text.push_str(if at == 0 { "\n" } else { ",\n" });
        // Names are of the closed list: nothing in them needs an escape.
        let _ = write!(text, "    \"{name}\": \"");
        STANDARD.encode_string(data, &mut text);
        text.push('"');
    }
    text.push_str("\n  }\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn files() -> ControlPlaneFiles {
        let longest = |name| control_plane::file(name, vec![0xfb; control_plane::MAX_FILE]);
        ControlPlaneFiles::new(control_plane::NAMES.into_iter().map(longest).collect()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_by_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control-plane.json");
        std::fs::write(&path, to_json(&files()).as_bytes()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read(&path).unwrap() == files());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read(&path), Err(StoreError::Malformed { fault: ContentError::Secret(_), .. })));
    }

    #[test]
    fn its_text_is_written_without_a_second_block() {
        let text = to_json(&files());
        let room = text.capacity();
        assert!(text.len() <= room && room < text.len() + 256, "{} of {room}", text.len());
    }

    #[test]
    fn a_file_that_is_not_whole_or_has_more_in_it_is_refused() {
        let good = to_json(&files());
        for (from, to) in [
            ("\"version\": 1", "\"version\": 2"),
            ("\"version\": 1", "\"version\": 1, \"more\": 1"),
            ("\"ca.key\"", "\"ca.kay\""),
            ("\"etcd/ca.key\"", "\"ca.key\""),
            ("\": \"+", "\": \"!"),
        ] {
            assert!(good.contains(from), "{from}");
            assert!(parse(good.replacen(from, to, 1).as_bytes()).is_err(), "{from} -> {to}");
        }
        assert!(parse(br#"{"version": 1, "files": {}}"#).is_err());
    }
}
