//! Whether a directory is the one that was read.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use latchkey_attestation::parse::Digest;
use ring::digest::{Context, SHA256};

use crate::{CollateralError, PARTS, paths};

/// What a directory's files look like from outside: by names, sizes, times and numbers, so that nothing large is read only to see
/// that it is as it was. Equal stamps: nobody wrote in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(pub(crate) Digest);

/// The stamp of a collateral directory.
///
/// # Errors
/// The directory, or a file in it, cannot be looked at, or there are more files than anybody publishes.
pub fn stamp(directory: &Path) -> Result<Stamp, CollateralError> {
    let mut hash = Context::new(&SHA256);
    let mut all = Vec::new();
    for part in PARTS.map(|part| directory.join(part)) {
        // An empty part is another collateral than none.
        let there = part.symlink_metadata().is_ok();
        hash.update(&[u8::from(there)]);
        if there {
            all.extend(paths(&part)?);
        }
    }
    if all.is_empty() {
        paths(directory)?;
    }
    for path in all {
        // A link's target counts: whole directories are exchanged so.
        let about = fs::metadata(&path).map_err(|source| CollateralError::Unreadable { path: path.clone(), source })?;
        let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()].map(i64::to_be_bytes);
        let numbers = [about.dev(), about.ino(), about.size()].map(u64::to_be_bytes);
        let name = path.as_os_str().as_encoded_bytes();
        hash.update(&(name.len() as u64).to_be_bytes());
        hash.update(name);
        hash.update(&[times.concat(), numbers.concat()].concat());
    }
    let mut digest = Digest::ZERO;
    digest.0.copy_from_slice(hash.finish().as_ref());
    Ok(Stamp(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_written_renamed_or_removed_changes_the_stamp() {
        let directory = tempfile::tempdir().unwrap();
        let (place, snp) = (directory.path(), directory.path().join("snp"));
        assert!(super::stamp(&place.join("none")).is_err());
        fs::create_dir(&snp).unwrap();
        let mut seen = vec![super::stamp(place).unwrap()];
        assert_eq!(super::stamp(place).unwrap(), seen[0]);
        // What is no file of it does not count, nor is it looked at.
        std::os::unix::fs::symlink("nobody@nowhere", snp.join(".#a")).unwrap();
        assert_eq!(super::stamp(place).unwrap(), seen[0]);
        let changes: [&dyn Fn(); 4] = [
            &|| fs::write(snp.join("a"), "one").unwrap(),
            &|| fs::write(snp.join("b"), "two").unwrap(),
            // Of the same size.
            &|| fs::rename(snp.join("b"), snp.join("a")).unwrap(),
            &|| fs::remove_file(snp.join("a")).unwrap(),
        ];
        for change in changes {
            change();
            let stamp = super::stamp(place).unwrap();
            assert_ne!(seen.last(), Some(&stamp));
            seen.push(stamp);
        }
        let tpm = place.join("tpm");
        fs::create_dir(&tpm).unwrap();
        fs::write(tpm.join("a"), "a list").unwrap();
        assert_ne!(seen.last(), Some(&super::stamp(place).unwrap()), "of either part");
    }
}
