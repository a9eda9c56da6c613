//! `latchkey record`: the measurements of a trusted boot become reference values.

use std::sync::Arc;
use std::time::Duration;

use latchkey_attestation::policy::Signers;
use latchkey_attestation::reference::{Description, Image, ManifestName, Origin, PlatformProfile, Reference, Rule};
use latchkey_attestation::{Component, Digest, ImageVersion, LockExpectation, Policy, ReasonCode, ReferenceValues};
use latchkey_channel::Purpose;
use latchkey_measurements::manifest::logged_events;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::clock::now;
use crate::codes::{CommandCode, ErrorCode};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::node::{self, Address, ConnectError, Evidence, Patience, Seen};
use crate::output::{Output, Report, Style, Table, Tone};
use crate::policy::{Draft, manifest_name};
use crate::trust::{Trust, load_policy};

const TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let job = Job::from_arguments(arguments)?;
    let mut patience = Patience::new(arguments.timeout(TIMEOUT)?);
    let values = node::block_on(job.record(&mut patience, output))?;
    let path = arguments.required_path("out")?;
    files::write_new(path, format!("{}\n", values.to_json()).as_bytes(), Readers::Anyone)?;
    output.say(Tone::Good, "reference", &format!("values written to {}", path.display()));
    if let (Some(path), Basis::New(draft)) = (arguments.path("policy-out"), &job.basis) {
        draft.write(&[(job.name.clone(), job.version)], &Signers::TrustLocalFile, path)?;
        output.say(Tone::Good, "policy", &format!("written to {}", path.display()));
    }
    output.report(&RecordReport { manifest: values })
}

struct Job {
    address: Address,
    name: ManifestName,
    version: ImageVersion,
    machine: String,
    serial: u64,
    basis: Basis,
}

/// What decides which TPMs and registers are meant.
enum Basis {
    Existing(Policy),
    New(Box<Draft>),
}

impl Job {
    fn from_arguments(arguments: &Arguments) -> Result<Self, CommandError> {
        let basis = match arguments.path("policy") {
            None => Basis::New(Draft::from_arguments(arguments).map(Box::new)?),
            Some(path) => {
                let flags = [
                    "ek-root",
                    "ek-intermediate",
                    "ek-pin",
                    "ek-template",
                    "ak-root",
                    "ak-intermediate",
                    "ak-purpose",
                    "ak-algorithm",
                    "enforce",
                    "warn",
                    "firmware-refuse",
                    "firmware-known",
                    "policy-out",
                ];
                if let Some(flag) = flags.into_iter().find(|flag| arguments.has(flag)) {
                    let what = format!("--{flag} and --policy exclude each other: the policy says it all");
                    return Err(CommandError::usage(what));
                }
                let policy = load_policy(path)?.1;
                if !policy.processors().is_empty() {
                    let what =
                        "the policy demands a processor's word, and a recorded manifest says nothing of launches";
                    let fix = "have `latchkey image build` compute the manifest, with `snp` in its types of machines; of TDX, record without the section `tdx`";
                    return Err(CommandError::usage(what).fix(fix));
                }
                Basis::Existing(policy)
            }
        };
        let mut outputs = ["out", "policy-out"].iter().filter_map(|flag| arguments.path(flag));
        if let Some(path) = outputs.find(|path| path.exists()) {
            return Err(CommandError::usage(format!("{} exists already", path.display())).fix("choose another name"));
        }
        Ok(Self {
            address: arguments.operand_text(0)?.parse().map_err(|error: String| CommandError::usage(error))?,
            name: manifest_name(arguments.required_text("name")?)?,
            version: arguments.value("version")?.ok_or_else(|| CommandError::usage("--version is missing"))?,
            machine: arguments.text("machine")?.unwrap_or("recorded-machine").to_owned(),
            // Seconds grow by themselves: a boot recorded later is a newer revision.
            serial: arguments.value("serial")?.unwrap_or_else(now),
            basis,
        })
    }

