//! Writes policies.

use std::path::Path;

use latchkey_attestation::policy::{AkAlgorithm, Signers};
use latchkey_attestation::reference::{ManifestName, SignerKey};
use latchkey_attestation::verify::UnusableAuthority;
use latchkey_attestation::{EkDigest, FirmwareChange, ImageVersion, PcrSet, Policy};
use latchkey_tpm::wire::EkTemplate;
use serde::Serialize;

use super::snp_section::Section;
use super::tdx_section::TdxSection;
use super::trust_rules::TrustRuleFile;
use crate::arguments::Arguments;
use crate::clock::now;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::output::{Output, Report, Style};
use crate::printable::printable;
use crate::reference::signer_key;

/// What a UKI measures: itself, Secure Boot's state, command line, initrd, what is put beside it.
const ENFORCE: [u8; 6] = [4, 7, 9, 11, 12, 13];
/// Firmware: it changes with updates that the machine's owner did not make.
const WARN: [u8; 4] = [0, 2, 3, 6];

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = arguments.required_path("out")?;
    let manifests = arguments.texts("manifest")?.into_iter().map(manifest_name).collect::<Result<Vec<_>, _>>()?;
    let minimum = arguments.value("minimum-version")?.unwrap_or(ImageVersion::new(0, 0, 0));
    let draft = Draft::from_arguments(arguments)?;
    let rules: Vec<_> = manifests.iter().map(|name| (name.clone(), minimum)).collect();
    let policy = draft.write(&rules, &signers(arguments)?, path)?;
    let unusable = policy.unusable_authorities(now());
    output.report(&NewPolicyReport { file: path.display().to_string(), manifests, unusable })
}

/// A policy was written.
#[derive(Serialize)]
struct NewPolicyReport {
    file: String,
    manifests: Vec<ManifestName>,
    /// Authorities that stand in it and by which no TPM can be verified.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unusable: Vec<UnusableAuthority>,
}

impl Report for NewPolicyReport {
    fn text(&self, _: Style) -> String {
        let names: Vec<&str> = self.manifests.iter().map(ManifestName::as_str).collect();
        let mut text = format!("policy written to {}; it admits images of {}\n", self.file, names.join(", "));
        for UnusableAuthority { name, why } in &self.unusable {
            text.push_str(&printable(&format!("no TPM is trusted by the intermediate {name}: {why}")));
            text.push('\n');
        }
        text
    }
}

/// Whose word the manifests must be: `--signer`, or `--unsigned`, and nothing by default.
fn signers(arguments: &Arguments) -> Result<Signers, CommandError> {
    let keys = arguments.texts("signer")?.into_iter().map(signer_key).collect::<Result<Vec<_>, _>>()?;
    match (keys.is_empty(), arguments.has("unsigned")) {
        (false, false) => Ok(Signers::Keys(keys)),
        (true, true) => Ok(Signers::TrustLocalFile),
        (false, true) => Err(CommandError::usage("--signer and --unsigned exclude each other")),
        (true, false) => {
            let failure = CommandError::usage("nobody's word would be taken for the manifests");
            Err(failure.fix("name who signs them with --signer, or trust whoever can write the files with --unsigned"))
        }
    }
}

/// A policy in the making: all but the manifests.
pub(crate) struct Draft {
    ek_templates: Vec<&'static str>,
    ak_trust: Vec<TrustRuleFile>,
    ak_algorithms: Vec<AkAlgorithm>,
    enforce: PcrSet,
    warn: PcrSet,
    firmware_refuse: PcrSet,
    firmware_known: bool,
    snp: Option<Section>,
    tdx: Option<TdxSection>,
}

impl Draft {
    /// From the flags of [`TrustRuleFile::from_arguments`], `--ak-algorithm`, `--ek-template`, `--enforce`, `--warn`, `--firmware-refuse`,
    /// `--firmware-known`, `--snp-report`, `--tdx-quote`.
    pub(crate) fn from_arguments(arguments: &Arguments) -> Result<Self, CommandError> {
        let enforce = pcrs(arguments, "enforce", &ENFORCE)?;
        let warn = pcrs(arguments, "warn", &WARN)?;
        let firmware_refuse = pcrs(arguments, "firmware-refuse", &[])?;
        let mut ek_templates =
            arguments.texts("ek-template")?.into_iter().map(template).collect::<Result<Vec<_>, _>>()?;
        if ek_templates.is_empty() {
            ek_templates.push(EkTemplate::P256L2);
        }
        let ak_trust = TrustRuleFile::from_arguments(arguments, &ek_templates)?;
        let ak_algorithms = ak_algorithms(arguments)?;
        // A register named in one list leaves the other's default, not what the user put there.
        let warn = if arguments.has("warn") { warn } else { warn.without(enforce) };
        let ek_templates = ek_templates.into_iter().map(EkTemplate::name).collect();
        let (snp, tdx) = (Section::from_arguments(arguments)?, TdxSection::from_arguments(arguments)?);
        if snp.is_none() && tdx.is_none() && arguments.has("collateral") {
            return Err(CommandError::usage("--collateral goes with --snp-report FILE or --tdx-quote FILE"));
        }
        let firmware_known = arguments.has("firmware-known");
        Ok(Self { ek_templates, ak_trust, ak_algorithms, enforce, warn, firmware_refuse, firmware_known, snp, tdx })
    }

    /// The policy with these manifests and their minimum versions, all of the same signers.
    pub(crate) fn policy(
        &self,
        manifests: &[(ManifestName, ImageVersion)],
        signers: &Signers,
    ) -> Result<Policy, CommandError> {
        self.text(manifests, signers).map(|(_, policy)| policy)
    }

