//! Machines that root shut out at the service itself. Each counts until the documents list it: from then on it is theirs to deny.

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::Denials;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

/// As many as an operator may type; those that the documents list are not counted.
const MOST: usize = 1024;

/// There are as many as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyTold;

/// Each with the time at which it was told last. In memory alone: a service that starts anew knows what the documents list.
#[derive(Debug, Default)]
pub(super) struct Told(RwLock<BTreeMap<EkDigest, Instant>>);

impl Told {
    pub(super) fn deny(&self, ek: EkDigest, now: Instant) -> Result<(), TooManyTold> {
        let mut told = self.write();
        if told.len() >= MOST && !told.contains_key(&ek) {
            return Err(TooManyTold);
        }
        told.insert(ek, now);
        Ok(())
    }

    pub(super) fn allow(&self, ek: &EkDigest) -> bool {
        self.write().remove(ek).is_some()
    }

    pub(super) fn has(&self, ek: &EkDigest) -> bool {
        self.read().contains_key(ek)
    }

    pub(super) fn all(&self) -> Vec<EkDigest> {
        self.read().keys().copied().collect()
    }

    /// The documents, as of then, list these. What was told later is not theirs yet: they may list what was taken back before. Nor is
    /// what they count alone: its entry may never come.
    pub(super) fn listed(&self, denials: &Denials, as_of: Instant) {
        self.write().retain(|ek, told| as_of < *told || !denials.is_listed(ek));
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<EkDigest, Instant>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<EkDigest, Instant>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_cluster_store::CountedDenials;
    use std::time::Duration;

    fn ek(number: usize) -> EkDigest {
        EkDigest::from_hex(&format!("{number:064x}")).unwrap()
    }

    #[test]
    fn what_was_told_counts_until_a_listing_that_was_asked_for_later_has_it() {
        let (told, start) = (Told::default(), Instant::now());
        let (before, after) = (start, start + Duration::from_secs(2));
        told.deny(ek(1), start + Duration::from_secs(1)).unwrap();
        let (nobody, listed) = (Denials::default(), Denials::of_names([ek(1).to_string()]));
        // It was denied before, allowed, and is denied again: the listing is of before.
        told.listed(&listed, before);
        told.listed(&nobody, after);
        assert!(told.has(&ek(1)), "a listing without it");
        told.listed(&listed, after);
        assert!(!told.has(&ek(1)), "it is the documents' now");
        told.deny(ek(1), after).unwrap();
        assert!(told.allow(&ek(1)) && !told.allow(&ek(1)));
    }

    #[test]
    fn what_was_told_counts_until_it_has_an_entry_and_not_only_a_number() {
        let (told, now) = (Told::default(), Instant::now());
        told.deny(ek(1), now).unwrap();
        let counted = CountedDenials { count: 1, last: Some(ek(1)), ..CountedDenials::default() };
        let unfinished = Denials::default().counted_by(Some(counted.clone()));
        assert!(unfinished.has(&ek(1)));
        told.listed(&unfinished, now);
        assert!(told.has(&ek(1)));
        told.listed(&Denials::of_names([ek(1).to_string()]).counted_by(Some(counted)), now);
        assert!(!told.has(&ek(1)));
    }

    #[test]
    fn as_many_as_may_be_are_told_and_one_of_them_once_more() {
        let (told, now) = (Told::default(), Instant::now());
        for number in 0..MOST {
            told.deny(ek(number), now).unwrap();
        }
        assert_eq!((told.deny(ek(MOST), now), told.deny(ek(0), now)), (Err(TooManyTold), Ok(())));
        assert_eq!(told.all().len(), MOST);
    }
}
