//! `latchkey policy check`: explains whom a policy admits, and how kept evidence stands beside it.

use std::collections::BTreeSet;
use std::path::Path;

use latchkey_attestation::policy::{EkTemplates, ReferenceRule, TrustedBy};
use latchkey_attestation::reference::{
    Authority, Image, ManifestName, PlatformProfile, Revocation, Rule, SignerKey, SnpLaunch, Source,
};
use latchkey_attestation::validate::Comparison;
use latchkey_attestation::{
    AuthenticManifest, Component, Digest, ImageVersion, LockExpectation, PcrSet, Policy, ReasonCode, RecordedEvidence,
    ReferenceValues, Refusal,
};
use serde::Serialize;

use super::snp::{Claimed, SnpVerdict};
use crate::arguments::Arguments;
use crate::clock::now;
use crate::documents::Documents;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::machines;
use crate::output::{Output, Report, Style, Table, Tone, Verdict, pairs, printable};
use crate::reference::{authority_in_words, launches, window};
use crate::trust::{Rollback, Trust};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let store = machines::store(arguments)?;
    let trust = Trust::from_files_or_store(arguments, store.as_deref().map(|store| store as &dyn Documents))?;
    let claimed = arguments.path("snp-report").map(|path| Claimed::read(path, arguments)).transpose()?;
    if claimed.is_none() && arguments.has("snp-certificates") {
        return Err(CommandError::usage("--snp-certificates goes with --snp-report FILE"));
    }
    let evidence = arguments.path("evidence").map(|path| Asked::read(path, arguments)).transpose()?;
    if evidence.is_none() && arguments.has("as-recorded") {
        return Err(CommandError::usage("--as-recorded goes with --evidence FILE"));
    }
    if evidence.is_none() && claimed.is_none() && arguments.has("collateral") {
        return Err(CommandError::usage("--collateral goes with --snp-report FILE or --evidence FILE"));
    }
    let evidence = evidence.map(|asked| asked.report(&trust));
    let snp_report = claimed.map(|claimed| claimed.report(&trust));
    output.report(&CheckReport::of(&trust, evidence, snp_report))
}

/// Whom a policy admits.
#[derive(Serialize)]
struct CheckReport<'a> {
    trusts: Vec<String>,
    pcrs: Registers,
    firmware: Firmware<'a>,
    ek_templates: &'a EkTemplates,
    manifests: Vec<ManifestRow<'a>>,
    images: Vec<ImageRow<'a>>,
    rollback: Rollback,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<EvidenceReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snp_report: Option<SnpVerdict>,
}

/// The registers that a policy rules.
#[derive(Serialize)]
struct Registers {
    enforce: PcrSet,
    warn: PcrSet,
}

/// Whether a machine's firmware must be known, and the types of machines that list some.
#[derive(Serialize)]
struct Firmware<'a> {
    known_alone: bool,
    known: BTreeSet<&'a str>,
}

impl Firmware<'_> {
    fn in_words(&self) -> String {
        let known = self.known.iter().copied().collect::<Vec<_>>().join(", ");
        let demanded = if self.known_alone { "known alone" } else { "any" };
        format!("{demanded}; known is that of {}", if known.is_empty() { "no machine" } else { &known })
    }
}

/// A manifest that the policy names.
#[derive(Serialize)]
struct ManifestRow<'a> {
    manifest: &'a ManifestName,
    serial: u64,
    sha256: Digest,
    /// Who may sign it; nobody for one that is trusted as a local file.
    signers: &'a [SignerKey],
    authority: &'a Authority,
    minimum_version: ImageVersion,
    revoked: &'a [Revocation],
    #[serde(skip)]
    values: &'a ReferenceValues,
}

/// One machine type of one image.
#[derive(Serialize)]
struct ImageRow<'a> {
    manifest: &'a ManifestName,
    serial: u64,
    image: &'a str,
    version: ImageVersion,
    machine: &'a str,
    source: Source,
    not_before: Option<u64>,
    not_after: Option<u64>,
    enforced: PcrSet,
    snp_launch: &'a [SnpLaunch],
    admitted: bool,
    why: String,
    #[serde(skip)]
    listed: (&'a Image, &'a PlatformProfile),
}

