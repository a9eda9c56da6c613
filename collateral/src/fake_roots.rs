//! A fake: roots that are not AMD's, which a test's directory names. Behind the feature `fake-snp`, never in a release.

use std::fs;
use std::io;
use std::path::Path;

use latchkey_attestation::fake_amd::FakeAmd;
use latchkey_attestation::parse::{Digest, SnpProduct};

/// A line for each: product, and the SHA-256 of the root's DER.
const FAKE_ROOTS: &str = "snp/.fake-roots";

/// Fills a directory with what a fake AMD publishes, and the word that it is one to be believed.
///
/// # Errors
/// A file cannot be written.
pub fn publish_fake(amd: &FakeAmd, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory.join("snp"))?;
    fs::write(directory.join("snp/chain.pem"), &amd.chain)?;
    let [(product, root)] = amd.roots();
    fs::write(directory.join(FAKE_ROOTS), format!("{} {root}\n", product.name()))
}

pub(crate) fn read(directory: &Path) -> Option<Vec<(SnpProduct, Digest)>> {
    let text = fs::read_to_string(directory.join(FAKE_ROOTS)).ok()?;
    let root = |line: &str| {
        let (name, digest) = line.split_once(' ')?;
        let product = SnpProduct::ALL.into_iter().find(|product| product.name() == name)?;
        Some((product, Digest::from_hex(digest)?))
    };
    text.lines().map(root).collect()
}
