//! `latchkey verify`: what a node, or kept evidence, proves, what it had to, and what that rests on.

mod claims;
mod words;

use std::path::Path;
use std::time::Duration;

use latchkey_attestation::policy::Demand;
use latchkey_attestation::record::OfflineFinding;
use latchkey_attestation::validate::AdmittedProcessor;
use latchkey_attestation::{Admission, EkDigest, EkTrust, End, KnownBy, LockExpectation, RecordedEvidence};
use latchkey_channel::Purpose;
use latchkey_keys::ClusterId;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::clock::now;
use crate::documents::Documents;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::machines::{self, Store};
use crate::node::{self, Address, Evidence, Patience};
use crate::nodes;
use crate::output::{Output, Report, Style, Tone, Verdict};
use crate::trust::{Rollback, Trust};
use crate::which_machine::{self, Meant};
use claims::Claims;
use words::tpm_in_words;

pub(crate) use words::proven_in_words;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Said where a locked machine was not reached.
const LISTENS_NOWHERE: &str = "a member listens nowhere: only a cluster's first node can be asked for its lock, while `latchkey init` follows its bootstrap, \
     and init itself demands the proof before it ends; of others `latchkey node show` and the join service's audit lines tell";

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let store = machines::store(arguments)?;
    let trust = Trust::from_files_or_store(arguments, store.as_deref().map(|store| store as &dyn Documents))?;
    let cluster = arguments.value::<ClusterId>("locked")?;
    match (arguments.operand(0), arguments.path("evidence")) {
        (Some(_), None) => live(arguments, store.as_deref(), &trust, cluster, output),
        (None, Some(path)) => kept(path, arguments, &trust, cluster, output),
        (Some(_), Some(_)) => Err(CommandError::usage("name a node or --evidence FILE, not both")),
        (None, None) => Err(CommandError::usage("name a node, or kept evidence with --evidence FILE")),
    }
}

fn live(
    arguments: &Arguments,
    store: Option<&dyn Store>,
    trust: &Trust,
    cluster: Option<ClusterId>,
    output: &Output,
) -> Result<Exit, CommandError> {
    let address: Address = arguments.operand_text(0)?.parse().map_err(|error: String| CommandError::usage(error))?;
    if arguments.has("as-recorded") {
        return Err(CommandError::usage("--as-recorded goes with --evidence FILE"));
    }
    let save = arguments.path("save-evidence");
    if let Some(path) = save.filter(|path| path.exists()) {
        return Err(CommandError::usage(format!("{} exists already", path.display())).fix("choose another name"));
    }
    let lock = lock_of(cluster);
    let mut patience = Patience::new(arguments.timeout(TIMEOUT)?);
    let evidence = Evidence::default();
    let attempt = || Box::pin(node::connect(&address, Purpose::Verify, trust, lock, Some(&evidence)));
    let connected = node::block_on(patience.repeat(output, attempt));
    let seen = evidence.take();
    let with_event = |failure: CommandError| match (&failure.refusal, &seen) {
        (Some(refusal), Some(seen)) => {
            let recorded = &seen.recorded;
            let event = trust.event(refusal, recorded.pcrs(), recorded.unverified_event_log());
            event.into_iter().fold(failure, CommandError::because)
        }
        _ => failure,
    };
    let connected = connected.map_err(with_event).map_err(|failure| match (cluster, failure.exit) {
        (Some(_), Exit::Unreachable) => failure.fix(LISTENS_NOWHERE),
        _ => failure,
    });
    if let (Some(path), Some(seen)) = (save, &seen) {
        files::write_new(path, format!("{}\n", seen.recorded.to_json()).as_bytes(), Readers::Anyone)?;
        output.say(Tone::Good, "evidence", &format!("written to {}", path.display()));
    }
    let admission = connected?.admission;
    let ek = admission.ek_digest();
    let recorded = named_machine(arguments, store, trust, cluster.is_some(), ek, output)?;
    let recording = seen.as_ref().map(|seen| &seen.recorded);
    output.report(&LiveReport {
        node: address.to_string(),
        verdict: Verdict::Admitted,
        identity: Identity { key: admission.trust().known_by(), sha256: ek },
        rests: Rests::of(trust, recording, admission.trust(), admission.processor()),
        claims: &admission,
        rollback: trust.rollback(),
        on_record_as: recorded,
        beside: Beside { trust, cluster },
    })
}

