//! What one image measures on one type of machine.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::event::ExpectedEvent;
use super::launch::SnpLaunch;
use super::tdx::TdxRegisters;
use super::{allowed, first_twice, malformed};
use crate::name::{NAME_RULE, is_name};
use crate::parse::{Digest, PcrSet, by_index};
use crate::policy::{FirmwareChange, KNOWN_BY};
use crate::refusal::{ReasonCode, Refusal};

/// A type of machine (firmware, Secure Boot state, devices) and what an image measures on it. Values of two machines never
/// combine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformProfile {
    #[serde(rename = "machine")]
    name: String,
    #[serde(deserialize_with = "by_index")]
    pcrs: BTreeMap<u8, Reference>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<ExpectedEvent>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    snp_launch: Vec<SnpLaunch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tdx: Option<TdxRegisters>,
}

impl PlatformProfile {
    /// Most events of one type of machine.
    pub const MAX_EVENTS: usize = 256;

    /// A machine type with these values. Checked when its image becomes part of a manifest.
    pub fn new(name: &str, pcrs: BTreeMap<u8, Reference>) -> Self {
        Self { name: name.to_owned(), pcrs, events: Vec::new(), snp_launch: Vec::new(), tdx: None }
    }

    /// The same, with the launch digests of the SEV-SNP guests that are machines of this type.
    #[must_use]
    pub fn with_launches(self, snp_launch: Vec<SnpLaunch>) -> Self {
        Self { snp_launch, ..self }
    }

    /// The same, with the registers of the TDX guests that are machines of this type.
    #[must_use]
    pub fn with_tdx(self, tdx: Option<TdxRegisters>) -> Self {
        Self { tdx, ..self }
    }

    /// The same, with the events that these values are made of, in the order of a boot. Those of a PCR are all of them or
    /// none.
    #[must_use]
    pub fn with_events(self, events: Vec<ExpectedEvent>) -> Self {
        Self { events, ..self }
    }

    /// The same image on machines of the type `name`, whose firmware is the one of `recorded`: its values of PCR 0 and 2. Of all else
    /// nothing is admitted that this type does not admit; the firmware's other registers are left out where they only warn.
    #[must_use]
    pub fn with_firmware_of(&self, recorded: &Self, name: &str) -> Self {
        let stays = |pcr: u8| !FirmwareChange::registers().contains(pcr) || self.enforced().contains(pcr);
        let taken = |pcr: u8| KNOWN_BY.contains(&pcr);
        let values = |of: &Self| of.pcrs.iter().map(|(&pcr, &reference)| (pcr, reference)).collect::<Vec<_>>();
        let own = values(self).into_iter().filter(|(pcr, _)| !taken(*pcr) && stays(*pcr));
        let others = values(recorded).into_iter().filter(|(pcr, _)| taken(*pcr)).map(|(pcr, other)| {
            let rule = if self.enforced().contains(pcr) { Rule::Enforce } else { other.rule };
            (pcr, Reference { rule, ..other })
        });
        let pcrs: BTreeMap<_, _> = own.chain(others).collect();
        let of_firmware = recorded.events.iter().filter(|event| taken(event.pcr));
        let of_own = self.events.iter().filter(|event| !taken(event.pcr) && pcrs.contains_key(&event.pcr));
        let mut events: Vec<_> = of_firmware.chain(of_own.clone()).cloned().collect();
        if events.len() > Self::MAX_EVENTS {
            events = of_own.cloned().collect();
        }
        Self { name: name.to_owned(), pcrs, events, ..self.clone() }
    }

    /// The firmware that this type of machine lists: its values of PCR 0 and 2, where it has both. A register that nothing was
    /// measured into tells no firmware from another.
    pub fn firmware(&self) -> Option<[Digest; 2]> {
        let [code, option_roms] = KNOWN_BY.map(|pcr| self.pcrs.get(&pcr).map(|reference| reference.value));
        let values = [code?, option_roms?];
        (!values.contains(&Digest::ZERO)).then_some(values)
    }

    /// Name of the machine type, such as `qemu-q35-ovmf`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is measured, by PCR.
    pub fn pcrs(&self) -> &BTreeMap<u8, Reference> {
        &self.pcrs
    }

