//! A fake: roots that are not AMD's, which a test's directory names. Behind the feature `fake-snp`, never in a release.

use std::fs;
use std::path::Path;

use latchkey_attestation::parse::{Digest, SnpProduct};

/// A line for each: product, and the SHA-256 of the root's DER.
pub const FAKE_ROOTS: &str = "snp/.fake-roots";

pub(crate) fn read(directory: &Path) -> Option<Vec<(SnpProduct, Digest)>> {
    let text = fs::read_to_string(directory.join(FAKE_ROOTS)).ok()?;
    let root = |line: &str| {
        let (name, digest) = line.split_once(' ')?;
        let product = SnpProduct::ALL.into_iter().find(|product| product.name() == name)?;
        Some((product, Digest::from_hex(digest)?))
    };
    text.lines().map(root).collect()
}