/// What claims are shown beside.
#[derive(Clone, Copy)]
struct Beside<'a> {
    trust: &'a Trust,
    /// The cluster that the node was demanded to be locked to.
    cluster: Option<ClusterId>,
}

/// By which of its keys the TPM is known, which is what records and denials name.
#[derive(Serialize)]
struct Identity {
    key: KnownBy,
    sha256: EkDigest,
}

/// What the verdict rests on.
#[derive(Serialize)]
struct Rests {
    /// What the policy demands of processors of this kind; nothing where it demands none.
    demanded: Vec<Demand>,
    /// Certificates, lists and the like, the first that ends first.
    ends: Vec<End>,
}

impl Rests {
    fn of(
        trust: &Trust,
        recording: Option<&RecordedEvidence>,
        by: &EkTrust,
        processor: Option<&AdmittedProcessor>,
    ) -> Self {
        let of_tpm = recording.map(|recording| recording.ends_of_tpm(by, &trust.policy));
        let of_processor = processor.map(|processor| processor.ends(&trust.processors));
        let mut ends: Vec<_> = of_tpm.into_iter().chain(of_processor).flatten().collect();
        ends.sort();
        let demanded = processor.map(|processor| trust.policy.demands_of(processor.kind())).unwrap_or_default();
        Self { demanded, ends }
    }
}

/// What a node that answers proves.
#[derive(Serialize)]
struct LiveReport<'a> {
    node: String,
    verdict: Verdict,
    identity: Identity,
    claims: &'a Admission,
    #[serde(flatten)]
    rests: Rests,
    rollback: Rollback,
    on_record_as: Option<String>,
    #[serde(skip)]
    beside: Beside<'a>,
}

impl Report for LiveReport<'_> {
    fn text(&self, style: Style) -> String {
        let (node, admission) = (&self.node, self.claims);
        let claims = Claims {
            subject: self
                .on_record_as
                .as_ref()
                .map_or_else(|| node.clone(), |name| format!("{node}, on record as {name}")),
            ek: tpm_in_words(admission.ek_digest(), admission.ek_template(), admission.trust()),
            tpm_trust: admission.trust(),
            image: admission.image(),
            pcrs: admission.pcrs(),
            warnings: admission.warnings(),
            resets: (admission.reset_count(), admission.restart_count()),
            firmware: admission.firmware(),
            tpm_firmware: admission.firmware_version(),
            processor: admission.processor(),
            rests: &self.rests,
            beside: self.beside,
        };
        claims.text("admitted", style)
    }
}

/// Holds the machine against the one that is meant; its name, where a cluster's directory has it on record. A lock says which
/// cluster a machine is in, and not which machine it is: with `--locked` somebody must say.
fn named_machine(
    arguments: &Arguments,
    store: Option<&dyn Store>,
    trust: &Trust,
    must_be_named: bool,
    ek: EkDigest,
    output: &Output,
) -> Result<Option<String>, CommandError> {
    let nodes = store.map(<dyn Store>::nodes).transpose()?.map(|(nodes, _)| nodes);
    let mut meant = Meant::from_arguments(arguments, &trust.policy, nodes.as_deref().unwrap_or_default())?;
    if let Some(name) = arguments.text("node")? {
        let nodes =
            nodes.as_ref().ok_or_else(|| CommandError::usage("--node needs --cluster, where the records are"))?;
        let node = nodes.iter().find(|node| node.name.as_str() == name);
        let ek = node.ok_or_else(|| nodes::unknown(name))?.ek_sha256;
        if matches!(meant, Meant::Named { ek: named, by: "--ek" } if !named.matches(&ek)) {
            return Err(CommandError::usage(format!("--ek and --node {name} name two machines")));
        }
        meant = Meant::named(ek, "the record");
    }
    if must_be_named || meant != Meant::NotNamed {
        meant.check(ek, output)?;
    }
    let on_record = nodes.iter().flatten().find(|node| node.ek_sha256 == ek);
    Ok(on_record.map(|node| node.name.to_string()))
}

