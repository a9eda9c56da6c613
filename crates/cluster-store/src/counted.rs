//! How many machines are shut out, by the cluster's own document. Denials are entries beside it; that one of them was lost, or all with
//! their place, is seen by the count alone.
//!
//! A denial is counted before its entry is written, and the document names it: cut in between, it is in force, more are counted than
//! listed, and whoever writes next writes the entry. Taken back it is in the other order of the two: counted down first, so that a cut
//! leaves the machine shut out. The document names that one, too, until its entry is gone: others who count meanwhile do not count it a
//! second time, and nobody but who takes it back removes its entry. Entries that people make by hand are more than are counted, which
//! nobody minds.

use crate::denials::Denials;
use latchkey_attestation::EkDigest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// More denials are counted than are listed for this long: one was lost. Whoever denies a machine needs less.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(10);

/// What the cluster's document says of the denials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedDenials {
    /// How many machines are shut out.
    pub count: u64,
    /// The one that was counted last, until a denial is taken back: it is shut out, though its entry may not be written yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<EkDigest>,
    /// Those that are being taken back: shut out for as long as they are listed, and not counted any more.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub leaving: BTreeSet<EkDigest>,
}

impl CountedDenials {
    /// So many, none on its way and none leaving.
    pub const fn of(count: u64) -> Self {
        Self { count, last: None, leaving: BTreeSet::new() }
    }

    /// With this one, where `known` are there, which were counted by this. What is lost stays so; one that is listed and was not counted
    /// is from now on.
    #[must_use]
    pub fn with(&self, ek: EkDigest, known: &Denials) -> Self {
        let mut next = self.counting_all_of(known);
        if !next.leaving.remove(&ek) && known.has(&ek) {
            return next;
        }
        Self { count: next.count.saturating_add(1), last: Some(ek), ..next }
    }

    /// Without this one of those that are `known`, which were counted by this: it leaves. Done again, it changes nothing.
    #[must_use]
    pub fn without(&self, ek: EkDigest, known: &Denials) -> Self {
        let mut next = self.counting_all_of(known);
        if next.leaving.contains(&ek) || !known.has(&ek) {
            return next;
        }
        next.leaving.insert(ek);
        Self { count: next.count.saturating_sub(1), last: None, ..next }
    }

    /// Without those that have left, as who took one back writes it at the end.
    #[must_use]
    pub fn settled(&self, known: &Denials) -> Self {
        let leaving = self.leaving.iter().filter(|ek| known.is_listed(ek)).copied().collect();
        Self { leaving, ..self.clone() }
    }

    fn counting_all_of(&self, known: &Denials) -> Self {
        Self { count: self.count.max(known.kept()), ..self.settled(known) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ek(byte: u8) -> EkDigest {
        EkDigest::from_hex(&format!("{byte:02x}").repeat(32)).unwrap()
    }

    /// So many are listed, the first of which is `ek(0)`.
    fn listed(number: u8, by: &CountedDenials) -> Denials {
        Denials::of_names((0..number).map(|byte| ek(byte).to_string())).counted_by(Some(by.clone()))
    }

    #[test]
    fn what_is_lost_stays_so_and_what_people_made_by_hand_is_counted_with_the_next() {
        let counted = CountedDenials::of(3);
        assert_eq!([1, 3, 7].map(|number| counted.with(ek(0xab), &listed(number, &counted)).count), [4, 4, 8]);
        assert_eq!([1, 3, 7].map(|number| counted.without(ek(0), &listed(number, &counted)).count), [2, 2, 6]);
    }

    #[test]
    fn one_that_is_listed_and_was_not_counted_is_counted_when_it_is_denied_again() {
        let counted = CountedDenials::of(2);
        let again = counted.with(ek(2), &listed(3, &counted));
        assert_eq!(again.count, 3);
        assert_eq!(again.with(ek(2), &listed(3, &again)), again);
    }

    #[test]
    fn one_that_leaves_is_counted_down_once_and_up_again_where_it_is_denied_meanwhile() {
        let counted = CountedDenials::of(3);
        let leaves = counted.without(ek(0), &listed(3, &counted));
        assert_eq!((leaves.count, leaves.leaving.len()), (2, 1));
        assert_eq!(leaves.without(ek(0), &listed(3, &leaves)), leaves);
        // Another one leaves before the first has.
        let both = leaves.without(ek(1), &listed(3, &leaves));
        assert_eq!((both.count, both.leaving.len()), (1, 2));
        let denied = both.with(ek(0), &listed(3, &both));
        assert_eq!((denied.count, denied.last, denied.leaving), (2, Some(ek(0)), [ek(1)].into()));
        // Both have left.
        let nobody = Denials::default().counted_by(Some(both.clone()));
        assert_eq!(both.settled(&nobody), CountedDenials::of(1));
    }
}