impl<'a> CheckReport<'a> {
    fn of(trust: &'a Trust, evidence: Option<EvidenceReport>, snp_report: Option<SnpVerdict>) -> Self {
        let policy = &trust.policy;
        let manifest = |(rule, manifest): (&'a ReferenceRule, &'a AuthenticManifest)| ManifestRow {
            manifest: &rule.manifest,
            serial: manifest.values().serial(),
            sha256: manifest.sha256(),
            signers: rule.signers.keys(),
            authority: manifest.authority(),
            minimum_version: rule.minimum_version,
            revoked: manifest.values().revoked(),
            values: manifest.values(),
        };
        let machines = || trust.references.iter().flat_map(|one| one.values().images()).flat_map(Image::machines);
        Self {
            trusts: trust_rules(policy),
            pcrs: Registers { enforce: policy.enforced(), warn: policy.warned() },
            firmware: Firmware {
                known_alone: policy.demands_known_firmware(),
                known: machines().filter(|machine| machine.firmware().is_some()).map(PlatformProfile::name).collect(),
            },
            ek_templates: policy.ek_templates(),
            manifests: named(trust).map(manifest).collect(),
            images: rows(trust).map(|row| ImageRow::of(policy, row)).collect(),
            rollback: trust.rollback(),
            evidence,
            snp_report,
        }
    }

    fn head(&self, style: Style) -> String {
        let rollback = match self.rollback {
            Rollback::Refused => "revisions older than those in the cluster's directory are refused",
            Rollback::Unnoticed => "older revisions would not be noticed: no --cluster remembers what was accepted",
        };
        pairs(&[
            ("policy", style.paint(Tone::Good, "valid")),
            ("trusts", self.trusts.join("\n")),
            ("identity", identity_in_words(self.ek_templates)),
            ("enforces", format!("PCR {}", indices(self.pcrs.enforce.iter()))),
            ("warns", format!("PCR {}", indices(self.pcrs.warn.iter()))),
            ("firmware", self.firmware.in_words()),
            ("lock", "PCR 15: zero before a node joins, its cluster's value afterwards".to_owned()),
            ("rollback", rollback.to_owned()),
        ])
    }

    fn manifests(&self) -> Table {
        let mut table = Table::new(&["MANIFEST", "SERIAL", "MUST BE SIGNED BY", "SIGNED BY", "MINIMUM VERSION"]);
        for row in &self.manifests {
            let keys = row.signers.iter().map(|key| key.id().to_string()).collect::<Vec<_>>().join(", ");
            let demanded = if row.signers.is_empty() { "nobody".to_owned() } else { keys };
            let (name, serial) = (row.manifest.to_string(), row.serial.to_string());
            table.row([name, serial, demanded, authority_in_words(row.authority), row.minimum_version.to_string()]);
        }
        table
    }

    fn images(&self, style: Style) -> String {
        let mut table =
            Table::new(&["MANIFEST", "IMAGE", "MACHINE", "SOURCE", "ENFORCED", "WARNED", "WINDOW", "ADMITTED"]);
        for row in &self.images {
            let (image, profile) = row.listed;
            table.row([
                row.manifest.to_string(),
                image.label(),
                row.machine.to_owned(),
                row.source.as_str().to_owned(),
                ruled(profile, Rule::Enforce),
                ruled(profile, Rule::Warn),
                window(image),
                row.why.clone(),
            ]);
        }
        let nobody = self.images.iter().all(|row| !row.admitted);
        let warning = if nobody { style.paint(Tone::Warning, "\nNo image is admitted now.\n") } else { String::new() };
        let launches = launches(self.manifests.iter().flat_map(|row| row.values.images()));
        format!("{table}{warning}{launches}")
    }
}

impl<'a> ImageRow<'a> {
    fn of(policy: &Policy, row: Row<'a>) -> Self {
        let (rule, manifest, image, machine) = row;
        let verdict = admissible(rule, manifest, image);
        Self {
            manifest: &rule.manifest,
            serial: manifest.values().serial(),
            image: image.name(),
            version: image.version(),
            machine: machine.name(),
            source: image.source(),
            not_before: image.not_before(),
            not_after: image.not_after(),
            enforced: machine.enforced().union(policy.enforced()),
            snp_launch: machine.snp_launch(),
            admitted: verdict.is_ok(),
            why: verdict.err().unwrap_or_else(|| "yes".to_owned()),
            listed: (image, machine),
        }
    }
}