    /// Its file, checked by reading it.
    fn text(
        &self,
        manifests: &[(ManifestName, ImageVersion)],
        signers: &Signers,
    ) -> Result<(String, Policy), CommandError> {
        let rule = |(manifest, minimum_version): &(ManifestName, ImageVersion)| ReferenceRuleFile {
            manifest: manifest.clone(),
            minimum_version: *minimum_version,
            signers: SignersFile::from(signers),
        };
        let file = PolicyFile {
            version: 3,
            ek_templates: &self.ek_templates,
            ak_trust: &self.ak_trust,
            denied_ek_sha256: [],
            ak_algorithms: &self.ak_algorithms,
            pcrs: RegisterRules { enforce: self.enforce, warn: self.warn },
            firmware_change: FirmwareRules {
                warn: FirmwareChange::registers().without(self.enforce).without(self.firmware_refuse),
                refuse: self.firmware_refuse,
            },
            firmware: self.firmware_known.then_some("known"),
            lock: "pcr-15",
            references: manifests.iter().map(rule).collect(),
            snp: self.snp.as_ref(),
            tdx: self.tdx.as_ref(),
        };
        let text = serde_json::to_string_pretty(&file)
            .map_err(|error| CommandError::usage("such a policy cannot be written").because(error.to_string()))?;
        let policy = Policy::from_json(text.as_bytes())
            .map_err(|refusal| CommandError::refused(Exit::Usage, "such a policy cannot be used", &refusal))?;
        Ok((format!("{text}\n"), policy))
    }

    pub(crate) fn write(
        &self,
        manifests: &[(ManifestName, ImageVersion)],
        signers: &Signers,
        path: &Path,
    ) -> Result<Policy, CommandError> {
        let (text, policy) = self.text(manifests, signers)?;
        files::write_new(path, text.as_bytes(), Readers::Anyone)?;
        Ok(policy)
    }
}

/// A policy's file: what `latchkey_attestation::policy` reads.
#[derive(Serialize)]
struct PolicyFile<'a> {
    version: u32,
    ek_templates: &'a [&'static str],
    ak_trust: &'a [TrustRuleFile],
    denied_ek_sha256: [EkDigest; 0],
    ak_algorithms: &'a [AkAlgorithm],
    pcrs: RegisterRules,
    firmware_change: FirmwareRules,
    #[serde(skip_serializing_if = "Option::is_none")]
    firmware: Option<&'static str>,
    lock: &'static str,
    references: Vec<ReferenceRuleFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snp: Option<&'a Section>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tdx: Option<&'a TdxSection>,
}

#[derive(Serialize)]
struct RegisterRules {
    enforce: PcrSet,
    warn: PcrSet,
}

#[derive(Serialize)]
struct FirmwareRules {
    warn: PcrSet,
    refuse: PcrSet,
}

#[derive(Serialize)]
struct ReferenceRuleFile {
    manifest: ManifestName,
    minimum_version: ImageVersion,
    #[serde(flatten)]
    signers: SignersFile,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum SignersFile {
    Signers(Vec<SignerKey>),
    Unsigned(&'static str),
}

impl From<&Signers> for SignersFile {
    fn from(signers: &Signers) -> Self {
        match signers {
            Signers::Keys(keys) => Self::Signers(keys.clone()),
            Signers::TrustLocalFile => Self::Unsigned("trust-local-file"),
        }
    }
}

/// A manifest's name, or what a name is.
pub(crate) fn manifest_name(text: &str) -> Result<ManifestName, CommandError> {
    ManifestName::new(text).ok_or_else(|| {
        CommandError::usage(format!("{text:?} is no name: 1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit"))
    })
}

fn template(text: &str) -> Result<EkTemplate, CommandError> {
    EkTemplate::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = EkTemplate::ALL.iter().map(|template| template.name()).collect();
        CommandError::usage(format!("--ek-template {text}: expected one of {}", names.join(", ")))
    })
}

/// `--ak-algorithm`; by default what the agent makes itself.
fn ak_algorithms(arguments: &Arguments) -> Result<Vec<AkAlgorithm>, CommandError> {
    let named = arguments.texts("ak-algorithm")?;
    let algorithms = named.into_iter().map(|text| match text {
        "ecdsa-p256-sha256" => Ok(AkAlgorithm::EcdsaP256Sha256),
        "rsassa-2048-sha256" => Ok(AkAlgorithm::Rsassa2048Sha256),
        other => {
            let what = format!("--ak-algorithm {other}: expected ecdsa-p256-sha256 or rsassa-2048-sha256");
            Err(CommandError::usage(what))
        }
    });
    let algorithms = algorithms.collect::<Result<Vec<_>, _>>()?;
    Ok(if algorithms.is_empty() { vec![AkAlgorithm::EcdsaP256Sha256] } else { algorithms })
}

/// `4,7,11`: no register twice, none above 23.
fn pcrs(arguments: &Arguments, flag: &str, default: &[u8]) -> Result<PcrSet, CommandError> {
    let text = arguments.text(flag)?;
    let indices = match text {
        None => Some(default.to_vec()),
        Some("") => Some(Vec::new()),
        Some(text) => text.split(',').map(|index| index.parse().ok()).collect(),
    };
    indices.and_then(|indices| PcrSet::of(&indices)).ok_or_else(|| {
        CommandError::usage(format!(
            "--{flag} {}: expected registers 0 to 23, each once, such as 4,7,11",
            text.unwrap_or_default()
        ))
    })
}
