//! `denied/EK-DIGEST`: TPMs that are shut out, one file each.
//!
//! The emergency path: it depends on no other file, and only the *names* in `denied/` count. Nothing in it is parsed, so no typo
//! in `policy.json`, in `enrolment.json` or in one of these files takes a denial back, and a name that is no digest costs itself
//! and no other. `touch denied/DIGEST` is a denial as good as that of `latchkey node deny`.

use crate::atomic::{self, Existing};
use crate::error::StoreError;
use crate::release::ReleaseRefusal;
use crate::store::{ClusterStore, optional};
use latchkey_attestation::EkDigest;
use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

/// The directory's name.
pub(crate) const DENIED: &str = "denied";
/// For people: why a TPM is denied. Read by the command line alone.
const MAX_REASON: usize = 4096;

/// The TPMs that are shut out, as the directory lists them at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denials {
    eks: BTreeSet<EkDigest>,
    /// Names that are no EK digest: somebody meant to deny a TPM and did not.
    unreadable: Vec<String>,
}

/// Witness: this TPM was not shut out, as of then. Whatever releases a key to a machine, lets it in or renews what it has demands one;
/// [`Denials::check`] makes it, and nothing else does.
#[derive(Debug)]
#[must_use = "a check that nobody acts on"]
pub struct NotDenied {
    ek: EkDigest,
    as_of: Instant,
}

impl NotDenied {
    /// The machine.
    pub fn ek(&self) -> EkDigest {
        self.ek
    }

    /// When the denials were known that it was looked for in.
    pub fn as_of(&self) -> Instant {
        self.as_of
    }
}

impl Denials {
    /// What these names deny. A digest may be written in upper case and end in `.json`; names that begin with a dot do not count.
    pub fn of_names(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut denials = Self::default();
        for name in names {
            let name = name.as_ref();
            if name.starts_with('.') {
                continue;
            }
            let digest = name.strip_suffix(".json").unwrap_or(name).to_ascii_lowercase();
            match EkDigest::from_hex(&digest) {
                Some(ek) => drop(denials.eks.insert(ek)),
                None => denials.unreadable.push(latchkey_reason::printable(name).collect()),
            }
        }
        denials.unreadable.sort();
        denials
    }

    /// The witness that this TPM is not shut out, by what was known of the denials as of then.
    ///
    /// # Errors
    /// [`ReleaseRefusal::MachineDenied`].
    pub fn check(&self, ek: &EkDigest, as_of: Instant) -> Result<NotDenied, ReleaseRefusal> {
        if self.has(ek) { Err(ReleaseRefusal::MachineDenied { ek: *ek }) } else { Ok(NotDenied { ek: *ek, as_of }) }
    }

    /// Whether this TPM is shut out.
    pub fn has(&self, ek: &EkDigest) -> bool {
        self.eks.contains(ek)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &EkDigest> {
        self.eks.iter()
    }

    /// Names in the directory that are no EK digest, printable: what they were meant to deny is not denied.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }
}

impl ClusterStore {
    /// The TPMs that are shut out. Lists a directory and reads no file. A digest may be written in upper case and end in `.json`.
    ///
    /// # Errors
    /// [`StoreError::Io`], also when there is no such directory: [`ClusterStore::open`] makes it, so one that is gone is a
    /// mistake, and whoever has older denials keeps them.
    pub fn denials(&self) -> Result<Denials, StoreError> {
        let directory = self.denied_path();
        let mut names = Vec::new();
        for entry in fs::read_dir(&directory).map_err(StoreError::io("list", &directory))? {
            let name = entry.map_err(StoreError::io("list", &directory))?.file_name();
            names.push(name.to_string_lossy().into_owned());
        }
        Ok(Denials::of_names(names))
    }

    /// Shuts a TPM out, whatever the other files say; durable when this returns. `reason` is for people.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn deny(&self, ek: &EkDigest, reason: &str) -> Result<(), StoreError> {
        atomic::write(&self.denied_path(), &ek.to_string(), format!("{reason}\n").as_bytes(), Existing::Replace)
    }

    /// Takes a denial back; durable when this returns. Whether there was one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn allow(&self, ek: &EkDigest) -> Result<bool, StoreError> {
        let directory = self.denied_path();
        let mut found = false;
        for entry in fs::read_dir(&directory).map_err(StoreError::io("list", &directory))? {
            let path = entry.map_err(StoreError::io("list", &directory))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let digest = name.strip_suffix(".json").unwrap_or(&name).to_ascii_lowercase();
            if EkDigest::from_hex(&digest) == Some(*ek) {
                fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
                found = true;
            }
        }
        atomic::sync_directory(&directory)?;
        Ok(found)
    }

    /// What was written down as the reason for a denial; empty where nothing was.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn denial_reason(&self, ek: &EkDigest) -> Result<String, StoreError> {
        let bytes = optional(atomic::read(&self.denied_path().join(ek.to_string()), MAX_REASON))?;
        Ok(String::from_utf8_lossy(&bytes.unwrap_or_default()).trim_end().to_owned())
    }
}
