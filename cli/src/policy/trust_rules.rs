//! Which TPMs a new policy trusts.

use std::path::{Path, PathBuf};

use latchkey_attestation::EkDigest;
use latchkey_pem::{PemError, PemSection};
use latchkey_tpm::wire::EkTemplate;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::which_machine;

/// A bundle of many authorities' certificates.
const MAX_PEM: usize = 512 * 1024;

/// One of `ak_trust`, as `latchkey_attestation::policy` reads it.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum TrustRuleFile {
    PinnedEk { ek_sha256: Vec<EkDigest> },
    EkChain { roots: Vec<String>, intermediates: Vec<String> },
    AkChain { roots: Vec<String>, intermediates: Vec<String>, purpose: &'static str },
}

impl TrustRuleFile {
    /// From `--ek-pin`, `--ek-root`, `--ek-intermediate`, `--ak-root`, `--ak-intermediate`, `--ak-purpose`. Pins come first.
    pub(super) fn from_arguments(
        arguments: &Arguments,
        templates: &[EkTemplate],
    ) -> Result<Vec<TrustRuleFile>, CommandError> {
        let mut rules = Vec::new();
        let pins = arguments.paths("ek-pin");
        let pins = pins.iter().map(|path| pin(path, templates)).collect::<Result<Vec<_>, _>>()?;
        if !pins.is_empty() {
            rules.push(Self::PinnedEk { ek_sha256: pins });
        }
        if let Some((roots, intermediates)) = authorities(arguments, "ek")? {
            rules.push(Self::EkChain { roots, intermediates });
        }
        let purpose = match arguments.text("ak-purpose")? {
            None | Some("demanded") => "demanded",
            Some("if-there") => "if-there",
            Some(other) => {
                return Err(CommandError::usage(format!("--ak-purpose {other}: expected demanded or if-there")));
            }
        };
        if let Some((roots, intermediates)) = authorities(arguments, "ak")? {
            rules.push(Self::AkChain { roots, intermediates, purpose });
        } else if arguments.has("ak-purpose") {
            return Err(CommandError::usage("--ak-purpose goes with --ak-root PEM"));
        }
        if rules.is_empty() {
            let failure = CommandError::usage("no TPM would be trusted");
            return Err(failure.fix("name authorities with --ek-root or --ak-root, or single TPMs with --ek-pin"));
        }
        Ok(rules)
    }
}

/// Roots, and intermediates below them.
type Authorities = (Vec<String>, Vec<String>);

/// Those of one kind of key, if there are any.
fn authorities(arguments: &Arguments, key: &str) -> Result<Option<Authorities>, CommandError> {
    let read = |what: &str| certificates(&arguments.paths(&format!("{key}-{what}")));
    let (roots, intermediates) = (read("root")?, read("intermediate")?);
    match (roots.is_empty(), intermediates.is_empty()) {
        (false, _) => Ok(Some((roots, intermediates))),
        (true, true) => Ok(None),
        (true, false) => {
            Err(CommandError::usage(format!("--{key}-intermediate needs an --{key}-root that it leads to")))
        }
    }
}

fn pin(named: &Path, templates: &[EkTemplate]) -> Result<EkDigest, CommandError> {
    which_machine::read(named, |template| templates.contains(&template))
        .map_err(|failure| failure.because(format!("--ek-pin {}", named.display())))
}

/// Every certificate of the files, one text each.
fn certificates(paths: &[PathBuf]) -> Result<Vec<String>, CommandError> {
    let mut found = Vec::new();
    for path in paths {
        let file = files::read(path, MAX_PEM)?;
        let unusable = |error: PemError| {
            CommandError::new(Exit::Usage, error.code(), format!("{} cannot be used", path.display()))
                .because(error.to_string())
        };
        // DER is no text, and gets the advice below.
        let sections = if PemSection::is_in(&file) { PemSection::all(&file).map_err(unusable)? } else { Vec::new() };
        let before = found.len();
        let certificates = sections.iter().filter(|section| section.label == "CERTIFICATE");
        found.extend(certificates.map(|section| format!("{}\n", section.text)));
        if found.len() == before {
            let what = format!("{} holds no certificate in PEM form", path.display());
            return Err(CommandError::usage(what).fix("convert it: openssl x509 -inform der -in FILE -out FILE.pem"));
        }
    }
    Ok(found)
}
