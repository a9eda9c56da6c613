//! A whole OS image with the manifest that says what machines measure when they boot it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use latchkey_attestation::reference::{Description, Machine, ManifestName, Origin, Reference, ReferenceValues, Rule};
use latchkey_measurements::predict::{MachineType, Uki};

use crate::bootimage::{BootImage, machine_type};
use crate::error::{HarnessError, io_error};
use crate::fleet::MANIFEST;
use crate::hardware::{Boot, Disk};
use crate::run::Run;

/// A built image.
#[derive(Debug, Clone, Default)]
pub struct OsImage {
    /// The disk.
    pub disk: PathBuf,
    /// The unified kernel image on it.
    pub uki: PathBuf,
    /// Its manifest (source: predicted).
    pub manifest: PathBuf,
    /// Bytes of its initramfs.
    pub initramfs: u64,
}

impl OsImage {
    /// Builds `image` around the root file system `root`, into the folder `name` of the run.
    pub fn build(run: &Run, name: &str, version: &str, image: &BootImage, root: &Path) -> Result<Self, HarnessError> {
        let folder = run.subdirectory(name)?;
        let built = image.disk(&folder, MANIFEST, version, root)?;
        let manifest = folder.join("reference.json");
        let values = predict(&built.uki, version)?;
        std::fs::write(&manifest, values.to_json()).map_err(io_error("write", &manifest))?;
        let initramfs = built.parts.iter().find(|part| part.what == "initramfs").map_or(0, |part| part.size);
        Ok(Self { disk: built.disk, uki: built.uki, manifest, initramfs })
    }

    /// Booting from a disk that others may boot from, too: nobody can write to it.
    pub fn boot(&self) -> Boot {
        Boot::Disk(Disk::new(&self.disk, "os").read_only())
    }
}

/// What a machine measures that boots this unified kernel image from its disk.
fn predict(uki: &Path, version: &str) -> Result<ReferenceValues, HarnessError> {
    let failed = |error: &dyn std::fmt::Display| HarnessError::Unusable(format!("no prediction: {error}"));
    let bytes = std::fs::read(uki).map_err(io_error("read", uki))?;
    let machine = machine_type();
    let kind = MachineType::builtin(&machine).ok_or_else(|| failed(&machine))?;
    let prediction = kind.load(Path::new("/")).and_then(|kind| Uki::measure(&bytes)?.predict(&kind));
    let enforced = |(index, value)| (index, Reference { value, rule: Rule::Enforce });
    let pcrs: BTreeMap<_, _> = prediction.map_err(|error| failed(&error))?.pcrs().into_iter().map(enforced).collect();
    let about = Description {
        manifest: ManifestName::new(MANIFEST).ok_or_else(|| failed(&MANIFEST))?,
        serial: 1,
        image: MANIFEST,
        version: version.parse().map_err(|_| failed(&version))?,
        by: "latchkey-qemu-tests",
        at: None,
    };
    let products = [("image.efi".to_owned(), latchkey_attestation::Digest::ZERO)].into();
    let origin = Origin { products, ..Origin::default() };
    ReferenceValues::predicted(&about, origin, vec![Machine::new(&machine, pcrs)]).map_err(|error| failed(&error))
}