    /// The PCRs that the manifest itself says are enforced.
    pub fn enforced(&self) -> PcrSet {
        let enforced = self.pcrs.iter().filter(|(_, reference)| reference.rule == Rule::Enforce);
        enforced.fold(PcrSet::EMPTY, |set, (&index, _)| set.with(index).unwrap_or(set))
    }

    /// The events behind the values, as far as the manifest tells.
    pub fn events(&self) -> &[ExpectedEvent] {
        &self.events
    }

    /// The PCRs whose events are told: those that have some, and those that nothing extends.
    pub fn explained(&self) -> PcrSet {
        let untouched = self.pcrs.iter().filter(|(_, reference)| reference.value == Digest::ZERO).map(|(&pcr, _)| pcr);
        let explained = self.events.iter().map(|event| event.pcr).chain(untouched);
        explained.fold(PcrSet::EMPTY, |set, index| set.with(index).unwrap_or(set))
    }

    /// SEV-SNP launch digests, one for each kind of guest. What a report's measurement is beside them,
    /// [`Policy::recognise_launch`](crate::Policy::recognise_launch) says; nobody is admitted by them yet.
    pub fn snp_launch(&self) -> &[SnpLaunch] {
        &self.snp_launch
    }

    /// Registers of TDX guests. A policy whose section `tdx` says `"rtmrs": "manifest"` holds quotes against them.
    pub fn tdx(&self) -> Option<&TdxRegisters> {
        self.tdx.as_ref()
    }

    pub(super) fn check(&self, image: &str) -> Result<(), Refusal> {
        let wrong = |detail: String| Err(malformed(format!("image {image}: {detail}")));
        if !is_name(&self.name) {
            return wrong(format!("{:?} is no name of a machine: {NAME_RULE}", self.name));
        }
        if let Some(index) = self.pcrs.keys().find(|&&index| !allowed().contains(index)) {
            return wrong(format!("PCR {index} cannot have a reference value"));
        }
        if self.enforced().is_empty() {
            let detail = format!("image {image} enforces no PCR on machine {}", self.name);
            return Err(Refusal::new(ReasonCode::ReferenceEmpty, detail));
        }
        if let Some(problem) = self.events_problem() {
            return wrong(format!("machine {}: {problem}", self.name));
        }
        if self.snp_launch.len() > MAX_LAUNCHES {
            return wrong(format!("{} launch digests, at most {MAX_LAUNCHES} are read", self.snp_launch.len()));
        }
        if let Some(launch) = first_twice(&self.snp_launch, SnpLaunch::same_guest) {
            return wrong(format!("machine {} has two launch digests for {launch} of one firmware", self.name));
        }
        let problem = self.snp_launch.iter().find_map(SnpLaunch::problem);
        match problem.or_else(|| self.tdx.as_ref().and_then(TdxRegisters::problem)) {
            Some(problem) => wrong(format!("machine {}: {problem}", self.name)),
            None => Ok(()),
        }
    }

    /// What is wrong with the events: words that explain another value than the one compared would mislead.
    fn events_problem(&self) -> Option<String> {
        if self.events.len() > Self::MAX_EVENTS {
            return Some(format!("{} events, at most {} are read", self.events.len(), Self::MAX_EVENTS));
        }
        if let Some(event) = self.events.iter().find(|event| !event.is_sound()) {
            return Some(format!("an event of PCR {} has no words on one line, or too many", event.pcr));
        }
        let explained = self.events.iter().map(|event| event.pcr).collect::<BTreeSet<_>>();
        let value = |pcr| self.pcrs.get(&pcr).map(|reference| reference.value);
        let wrong = explained.into_iter().find(|&pcr| value(pcr) != Some(ExpectedEvent::fold(&self.events, pcr)))?;
        Some(format!("the events of PCR {wrong} do not make its value"))
    }
}

/// The value a PCR must or should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The value in the SHA-256 bank.
    pub value: Digest,
    /// What follows from another value.
    pub rule: Rule,
}

impl Reference {
    /// A value without which there is no admission.
    pub fn enforced(value: Digest) -> Self {
        Self { value, rule: Rule::Enforce }
    }

    /// A value that is only warned about, unless the policy enforces it.
    pub fn warned(value: Digest) -> Self {
        Self { value, rule: Rule::Warn }
    }
}

/// What follows from a differing PCR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Refusal.
    Enforce,
    /// A warning, unless the policy enforces the PCR.
    Warn,
}

const MAX_LAUNCHES: usize = 256;
