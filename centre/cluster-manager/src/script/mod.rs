//! The script that bootstraps an edge, as text.
//!
//! The entry of the application "Bootstrap script" has a driver script and files; other files are added here. All is
//! one function of POSIX sh that is called on the last line: of a download that breaks off, nothing is run. Equal
//! inputs and random bytes give equal bytes.
//!
//! The token of a link belongs into the script, since the edge redeems it; but it is stored nowhere. So a [`Script`] has a
//! mark in its place, and a [`ReaderScript`], made for who came with the token, has the token.

mod authorities;
mod command;
mod document;
mod entry;
mod values;

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

pub use authorities::{Authorities, AuthoritiesError};
pub use command::BootstrapCommand;
pub use document::quoted;
use latchkey_factory_plus::template::TemplateError;
pub use values::{CentreValues, Values};

use crate::links::Token;

/// The most bytes of a script.
pub const MAX_SCRIPT: usize = 4 << 20;

/// Where the token goes. In YAML no text begins with this character unless it is quoted, so the token is a text there, whatever it
/// looks like.
const TOKEN: &str = "@token@";

/// A bootstrap script, as it is stored: without a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    text: String,
    sha256: String,
}

/// Why there is no script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The entry has another shape.
    #[error("the Bootstrap script entry cannot be read: {0}")]
    Shape(String),
    /// The driver script has no place for the files, or several.
    #[error("the driver script must have one line that is {{{{files}}}} and nothing else")]
    Place,
    /// A file has a bad name.
    #[error("{0:?} is no file name: letters, digits, dots, hyphens and underscores make one, and no dot begins it")]
    FileName(String),
    /// The entry has a file that is added here.
    #[error("the Bootstrap script entry has a file {0:?}, which the cluster manager adds itself; name it otherwise")]
    Twice(String),
    /// A value could mean something to a shell.
    #[error("the value of {name}, {value:?}, has a character that may mean something to a shell or in YAML")]
    Value {
        /// Which value.
        name: &'static str,
        /// What it is.
        value: String,
    },
    /// A template gives nothing.
    #[error("the Bootstrap script's {0}: {1}")]
    Template(String, TemplateError),
    /// A manifest cannot be written.
    #[error("the manifests in {0:?}: {1}")]
    Yaml(String, crate::manifests::YamlError),
    /// Something has the mark of the token's place.
    #[error("{0:?} has the text {TOKEN:?}, which marks the place of the token; write {{{{token}}}} for that")]
    Mark(String),
    /// No shell reads a zero byte.
    #[error("{0:?} has a zero byte")]
    Zero(String),
    /// The script is larger than [`MAX_SCRIPT`].
    #[error("the script has more than {MAX_SCRIPT} bytes; make its files smaller")]
    TooLarge,
}

impl Script {
    /// A script that was stored.
    pub fn new(text: String) -> Self {
        let sha256 = hex::encode(Sha256::digest(text.as_bytes()));
        Self { text, sha256 }
    }

    /// Its text, with a mark in the token's place.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 of this text, in hexadecimal: what the script is known by where it is kept.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// What the holder of a token reads.
    pub fn for_reader(&self, token: &Token) -> ReaderScript {
        let text = Zeroizing::new(self.text.replace(TOKEN, &token.text()));
        let sha256 = hex::encode(Sha256::digest(text.as_bytes()));
        ReaderScript { text, sha256 }
    }
}

/// A script with the token of the link that leads to it: as secret as the link.
pub struct ReaderScript {
    text: Zeroizing<String>,
    sha256: String,
}

impl std::fmt::Debug for ReaderScript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReaderScript").field("sha256", &self.sha256).finish_non_exhaustive()
    }
}

impl ReaderScript {
    /// What a shell runs.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 of its bytes, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

/// Puts the script of a cluster together from the entry of the application "Bootstrap script", the values of its
/// placeholders, and files by name (`self-link.yaml`, `flux-system.yaml`). `random` makes the mark that ends each
/// file.
pub fn assemble(
    entry: &serde_json::Value,
    values: &Values<'_>,
    added: &BTreeMap<String, String>,
    random: [u8; 16],
) -> Result<Script, ScriptError> {
    let filled = entry::fill(entry, values, added)?;
    let size: usize = filled.files.iter().map(|(name, text)| name.len() + text.len()).sum();
    if size + filled.before.len() + filled.after.len() > MAX_SCRIPT {
        return Err(ScriptError::TooLarge);
    }
    Ok(Script::new(document::write(&filled, values.name.as_str(), random)))
}

/// The files of a script that are manifests, by name, filled, for the holder of a token: what a program applies that runs no
/// script.
///
/// # Errors
/// [`ScriptError`].
pub fn manifest_files(
    entry: &serde_json::Value,
    values: &Values<'_>,
    added: &BTreeMap<String, String>,
    token: &Token,
) -> Result<BTreeMap<String, String>, ScriptError> {
    let mut files = entry::fill(entry, values, added)?.files;
    for text in files.values_mut() {
        *text = text.replace(TOKEN, &token.text());
    }
    files.retain(|name, _| std::path::Path::new(name).extension().is_some_and(|extension| extension == "yaml"));
    let size: usize = files.iter().map(|(name, text)| name.len() + text.len()).sum();
    if size > MAX_SCRIPT { Err(ScriptError::TooLarge) } else { Ok(files) }
}

/// Whether a text means nothing to a shell, whatever quotes stand around it, and nothing in YAML but a text.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/@+-".contains(&byte))
}

#[cfg(test)]
mod tests;
