//! Public keys of signers, as arguments name them.

use std::path::Path;

use latchkey_attestation::reference::SignerKey;

use crate::error::CommandError;
use crate::files;

/// A comment and a key.
const MAX_PUBLIC_KEY: usize = 4096;

/// A public key, as text or in the file that `minisign -G` or `latchkey reference new-key` wrote.
pub(crate) fn signer_key(text: &str) -> Result<SignerKey, CommandError> {
    if let Ok(key) = text.parse() {
        return Ok(key);
    }
    let wrong = || {
        let failure =
            CommandError::usage(format!("--signer {text}: neither a minisign public key nor a file with one"));
        failure.fix("give the 56 characters that begin with RW, or the .pub file that holds them")
    };
    let path = Path::new(text);
    if !path.exists() {
        return Err(wrong());
    }
    let file = String::from_utf8(files::read(path, MAX_PUBLIC_KEY)?).map_err(|_| wrong())?;
    file.lines()
        .filter(|line| !line.starts_with("untrusted comment:"))
        .find_map(|line| line.parse().ok())
        .ok_or_else(wrong)
}