impl Report for CheckReport<'_> {
    fn text(&self, style: Style) -> String {
        let mut text = format!("{}\n{}\n{}", self.head(style), self.manifests(), self.images(style));
        text.extend(self.evidence.iter().map(|evidence| evidence.text(style)));
        text.extend(self.snp_report.iter().map(|claimed| claimed.text(style)));
        text
    }
}

/// Which endorsement key stands for a TPM.
fn identity_in_words(templates: &EkTemplates) -> String {
    let several = "a TPM may have one identity for each: to deny one, deny all of its digests (`latchkey tpm ek`)";
    if templates.is_ambiguous() { format!("EK {templates}; {several}") } else { format!("EK {templates}") }
}

fn named(trust: &Trust) -> impl Iterator<Item = (&ReferenceRule, &AuthenticManifest)> {
    trust.policy.references().iter().filter_map(|rule| Some((rule, trust.references.manifest(&rule.manifest)?)))
}

/// A machine type of an image of a manifest that a rule names.
type Row<'a> = (&'a ReferenceRule, &'a AuthenticManifest, &'a Image, &'a PlatformProfile);

/// One row for each machine type of each image.
fn rows(trust: &Trust) -> impl Iterator<Item = Row<'_>> {
    named(trust).flat_map(|(rule, manifest)| {
        let images = manifest.values().images().iter();
        images.flat_map(move |image| image.machines().iter().map(move |machine| (rule, manifest, image, machine)))
    })
}

