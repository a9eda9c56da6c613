//! `denied/EK-DIGEST`: TPMs that are shut out, one file each.
//!
//! The emergency path: it depends on no other file, and only the *names* in `denied/` count. Nothing in it is parsed, so no typo
//! in `policy.json`, in `enrolment.json` or in one of these files takes a denial back, and a name that is no digest costs itself
//! and no other. `touch denied/DIGEST` is a denial as good as that of `latchkey node deny`; one that is taken away by hand was counted,
//! and is missed ([`CountedDenials`]).

use crate::atomic::{self, Existing};
use crate::counted::{CountedDenials, LOST_AFTER};
use crate::error::StoreError;
use crate::places::{demand, unlisted};
use crate::release::ReleaseRefusal;
use crate::store::{ClusterStore, optional};
use latchkey_attestation::EkDigest;
use latchkey_durable_file::{Directory, Turn};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// The directory's name.
pub(crate) const DENIED: &str = "denied";
/// For people: why a TPM is denied. Read by the command line alone.
const MAX_REASON: usize = 4096;

/// How long one who changes denials waits for others who do, who may be stopped: a machine is denied uncounted then.
pub(crate) const DENY_PATIENCE: Duration = Duration::from_secs(10);

/// The TPMs that are shut out, as they are listed at one moment, and how many the cluster's document counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denials {
    /// Those that have an entry.
    listed: BTreeSet<EkDigest>,
    /// Those that have none and are shut out: the one that was counted last, and, for who follows them while one is lost, all that were
    /// known before.
    beside: BTreeSet<EkDigest>,
    /// Names that are no EK digest: somebody meant to deny a TPM and did not.
    unreadable: Vec<String>,
    /// `None` where nothing counts them: before a cluster is initialised, in one of the version before, at a centre.
    counted: Option<CountedDenials>,
    /// The one that was counted and is not listed: its entry was not written, or is gone.
    unfinished: Option<EkDigest>,
    /// Since when more are counted than are listed, for who follows them.
    lost_since: Option<Instant>,
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
                Some(ek) => drop(denials.listed.insert(ek)),
                None => denials.unreadable.push(latchkey_reason::printable(name).collect()),
            }
        }
        denials.unreadable.sort();
        denials
    }

    /// The same where the cluster's document, read before they were listed, says this of them.
    #[must_use]
    pub fn counted_by(mut self, counted: Option<CountedDenials>) -> Self {
        self.unfinished = counted.as_ref().and_then(|counted| counted.last).filter(|ek| !self.listed.contains(ek));
        self.beside.extend(self.unfinished);
        Self { counted, ..self }
    }

    /// The same after what was known before, for who follows them. A document that cannot be read takes no count back, and while one is
    /// lost nobody is let in again who was shut out before: it may be that one.
    #[must_use]
    pub fn following(self, before: &Self, now: Instant) -> Self {
        let mut known = if self.counted.is_some() { self } else { self.counted_by(before.counted.clone()) };
        if known.lost() > 0 {
            known.lost_since = if before.lost() > 0 { before.lost_since } else { Some(now) };
            known.beside.extend(before.iter().filter(|ek| !known.listed.contains(*ek)));
        }
        known
    }

    /// The witness that this TPM is not shut out, by what was known of the denials as of then.
    ///
    /// # Errors
    /// [`ReleaseRefusal::MachineDenied`]; [`ReleaseRefusal::DenialsLost`], where nobody can say whether it is.
    pub fn check(&self, ek: &EkDigest, as_of: Instant) -> Result<NotDenied, ReleaseRefusal> {
        if self.has(ek) {
            return Err(ReleaseRefusal::MachineDenied { ek: *ek });
        }
        self.check_complete().map(|()| NotDenied { ek: *ek, as_of })
    }

    /// That none of them was lost.
    ///
    /// # Errors
    /// [`ReleaseRefusal::DenialsLost`]: more are counted than are listed, for ten seconds, or for as long as nobody knows.
    pub fn check_complete(&self) -> Result<(), ReleaseRefusal> {
        // Who looks once, or begins to, does not know since when.
        if self.lost() == 0 || self.lost_since.is_some_and(|since| since.elapsed() < LOST_AFTER) {
            return Ok(());
        }
        let counted = self.counted.as_ref().map_or(0, |counted| counted.count);
        Err(ReleaseRefusal::DenialsLost { counted, listed: self.kept() })
    }

    /// How many are counted and not listed.
    pub fn lost(&self) -> u64 {
        self.counted.as_ref().map_or(0, |counted| counted.count.saturating_sub(self.kept()))
    }

    /// How many are listed.
    pub fn listed(&self) -> u64 {
        self.listed.len() as u64
    }

    /// How many are listed and not being taken back: as many are to be counted.
    pub(crate) fn kept(&self) -> u64 {
        let leaving = self.counted.iter().flat_map(|counted| &counted.leaving);
        self.listed().saturating_sub(leaving.filter(|ek| self.listed.contains(*ek)).count() as u64)
    }

    /// What the cluster's document says of them, if it counts them.
    pub const fn counted(&self) -> Option<&CountedDenials> {
        self.counted.as_ref()
    }

    /// Whether somebody who changes them is at it, or was cut in it.
    fn are_unsettled(&self) -> bool {
        let has_left = |counted: &CountedDenials| !counted.leaving.is_subset(&self.listed);
        self.unfinished.is_some() || self.counted.as_ref().is_some_and(has_left)
    }

    /// The one that was counted last and is not listed: whoever writes next lists it first.
    pub const fn unfinished(&self) -> Option<EkDigest> {
        self.unfinished
    }

    /// Whether this TPM is shut out.
    pub fn has(&self, ek: &EkDigest) -> bool {
        self.is_listed(ek) || self.beside.contains(ek)
    }

    /// Whether this TPM has an entry, and not only the count's word.
    pub fn is_listed(&self, ek: &EkDigest) -> bool {
        self.listed.contains(ek)
    }

    /// Whether this TPM is being taken back by somebody who did not come to remove its entry.
    pub fn is_leaving(&self, ek: &EkDigest) -> bool {
        self.counted.as_ref().is_some_and(|counted| counted.leaving.contains(ek))
    }

    /// Whether there is nothing to be said of them.
    pub fn are_none(&self) -> bool {
        self.listed.is_empty() && self.beside.is_empty() && self.unreadable.is_empty() && self.lost() == 0
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &EkDigest> {
        self.listed.union(&self.beside)
    }

    /// Names in the directory that are no EK digest, printable: what they were meant to deny is not denied.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }
}

