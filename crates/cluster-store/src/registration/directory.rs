//! The directory.

use super::{Admitted, Held, Invitation, InvitationHash, MAX_HELD, Rules};
use crate::atomic::{self, Existing};
use crate::error::{ContentError, StoreError};
use crate::places::demand;
use crate::store::{ClusterStore, MAX_CONFIG, optional};
use latchkey_attestation::EkDigest;
use std::fs;
use std::path::{Path, PathBuf};

/// The file of the rules, without which a directory is no enrol service's.
pub const RULES: &str = "registration.json";
const INVITATIONS: &str = "invitations";
const HELD: &str = "held";
const ADMITTED: &str = "admitted";
/// More than any of the small files has.
const MAX_FILE: usize = 8192;

/// The enrol service's directory. Nothing is kept open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationStore(ClusterStore);

impl RegistrationStore {
    /// The directory at `path`. Nothing in it is made or written.
    ///
    /// # Errors
    /// [`StoreError::Place`] where a directory of it is not there.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let store = Self(ClusterStore::at(path));
        store.places().iter().try_for_each(|place| demand(place, None))?;
        Ok(store)
    }

    /// The directory at `path`, which must exist, with the directories in it made.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn make(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let store = Self(ClusterStore::at(path));
        store.places().iter().try_for_each(|place| atomic::make(place))?;
        Ok(store)
    }

    fn places(&self) -> [PathBuf; 4] {
        [self.0.denied_path(), self.path(INVITATIONS), self.path(HELD), self.path(ADMITTED)]
    }

    /// What evidence is judged by: policy, manifests, denials.
    pub const fn documents(&self) -> &ClusterStore {
        &self.0
    }

    /// Where the service keeps what it decided.
    pub fn records_path(&self) -> PathBuf {
        self.path("records")
    }

    /// The file of the rules, whether it exists or not.
    pub fn rules_path(&self) -> PathBuf {
        self.path(RULES)
    }

    /// The rules.
    ///
    /// # Errors
    /// [`StoreError`], also when there are none.
    pub fn rules(&self) -> Result<Rules, StoreError> {
        let path = self.rules_path();
        Rules::parse(&atomic::read(&path, MAX_CONFIG)?).map_err(StoreError::malformed(&path))
    }

    /// SHA-256 over the rules' file. What cannot be read counts by its error.
    pub fn rules_fingerprint(&self) -> [u8; 32] {
        let read = atomic::read(&self.rules_path(), MAX_CONFIG);
        let content = read.unwrap_or_else(|error| error.to_string().into_bytes());
        let mut digest = [0; 32];
        digest.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, &content).as_ref());
        digest
    }

    /// Writes the rules; durable when this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn write_rules(&self, rules: &Rules) -> Result<(), StoreError> {
        rules.check().map_err(StoreError::malformed(&self.rules_path()))?;
        write(self.0.path(), RULES, rules, Existing::Replace)
    }

    /// The invitation of this hash, `None` if there is none (any more).
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn invitation(&self, hash: &InvitationHash) -> Result<Option<Invitation>, StoreError> {
        let path = self.path(INVITATIONS).join(format!("{hash}.json"));
        let Some(json) = optional(atomic::read(&path, MAX_FILE))? else { return Ok(None) };
        let invitation = Invitation::parse(&json).map_err(StoreError::malformed(&path))?;
        if invitation.sha256 == *hash { Ok(Some(invitation)) } else { Err(misnamed(&path)) }
    }

    /// All invitations; files that cannot be read are passed over.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn invitations(&self) -> Result<Vec<Invitation>, StoreError> {
        let parse = |json: &[u8]| Invitation::parse(json).ok();
        let mut found = self.all(INVITATIONS, parse)?;
        found.sort_by_key(|invitation| (invitation.made, invitation.sha256));
        Ok(found)
    }

    /// Writes an invitation; durable when this returns.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if there is one of this hash.
    pub fn invite(&self, invitation: &Invitation) -> Result<(), StoreError> {
        let name = format!("{}.json", invitation.sha256);
        write(&self.path(INVITATIONS), &name, invitation, Existing::Keep)
    }

    /// Takes an invitation back; whether there was one.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn revoke(&self, hash: &InvitationHash) -> Result<bool, StoreError> {
        self.remove(INVITATIONS, &format!("{hash}.json"))
    }

    /// The operator's word on a machine, if there is one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn admitted(&self, ek: &EkDigest) -> Result<Option<Admitted>, StoreError> {
        let path = self.path(ADMITTED).join(format!("{ek}.json"));
        let Some(json) = optional(atomic::read(&path, MAX_FILE))? else { return Ok(None) };
        let admitted = Admitted::parse(&json).map_err(StoreError::malformed(&path))?;
        if admitted.ek_sha256 == *ek { Ok(Some(admitted)) } else { Err(misnamed(&path)) }
    }

    /// Writes the operator's word on a machine, in the place of an earlier one; durable when this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn admit(&self, admitted: &Admitted) -> Result<(), StoreError> {
        let name = format!("{}.json", admitted.ek_sha256);
        write(&self.path(ADMITTED), &name, admitted, Existing::Replace)
    }

    /// The machines that wait, the longest first; files that cannot be read are passed over.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn held(&self) -> Result<Vec<Held>, StoreError> {
        let mut found = self.all(HELD, |json| Held::parse(json).ok())?;
        found.sort_by_key(|held| (held.first_seen, held.ek_sha256));
        Ok(found)
    }

    /// Remembers a machine that waits. Beyond [`MAX_HELD`] those go that were silent longest.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn hold(&self, held: &Held) -> Result<(), StoreError> {
        let name = format!("{}.json", held.ek_sha256);
        let before = atomic::read(&self.path(HELD).join(&name), MAX_FILE).ok();
        // What cannot be read is written anew.
        let before = before.and_then(|json| Held::parse(&json).ok());
        let Some(next) = held.following(before.as_ref()) else { return Ok(()) };
        if before.is_none() {
            let mut others = self.held()?;
            others.sort_by_key(|held| held.last_seen);
            for silent in others.iter().take((others.len() + 1).saturating_sub(MAX_HELD)) {
                self.forget_held(&silent.ek_sha256)?;
            }
        }
        write(&self.path(HELD), &name, &next, Existing::Replace)
    }

    /// Forgets a machine that waited.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn forget_held(&self, ek: &EkDigest) -> Result<(), StoreError> {
        self.remove(HELD, &format!("{ek}.json")).map(drop)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn remove(&self, directory: &str, name: &str) -> Result<bool, StoreError> {
        atomic::remove(&self.path(directory).join(name))
    }

    fn all<T>(&self, directory: &str, parse: impl Fn(&[u8]) -> Option<T>) -> Result<Vec<T>, StoreError> {
        let directory = self.path(directory);
        let mut found = Vec::new();
        for entry in fs::read_dir(&directory).map_err(StoreError::io("list", &directory))? {
            let path = entry.map_err(StoreError::io("list", &directory))?.path();
            let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
            if !hidden && let Ok(json) = atomic::read(&path, MAX_FILE) {
                found.extend(parse(&json));
            }
        }
        Ok(found)
    }
}

