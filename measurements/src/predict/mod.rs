//! Predicts what a machine will measure from the image alone.
//!
//! 1. [`Uki::measure`] hashes a unified kernel image once ([`authenticode`], the [`stub`]'s sections, the [`cpio`] archives
//!    the stub makes).
//! 2. [`MachineType`] says how its firmware boots, with which keys ([`variables`]).
//! 3. [`Uki::predict`] puts both together: the events in order, and the PCRs that follow from them ([`Prediction`]).
//! 4. [`TdxImage::predict`] says the same of the registers of TDX guests, for types of machines that have such.
//!
//! What is not certain is refused: an unknown stub, a section whose effect depends on more than the image.
//!
//! | PCR | predicted |
//! |---|---|
//! | 4 | what the firmware starts: the image, and without Secure Boot the kernel in it |
//! | 7 | the state of Secure Boot, and the certificate that admitted the image |
//! | 9 | the kernel's own measurements: its command line and initrd |
//! | 11 | the image's sections; then systemd's boot phases |
//! | 12, 13 | nothing: they are zero unless command lines, credentials or extensions come from outside |

mod authenticode;
mod authority;
mod cpio;
mod der;
mod difference;
mod error;
mod event;
mod machine;
mod pass;
mod phases;
mod secure_boot;
mod sha256;
mod sha384;
mod stub;
mod tdx;
mod uki;
pub mod variables;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use latchkey_attestation::reference::ExpectedEvent;
use latchkey_attestation::{Digest, PcrSet};

pub use authenticode::authenticode;
pub use error::PredictError;
pub use event::PredictedEvent;
pub use machine::{
    BootPath, Machine, MachineGuests, MachineType, OffVariable, SecureBoot, Separator, Switch, TdxGuestType,
};
pub use phases::{PHASES, Phase};
pub use secure_boot::SignatureDatabases;
pub use stub::StubVersion;
#[cfg(any(test, feature = "pe-sample"))]
pub(crate) use tdx::CC_PROTOCOL;
pub use tdx::{RtmrDifference, RtmrEvent, TdxImage, TdxPrediction};
pub use uki::{Uki, Whole};

use crate::event::EventType;

/// What a type of machine measures when it boots an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prediction {
    /// The type of machine.
    pub machine: String,
    /// The events in the order of a boot. Within a PCR the order is certain; between PCRs it is that of the log.
    pub events: Vec<PredictedEvent>,
}

impl Uki {
    /// What `machine` measures when it boots this image.
    ///
    /// # Errors
    /// [`PredictError`]: Secure Boot is on and would not admit the image.
    pub fn predict(&self, machine: &Machine) -> Result<Prediction, PredictError> {
        let secure = matches!(machine.secure_boot, SecureBoot::On(_));
        let mut events = secure_boot::events(self, machine)?;
        events.extend(self.firmware_events(machine.boot));
        events.extend(self.stub_events());
        if !secure {
            // Under Secure Boot the stub, which is trusted, starts the kernel past the firmware's verification, and with
            // that past its measurement.
            let what = "the kernel in the image (Authenticode hash)".to_owned();
            let kind = EventType::EFI_BOOT_SERVICES_APPLICATION;
            events.push(PredictedEvent::of_digest(4, kind, what, self.linux_authenticode));
        }
        events.extend(self.kernel_events());
        Ok(Prediction { machine: machine.name.clone(), events })
    }

    /// PCR 4: the firmware's boot manager.
    fn firmware_events(&self, boot: BootPath) -> [PredictedEvent; 3] {
        let calling = PredictedEvent::of_data(4, EventType::EFI_ACTION, CALLING.to_vec());
        let what = "the unified kernel image (Authenticode hash)".to_owned();
        let image = PredictedEvent::of_digest(4, EventType::EFI_BOOT_SERVICES_APPLICATION, what, self.authenticode);
        match boot {
            BootPath::Disk => [calling, PredictedEvent::separator(4), image],
            // Loaded before the firmware says that it is ready to boot, and started after.
            BootPath::QemuKernel => [image, calling, PredictedEvent::separator(4)],
        }
    }

    /// PCR 11: for each section the name with its NUL, then the content.
    fn stub_events(&self) -> Vec<PredictedEvent> {
        let events = |(name, digest): &(&'static str, Digest)| {
            let named = sha256::sha256(&[name.as_bytes(), &[0]]);
            let name_event = PredictedEvent::of_digest(11, EventType::IPL, format!("name of section {name}"), named);
            [name_event, PredictedEvent::of_digest(11, EventType::IPL, format!("content of section {name}"), *digest)]
        };
        self.sections.iter().flat_map(events).collect()
    }

    /// PCR 9: the kernel's EFI stub.
    fn kernel_events(&self) -> Vec<PredictedEvent> {
        let text = &self.command_line;
        let options: Vec<u8> = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        let what = format!("kernel command line {text:?}");
        let command_line = PredictedEvent {
            data: Some(options.clone()),
            ..PredictedEvent::of_digest(9, EventType::EVENT_TAG, what, sha256::sha256(&[&options]))
        };
        let initrd = self.initrd.map(|(size, digest)| {
            PredictedEvent::of_digest(9, EventType::EVENT_TAG, format!("initrd of {size} bytes"), digest)
        });
        std::iter::once(command_line).chain(initrd).collect()
    }
}

impl Prediction {
    /// The PCRs that are predicted.
    pub fn predicted() -> PcrSet {
        PcrSet::of(&PREDICTED).unwrap_or(PcrSet::EMPTY)
    }

    /// The value of a predicted PCR when the kernel hands over to the initramfs: before any of systemd's boot phases. `None`
    /// for PCRs that are not predicted.
    pub fn pcr(&self, pcr: u8) -> Option<Digest> {
        let events = self.events.iter().filter(|event| event.pcr == pcr);
        PREDICTED.contains(&pcr).then(|| events.fold(Digest::ZERO, |value, event| extended(value, event.digest)))
    }

    /// All of them.
    pub fn pcrs(&self) -> BTreeMap<u8, Digest> {
        PREDICTED.iter().filter_map(|&pcr| Some((pcr, self.pcr(pcr)?))).collect()
    }

    /// The events, as a manifest tells of them.
    pub fn expected(&self) -> Vec<ExpectedEvent> {
        self.events.iter().map(PredictedEvent::expected).collect()
    }

    /// PCR 11 after each of systemd's boot phases, in their order.
    pub fn phases(&self) -> Vec<(Phase, Digest)> {
        phases::after(self.pcr(11).unwrap_or(Digest::ZERO))
    }
}

/// `TPM2_PCR_Extend`.
fn extended(value: Digest, digest: Digest) -> Digest {
    sha256::sha256(&[value.as_bytes(), digest.as_bytes()])
}

const PREDICTED: [u8; 6] = [4, 7, 9, 11, 12, 13];
/// PFP 1.05, section 10.4: what the boot manager measures as an action before it starts what an option names.
pub(super) const CALLING: &[u8] = b"Calling EFI Application from Boot Option";
