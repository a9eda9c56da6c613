//! What a TDX guest's registers will be, from the image: RTMR 2, and of RTMR 1 the events that are the image's.
//!
//! The firmware turns a PCR into a register (UEFI 2.10, section 38.4.1, as `MapPcrToMrIndex` does): PCR 8 to 15 are RTMR 2, PCR 2 to 6
//! are RTMR 1. So RTMR 2 has what the boot stub and the kernel measure, all of which is in the image:
//!
//! * the boot stub's sections (a TPM's PCR 11), by the protocol of confidential machines, since systemd 256
//!   ([`StubVersion::measures_confidential`]);
//! * the kernel's command line and initrd (PCR 9), but only where the firmware shows the kernel no TPM: [`KernelMeasures`]. That no
//!   image tells, so a type of machine has to say it.
//!
//! Neither the firmware nor the phases of systemd extend it: EDK II ends RTMR 0 and RTMR 1 with separators and not this one
//! (`OvmfPkg/Tcg/TdTcg2Dxe`), and phases go into the TPM.
//!
//! RTMR 2 alone does not tell what the firmware started: another program could extend it with the same digests. That is in RTMR 1 (or in
//! PCR 4 of a TPM that is not the host's), which is predicted only for a direct boot, and only where the type of machine says what no
//! image knows ([`TdxGuestType::separator`](super::TdxGuestType::separator)). From a disk it is not predicted: it has
//!
//! * the disk's partition table (PCR 5, `EV_EFI_GPT_EVENT`), which has the disk's size and changes when the state partition grows;
//! * programs in option ROMs of devices (PCR 2);
//! * each try of the kernel to leave the firmware (PCR 5, `EV_EFI_ACTION`), one or two;
//! * the separator: EDK II now puts it there, and firmware that booted the recorded machine of Google's put it into RTMR 0.
//!
//! EDK II's `DxeTpm2MeasureBootLib` measures programs and partition tables by the protocol of confidential machines where there is one
//! and into the TPM only else ("Only one of … is exposed"). On such a firmware with both a TPM has no image in its PCR 4, and its
//! machine is refused for that.

use std::collections::BTreeMap;
use std::fmt;

use latchkey_attestation::reference::{KernelMeasures, LaunchDigest, Rtmr, TdxRegisters};
use latchkey_boot_formats::ReadAt;
use serde::Serialize;

use super::pass::{Message, hashes};
use super::sha384::{Sha384, sha384};
use super::uki::{LINUX, Parts, has_all, unreadable};
use super::{BootPath, CALLING, Machine, PredictError, SecureBoot, Separator, StubVersion, TdxGuestType};
use crate::bank::Bank;
use crate::cc::{CcLog, Mr};
use crate::difference::EventSummary;
use crate::event::{Event, EventType};
use crate::explain::describe;

/// A unified kernel image, every part of it hashed with SHA-384 that a TDX guest measures.
#[derive(Debug, Clone)]
pub struct TdxImage {
    stub: StubVersion,
    command_line: String,
    authenticode: LaunchDigest,
    linux_authenticode: LaunchDigest,
    sections: Vec<(&'static str, LaunchDigest)>,
    initrd: Option<(u64, LaunchDigest)>,
    /// Whether the kernel can measure without a TPM.
    kernel_has_cc: bool,
}

impl TdxImage {
    /// Reads and hashes a unified kernel image: a second way through the file, for those who need it.
    ///
    /// # Errors
    /// As [`Uki::measure`](super::Uki::measure).
    pub fn measure<R: ReadAt + ?Sized>(file: &R) -> Result<Self, PredictError> {
        let parts = Parts::of(file)?;
        let initrd = parts.initrd.iter().cloned().fold(Message::default(), Message::file);
        let behind_more = parts.behind_more();
        let handed_over_size = behind_more.as_ref().map_or(initrd.size(), Message::size);
        let has_more = behind_more.is_some();
        let messages = [
            Message::of_file(parts.authenticode.iter().cloned(), 0),
            Message::of_file(parts.linux_authenticode.iter().cloned(), parts.linux.start),
            Message::default().file(parts.linux.clone()),
            initrd,
            behind_more.unwrap_or_default(),
        ];
        let [image, kernel, linux, initrd, behind_more] = hashes::<Sha384, 5, R>(file, messages).map_err(unreadable)?;
        let handed_over = if has_more { behind_more } else { initrd.clone() };
        let (linux, initrd) = (linux.finish(), initrd.finish());
        let digest = |(name, content): &(&'static str, Option<Vec<u8>>)| {
            let large = if *name == LINUX { linux } else { initrd };
            (*name, content.as_ref().map_or(large, |content| sha384(&[content])))
        };
        Ok(Self {
            stub: parts.stub,
            authenticode: image.finish(),
            linux_authenticode: kernel.finish(),
            sections: parts.sections.iter().map(digest).collect(),
            initrd: parts.handed_over(handed_over, handed_over_size).map(|(size, hash)| (size, hash.finish())),
            kernel_has_cc: has_all(file, &parts.linux, CC_PROTOCOL.iter().map(<[u8; 8]>::as_slice).collect())?,
            command_line: parts.command_line,
        })
    }