fn trust_rules(policy: &Policy) -> Vec<String> {
    let rule = |rule| match rule {
        TrustedBy::PinnedEks(count) => plural(count, "TPM, by its endorsement key", "TPMs, by their endorsement keys"),
        TrustedBy::Authorities(count) => format!("TPMs certified by {}", plural(count, "authority", "authorities")),
        TrustedBy::AkAuthorities(count) => {
            let authorities = plural(count, "authority", "authorities");
            format!("TPMs whose attestation key is certified by {authorities}, and is their identity")
        }
        TrustedBy::AzureHcl(0) => {
            "TPMs of Azure's paravisor, by a SEV-SNP report of a launch that `snp.id_key_sha384` signed".to_owned()
        }
        TrustedBy::AzureHcl(count) => {
            format!("TPMs of Azure's paravisor, by a SEV-SNP report of {}", plural(count, "launch", "launches"))
        }
        TrustedBy::SvsmLaunches(count) => {
            format!("TPMs of SVSMs, by a SEV-SNP report of {}", plural(count, "launch", "launches"))
        }
    };
    let mut rules: Vec<String> = policy.trusted_by().map(rule).collect();
    let denied = policy.denied_count();
    if denied > 0 {
        rules.push(format!("but not {}", plural(denied, "TPM that is denied", "TPMs that are denied")));
    }
    rules
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Whether the image is admitted now, and why not.
fn admissible(rule: &ReferenceRule, manifest: &AuthenticManifest, image: &Image) -> Result<(), String> {
    let revoked = manifest.values().revocation(image.name(), image.version());
    rule.admits(manifest.values(), image, now()).map_err(|refusal| match refusal.code() {
        ReasonCode::ImageRevoked => format!("no: revoked: {}", revoked.map_or("", |revoked| &revoked.why)),
        ReasonCode::ImageVersionTooOld => "no: too old".to_owned(),
        ReasonCode::ImageNotYetValid => "not yet".to_owned(),
        ReasonCode::ImageExpired => "no: expired".to_owned(),
        code => format!("no: {code}"),
    })
}

fn indices(pcrs: impl Iterator<Item = u8>) -> String {
    pcrs.map(|index| index.to_string()).collect::<Vec<_>>().join(" ")
}

/// The registers of a machine type with this rule.
fn ruled(machine: &PlatformProfile, rule: Rule) -> String {
    let chosen = machine.pcrs().iter().filter(|(_, reference)| reference.rule == rule);
    let list = indices(chosen.map(|(index, _)| *index));
    if list.is_empty() { "-".to_owned() } else { list }
}

/// Kept evidence, and the time it is judged by.
struct Asked {
    file: String,
    recording: RecordedEvidence,
    at: u64,
}

impl Asked {
    fn read(path: &Path, arguments: &Arguments) -> Result<Self, CommandError> {
        let file = path.display().to_string();
        let recording = RecordedEvidence::from_json(&files::read(path, RecordedEvidence::MAX_JSON)?)
            .map_err(|refusal| CommandError::refused(Exit::Usage, format!("{file} cannot be used"), &refusal))?;
        let at = if arguments.has("as-recorded") { recording.recorded_at() } else { now() };
        Ok(Self { file, recording, at })
    }

    /// The whole verdict, whatever the lock: endorsement key, quote and measurements.
    fn verdict(&self, trust: &Trust) -> Result<(), Refusal> {
        let lock = LockExpectation::Any;
        trust.appraise_recorded(&self.recording, lock, self.at).map(drop)
    }

    fn event(&self, trust: &Trust, refusal: &Refusal) -> Option<String> {
        trust.event(refusal, self.recording.pcrs(), self.recording.unverified_event_log())
    }

    fn report(self, trust: &Trust) -> EvidenceReport {
        let refusal = self.verdict(trust).err();
        let event = refusal.as_ref().and_then(|refusal| self.event(trust, refusal));
        let compared = trust.policy.compare(self.recording.pcrs(), &trust.references, self.at);
        let row =
            |comparison: Comparison| ComparedImage { passes: comparison.passes(), why: why(&comparison), comparison };
        EvidenceReport {
            file: self.file,
            recorded_at: self.recording.recorded_at(),
            judged_at: self.at,
            verdict: if refusal.is_none() { Verdict::Consistent } else { Verdict::Refused },
            refusal,
            event,
            images: compared.into_iter().map(row).collect(),
        }
    }
}

/// How kept evidence stands beside a policy.
#[derive(Serialize)]
struct EvidenceReport {
    file: String,
    recorded_at: u64,
    judged_at: u64,
    verdict: Verdict,
    refusal: Option<Refusal>,
    /// The event of the machine's own log that differs.
    event: Option<String>,
    images: Vec<ComparedImage>,
}

/// How it stands beside one machine type of one image.
#[derive(Serialize)]
struct ComparedImage {
    #[serde(flatten)]
    comparison: Comparison,
    passes: bool,
    why: String,
}

impl EvidenceReport {
    fn text(&self, style: Style) -> String {
        let mut table = Table::new(&["MANIFEST", "IMAGE", "MACHINE", "THE EVIDENCE"]);
        for ComparedImage { comparison: Comparison { image, .. }, why, .. } in &self.images {
            let name = format!("{} {}", image.name, image.version);
            table.row([image.manifest.to_string(), name, image.machine.clone(), why.clone()]);
        }
        let mut verdict = match &self.refusal {
            None => style.paint(Tone::Good, "would be admitted, if the node answered live"),
            Some(refusal) => style.paint(Tone::Bad, &printable(&refusal.to_string())),
        };
        verdict.extend(self.event.iter().map(|event| format!("\n{}", printable(event))));
        let head = pairs(&[("evidence", printable(&self.file)), ("verdict", verdict)]);
        format!("\n{head}\n{table}")
    }
}

/// How the evidence stands beside one machine type of one image.
fn why(comparison: &Comparison) -> String {
    let Comparison { differing, most_specific, forbidden, .. } = comparison;
    match (most_specific, forbidden) {
        (None, None) => "passes".to_owned(),
        (None, Some(refusal)) => format!("fails, though all is as expected: {}: {}", refusal.code(), refusal.detail()),
        (Some(pcr), _) => {
            let list: Vec<String> = differing.iter().map(|pcr| pcr.pcr.to_string()).collect();
            format!("fails: PCR {} differ: {}", list.join(" "), Component::of(*pcr).describe())
        }
    }
}
