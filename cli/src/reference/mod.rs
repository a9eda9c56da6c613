//! `latchkey reference`: manifests as their publisher works with them, and the keys that sign them.

mod check;
mod edit;
mod firmware;
mod install;
mod key;
mod signer;

use std::path::{Path, PathBuf};

use latchkey_attestation::reference::Authority;
use latchkey_attestation::{ManifestFile, ReferenceValues};
use latchkey_cluster_store::signature_of;
use latchkey_measurements::signing::{SignedManifest, SigningKey};

use crate::arguments::Arguments;
use crate::clock::now;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::mistaken::Kind;
use crate::output::{Output, Tone, printable};
use crate::trust::signature_beside;

pub(crate) use check::{launches, run as check, tdx_registers, window};
pub(crate) use edit::{add, revoke};
pub(crate) use firmware::{add as add_firmware, remove as remove_firmware};
pub(crate) use install::run as install;
pub(crate) use key::{new_key, sign};
pub(crate) use signer::signer_key;

/// A manifest that its own publisher works on: what it says, and the file it stands in, which was read once.
struct Revision {
    path: PathBuf,
    values: ReferenceValues,
    file: ManifestFile,
}

impl Revision {
    fn read(path: &Path) -> Result<Self, CommandError> {
        let file = files::read(path, ReferenceValues::MAX_JSON)?;
        let values = parse(path, &file)?;
        let file = ManifestFile::new(file, signature_beside(path)?);
        Ok(Self { path: path.to_owned(), values, file })
    }

    /// Says so when the key that is to sign the next revision did not sign this one: somebody else may have written it.
    fn warn_unless_signed_by(self, key: &SigningKey, output: &Output) {
        if self.file.signed_by_one_of(&[key.public()]).is_err() {
            let (path, id) = (self.path.display(), key.public().id());
            let why = format!("{path} is not signed by key {id}: whatever it says goes into the new revision");
            output.say(Tone::Warning, "base", &why);
        }
    }
}

fn parse(path: &Path, file: &[u8]) -> Result<ReferenceValues, CommandError> {
    ReferenceValues::from_json(file).map_err(|refusal| {
        let failure = CommandError::refused(Exit::Usage, format!("{} cannot be used", path.display()), &refusal);
        Kind::Manifest.expected(failure, file, path)
    })
}

/// Says of a serial that neither a clock nor a counter gives: every later revision must have a higher one, and there is a
/// largest.
fn warn_of_serial(values: &ReferenceValues, output: &Output) {
    const YEAR: u64 = 365 * 86_400;
    if values.serial() > now().saturating_add(YEAR) {
        let (name, serial) = (values.name(), values.serial());
        let why = format!(
            "{serial} lies beyond the seconds since 1970: every later revision of {name} must have a higher one; \
             the way back is `latchkey reference install --replace-newer`"
        );
        output.say(Tone::Warning, "serial", &why);
    }
}

/// Writes a new revision, and its signature if there is a key: the signature first, so that no reader finds the manifest
/// alone.
fn publish(
    values: &ReferenceValues,
    base: Revision,
    arguments: &Arguments,
    output: &Output,
) -> Result<(), CommandError> {
    warn_of_serial(values, output);
    let out = arguments.required_path("out")?;
    let key = if arguments.has("key") { Some(key::load(arguments)?) } else { None };
    if out.exists() {
        let failure =
            CommandError::new(Exit::Usage, CommandCode::FileExists, format!("{} exists already", out.display()));
        return Err(failure.fix("choose another name, or move the file away: it is never overwritten"));
    }
    if let Some(key) = key {
        base.warn_unless_signed_by(&key, output);
        let signed = key.sign_manifest(values);
        let SignedManifest { manifest, signature } =
            signed.map_err(|error| CommandError::local(error.code(), error.to_string()))?;
        let beside = signature_of(out);
        files::replace(&beside, signature.as_bytes(), Readers::Anyone)?;
        files::write_new(out, manifest.as_bytes(), Readers::Anyone)?;
        output.say(Tone::Good, "signed", &format!("by key {} in {}", key.public().id(), beside.display()));
    } else {
        files::write_new(out, format!("{}\n", values.to_json()).as_bytes(), Readers::Anyone)?;
        let next = format!("sign it: latchkey reference sign {} --key FILE", out.display());
        output.say(Tone::Warning, "unsigned", &next);
    }
    let revision = format!("serial {} of {} written to {}", values.serial(), values.name(), out.display());
    output.say(Tone::Good, "manifest", &revision);
    Ok(())
}

/// Who vouches for a manifest, in one phrase.
pub(crate) fn authority_in_words(authority: &Authority) -> String {
    match authority {
        Authority::Signed { signer, trusted_comment } => {
            format!("key {} ({})", signer.id(), printable(&trusted_comment.replace('\t', " ")))
        }
        Authority::LocalFile { .. } => "nobody: trusted as a local file".to_owned(),
    }
}