/// A node of the cluster that was named, or any.
fn lock_of(cluster: Option<ClusterId>) -> LockExpectation {
    cluster.map_or(LockExpectation::Any, |cluster| LockExpectation::LockedTo(cluster.locked_pcr15()))
}

fn kept(
    path: &Path,
    arguments: &Arguments,
    trust: &Trust,
    cluster: Option<ClusterId>,
    output: &Output,
) -> Result<Exit, CommandError> {
    if let Some(flag) =
        ["save-evidence", "timeout", "node", "accept-any-ek"].into_iter().find(|flag| arguments.has(flag))
    {
        return Err(CommandError::usage(format!("--{flag} goes with a node, not with --evidence")));
    }
    let shown = path.display();
    let recording = RecordedEvidence::from_json(&files::read(path, RecordedEvidence::MAX_JSON)?)
        .map_err(|refusal| CommandError::refused(Exit::Usage, format!("{shown} cannot be used"), &refusal))?;
    let at = if arguments.has("as-recorded") { recording.recorded_at() } else { now() };
    let lock = lock_of(cluster);
    let finding = trust.appraise_recorded(&recording, lock, at).map_err(|refusal| {
        let event = trust.event(&refusal, recording.pcrs(), recording.unverified_event_log());
        let failure = CommandError::refused(Exit::Attestation, format!("the evidence in {shown} is refused"), &refusal);
        event.into_iter().fold(failure, CommandError::because)
    })?;
    if let Some(expected) = which_machine::prefix(arguments, "ek")? {
        which_machine::expect("--ek", expected, finding.claimed_ek_sha256)?;
    }
    output.report(&KeptReport {
        evidence: shown.to_string(),
        verdict: Verdict::Consistent,
        identity: Identity { key: finding.trust.known_by(), sha256: finding.claimed_ek_sha256 },
        rests: Rests::of(trust, Some(&recording), &finding.trust, finding.processor.as_ref()),
        claims: &finding,
        rollback: trust.rollback(),
        beside: Beside { trust, cluster },
    })
}

/// What kept evidence shows.
#[derive(Serialize)]
struct KeptReport<'a> {
    evidence: String,
    verdict: Verdict,
    identity: Identity,
    claims: &'a OfflineFinding,
    #[serde(flatten)]
    rests: Rests,
    rollback: Rollback,
    #[serde(skip)]
    beside: Beside<'a>,
}

impl Report for KeptReport<'_> {
    fn text(&self, style: Style) -> String {
        let finding = self.claims;
        let claims = Claims {
            subject: format!("{}, recorded at {} by {}", self.evidence, finding.recorded_at, finding.recorded_by),
            ek: tpm_in_words(finding.claimed_ek_sha256, finding.ek_template, &finding.trust),
            tpm_trust: &finding.trust,
            image: &finding.image,
            pcrs: &finding.pcrs,
            warnings: &finding.warnings,
            resets: (finding.reset_count, finding.restart_count),
            firmware: &finding.firmware,
            tpm_firmware: finding.firmware_version,
            processor: finding.processor.as_ref(),
            rests: &self.rests,
            beside: self.beside,
        };
        let mut text = claims.text("consistent with the policy", style);
        text.push_str("\nNot proven, because nobody answered:\n");
        for unproven in finding.unproven {
            text.push_str("  ");
            text.push_str(unproven.describe());
            text.push('\n');
        }
        text
    }
}
