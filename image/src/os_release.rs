//! `os-release` of the image: that of the root file system, with the image's own name and version.

use std::io::{self, Read};

use crate::tree::{EntryKind, Tree};

/// Where distributions keep it (os-release(5)); the first of these that is a file.
pub(crate) const PLACES: [&str; 2] = ["usr/lib/os-release", "etc/os-release"];
/// Real ones are below 1 KiB.
const MAX_SIZE: u64 = 16 * 1024;

/// Why there is no `os-release`.
#[derive(Debug, thiserror::Error)]
pub enum OsReleaseError {
    /// The root file system has none, or it is in a form that cannot be looked into.
    #[error("the root has no file usr/lib/os-release or etc/os-release that can be read")]
    None,
    /// It is too long, no text, or holds lines that are no assignments.
    #[error("os-release: not lines of NAME=value, or longer than 16 KiB")]
    Malformed,
    /// It could not be read.
    #[error("os-release: {0}")]
    Io(#[from] io::Error),
}

impl OsReleaseError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::None => "name a file with \"os_release\"",
            _ => return None,
        })
    }
}

/// That of a root. Links are not followed: what they lead to is told under its own name.
pub(crate) fn of_tree(tree: &Tree) -> Result<String, OsReleaseError> {
    let files = PLACES.iter().filter_map(|place| match &tree.at(place.as_bytes())?.what {
        EntryKind::File(_, content) => Some(content.as_deref()),
        _ => None,
    });
    match files.into_iter().next() {
        Some(content) => text(content.ok_or(OsReleaseError::Malformed)?),
        None => Err(OsReleaseError::None),
    }
}

/// Reads one, bounded.
pub(crate) fn text(source: impl Read) -> Result<String, OsReleaseError> {
    let mut bytes = Vec::new();
    source.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
    let fits = bytes.len() as u64 <= MAX_SIZE && !bytes.contains(&0);
    String::from_utf8(bytes).ok().filter(|_| fits).ok_or(OsReleaseError::Malformed)
}

/// Sets `IMAGE_ID` and `IMAGE_VERSION`; all other lines stay as they are.
pub(crate) fn with_image(text: &str, name: &str, version: &str) -> Result<String, OsReleaseError> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let assignment = line.split_once('=').is_some_and(|(name, _)| is_name(name));
        if !(assignment || line.trim().is_empty() || line.starts_with('#')) {
            return Err(OsReleaseError::Malformed);
        }
        if !line.starts_with("IMAGE_ID=") && !line.starts_with("IMAGE_VERSION=") {
            lines.push(line.to_owned());
        }
    }
    lines.extend([format!("IMAGE_ID={name}"), format!("IMAGE_VERSION={version}"), String::new()]);
    Ok(lines.join("\n"))
}

fn is_name(text: &str) -> bool {
    let start = text.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    start && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Reads;

    #[test]
    fn the_image_s_name_and_version_replace_what_stood_there() {
        let text = "ID=debian\nIMAGE_ID=other\n# comment\n\nNAME=\"Debian\"\nIMAGE_VERSION=9";
        let expected = "ID=debian\n# comment\n\nNAME=\"Debian\"\nIMAGE_ID=edge\nIMAGE_VERSION=1.2.3\n";
        assert_eq!(with_image(text, "edge", "1.2.3").unwrap(), expected);
        for bad in ["no assignment", "lower=1", "=x"] {
            assert!(matches!(with_image(bad, "edge", "1.2.3"), Err(OsReleaseError::Malformed)), "{bad}");
        }
    }

    #[test]
    fn a_link_out_of_the_root_is_not_followed() {
        use std::fs;
        let root = tempfile::tempdir().unwrap();
        let of_directory = |root: &std::path::Path| of_tree(&Tree::of_directory(root, &Reads::default()).unwrap());
        fs::create_dir_all(root.path().join("etc")).unwrap();
        std::os::unix::fs::symlink("/etc/os-release", root.path().join("etc/os-release")).unwrap();
        assert!(matches!(of_directory(root.path()), Err(OsReleaseError::None)));
        std::os::unix::fs::symlink("/usr", root.path().join("usr")).unwrap();
        assert!(matches!(of_directory(root.path()), Err(OsReleaseError::None)));
        fs::remove_file(root.path().join("usr")).unwrap();
        fs::create_dir_all(root.path().join("usr/lib")).unwrap();
        fs::write(root.path().join("usr/lib/os-release"), "ID=x\n").unwrap();
        assert_eq!(of_directory(root.path()).unwrap(), "ID=x\n");
    }

    #[test]
    fn endless_and_binary_texts_are_refused() {
        assert!(matches!(text(io::repeat(b'x')), Err(OsReleaseError::Malformed)));
        assert!(matches!(text(&b"ID=\xff"[..]), Err(OsReleaseError::Malformed)));
        assert!(matches!(text(&b"ID=\0"[..]), Err(OsReleaseError::Malformed)));
    }
}
