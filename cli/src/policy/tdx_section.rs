//! The section `tdx` of a new policy, from quotes of machines that are good.

use std::collections::BTreeSet;

use latchkey_attestation::parse::LaunchDigest;
use latchkey_attestation::policy::{TdxPolicy, TdxTcbStatus};
use latchkey_attestation::verify::tdx::VerifiedTdxQuote;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::collateral::{self, KeptQuote};
use crate::error::CommandError;
use crate::exit::Exit;

/// The section as a policy's file has it. Registers are not judged: RTMR 0 differs with the machine's size, RTMR 1 and 2 with
/// each image. `"manifest"` would judge RTMR 2, but whether the images of a policy have it listed, no quote tells: that is for whoever
/// wrote their types of machines to say.
#[derive(Serialize)]
pub(super) struct TdxSection {
    mrtd: BTreeSet<LaunchDigest>,
    rtmrs: &'static str,
    tcb_status: BTreeSet<TdxTcbStatus>,
    tolerated_advisories: BTreeSet<String>,
    minimum_tcb_evaluation: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    xfam: Option<String>,
}

impl TdxSection {
    /// Of `--tdx-quote`, verified by `--collateral`: it admits these machines, and others that Intel says no worse of.
    pub(super) fn from_arguments(arguments: &Arguments) -> Result<Option<Self>, CommandError> {
        if !arguments.has("tdx-quote") {
            return Ok(None);
        }
        let shown = verified(arguments)?;
        let section = Self::of(&shown);
        section.check(&shown)?;
        Ok(Some(section))
    }

    fn of(shown: &[(String, VerifiedTdxQuote)]) -> Self {
        let all = || shown.iter().map(|(_, verified)| verified);
        let states: BTreeSet<_> = all().map(|verified| verified.quote().xfam()).collect();
        Self {
            mrtd: all().map(|verified| verified.quote().mrtd()).collect(),
            rtmrs: "any",
            tcb_status: all().flat_map(VerifiedTdxQuote::tcb_statuses).copied().collect(),
            tolerated_advisories: all().flat_map(VerifiedTdxQuote::advisories).cloned().collect(),
            minimum_tcb_evaluation: all().map(VerifiedTdxQuote::tcb_evaluation).min().unwrap_or_default(),
            xfam: states.first().filter(|_| states.len() == 1).map(hex::encode),
        }
    }

    /// No machine is shown whose own policy would refuse it: what is weak takes a word by hand.
    fn check(&self, shown: &[(String, VerifiedTdxQuote)]) -> Result<(), CommandError> {
        let text = serde_json::to_string(self).unwrap_or_default();
        for (name, verified) in shown {
            let admitted = TdxPolicy::from_json(text.as_bytes()).and_then(|policy| policy.validate(verified));
            admitted.map_err(|refusal| {
                let what = format!("{name} is of no machine that a policy should be made after");
                CommandError::refused(Exit::Usage, what, &refusal)
            })?;
        }
        Ok(())
    }
}

/// Quotes by their files' names, each signed by hardware of Intel's.
fn verified(arguments: &Arguments) -> Result<Vec<(String, VerifiedTdxQuote)>, CommandError> {
    let collateral = collateral::tdx(arguments)?.ok_or_else(|| {
        let fix = "get what Intel publishes with `latchkey collateral fetch`, into the `tdx` of DIR";
        CommandError::usage("--tdx-quote goes with --collateral DIR: anybody can write a quote").fix(fix)
    })?;
    let mut shown = Vec::new();
    for path in arguments.paths("tdx-quote") {
        let name = path.display().to_string();
        let verified = KeptQuote::read(&path)?.verify(&collateral);
        let refused = |refusal| CommandError::refused(Exit::Attestation, format!("{name} is not true"), &refusal);
        shown.push((name.clone(), verified.map_err(refused)?));
    }
    Ok(shown)
}