    /// What the TDX guests among machines of this type measure; `None` when there are none.
    ///
    /// # Errors
    /// [`PredictError::RegisterUntouched`], [`PredictError::KernelWithoutCc`].
    pub fn predict(&self, machine: &Machine) -> Result<Option<TdxPrediction>, PredictError> {
        let Some(TdxGuestType { kernel_measures, separator }) = machine.tdx else { return Ok(None) };
        let mut events = self.loaded(machine, separator);
        if self.stub.measures_confidential() {
            events.extend(self.sections());
        }
        match kernel_measures {
            KernelMeasures::Cc if !self.kernel_has_cc => return Err(PredictError::KernelWithoutCc),
            KernelMeasures::Cc => events.extend(self.kernel()),
            KernelMeasures::Tpm => {}
        }
        if !events.iter().any(|event| event.register == Rtmr::R2) {
            return Err(PredictError::RegisterUntouched(self.stub.number()));
        }
        let whole = separator.is_some();
        Ok(Some(TdxPrediction { machine: machine.name.clone(), kernel_measures, events, rtmr1_is_whole: whole }))
    }

    /// RTMR 1: what the firmware starts, as in PCR 4.
    fn loaded(&self, machine: &Machine, separator: Option<Separator>) -> Vec<RtmrEvent> {
        let program = |what: &str, digest| {
            RtmrEvent::new(Rtmr::R1, EventType::EFI_BOOT_SERVICES_APPLICATION, what.to_owned(), digest)
        };
        let of_text = |kind, text: &[u8]| {
            RtmrEvent::new(Rtmr::R1, kind, String::from_utf8_lossy(text).into_owned(), sha384(&[text]))
        };
        let calling = of_text(EventType::EFI_ACTION, CALLING);
        let image = program("the unified kernel image (Authenticode hash)", self.authenticode);
        let mut events = match machine.boot {
            BootPath::Disk => vec![calling, image],
            BootPath::QemuKernel => vec![image, calling],
        };
        if separator == Some(Separator::Rtmr1) {
            let (what, digest) = ("separator".to_owned(), sha384(&[&[0; 4]]));
            events.push(RtmrEvent::new(Rtmr::R1, EventType::SEPARATOR, what, digest));
        }
        if matches!(machine.secure_boot, SecureBoot::Off { .. }) {
            events.push(program("the kernel in the image (Authenticode hash)", self.linux_authenticode));
        }
        if separator.is_some() {
            // PCR 5: the kernel leaves at the first try.
            events.extend([LEAVING, LEFT].map(|text| of_text(EventType::EFI_ACTION, text)));
        }
        events
    }

    /// RTMR 2, as in PCR 11: of each section the name with its NUL, then the content.
    fn sections(&self) -> impl Iterator<Item = RtmrEvent> {
        let event = |what, digest| RtmrEvent::new(Rtmr::R2, EventType::IPL, what, digest);
        self.sections.iter().flat_map(move |(name, digest)| {
            let named = sha384(&[name.as_bytes(), &[0]]);
            [event(format!("name of section {name}"), named), event(format!("content of section {name}"), *digest)]
        })
    }

    /// RTMR 2, as in PCR 9.
    fn kernel(&self) -> impl Iterator<Item = RtmrEvent> {
        let event = |what, digest| RtmrEvent::new(Rtmr::R2, EventType::EVENT_TAG, what, digest);
        let text = &self.command_line;
        let options: Vec<u8> = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        let command_line = event(format!("kernel command line {text:?}"), sha384(&[&options]));
        let initrd = self.initrd.map(|(size, digest)| event(format!("initrd of {size} bytes"), digest));
        std::iter::once(command_line).chain(initrd)
    }
}

/// What a TDX guest of one type of machine measures when it boots an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TdxPrediction {
    /// The type of machine.
    pub machine: String,
    /// Where its kernel measures.
    pub kernel_measures: KernelMeasures,
    /// The events in the order of each register: all of RTMR 2, and of RTMR 1 all or those that are the image's.
    pub events: Vec<RtmrEvent>,
    /// Whether these are all events of RTMR 1.
    pub rtmr1_is_whole: bool,
}

/// What a register will be extended with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RtmrEvent {
    /// The register.
    pub register: Rtmr,
    /// The type that the event has in a log.
    #[serde(skip)]
    pub kind: EventType,
    /// What is measured, in words.
    pub what: String,
    /// The digest that extends the register (SHA-384).
    pub digest: LaunchDigest,
}

impl RtmrEvent {
    fn new(register: Rtmr, kind: EventType, what: String, digest: LaunchDigest) -> Self {
        Self { register, kind, what, digest }
    }

