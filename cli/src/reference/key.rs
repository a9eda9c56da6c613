//! `latchkey reference new-key` and `latchkey reference sign`.

use std::path::Path;

use latchkey_attestation::ReferenceValues;
use latchkey_attestation::reference::{KeyId, ManifestName, SignerKey};
use latchkey_cluster_store::signature_of;
use latchkey_keys::SecretVec;
use latchkey_measurements::signing::{MAX_KEY_FILE, SigningError, SigningKey, public_key_file};
use serde::Serialize;

use super::parse;
use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::output::{Output, Report, Style, Tone};

/// minisign's `PASSWORDMAXBYTES`.
const MAX_PASSWORD: usize = 1024;

pub(crate) fn new_key(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = arguments.required_path("out")?;
    let public = public_path(path);
    if let Some(there) = [path, &public].into_iter().find(|path| path.exists()) {
        let failure =
            CommandError::new(Exit::Usage, CommandCode::FileExists, format!("{} exists already", there.display()));
        return Err(failure.fix("choose another name, or move the file away: it is never overwritten"));
    }
    let password = password(arguments)?;
    let key = SigningKey::generate().map_err(|error| unusable(path, error))?;
    if password.is_some() {
        output.waiting("deriving the key of the key: minisign lets it take 1 GiB of memory");
    }
    let file = key.to_file(password.as_ref()).map_err(|error| unusable(path, error))?;
    files::write_new(path, file.expose(), Readers::OwnerOnly)?;
    files::write_new(&public, public_key_file(&key.public()).as_bytes(), Readers::Anyone)?;
    let (kind, tone) = match password {
        Some(_) => ("encrypted with the password", Tone::Good),
        None => ("NOT encrypted: whoever can read the file can sign", Tone::Warning),
    };
    output.say(tone, "secret key", &format!("{}, {kind}", path.display()));
    output.say(Tone::Good, "public key", &format!("{}, for policies; it is printed next", public.display()));
    output.report(&NewKeyReport {
        secret_key_file: path.display().to_string(),
        public_key_file: public.display().to_string(),
        encrypted: password.is_some(),
        public_key: key.public(),
        key_id: key.public().id(),
    })
}

/// A signing key was made.
#[derive(Serialize)]
struct NewKeyReport {
    secret_key_file: String,
    public_key_file: String,
    encrypted: bool,
    public_key: SignerKey,
    key_id: KeyId,
}

impl Report for NewKeyReport {
    fn text(&self, _: Style) -> String {
        format!("{}\n", self.public_key)
    }
}

pub(crate) fn sign(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let path = arguments.operand(0).map(Path::new).ok_or_else(|| CommandError::usage("MANIFEST is missing"))?;
    files::must_be_a_file(path, "the signature goes beside the manifest")?;
    // What is signed is what was read: a file of another form is not rewritten under its signature.
    let file = files::read(path, ReferenceValues::MAX_JSON)?;
    let values = parse(path, &file)?;
    super::warn_of_serial(&values, output);
    let key = load(arguments)?;
    let comment = format!("manifest:{} serial:{}", values.name(), values.serial());
    let signature = key.sign(&file, &comment).map_err(|error| CommandError::local(error.code(), error.to_string()))?;
    let beside = signature_of(path);
    files::replace(&beside, signature.as_bytes(), Readers::Anyone)?;
    output.report(&SignReport {
        manifest: values.name(),
        serial: values.serial(),
        signature_file: beside.display().to_string(),
        signer: key.public(),
        content: &values,
        file: path,
    })
}

/// A manifest was signed.
#[derive(Serialize)]
struct SignReport<'a> {
    manifest: &'a ManifestName,
    serial: u64,
    signature_file: String,
    signer: SignerKey,
    content: &'a ReferenceValues,
    #[serde(skip)]
    file: &'a Path,
}

impl Report for SignReport<'_> {
    /// What was signed is shown by whoever signed it, not only by whoever made it.
    fn text(&self, _: Style) -> String {
        let Self { manifest, serial, signature_file, signer, content, file } = self;
        format!(
            "{}\n{manifest} serial {serial} signed by key {} in {signature_file}\ncheck it with: minisign -Vm {} -P {signer}\n",
            super::check::table(content),
            signer.id(),
            file.display(),
        )
    }
}

/// The key of `--key`, opened with `--password` if it must be.
pub(super) fn load(arguments: &Arguments) -> Result<SigningKey, CommandError> {
    let path = arguments.required_path("key")?;
    let file = files::read_secret(path, MAX_KEY_FILE)?;
    SigningKey::parse(file.expose(), || {
        password(arguments).map_err(Opening::Other)?.ok_or_else(|| {
            let failure = CommandError::usage(format!("{} is encrypted", path.display()));
            Opening::Other(failure.fix("give its password with --password FILE, or --password - for standard input"))
        })
    })
    .map_err(|error| match error {
        Opening::Key(error) => unusable(path, error),
        Opening::Other(failure) => failure,
    })
}

/// Why a key is not opened: because of itself, or because there is no password.
enum Opening {
    Key(SigningError),
    Other(CommandError),
}

impl From<SigningError> for Opening {
    fn from(error: SigningError) -> Self {
        Self::Key(error)
    }
}

fn password(arguments: &Arguments) -> Result<Option<SecretVec>, CommandError> {
    let Some(path) = arguments.path("password") else { return Ok(None) };
    let password = files::read_secret(path, MAX_PASSWORD)?;
    if password.is_empty() {
        return Err(
            CommandError::usage("the password is empty").fix("leave --password away for a key that is not encrypted")
        );
    }
    Ok(Some(password))
}

/// `release.key` → `release.pub`, and `release` → `release.pub`.
fn public_path(secret: &Path) -> std::path::PathBuf {
    secret.with_extension("pub")
}

fn unusable(path: &Path, error: SigningError) -> CommandError {
    let failure = CommandError::new(Exit::Usage, error.code(), format!("{} cannot be used", path.display()))
        .because(error.to_string());
    match error.remedy() {
        Some(remedy) => failure.fix(remedy),
        None => failure,
    }
}
