//! `latchkey policy check`: explains whom a policy admits, and how kept evidence stands beside it.

use std::path::Path;

use latchkey_attestation::policy::{ReferenceRule, Signers};
use latchkey_attestation::reference::{Image, PlatformProfile, Rule, SignerKey};
use latchkey_attestation::validate::Comparison;
use latchkey_attestation::{
    AuthenticManifest, Component, LockExpectation, Policy, ReasonCode, RecordedEvidence, Refusal,
};
use serde_json::{Value, json};

use super::snp::Claimed;
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::{Output, Table, Tone, pairs};
use crate::reference::{authority_in_words, launches, window};
use crate::trust::{Trust, now};

/// As large as the reader of recordings takes.
const MAX_RECORDING: usize = 512 * 1024;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let trust = Trust::from_files_or_directory(arguments)?;
    let claimed = arguments.path("snp-report").map(Claimed::read).transpose()?;
    let evidence = arguments.path("evidence").map(|path| Asked::read(path, arguments)).transpose()?;
    if evidence.is_none() && arguments.has("as-recorded") {
        return Err(CommandError::usage("--as-recorded goes with --evidence FILE"));
    }
    let file: Value = serde_json::from_slice(&trust.policy_file).unwrap_or_default();
    let mut text = format!("{}\n{}\n{}", head(&file, &trust, output), manifests(&trust), images(&trust, output));
    let mut json = json!({
        "trusts": trust_rules(&file), "pcrs": file.pointer("/pcrs"), "ek_templates": trust.policy.ek_templates(),
        "manifests": manifests_json(&trust),
        "images": images_json(&trust), "rollback": if trust.remembers { "refused" } else { "unnoticed" },
    });
    if let Some(asked) = evidence {
        let verdict = asked.verdict(&trust);
        let compared = trust.policy.compare(asked.recording.pcrs(), &trust.references, asked.at);
        let event = verdict.as_ref().err().and_then(|refusal| asked.event(&trust, refusal));
        text.push_str(&asked.text(&compared, verdict.as_ref().err(), event.as_deref(), output));
        json["evidence"] = asked.json(&compared, verdict.as_ref().err(), event.as_deref());
    }
    if let Some(claimed) = claimed {
        let (told, report) = claimed.told(&trust, output);
        text.push_str(&told);
        json["snp_report"] = report;
    }
    output.result(&json, &text)
}