    fn summary(&self, index: usize) -> EventSummary {
        let (kind, description) = (self.kind.to_string(), self.what.clone());
        EventSummary { index, kind, description, digest: self.digest.to_string() }
    }
}

impl TdxPrediction {
    /// The registers that are certain, as a manifest has them: RTMR 2, and RTMR 1 where all of it is known.
    pub fn registers(&self) -> TdxRegisters {
        let value = |register| {
            let of_register = self.events.iter().filter(|event| event.register == register);
            LaunchDigest(of_register.fold([0; 48], |value, event| sha384(&[&value, &event.digest.0]).0))
        };
        let loader = self.rtmr1_is_whole.then_some(Rtmr::R1);
        let rtmrs: BTreeMap<_, _> = loader.into_iter().chain([Rtmr::R2]).map(|rtmr| (rtmr, value(rtmr))).collect();
        TdxRegisters { kernel_measures: self.kernel_measures, rtmrs }
    }

    /// The first event of RTMR 1 and of RTMR 2 that is not as predicted, in this order. Where RTMR 1 is not predicted as a whole, only
    /// starts of programs are looked at. It means something only after [`Rtmrs::check`](crate::cc::Rtmrs::check).
    pub fn differences(&self, log: &CcLog<'_>) -> Vec<RtmrDifference> {
        [(Rtmr::R1, Mr::Rtmr1), (Rtmr::R2, Mr::Rtmr2)]
            .into_iter()
            .filter_map(|(rtmr, mr)| self.first(log, rtmr, mr))
            .collect()
    }

    fn first(&self, log: &CcLog<'_>, rtmr: Rtmr, mr: Mr) -> Option<RtmrDifference> {
        let whole = rtmr == Rtmr::R2 || self.rtmr1_is_whole;
        let judged = |event: &&Event<'_>| event.extends_mr() == Some(mr) && (whole || is_start(event));
        let mut got = log.events().iter().filter(judged);
        let mut expected = self.events.iter().enumerate().filter(|(_, event)| event.register == rtmr);
        loop {
            let (expected, got) = (expected.next(), got.next());
            let same = match (expected, got) {
                (None, None) => return None,
                (Some((_, expected)), Some(got)) => got.digest(Bank::Sha384) == Some(expected.digest.0.as_slice()),
                _ => false,
            };
            if !same {
                let expected = expected.map(|(index, event)| event.summary(index));
                return Some(RtmrDifference { register: mr, expected, got: got.map(summary) });
            }
        }
    }
}

/// Whether an event of RTMR 1 is of a program that the firmware starts: what a TPM has in PCR 4 beside the separator.
fn is_start(event: &Event<'_>) -> bool {
    event.kind == EventType::EFI_BOOT_SERVICES_APPLICATION
        || (event.kind == EventType::EFI_ACTION && event.data == CALLING)
}

fn summary(event: &Event<'_>) -> EventSummary {
    EventSummary {
        index: event.index,
        kind: event.kind.to_string(),
        description: describe(event),
        digest: event.digest(Bank::Sha384).map(hex::encode).unwrap_or_default(),
    }
}

/// The first event of a register that is not as predicted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RtmrDifference {
    /// The register.
    pub register: Mr,
    /// The event of the prediction; `None` when there is no more for this register.
    pub expected: Option<EventSummary>,
    /// The log's event; `None` when it has no more for this register.
    pub got: Option<EventSummary>,
}

impl fmt::Display for RtmrDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): ", self.register, self.register.describe())?;
        match (&self.expected, &self.got) {
            (Some(expected), Some(got)) => {
                write!(
                    f,
                    "event {} ({}): expected {}, got {}",
                    got.index, got.kind, expected.description, got.description
                )
            }
            (Some(missing), None) => write!(f, "without the event {} ({})", missing.description, missing.kind),
            (None, Some(got)) => write!(f, "event {} ({}, {}) is not expected", got.index, got.kind, got.description),
            (None, None) => Ok(()),
        }
    }
}

/// PFP 1.05, section 10.4: what is measured when the kernel leaves the firmware.
const LEAVING: &[u8] = b"Exit Boot Services Invocation";
const LEFT: &[u8] = b"Exit Boot Services Returned with Success";

/// `EFI_CC_MEASUREMENT_PROTOCOL_GUID` (UEFI 2.10, section 38.2), in the two halves that compilers make of a GUID on the stack: so
/// stands TCG's in Debian 12's kernel, which does not have this one.
pub(crate) const CC_PROTOCOL: [[u8; 8]; 2] =
    [[0x3d, 0x1a, 0x75, 0x96, 0xf4, 0x72, 0xa6, 0x41], [0xa7, 0x94, 0xed, 0x5d, 0x0e, 0x67, 0xae, 0x6b]];

#[cfg(test)]
mod tests;