fn write<T: serde::Serialize>(directory: &Path, name: &str, value: &T, existing: Existing) -> Result<(), StoreError> {
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    atomic::write(directory, name, json.as_bytes(), existing)
}

fn misnamed(path: &Path) -> StoreError {
    StoreError::malformed(path)(ContentError::Rule("it is of another one than its name says".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::{InvitationToken, Wanted};
    use super::*;

    fn store() -> (tempfile::TempDir, RegistrationStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = RegistrationStore::make(directory.path()).unwrap();
        (directory, store)
    }

    fn held(ek: u8, last_seen: u64) -> Held {
        Held {
            version: 1,
            ek_sha256: EkDigest::from_hex(&hex::encode([ek; 32])).unwrap(),
            disk: "f1f1f1f1-0000-4000-8000-000000000001".parse().unwrap(),
            image: "edge/edge-node 1.0.0".to_owned(),
            why: "not-invited".to_owned(),
            node_name: "node".to_owned(),
            kubernetes_version: "v1.34.4".to_owned(),
            first_seen: last_seen,
            last_seen,
        }
    }

    #[test]
    fn an_invitation_that_is_taken_back_is_gone_and_none_is_under_anothers_name() {
        let (_directory, store) = store();
        let (token, other) = (InvitationToken::random().unwrap(), InvitationToken::random().unwrap());
        let invitation = Invitation::new(token.hash(), Wanted::called("Line_1".parse().unwrap()), 1, 2);
        store.invite(&invitation).unwrap();
        assert!(matches!(store.invite(&invitation), Err(StoreError::Exists { .. })));
        assert_eq!(store.invitation(&token.hash()).unwrap(), Some(invitation));
        assert_eq!(store.invitation(&other.hash()).unwrap(), None);
        let of = |hash: &InvitationHash| store.path(INVITATIONS).join(format!("{hash}.json"));
        fs::copy(of(&token.hash()), of(&other.hash())).unwrap();
        assert!(store.invitation(&other.hash()).unwrap_err().to_string().contains("another one"));
        assert!(store.revoke(&token.hash()).unwrap());
        assert!(!store.revoke(&token.hash()).unwrap());
        assert_eq!(store.invitation(&token.hash()).unwrap(), None);
    }

    #[test]
    fn those_that_were_silent_longest_give_way() {
        let (_directory, store) = store();
        for ek in 0..=u8::MAX {
            store.hold(&held(ek, 1000 + u64::from(ek))).unwrap();
        }
        assert_eq!(store.held().unwrap().len(), MAX_HELD);
        let newcomer = Held {
            ek_sha256: EkDigest::from_hex(&"ab".repeat(31).replacen("ab", "cdab", 1)).unwrap(),
            ..held(1, 2000)
        };
        store.hold(&newcomer).unwrap();
        let waiting = store.held().unwrap();
        assert_eq!(waiting.len(), MAX_HELD);
        assert!(waiting.contains(&newcomer) && !waiting.iter().any(|held| held.last_seen == 1000));
    }
}
