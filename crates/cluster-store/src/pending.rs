//! `pending/EK-DIGEST.json`: machines that proved themselves, that no rule speaks of, and that wait for the operator.
//!
//! Nothing is decided by these files: they are what `latchkey node list` shows, so that the operator need not read logs.
//! Whoever has TPMs of a trusted vendor can cause some, so their number is bounded, and those that were silent longest go
//! first.

use crate::atomic::{self, Existing};
use crate::cluster::check_known;
use crate::error::{ContentError, StoreError};
use crate::record::Role;
use crate::store::{ClusterStore, optional};
use crate::writer::Writer;
use latchkey_attestation::{EkDigest, FirmwareStanding};
use latchkey_keys::Uuid;
use serde::{Deserialize, Serialize};
use std::fs;

/// Version 1 says nothing of firmware.
const VERSION: u64 = 2;
/// The directory's name.
const PENDING: &str = "pending";
/// Machines that wait at a time; more than an operator looks at in one go.
pub const MAX_PENDING: usize = 256;
/// Far more than it has.
const MAX_FILE: usize = 4096;
/// Characters of a name that a machine asks for; a DNS name has at most 253.
const MAX_NAME: usize = 253;
/// How long a machine's `last_seen` may be behind, seconds: a machine asks every few seconds, and each write costs the disk one.
const STALE: u64 = 60;

/// A machine that waits. What it asks for are its own words, and prove nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingRecord {
    /// Schema: 2, or 1.
    pub version: u64,
    /// The TPM, proven; also the file's name.
    pub ek_sha256: EkDigest,
    /// The name it would like, printable.
    pub asks_for_name: String,
    /// The role it would like, if it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks_for_role: Option<Role>,
    /// The disk that it is going to format.
    pub disk: Uuid,
    /// Seconds since the Unix epoch.
    pub first_seen: u64,
    /// Seconds since the Unix epoch; at most a minute old while it asks.
    pub last_seen: u64,
    /// Whether its firmware is one that a manifest lists, as it was judged when it asked last.
    #[serde(default)]
    pub firmware: FirmwareStanding,
}

impl PendingRecord {
    /// A machine that asks now, in seconds since the Unix epoch.
    pub fn new(ek: EkDigest, name: &str, role: Option<Role>, disk: Uuid, now: u64) -> Self {
        let asks_for_name = latchkey_reason::printable(name).take(MAX_NAME).collect();
        Self {
            version: VERSION,
            ek_sha256: ek,
            asks_for_name,
            asks_for_role: role,
            disk,
            first_seen: now,
            last_seen: now,
            firmware: FirmwareStanding::NotJudged,
        }
    }

    /// The same machine, with what is known of its firmware.
    #[must_use]
    pub fn on_firmware(self, firmware: FirmwareStanding) -> Self {
        Self { firmware, ..self }
    }

    /// Reads a record's JSON.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(json: &[u8]) -> Result<Self, ContentError> {
        if json.len() > MAX_FILE {
            return Err(ContentError::TooLarge(MAX_FILE));
        }
        check_known(json, 1..=VERSION)?;
        serde_json::from_slice(json).map_err(ContentError::Syntax)
    }

    /// Its JSON, for a file or an object.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// What is to be written of a machine that asks now, in the place of what was known of it; `None` where that is not worth a
    /// write.
    pub fn following(&self, before: Option<&Self>) -> Option<Self> {
        let first_seen = before.map_or(self.first_seen, |before| before.first_seen.min(self.first_seen));
        let next = Self { first_seen, ..self.clone() };
        let known = before.is_some_and(|before| {
            let same = Self { last_seen: before.last_seen, ..next.clone() } == *before;
            same && self.last_seen < before.last_seen.saturating_add(STALE)
        });
        (!known).then_some(next)
    }
}

impl ClusterStore {
    /// The machines that wait, the longest first; files that cannot be read are passed over.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the directory cannot be listed.
    pub fn pending(&self) -> Result<Vec<PendingRecord>, StoreError> {
        let directory = self.path().join(PENDING);
        let Some(entries) = optional(fs::read_dir(&directory).map_err(StoreError::io("list", &directory)))? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(StoreError::io("list", &directory))?.file_name();
            let ek = name.to_str().and_then(|name| name.strip_suffix(".json")).and_then(EkDigest::from_hex);
            if let Some(ek) = ek
                && let Ok(Some(record)) = self.pending_of(&ek)
            {
                found.push(record);
            }
        }
        found.sort_by_key(|record| (record.first_seen, record.ek_sha256));
        Ok(found)
    }

    fn pending_of(&self, ek: &EkDigest) -> Result<Option<PendingRecord>, StoreError> {
        let path = self.path().join(PENDING).join(format!("{ek}.json"));
        let Some(json) = optional(atomic::read(&path, MAX_FILE))? else { return Ok(None) };
        let record = PendingRecord::parse(&json).map_err(StoreError::malformed(&path))?;
        if record.ek_sha256 == *ek {
            return Ok(Some(record));
        }
        Err(StoreError::malformed(&path)(ContentError::Rule("it is of another TPM than its name says".to_owned())))
    }
}

impl Writer<'_> {
    /// Remembers a machine that waits, in the place of what was known of it. Beyond [`MAX_PENDING`] those go that were silent
    /// longest. Durable when this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn hold(&mut self, asks: &PendingRecord) -> Result<(), StoreError> {
        let store = self.directory();
        let directory = store.path().join(PENDING);
        atomic::make(&directory)?;
        // What cannot be read is written anew.
        let before = store.pending_of(&asks.ek_sha256).unwrap_or_default();
        let Some(next) = asks.following(before.as_ref()) else { return Ok(()) };
        if before.is_none() {
            self.make_room()?;
        }
        let json = next.to_json();
        atomic::write(&directory, &format!("{}.json", next.ek_sha256), json.as_bytes(), Existing::Replace)
    }

    /// Forgets a machine that waited: it was admitted, or denied.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn forget_pending(&mut self, ek: &EkDigest) -> Result<(), StoreError> {
        let path = self.directory().path().join(PENDING).join(format!("{ek}.json"));
        optional(fs::remove_file(&path).map_err(StoreError::io("remove", &path))).map(drop)
    }

    fn make_room(&mut self) -> Result<(), StoreError> {
        let directory = self.directory().path().join(PENDING);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&directory).map_err(StoreError::io("list", &directory))? {
            let path = entry.map_err(StoreError::io("list", &directory))?.path();
            if path.file_name().is_some_and(atomic::is_temporary) {
                // Left by a crash: nobody else writes while this has the turn.
                drop(fs::remove_file(&path));
                continue;
            }
            entries.push(path);
        }
        if entries.len() < MAX_PENDING {
            return Ok(());
        }
        let seen = |path: &std::path::PathBuf| {
            let json = atomic::read(path, MAX_FILE).ok();
            json.and_then(|json| PendingRecord::parse(&json).ok()).map_or(0, |record| record.last_seen)
        };
        entries.sort_by_cached_key(seen);
        for path in entries.iter().take(entries.len() + 1 - MAX_PENDING) {
            fs::remove_file(path).map_err(StoreError::io("remove", path))?;
        }
        Ok(())
    }
}
