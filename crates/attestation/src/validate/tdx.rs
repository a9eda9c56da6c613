//! What a verified TDX quote says, against what a policy demands: from the platform upwards, the first difference decides.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::AdmittedImage;
use crate::parse::{LaunchDigest, Rtmr};
use crate::policy::{RtmrDemand, RtmrValues, TdxAllowed, TdxPolicy, TdxTcbStatus};
use crate::reference::{Image, References, TdxRegisters};
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::tdx::VerifiedTdxQuote;
use crate::verify::tdx::quote::attributes;

/// The witness that Intel's hardware vouched for a guest that the policy takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AdmittedTdx {
    fmspc: String,
    ppid: String,
    tcb_status: TdxTcbStatus,
    /// Seconds since the Unix epoch.
    tcb_date: u64,
    tcb_evaluation: u32,
    advisories: Vec<String>,
    mrtd: LaunchDigest,
    rtmrs: [LaunchDigest; 4],
    mrseam: LaunchDigest,
    collateral_ends: u64,
}

impl fmt::Display for AdmittedTdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TDX, FMSPC {} ({:?}", self.fmspc, self.tcb_status)?;
        self.advisories.iter().try_for_each(|advisory| write!(f, ", {advisory}"))?;
        f.write_str(")")
    }
}

impl AdmittedTdx {
    /// Family, model and configuration of the platform, 12 hexadecimal digits.
    pub fn fmspc(&self) -> &str {
        &self.fmspc
    }

    /// Which package (PPID), 32 hexadecimal digits: what `tdx.denied_platforms` takes.
    pub fn ppid(&self) -> &str {
        &self.ppid
    }

    /// How up to date Intel calls it.
    pub fn tcb_status(&self) -> TdxTcbStatus {
        self.tcb_status
    }

    /// The day of its TCB, in seconds since the Unix epoch.
    pub fn tcb_date(&self) -> u64 {
        self.tcb_date
    }

    /// The number of Intel's evaluation that all this is by: larger ones are newer.
    pub fn tcb_evaluation(&self) -> u32 {
        self.tcb_evaluation
    }

    /// The same as [`Self::fmspc`].
    pub(super) fn platform(&self) -> Option<[u8; 6]> {
        hex::decode(&self.fmspc).ok()?.try_into().ok()
    }

    /// Advisories that are open and tolerated.
    pub fn advisories(&self) -> &[String] {
        &self.advisories
    }

    /// When the first part of the collateral behind it ends, in seconds since the Unix epoch.
    pub fn collateral_ends(&self) -> u64 {
        self.collateral_ends
    }
}

impl TdxPolicy {
    /// Decides on everything in a quote, where no manifest is at hand: a policy that demands a manifest's registers refuses.
    ///
    /// # Errors
    /// `tdx-…`: one for each demand, with what was expected and what came.
    pub fn validate(&self, verified: &VerifiedTdxQuote) -> Result<AdmittedTdx, Refusal> {
        self.validate_with(verified, &RegistersOf::none())
    }

    /// The same, beside the registers that a manifest lists for the image which the TPM's measurements are those of.
    pub(super) fn validate_with(
        &self,
        verified: &VerifiedTdxQuote,
        image: &RegistersOf<'_>,
    ) -> Result<AdmittedTdx, Refusal> {
        self.check_platform(verified)?;
        self.check_guest(verified)?;
        self.check_launch(verified, image)?;
        Ok(AdmittedTdx {
            fmspc: hex::encode(verified.quote().fmspc()),
            ppid: hex::encode(verified.ppid()),
            tcb_status: verified.tcb_status(),
            tcb_date: verified.tcb_date(),
            tcb_evaluation: verified.tcb_evaluation(),
            advisories: verified.advisories().iter().cloned().collect(),
            mrtd: verified.quote().mrtd(),
            rtmrs: verified.quote().rtmrs(),
            mrseam: verified.quote().mrseam(),
            collateral_ends: verified.collateral_ends(),
        })
    }

