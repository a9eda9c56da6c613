//! A whole OS image with the manifest that says what machines measure when they boot it.

use std::path::{Path, PathBuf};

use latchkey_attestation::reference::{Description, Machine, ManifestName, Origin, Reference, ReferenceValues, Rule};
use latchkey_measurements::predict::{MachineType, Uki};

use crate::bootimage::{BootImage, machine_type};
use crate::error::{HarnessError, io_error};
use crate::fleet::MANIFEST;
use crate::hardware::{Boot, Disk};
use crate::run::Run;

/// A built image.
#[derive(Debug, Clone)]
pub struct OsImage {
    /// Its version.
    pub version: String,
    /// The disk.
    pub disk: PathBuf,
    /// The unified kernel image on it.
    pub uki: PathBuf,
    /// Its manifest's content (source: predicted).
    pub values: ReferenceValues,
    /// Bytes of its initramfs.
    pub initramfs: u64,
}

impl OsImage {
    /// Builds `image` around the root file system `root`, into the folder `name` of the run.
    pub fn build(run: &Run, name: &str, version: &str, image: &BootImage, root: &Path) -> Result<Self, HarnessError> {
        let folder = run.subdirectory(name)?;
        let built = image.disk(&folder, MANIFEST, version, root)?;
        let values = predict(&built.uki, version, &[&machine_type()])?;
        let initramfs = built.parts.iter().find(|part| part.what == "initramfs").map_or(0, |part| part.size);
        Ok(Self { version: version.into(), disk: built.disk, uki: built.uki, values, initramfs })
    }

    /// The manifest's content for other types of machines.
    pub fn values_on(&self, machines: &[&str]) -> Result<ReferenceValues, HarnessError> {
        predict(&self.uki, &self.version, machines)
    }

    /// Booting from a disk that others may boot from, too: nobody can write to it.
    pub fn boot(&self) -> Boot {
        Boot::Disk(Disk::new(&self.disk, "os").read_only())
    }
}

/// What machines of these types measure that boot this unified kernel image.
fn predict(uki: &Path, version: &str, machines: &[&str]) -> Result<ReferenceValues, HarnessError> {
    let bytes = std::fs::read(uki).map_err(io_error("read", uki))?;
    let measured = Uki::measure(&bytes).map_err(|error| failed(&error))?;
    let machines = machines.iter().map(|name| on_machine(&measured, name)).collect::<Result<_, _>>()?;
    let about = Description {
        manifest: ManifestName::new(MANIFEST).ok_or_else(|| failed(&MANIFEST))?,
        serial: 1,
        image: MANIFEST,
        version: version.parse().map_err(|_| failed(&version))?,
        by: "latchkey-qemu-tests",
        at: None,
    };
    let products = [("image.efi, Authenticode".to_owned(), measured.authenticode())].into();
    ReferenceValues::predicted(&about, Origin { products, ..Origin::default() }, machines)
        .map_err(|error| failed(&error))
}

fn on_machine(image: &Uki<'_>, name: &str) -> Result<Machine, HarnessError> {
    let kind = MachineType::builtin(name).ok_or_else(|| failed(&name))?;
    let prediction = kind.load(Path::new("/")).and_then(|kind| image.predict(&kind)).map_err(|error| failed(&error))?;
    let enforced = |(index, value)| (index, Reference { value, rule: Rule::Enforce });
    Ok(Machine::new(name, prediction.pcrs().into_iter().map(enforced).collect()))
}

fn failed(error: &dyn std::fmt::Display) -> HarnessError {
    HarnessError::Unusable(format!("no prediction: {error}"))
}
