//! Follows what decisions are made by: what has changed and is good is put in force, what is bad keeps what was.

use super::{Current, Fingerprints, NO_COLLATERAL, Snapshot, Source, log_denials, log_references, place_of};
use crate::clock::unix;
use crate::freshness::{COLLATERAL, DENIALS};
use latchkey_cluster_store::{Part, StoreError};
use latchkey_collateral::{Bundle, Collateral, Stamp};
use std::sync::Arc;
use std::time::Instant;

/// Keeps a [`Current`] as the documents are. The only one that reads them, and so the only one that a file system or a server that
/// hangs stops.
#[derive(Debug)]
pub struct Follower<S: Source> {
    current: Arc<Current<S>>,
    fingerprints: Fingerprints,
    /// Of the collateral in use.
    collateral: Option<Stamp>,
}

impl<S: Source> Follower<S> {
    /// Follows from what was loaded.
    pub fn new(current: Arc<Current<S>>) -> Self {
        let (fingerprints, collateral) = (current.loaded.clone(), current.collateral_loaded);
        Self { current, fingerprints, collateral }
    }

    /// Looks for parts whose content has changed, and swaps in those that are good. A bad one keeps what was. Blocks for as
    /// long as that takes.
    pub fn look(&mut self) {
        // Before reading: what is told meanwhile is looked at next.
        let (heard, now) = (self.current.source.documents().heard(), Instant::now());
        self.current.freshness().begin(now);
        self.look_at_denials(heard.map_or(now, |heard| heard.as_of));
        self.look_at_collateral();
        let current = Arc::clone(&self.current);
        let attestation = current.source.documents().fingerprint(Part::Attestation);
        self.look_at(Part::Attestation.name(), attestation, |current| Self::with_attestation(current, attestation));
        for part in S::PARTS {
            self.look_at(S::name(*part), current.source.fingerprint(*part), |current| {
                let snapshot = current.snapshot();
                Ok(Snapshot { own: current.source.reread(&snapshot.own, *part)?, ..(*snapshot).clone() })
            });
        }
        self.current.freshness().end(heard, Instant::now());
    }

    /// First, and by themselves: a denial counts while any other file is broken. Where they cannot be read, those of before stay.
    /// They are read as of then, or later.
    fn look_at_denials(&self, as_of: Instant) {
        let current = &*self.current;
        let before = Arc::clone(&current.snapshot().denials);
        let denials = current.source.documents().denials();
        match denials.map(|denials| denials.following(&before, Instant::now())) {
            Ok(denials) if denials == *before => current.freshness().mended(DENIALS),
            Ok(denials) => {
                log_denials(&denials);
                let next = Snapshot { denials: Arc::new(denials), ..(*current.snapshot()).clone() };
                current.put_in_force(next, DENIALS);
            }
            Err(error) => return current.keep(DENIALS, &error),
        }
        current.freshness().denials_read(as_of);
        // Once they are in force: nobody looks in between, and finds a machine in neither.
        current.told.listed(&current.snapshot().denials, as_of);
    }

    /// What is bad keeps what was, until that ends by its own dates; and so does what is gone.
    fn look_at_collateral(&mut self) {
        let read = self.read_collateral();
        let (current, snapshot) = (&*self.current, self.current.snapshot());
        let means = || snapshot.processors.check_means(&snapshot.policy).map_err(|refusal| refusal.detail().to_owned());
        match read.and_then(|()| means()) {
            Ok(()) => current.freshness().mended(COLLATERAL),
            Err(why) => current.keep(COLLATERAL, &why),
        }
    }

    /// Puts in force what the directory has, if it is another than before.
    fn read_collateral(&mut self) -> Result<(), String> {
        let current = &*self.current;
        let Some(directory) = &current.collateral else { return self.read_collateral_of_cluster() };
        // Before reading: a change in between is seen as one later.
        let stamp = latchkey_collateral::stamp(directory).ok();
        if stamp.is_some() && stamp == self.collateral {
            return Ok(());
        }
        self.collateral = None;
        self.take(latchkey_collateral::read(directory).map_err(|error| error.to_string())?, stamp)
    }

    /// The same of the cluster's documents.
    fn read_collateral_of_cluster(&mut self) -> Result<(), String> {
        let current = &*self.current;
        let Some(entries) = current.source.documents().collateral().map_err(|error| error.to_string())? else {
            let snapshot = current.snapshot();
            if snapshot.has_collateral() {
                return Err(format!("{} is gone", place_of(current.source.documents()).display()));
            }
            if snapshot.policy.processors().is_empty() {
                return Ok(());
            }
            return Err(format!("the policy demands a processor's word, and {NO_COLLATERAL}"));
        };
        let stamp = Some(Bundle::stamp_of(&entries));
        if stamp == self.collateral {
            return Ok(());
        }
        let bundle = Bundle::of_entries(&place_of(current.source.documents()), entries);
        self.collateral = None;
        self.take(bundle.and_then(|bundle| bundle.read()).map_err(|error| error.to_string())?, stamp)
    }

    fn take(&mut self, collateral: Collateral, stamp: Option<Stamp>) -> Result<(), String> {
        let current = &*self.current;
        let lost = collateral.processors.lacking(&current.snapshot().processors);
        if let Some(kind) = lost.first() {
            return Err(format!("its `{kind}` is gone: put it back, or start the service anew to do without it"));
        }
        // Without them a certificate that was revoked would be good again, and nobody would be told.
        if let Some(lost) = collateral.tpm.first_lost(&current.snapshot().tpm_revocations) {
            return Err(format!("{lost}: put a newer one into `tpm`, or start the service anew to do without it"));
        }
        self.collateral = stamp;
        current.put_in_force((*current.snapshot()).clone().with_collateral(collateral), COLLATERAL);
        Ok(())
    }

    /// Reads a part anew whose content is another than before.
    fn look_at(
        &mut self,
        name: &'static str,
        fingerprint: [u8; 32],
        read: impl FnOnce(&Current<S>) -> Result<Snapshot<S::Own>, StoreError>,
    ) {
        if self.fingerprints.insert(name, fingerprint) == Some(fingerprint) {
            return;
        }
        match read(&self.current) {
            Ok(next) => {
                let references = Arc::clone(&next.references);
                self.current.put_in_force(next, name);
                if name == Part::Attestation.name() {
                    log_references(&references);
                }
            }
            Err(error) => {
                self.current.keep(name, &error);
                // The next look tries again: what failed may be mended without a change of these files.
                self.fingerprints.remove(name);
            }
        }
    }

    fn with_attestation(current: &Current<S>, sha256: [u8; 32]) -> Result<Snapshot<S::Own>, StoreError> {
        let documents = current.source.documents();
        let next = current.snapshot().with_attestation(documents, sha256)?;
        documents.remember(&next.references, unix())?;
        Ok(next)
    }
}