impl ClusterStore {
    /// The TPMs that are shut out. Of files in `denied/` only the names count.
    ///
    /// # Errors
    /// [`StoreError::Place`] where there is no such directory: whoever has older denials keeps them. That `cluster.json` cannot be read
    /// is none: then nothing is known of their number.
    pub fn denials(&self) -> Result<Denials, StoreError> {
        let directory = self.denied_path();
        // In this order: a denial is counted before it is listed.
        let counted = self.cluster().ok().flatten().and_then(|cluster| cluster.denials);
        let mut names = Vec::new();
        for entry in fs::read_dir(&directory).map_err(unlisted(&directory))? {
            let name = entry.map_err(StoreError::io("list", &directory))?.file_name();
            names.push(name.to_string_lossy().into_owned());
        }
        Ok(Denials::of_names(names).counted_by(counted))
    }

    /// Shuts a TPM out, whatever the other files say; durable when this returns. `reason` is for people.
    ///
    /// # Errors
    /// [`StoreError`]. With [`StoreError::NotCounted`] and [`StoreError::NotListed`] the TPM is shut out all the same; the first also where
    /// another program that changes denials does not come to its end.
    pub fn deny(&self, ek: &EkDigest, reason: &str) -> Result<(), StoreError> {
        self.deny_within(ek, reason, DENY_PATIENCE)
    }

    fn deny_within(&self, ek: &EkDigest, reason: &str, patience: Duration) -> Result<(), StoreError> {
        demand(&self.denied_path(), Some(self.path()))?;
        let directory = self.opened()?;
        let turn = self.denials_turn(&directory, patience);
        let counted = turn.and_then(|turn| self.count_one_more(*ek).map(|counts| (counts, turn)));
        match (counted, self.list_denial(ek, reason)) {
            (Ok(_), Ok(())) => Ok(()),
            (Err(why), Ok(())) => Err(StoreError::NotCounted { why: Box::new(why) }),
            // The cluster's document names it.
            (Ok((true, _)), Err(why)) => Err(StoreError::NotListed { why: Box::new(why) }),
            (Ok((false, _)) | Err(_), Err(why)) => Err(why),
        }
    }

    /// Takes a denial back; durable when this returns. Whether there was one.
    ///
    /// # Errors
    /// [`StoreError`]: the TPM may be shut out still, and the same call ends it.
    pub fn allow(&self, ek: &EkDigest) -> Result<bool, StoreError> {
        demand(&self.denied_path(), Some(self.path()))?;
        let directory = self.opened()?;
        let _turn = self.denials_turn(&directory, DENY_PATIENCE)?;
        let known = self.finished_denials()?;
        if !known.has(ek) && !known.is_leaving(ek) {
            return Ok(false);
        }
        self.count(|counted| counted.without(*ek, &known))?;
        self.unlist_denial(ek)?;
        let known = self.denials()?;
        self.count(|counted| counted.settled(&known))?;
        Ok(true)
    }