    fn check_platform(&self, verified: &VerifiedTdxQuote) -> Result<(), Refusal> {
        if self.denied_platforms.iter().any(|denied| denied.as_slice() == verified.ppid()) {
            return refuse(ReasonCode::TdxPlatformDenied, format!("PPID {}", hex::encode(verified.ppid())));
        }
        let (status, advisories) = (verified.tcb_status(), verified.advisories());
        let refused = verified.tcb_statuses().difference(&self.tcb_status).next();
        if let Some(status) = refused {
            let open = advisories.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let open = if open.is_empty() { String::new() } else { format!(", open: {open}") };
            return refuse(ReasonCode::TdxTcbStatusRefused, format!("Intel says {status:?}{open}"));
        }
        let open: Vec<_> = advisories.difference(&self.tolerated_advisories).map(String::as_str).collect();
        if !open.is_empty() {
            return refuse(ReasonCode::TdxAdvisoryNotTolerated, format!("{} ({status:?})", open.join(", ")));
        }
        if verified.tcb_evaluation() < self.minimum_tcb_evaluation {
            let (is, least) = (verified.tcb_evaluation(), self.minimum_tcb_evaluation);
            return refuse(ReasonCode::TdxEvaluationTooOld, format!("number {is}, at least {least} expected"));
        }
        let module = verified.quote().mrseam();
        if !self.mrseam.is_empty() && !self.mrseam.contains(&module) {
            return refuse(ReasonCode::TdxModuleRefused, format!("MRSEAM {module}"));
        }
        Ok(())
    }

    fn check_guest(&self, verified: &VerifiedTdxQuote) -> Result<(), Refusal> {
        let allows = |allowed| self.allow.contains(&allowed);
        let quote = verified.quote();
        if quote.has_service_tds() && !allows(TdxAllowed::ServiceTd) {
            return refuse(ReasonCode::TdxServiceTd, "service guests are bound to it");
        }
        let taken = [
            (TdxAllowed::ServiceTd, attributes::SERVICE_TD),
            (TdxAllowed::PerformanceMonitoring, attributes::PERFORMANCE_MONITORING),
            (TdxAllowed::KeyLocker, attributes::KEY_LOCKER),
        ];
        let taken = taken.into_iter().filter(|(allowed, _)| allows(*allowed)).fold(0, |all, (_, bits)| all | bits);
        let others = quote.attributes() & !(attributes::PROTECTING | taken);
        if others != 0 {
            let bits: Vec<_> = (0..64).filter(|bit| others >> bit & 1 == 1).map(|bit: u32| bit.to_string()).collect();
            return refuse(ReasonCode::TdxAttributesRefused, format!("bits {} of TDATTRIBUTES", bits.join(", ")));
        }
        if quote.vm() != 0 {
            let detail = format!("part {} of a partitioned guest asked, and not the guest itself", quote.vm());
            return refuse(ReasonCode::TdxAttributesRefused, detail);
        }
        match self.xfam {
            Some(expected) if expected != quote.xfam() => {
                let detail = format!("expected {}, got {}", hex::encode(expected), hex::encode(quote.xfam()));
                refuse(ReasonCode::TdxXfamDiffers, detail)
            }
            _ => Ok(()),
        }
    }

    fn check_launch(&self, verified: &VerifiedTdxQuote, image: &RegistersOf<'_>) -> Result<(), Refusal> {
        let quote = verified.quote();
        if !self.mrtd.contains(&quote.mrtd()) {
            return refuse(ReasonCode::TdxMrtdUnknown, expected_and_got("MRTD", &self.mrtd, quote.mrtd()));
        }
        let names = ["MRCONFIGID", "MROWNER", "MROWNERCONFIG"];
        let expected = [self.mr_config_id, self.mr_owner, self.mr_owner_config];
        for ((name, expected), got) in names.into_iter().zip(expected).zip(quote.launcher_said()) {
            if let Some(expected) = expected.filter(|expected| *expected != got) {
                let detail = format!("{name}: expected {}, got {}", hex::encode(expected), hex::encode(got));
                return refuse(ReasonCode::TdxLaunchDiffers, detail);
            }
        }
        self.check_registers(verified, image)
    }

