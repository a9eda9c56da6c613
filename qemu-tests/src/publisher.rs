//! Who releases images: signs the manifests that sites go by.

use std::path::{Path, PathBuf};

use latchkey_attestation::ReferenceValues;
use latchkey_measurements::signing::{SigningError, SigningKey};

use crate::error::{HarnessError, io_error};

/// A key, known to the sites' policies.
#[derive(Debug)]
pub struct Publisher {
    key: SigningKey,
}

impl Publisher {
    /// With a new key.
    pub fn new() -> Result<Self, HarnessError> {
        Ok(Self { key: SigningKey::generate().map_err(failed)? })
    }

    /// With the key in this file, which has no password.
    pub fn read(path: &Path) -> Result<Self, HarnessError> {
        let file = std::fs::read(path).map_err(io_error("read", path))?;
        Ok(Self { key: SigningKey::parse(&file, || Err(SigningError::WrongPassword)).map_err(failed)? })
    }

    /// What policies name.
    pub fn public(&self) -> String {
        self.key.public().to_string()
    }

    /// Writes a manifest and its signature. Both are replaced, never changed in place, and the signature first: who follows
    /// the manifest's file finds its signature there.
    pub fn sign(&self, values: &ReferenceValues, path: &Path) -> Result<(), HarnessError> {
        let signed = self.key.sign_manifest(values).map_err(failed)?;
        replace(&signature(path), &signed.signature)?;
        replace(path, &signed.manifest)
    }
}

/// Where a manifest's signature is.
pub fn signature(manifest: &Path) -> PathBuf {
    let mut name = manifest.as_os_str().to_owned();
    name.push(".minisig");
    name.into()
}

/// Replaces a file as a whole.
pub fn replace(path: &Path, content: &str) -> Result<(), HarnessError> {
    let new = path.with_extension("new");
    std::fs::write(&new, content).map_err(io_error("write", &new))?;
    std::fs::rename(&new, path).map_err(io_error("replace", path))
}

fn failed(error: SigningError) -> HarnessError {
    HarnessError::Unusable(format!("signing: {error}"))
}