fn head(file: &Value, trust: &Trust, output: &Output) -> String {
    let pcrs = |list: &str| {
        let list = file.pointer(list).and_then(Value::as_array).cloned().unwrap_or_default();
        list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let rollback = if trust.remembers {
        "revisions older than those in the cluster's directory are refused"
    } else {
        "older revisions would not be noticed: no --cluster remembers what was accepted"
    };
    pairs(&[
        ("policy", output.paint(Tone::Good, "valid")),
        ("trusts", trust_rules(file).join("\n")),
        ("identity", identity_in_words(&trust.policy)),
        ("enforces", format!("PCR {}", pcrs("/pcrs/enforce"))),
        ("warns", format!("PCR {}", pcrs("/pcrs/warn"))),
        ("lock", "PCR 15: zero before a node joins, its cluster's value afterwards".to_owned()),
        ("rollback", rollback.to_owned()),
    ])
}

/// Which endorsement key stands for a TPM.
fn identity_in_words(policy: &Policy) -> String {
    let templates = policy.ek_templates();
    let several = "a TPM may have one identity for each: to deny one, deny all of its digests (`latchkey tpm ek`)";
    if templates.is_ambiguous() { format!("EK {templates}; {several}") } else { format!("EK {templates}") }
}

fn named(trust: &Trust) -> impl Iterator<Item = (&ReferenceRule, &AuthenticManifest)> {
    trust.policy.references().iter().filter_map(|rule| Some((rule, trust.references.manifest(&rule.manifest)?)))
}

fn manifests(trust: &Trust) -> Table {
    let mut table = Table::new(&["MANIFEST", "SERIAL", "MUST BE SIGNED BY", "SIGNED BY", "MINIMUM VERSION"]);
    for (rule, manifest) in named(trust) {
        let keys = |keys: &[SignerKey]| keys.iter().map(|key| key.id().to_string()).collect::<Vec<_>>().join(", ");
        let demanded = match &rule.signers {
            Signers::Keys(list) => keys(list),
            Signers::TrustLocalFile => "nobody".to_owned(),
        };
        let (name, serial) = (rule.manifest.to_string(), manifest.values().serial().to_string());
        let signed_by = authority_in_words(manifest.authority());
        table.row([name, serial, demanded, signed_by, rule.minimum_version.to_string()]);
    }
    table
}

fn manifests_json(trust: &Trust) -> Vec<Value> {
    let manifest = |(rule, manifest): (&ReferenceRule, &AuthenticManifest)| {
        json!({
            "manifest": rule.manifest, "serial": manifest.values().serial(), "sha256": manifest.sha256(),
            "signers": rule.signers.keys(), "authority": manifest.authority(),
            "minimum_version": rule.minimum_version, "revoked": manifest.values().revoked(),
        })
    };
    named(trust).map(manifest).collect()
}

/// One row for each machine type of each image.
fn rows(trust: &Trust) -> impl Iterator<Item = (&ReferenceRule, &AuthenticManifest, &Image, &PlatformProfile)> {
    named(trust).flat_map(|(rule, manifest)| {
        let images = manifest.values().images().iter();
        images.flat_map(move |image| image.machines().iter().map(move |machine| (rule, manifest, image, machine)))
    })
}

fn images(trust: &Trust, output: &Output) -> String {
    let mut table = Table::new(&["MANIFEST", "IMAGE", "MACHINE", "SOURCE", "ENFORCED", "WARNED", "WINDOW", "ADMITTED"]);
    for (rule, manifest, image, machine) in rows(trust) {
        table.row([
            rule.manifest.to_string(),
            image.label(),
            machine.name().to_owned(),
            image.source().as_str().to_owned(),
            indices(machine, Rule::Enforce),
            indices(machine, Rule::Warn),
            window(image),
            in_words(&admissible(rule, manifest, image)),
        ]);
    }
    let nobody = rows(trust).all(|(rule, manifest, image, _)| admissible(rule, manifest, image).is_err());
    let warning = if nobody { output.paint(Tone::Warning, "\nNo image is admitted now.\n") } else { String::new() };
    let launches = launches(named(trust).flat_map(|(_, manifest)| manifest.values().images()));
    format!("{table}{warning}{launches}")
}

fn images_json(trust: &Trust) -> Vec<Value> {
    let image = |(rule, manifest, image, machine): (&ReferenceRule, &AuthenticManifest, &Image, &PlatformProfile)| {
        let verdict = admissible(rule, manifest, image);
        json!({
            "manifest": rule.manifest, "serial": manifest.values().serial(), "image": image.name(),
            "version": image.version(), "machine": machine.name(), "source": image.source(),
            "not_before": image.not_before(), "not_after": image.not_after(),
            "enforced": machine.enforced().union(trust.policy.enforced()),
            "snp_launch": machine.snp_launch(), "admitted": verdict.is_ok(), "why": in_words(&verdict),
        })
    };
    rows(trust).map(image).collect()
}

fn trust_rules(policy: &Value) -> Vec<String> {
    let count = |rule: &Value, field: &str| rule.get(field).and_then(Value::as_array).map_or(0, Vec::len);
    let mut rules: Vec<String> = Vec::new();
    for rule in policy.get("ak_trust").and_then(Value::as_array).into_iter().flatten() {
        rules.push(match rule.get("kind").and_then(Value::as_str) {
            Some("pinned-ek") => {
                plural(count(rule, "ek_sha256"), "TPM, by its endorsement key", "TPMs, by their endorsement keys")
            }
            _ => format!("TPMs certified by {}", plural(count(rule, "roots"), "authority", "authorities")),
        });
    }
    let denied = count(policy, "denied_ek_sha256");
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

fn in_words(verdict: &Result<(), String>) -> String {
    verdict.as_ref().map_or_else(String::clone, |()| "yes".to_owned())
}

fn indices(machine: &PlatformProfile, rule: Rule) -> String {
    let chosen = machine.pcrs().iter().filter(|(_, reference)| reference.rule == rule);
    let list: Vec<String> = chosen.map(|(index, _)| index.to_string()).collect();
    if list.is_empty() { "-".to_owned() } else { list.join(" ") }
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
        let recording = RecordedEvidence::from_json(&files::read(path, MAX_RECORDING)?)
            .map_err(|refusal| CommandError::refused(Exit::Usage, format!("{file} cannot be used"), &refusal))?;
        let at = if arguments.has("as-recorded") { recording.recorded_at() } else { now() };
        Ok(Self { file, recording, at })
    }

    /// The whole verdict, whatever the lock: endorsement key, quote and measurements.
    fn verdict(&self, trust: &Trust) -> Result<(), Refusal> {
        let lock = LockExpectation::Any;
        self.recording.appraise_recorded(&trust.policy, &trust.references, lock, self.at).map(drop)
    }

    fn event(&self, trust: &Trust, refusal: &Refusal) -> Option<String> {
        trust.event(refusal, self.recording.pcrs(), self.recording.unverified_event_log())
    }

    fn text(&self, compared: &[Comparison], refusal: Option<&Refusal>, event: Option<&str>, output: &Output) -> String {
        let mut table = Table::new(&["MANIFEST", "IMAGE", "MACHINE", "THE EVIDENCE"]);
        for comparison in compared {
            let image = &comparison.image;
            table.row([
                image.manifest.to_string(),
                format!("{} {}", image.name, image.version),
                image.machine.clone(),
                why(comparison),
            ]);
        }
        let verdict = match refusal {
            None => output.paint(Tone::Good, "would be admitted, if the node answered live"),
            Some(refusal) => output.paint(Tone::Bad, &crate::output::printable(&refusal.to_string())),
        };
        let verdict = event.map_or(verdict.clone(), |event| format!("{verdict}\n{}", crate::output::printable(event)));
        let head = pairs(&[("evidence", crate::output::printable(&self.file)), ("verdict", verdict)]);
        format!("\n{head}\n{table}")
    }

    fn json(&self, compared: &[Comparison], refusal: Option<&Refusal>, event: Option<&str>) -> Value {
        let passes = |comparison: &Comparison| {
            let mut json = json!(comparison);
            json["passes"] = comparison.passes().into();
            json["why"] = why(comparison).into();
            json
        };
        json!({
            "file": self.file, "recorded_at": self.recording.recorded_at(), "judged_at": self.at,
            "verdict": if refusal.is_none() { "consistent" } else { "refused" }, "refusal": refusal, "event": event,
            "images": compared.iter().map(passes).collect::<Vec<_>>(),
        })
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