    fn check_registers(&self, verified: &VerifiedTdxQuote, image: &RegistersOf<'_>) -> Result<(), Refusal> {
        let listed = match &self.rtmrs {
            RtmrDemand::Any => return Ok(()),
            RtmrDemand::Manifest => return image.check(verified, |_| true, &image.listed()),
            RtmrDemand::Listed(listed) => listed,
        };
        let mut of_manifest = Vec::new();
        for (register, values) in listed {
            match values {
                RtmrValues::Manifest => of_manifest.push(*register),
                RtmrValues::Of(values) if values.contains(&verified.rtmr(*register)) => {}
                RtmrValues::Of(values) => {
                    let detail = expected_and_got(&register.to_string(), values, verified.rtmr(*register));
                    return refuse(ReasonCode::TdxRtmrDiffers, detail);
                }
            }
        }
        if !of_manifest.is_empty() {
            return image.check(verified, |register| of_manifest.contains(&register), &of_manifest);
        }
        Ok(())
    }
}

/// The registers that a manifest lists for one image, on types of machines that its TPM cannot tell apart.
pub(super) struct RegistersOf<'a> {
    image: String,
    registers: Vec<&'a TdxRegisters>,
}

impl<'a> RegistersOf<'a> {
    /// Where no image is known.
    pub(super) fn none() -> Self {
        Self { image: "no image".to_owned(), registers: Vec::new() }
    }

    /// Of the admitted image. A type of machine with the same PCRs may be listed without registers, or with others: the TPM's
    /// measurements are those of both, and a quote must have the registers of one.
    pub(super) fn of(admitted: &AdmittedImage, references: &'a References) -> Self {
        let manifest = references.manifest(&admitted.manifest);
        let images = manifest.into_iter().flat_map(|manifest| manifest.values().images());
        let images = images.filter(|it| (it.name(), it.version()) == (admitted.name.as_str(), admitted.version));
        let machines: Vec<_> = images.flat_map(Image::machines).collect();
        let pcrs = machines.iter().find(|machine| machine.name() == admitted.machine).map(|machine| machine.pcrs());
        let alike = machines.iter().filter(|machine| Some(machine.pcrs()) == pcrs);
        Self {
            image: format!("{}/{} {} on {}", admitted.manifest, admitted.name, admitted.version, admitted.machine),
            registers: alike.filter_map(|machine| machine.tdx()).collect(),
        }
    }

    /// All registers that any of these types of machines lists: where one says more, one that says less is no way around it.
    fn listed(&self) -> Vec<Rtmr> {
        let all: BTreeSet<_> = self.registers.iter().flat_map(|listed| listed.rtmrs.keys().copied()).collect();
        all.into_iter().collect()
    }

    /// Holds a quote against those registers that are `judged`; who lists not all of the `demanded` is not asked.
    fn check(
        &self,
        verified: &VerifiedTdxQuote,
        judged: impl Fn(Rtmr) -> bool,
        demanded: &[Rtmr],
    ) -> Result<(), Refusal> {
        let has_all = |listed: &&&TdxRegisters| demanded.iter().all(|register| listed.rtmrs.contains_key(register));
        let mut differing: Option<(Rtmr, BTreeSet<LaunchDigest>)> = None;
        for listed in self.registers.iter().filter(has_all) {
            let differs =
                |(register, value): &(&Rtmr, &LaunchDigest)| judged(**register) && verified.rtmr(**register) != **value;
            match (listed.rtmrs.iter().find(differs), &mut differing) {
                (None, _) => return Ok(()),
                (Some((register, value)), None) => differing = Some((*register, BTreeSet::from([*value]))),
                (Some((register, value)), Some((first, values))) if register == first => _ = values.insert(*value),
                (Some(_), Some(_)) => {}
            }
        }
        let Some((register, values)) = differing else {
            return refuse(ReasonCode::TdxRtmrMissing, self.image.clone());
        };
        let detail = expected_and_got(&register.to_string(), &values, verified.rtmr(register));
        refuse(ReasonCode::TdxRtmrDiffers, format!("{}: {detail}", self.image))
    }
}

/// As many of the values that would do as a line has room for.
fn expected_and_got(name: &str, values: &BTreeSet<LaunchDigest>, got: LaunchDigest) -> String {
    let shown = values.iter().take(SHOWN).map(LaunchDigest::to_string).collect::<Vec<_>>().join(", ");
    format!("{name}: expected one of {} ({shown}), got {got}", values.len())
}

fn refuse<T>(code: ReasonCode, detail: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, detail))
}

/// A detail has room for this many values.
const SHOWN: usize = 3;
