//! The reference manifest beside the image: what each type of machine will measure, and where the image comes from.

use std::collections::BTreeMap;

use latchkey_attestation::reference::{Description, ManifestName, Origin, PlatformProfile, Reference};
use latchkey_attestation::{Digest, ReferenceValues, Refusal};
use latchkey_measurements::predict::{BootPath, Machine, MachineType, PredictError, Switch, TdxImage, Uki, Whole};
use latchkey_measurements::signing::{SigningError, SigningKey};

use crate::error::ImageError;
use crate::image::Image;

/// Its name.
pub(crate) const FILE: &str = "reference.json";
/// Its signature's.
pub(crate) const SIGNATURE: &str = "reference.json.minisig";
/// OVMF with the image's own keys enrolled.
const ENROLLED: &str = "ovmf-secure-boot";

/// Why there is no manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// What the image would measure cannot be said.
    #[error(transparent)]
    Predict(PredictError),
    /// The image's names do not make a manifest.
    #[error(transparent)]
    Reference(Refusal),
    /// The image's name is no name for a manifest.
    #[error("the image's name is no name for a manifest")]
    Name,
    /// It could not be signed.
    #[error(transparent)]
    Signing(SigningError),
}

/// The types of machines that it is for.
pub(crate) fn machines(image: &Image) -> Result<Vec<Machine>, ImageError> {
    let mut machines = image.machines.clone();
    let secure_boot = image.secure_boot.as_ref();
    if let Some((secure_boot, template)) = secure_boot.and_then(|one| Some((one, one.variables.as_ref()?))) {
        let enrolled = MachineType {
            name: ENROLLED.to_owned(),
            boot: BootPath::Disk,
            secure_boot: Switch::On,
            secure_boot_variable: None,
            // Its content is given here, whatever it will be called.
            variables: Some(ENROLLED.into()),
            snp: None,
            tdx: None,
        };
        let store = secure_boot.keys().enroll(template)?;
        machines.push(enrolled.with_variables(Some(&store)).map_err(ManifestError::Predict)?);
    }
    Ok(machines)
}

/// The manifest of one image. What an image measures is predicted from its bytes as they are handed out.
pub(crate) fn values(
    image: &Image,
    uki: &[u8],
    machines: &[Machine],
    origin: Origin,
) -> Result<ReferenceValues, ManifestError> {
    let measured = Uki::measure_beside(uki, Whole::Hashed, None::<fn()>);
    let (measured, digest, _) = measured.map_err(ManifestError::Predict)?;
    // Hashed once more, with SHA-384, where a machine may be a TDX guest.
    let confidential = machines.iter().any(|machine| machine.tdx.is_some()).then(|| TdxImage::measure(uki));
    let confidential = confidential.transpose().map_err(ManifestError::Predict)?;
    let reference = |machine: &Machine| {
        let prediction = measured.predict(machine).map_err(ManifestError::Predict)?;
        let enforced = |(pcr, value): (u8, Digest)| (pcr, Reference::enforced(value));
        let pcrs: BTreeMap<u8, Reference> = prediction.pcrs().into_iter().map(enforced).collect();
        let launches = machine.launches(digest).map_err(ManifestError::Predict)?;
        let tdx = confidential.as_ref().map(|image| image.predict(machine)).transpose();
        let tdx = tdx.map_err(ManifestError::Predict)?.flatten().map(|prediction| prediction.registers());
        let profile = PlatformProfile::new(&machine.name, pcrs).with_events(prediction.expected());
        Ok(profile.with_launches(launches).with_tdx(tdx))
    };
    let references = machines.iter().map(reference).collect::<Result<Vec<_>, _>>()?;
    let epoch = u64::from(image.epoch);
    let about = Description {
        manifest: ManifestName::new(&image.name).ok_or(ManifestError::Name)?,
        serial: image.serial.unwrap_or(epoch.max(1)),
        image: &image.name,
        version: image.version,
        by: concat!("latchkey ", env!("CARGO_PKG_VERSION")),
        at: (epoch > 0).then_some(epoch),
    };
    ReferenceValues::predicted(&about, origin, references).map_err(ManifestError::Reference)
}

/// The manifest's text, and its signature's if there is a key.
pub(crate) fn files(
    values: &ReferenceValues,
    key: Option<&SigningKey>,
) -> Result<(String, Option<String>), ManifestError> {
    let Some(key) = key else { return Ok((format!("{}\n", values.to_json()), None)) };
    let signed = key.sign_manifest(values).map_err(ManifestError::Signing)?;
    Ok((signed.manifest, Some(signed.signature)))
}
