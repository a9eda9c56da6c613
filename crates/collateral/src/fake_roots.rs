//! A fake: roots that are not AMD's or Intel's, which a test's directory names. Behind the feature `fake-processors`, never in a release.

use std::fs;
use std::io;
use std::path::Path;

use latchkey_attestation::fake_amd::FakeAmd;
use latchkey_attestation::fake_intel::FakeIntel;
use latchkey_attestation::parse::{Digest, SnpProduct};

use crate::Entries;

/// A line for each: product, and the SHA-256 of the root's DER.
const FAKE_ROOTS: &str = "snp/.fake-roots";
/// The SHA-256 of the root's DER.
const FAKE_ROOT: &str = "tdx/.fake-root";

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

/// The same with what a fake Intel publishes.
///
/// # Errors
/// A file cannot be written.
pub fn publish_fake_intel(intel: &FakeIntel, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory.join("tdx"))?;
    for (name, content) in intel.files() {
        fs::write(directory.join("tdx").join(name), content)?;
    }
    fs::write(directory.join(FAKE_ROOT), intel.root().to_string())
}

/// Roots that are to be believed in the place of the vendors' own.
#[derive(Debug)]
pub(crate) struct FakeRoots {
    pub(crate) amd: Option<Vec<(SnpProduct, Digest)>>,
    pub(crate) intel: Option<Digest>,
}

pub(crate) fn of_directory(directory: &Path) -> FakeRoots {
    let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
    of(read(FAKE_ROOTS), read(FAKE_ROOT))
}

/// The same of an object, where `/` is `.`.
pub(crate) fn of_entries(entries: &Entries) -> FakeRoots {
    let read = |name: &str| String::from_utf8(entries.get(&name.replace('/', "."))?.clone()).ok();
    of(read(FAKE_ROOTS), read(FAKE_ROOT))
}

fn of(amd: Option<String>, intel: Option<String>) -> FakeRoots {
    let root = |line: &str| {
        let (name, digest) = line.split_once(' ')?;
        let product = SnpProduct::ALL.into_iter().find(|product| product.name() == name)?;
        Some((product, Digest::from_hex(digest)?))
    };
    let amd = amd.and_then(|text| text.lines().map(root).collect());
    FakeRoots { amd, intel: intel.and_then(|text| Digest::from_hex(&text)) }
}