    fn unlist_denial(&self, ek: &EkDigest) -> Result<(), StoreError> {
        let directory = self.denied_path();
        for entry in fs::read_dir(&directory).map_err(StoreError::io("list", &directory))? {
            let path = entry.map_err(StoreError::io("list", &directory))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if Denials::of_names([name]).has(ek) {
                remove_entry(&path)?;
            }
        }
        atomic::sync_directory(&directory)
    }

    /// Ends what somebody who changed the denials was cut in: lists the one that was counted last, and has the cluster's document name
    /// none that has left. Not while another has the right to change them, who does so himself, or leaves it to who comes next: the
    /// document says who is shut out until then.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn finish_denials(&self) -> Result<(), StoreError> {
        if !self.denials()?.are_unsettled() {
            return Ok(());
        }
        let directory = self.opened()?;
        let finished = self.denials_turn(&directory, Duration::ZERO).and_then(|_turn| {
            let known = self.finished_denials()?;
            self.count(|counted| counted.settled(&known))
        });
        match finished {
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::TimedOut => Ok(()),
            finished => finished.map(drop),
        }
    }

    /// The denials, also where their place is gone: then the one that was counted last is known.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn known_denials(&self) -> Result<Denials, StoreError> {
        if !self.missing_places()?.contains(&self.denied_path()) {
            return self.denials();
        }
        Ok(Denials::default().counted_by(self.cluster()?.and_then(|cluster| cluster.denials)))
    }

    /// Makes what is missing of the places, and has the cluster count the denials that are listed: by the word of an operator who was
    /// shown them, and says how many there are. Whether there are so many; nothing is written where there are not.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn count_anew(&self, listed: u64) -> Result<bool, StoreError> {
        let directory = self.opened()?;
        let _turn = self.denials_turn(&directory, DENY_PATIENCE)?;
        if self.known_denials()?.iter().count() as u64 != listed {
            return Ok(false);
        }
        self.make_places()?;
        self.finished_denials()?;
        let Some(cluster) = self.cluster()? else { return Ok(true) };
        self.write_cluster(&cluster.counting(CountedDenials::of(listed)), Existing::Replace)?;
        Ok(true)
    }

    /// What was written down as the reason for a denial; empty where nothing was.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn denial_reason(&self, ek: &EkDigest) -> Result<String, StoreError> {
        let bytes = optional(atomic::read(&self.denied_path().join(ek.to_string()), MAX_REASON))?;
        Ok(String::from_utf8_lossy(&bytes.unwrap_or_default()).trim_end().to_owned())
    }

    pub(crate) fn opened(&self) -> Result<Directory, StoreError> {
        Directory::open(self.path()).map_err(StoreError::io("open", self.path()))
    }

    /// The right to change denials and their count. Waits so long for others that have it, and for nobody who writes anything else.
    pub(crate) fn denials_turn<'a>(
        &self,
        directory: &'a Directory,
        patience: Duration,
    ) -> Result<Turn<'a>, StoreError> {
        directory.turn_within(DENIED, 0o600, patience).map_err(StoreError::io("lock the denials of", self.path()))
    }

    fn list_denial(&self, ek: &EkDigest, reason: &str) -> Result<(), StoreError> {
        let denied = self.denied_path();
        let write = || {
            let directory = Directory::open(&denied)?;
            let turn = directory.turn_within(ek.to_string(), 0o644, DENY_PATIENCE)?;
            turn.put(format!("{reason}\n").as_bytes(), Existing::Replace)
        };
        write().map_err(StoreError::io("write in", &denied))
    }

    /// The denials, after one that was cut is listed.
    fn finished_denials(&self) -> Result<Denials, StoreError> {
        let denials = self.denials()?;
        let Some(ek) = denials.unfinished() else { return Ok(denials) };
        self.list_denial(&ek, "")?;
        self.denials()
    }

    /// Whether the TPM is shut out from here on, listed or not.
    fn count_one_more(&self, ek: EkDigest) -> Result<bool, StoreError> {
        let known = self.finished_denials()?;
        Ok(self.count(|counted| counted.with(ek, &known))? || known.has(&ek))
    }

    /// Whether there is a count: before there is a cluster nothing counts, nor in one of the version before.
    fn count(&self, change: impl FnOnce(&CountedDenials) -> CountedDenials) -> Result<bool, StoreError> {
        let Some(cluster) = self.cluster()? else { return Ok(false) };
        let Some(counted) = &cluster.denials else { return Ok(false) };
        let next = change(counted);
        if next != *counted {
            self.write_cluster(&cluster.counting(next), Existing::Replace)?;
        }
        Ok(true)
    }
}

/// By hand somebody may have made a directory.
fn remove_entry(path: &std::path::Path) -> Result<(), StoreError> {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|about| about.is_dir());
    let removed = if is_directory { fs::remove_dir(path) } else { fs::remove_file(path) };
    removed.map_err(StoreError::io("remove", path))
}

#[cfg(test)]
mod tests;
