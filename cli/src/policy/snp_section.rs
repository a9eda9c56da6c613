//! The section `snp` of a new policy, from reports of machines that are good; and floors by themselves.

use std::collections::BTreeMap;

use latchkey_attestation::parse::{SigningKey, SnpProduct, SnpReport, Tcb};
use latchkey_attestation::policy::{RevocationList, SnpPolicy};
use latchkey_attestation::verify::snp::{Signer, VerifiedSnpReport};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::collateral::{self, KeptReport};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style};

/// Each product's oldest firmware among these machines.
type Floors = BTreeMap<SnpProduct, Tcb>;

/// The section as a policy's file has it.
#[derive(Serialize)]
pub(super) struct Section {
    tcb_floor: Floors,
    keys: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    providers: Vec<String>,
    revocation_list: &'static str,
    vmpl: u32,
    minimum_abi: String,
    allow: Vec<&'static str>,
    demand: Vec<&'static str>,
}

impl Section {
    /// Of `--snp-report`, verified by `--collateral`: it admits these machines, and asks of others what all of these show.
    pub(super) fn from_arguments(arguments: &Arguments) -> Result<Option<Self>, CommandError> {
        if !arguments.has("snp-report") {
            return Ok(None);
        }
        let shown = verified(arguments, "snp-report")?;
        let section = Self::of(&shown)?;
        section.check(&shown)?;
        Ok(Some(section))
    }

    fn of(shown: &[(String, VerifiedSnpReport)]) -> Result<Self, CommandError> {
        let reports = || shown.iter().map(|(_, verified)| verified.report());
        let all = |holds: fn(&SnpReport) -> bool| reports().all(holds);
        let signed_by = |kind| reports().any(|report| report.signing_key() == kind);
        let mut providers: Vec<String> = shown.iter().filter_map(|(_, verified)| provider(verified)).collect();
        providers.sort();
        providers.dedup();
        let named =
            |words: &[(&'static str, bool)]| words.iter().filter(|(_, is)| *is).map(|(word, _)| *word).collect();
        let vmpl = reports().map(SnpReport::vmpl).next().unwrap_or_default();
        if reports().any(|report| report.vmpl() != vmpl) {
            return Err(CommandError::usage("the reports were asked for at several VMPLs, and a policy takes one"));
        }
        let (major, minor) = reports().map(|report| report.policy().abi()).min().unwrap_or_default();
        Ok(Self {
            tcb_floor: floors(shown),
            keys: named(&[("vcek", signed_by(SigningKey::Vcek)), ("vlek", signed_by(SigningKey::Vlek))]),
            providers,
            revocation_list: "demanded",
            vmpl,
            minimum_abi: format!("{major}.{minor}"),
            allow: named(&[("smt", reports().any(|report| report.policy().allows_smt()))]),
            demand: named(&[
                ("single-socket", all(|report| report.policy().demands_single_socket())),
                (
                    "ciphertext-hiding",
                    all(|report| report.platform().hides_ciphertext() && report.policy().demands_ciphertext_hiding()),
                ),
                ("alias-check", all(|report| report.platform().aliases_checked())),
                ("iommu-write-safe", all(|report| report.platform().iommu_writes_safe())),
            ]),
        })
    }

    /// No machine is shown whose own policy would refuse it: debugging is never taken, and what else is weak takes a word by hand.
    fn check(&self, shown: &[(String, VerifiedSnpReport)]) -> Result<(), CommandError> {
        let text = serde_json::to_string(self).unwrap_or_default();
        let what = |name: &str| format!("{name} is of no machine that a policy should be made after");
        for (name, verified) in shown {
            let policy = SnpPolicy::from_json(text.as_bytes());
            policy
                .and_then(|policy| policy.validate(verified))
                .map_err(|refusal| CommandError::refused(Exit::Usage, what(name), &refusal))?;
        }
        Ok(())
    }
}

fn provider(verified: &VerifiedSnpReport) -> Option<String> {
    match verified.certificate().signer() {
        Signer::Provider(name) => Some(name.clone()),
        Signer::Chip(_) => None,
    }
}

/// The oldest of all versions that the reports name, part by part: what runs, what is committed, what ran at the launch.
fn floors(shown: &[(String, VerifiedSnpReport)]) -> Floors {
    let mut floors = Floors::new();
    for (_, verified) in shown {
        let (report, layout) = (verified.report(), verified.product().tcb_layout());
        let versions =
            [SnpReport::reported_tcb, SnpReport::current_tcb, SnpReport::launch_tcb, SnpReport::committed_tcb];
        for version in versions.map(|version| version(report, layout)) {
            floors.entry(verified.product()).and_modify(|floor| *floor = floor.lowest(&version)).or_insert(version);
        }
    }
    floors
}

/// Reports by their files' names, each signed by hardware of AMD's.
fn verified(arguments: &Arguments, flag: &str) -> Result<Vec<(String, VerifiedSnpReport)>, CommandError> {
    let collateral = collateral::snp(arguments)?.ok_or_else(|| {
        let fix = "get what AMD publishes with `latchkey collateral fetch`";
        CommandError::usage(format!("--{flag} goes with --collateral DIR: anybody can write a report")).fix(fix)
    })?;
    let mut shown = Vec::new();
    for path in arguments.paths(flag) {
        let name = path.display().to_string();
        let verified = KeptReport::read(&path, None)?.verify(&collateral, RevocationList::Demanded);
        let refused = |refusal| CommandError::refused(Exit::Attestation, format!("{name} is not true"), &refusal);
        shown.push((name.clone(), verified.map_err(refused)?));
    }
    Ok(shown)
}

pub(crate) fn floor(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    output.report(&FloorReport { tcb_floor: floors(&verified(arguments, "from")?) })
}

/// What goes into a policy's `snp.tcb_floor`.
#[derive(Serialize)]
struct FloorReport {
    tcb_floor: Floors,
}

impl Report for FloorReport {
    fn text(&self, _: Style) -> String {
        serde_json::to_string_pretty(self).map(|text| text + "\n").unwrap_or_default()
    }
}