    /// The node proves itself twice: its evidence of the first time becomes the reference values, and the second time it
    /// must be admitted by them.
    async fn record(&self, patience: &mut Patience, output: &Output) -> Result<ReferenceValues, CommandError> {
        let policy = Arc::new(self.policy()?);
        let nothing = Trust::of(&policy, self.impossible(&policy)?)?;
        let seen = patience.repeat(output, || Box::pin(self.observe(&nothing))).await?;
        output.say(Tone::Good, "proven", &format!("TPM {} at {}", seen.verified.ek_digest(), self.address));
        let by = format!("latchkey {} from {}", env!("CARGO_PKG_VERSION"), self.address);
        let log = seen.verified.unverified_event_log();
        let events = log.map_or_else(Vec::new, |log| logged_events(log, seen.verified.pcrs(), policy.compared()));
        let values = ReferenceValues::record(&self.about(&by), &self.machine, &seen.verified, &policy, events);
        let values =
            values.map_err(|refusal| CommandError::refused(Exit::Failed, "the boot cannot be recorded", &refusal))?;
        let recorded = Trust::of(&policy, values.clone())?;
        let again =
            || Box::pin(node::connect(&self.address, Purpose::Verify, &recorded, LockExpectation::Unlocked, None));
        patience.repeat(output, again).await?;
        output.say(Tone::Good, "admitted", "by what was recorded");
        Ok(values)
    }

    /// The evidence of the node, whatever it measures, as long as it is not locked.
    async fn observe(&self, trust: &Trust) -> Result<Seen, ConnectError> {
        let evidence = Evidence::default();
        let connected =
            node::connect(&self.address, Purpose::Verify, trust, LockExpectation::Unlocked, Some(&evidence)).await;
        match (connected, evidence.take()) {
            (_, Some(seen)) if seen.verified.pcrs().value(Policy::LOCK_PCR) == Some(Digest::ZERO) => Ok(seen),
            (_, Some(_)) => {
                let code = ReasonCode::AlreadyLocked;
                let failure = CommandError::new(
                    Exit::Attestation,
                    ErrorCode::of_attestation(code),
                    "the node is locked: its OS may have run",
                );
                Err(ConnectError::Fatal(failure.fix("reboot the node, and record while it waits in its first stage")))
            }
            (Err(error), None) => Err(error),
            (Ok(_), None) => Err(ConnectError::Fatal(CommandError::local(
                CommandCode::NoEvidence,
                "the node's evidence was not kept",
            ))),
        }
    }

    fn about<'a>(&'a self, by: &'a str) -> Description<'a> {
        let (manifest, image) = (self.name.clone(), self.name.as_str());
        Description { manifest, serial: self.serial, image, version: self.version, by, at: Some(now()) }
    }

    /// The policy that the values are recorded for, naming their manifest alone.
    fn policy(&self) -> Result<Policy, CommandError> {
        match &self.basis {
            Basis::New(draft) => draft.policy(&[(self.name.clone(), self.version)], &Signers::TrustLocalFile),
            Basis::Existing(policy) => Ok(policy.clone().for_local_manifest(self.name.clone(), self.version)),
        }
    }

    /// Reference values that no machine has: nobody can be admitted before there are true ones.
    fn impossible(&self, policy: &Policy) -> Result<ReferenceValues, CommandError> {
        let reference = Reference::enforced(Digest([0xff; 32]));
        let machine =
            PlatformProfile::new(&self.machine, policy.compared().iter().map(|index| (index, reference)).collect());
        let products = [("nothing".to_owned(), Digest::ZERO)].into();
        let about = self.about("latchkey record, before there are values");
        ReferenceValues::recorded(&about, Origin { products, ..Origin::default() }, vec![machine])
            .map_err(|refusal| CommandError::refused(Exit::Failed, "the boot cannot be recorded", &refusal))
    }
}

/// The reference values of one boot.
#[derive(Serialize)]
struct RecordReport {
    manifest: ReferenceValues,
}

impl Report for RecordReport {
    fn text(&self, style: Style) -> String {
        let mut table = Table::new(&["PCR", "RULE", "VALUE", "WHAT IS MEASURED"]);
        for machine in self.manifest.images().iter().flat_map(Image::machines) {
            for (index, reference) in machine.pcrs() {
                let rule = if reference.rule == Rule::Enforce { "enforce" } else { "warn" };
                let described = Component::of(*index).describe().to_owned();
                table.row([index.to_string(), rule.to_owned(), reference.value.to_string(), described]);
            }
        }
        let vouched = "This boot is now what you vouch for: nothing proved that it is the image you want.\n";
        format!("{table}\n{}", style.paint(Tone::Warning, vouched))
    }
}
