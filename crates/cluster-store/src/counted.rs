//! How many machines are shut out, by the cluster's own document. Denials are entries beside it; that one of them was lost, or all with
//! their place, is seen by the count alone.
//!
//! A denial is counted before its entry is written, and the document names it: cut in between, it is in force, more are counted than
//! listed, and whoever writes next writes the entry. Taken back it is in the other order of the two: counted down first, so that a cut
//! leaves the machine shut out. Entries that people make by hand are more than are counted, which nobody minds.

use latchkey_attestation::EkDigest;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// More denials are counted than are listed for this long: one was lost. Whoever denies a machine needs less.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(10);

/// What the cluster's document says of the denials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedDenials {
    /// How many machines are shut out.
    pub count: u64,
    /// The one that was counted last, until a denial is taken back: it is shut out, though its entry may not be written yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<EkDigest>,
}

impl CountedDenials {
    /// So many, and none on its way.
    pub const fn of(count: u64) -> Self {
        Self { count, last: None }
    }

    /// With one more, of `listed` that are there. What is lost stays so.
    #[must_use]
    pub fn with(self, ek: EkDigest, listed: u64) -> Self {
        Self { count: self.count.max(listed).saturating_add(1), last: Some(ek) }
    }

    /// With one of `listed` less.
    #[must_use]
    pub fn without_one(self, listed: u64) -> Self {
        Self::of(self.count.max(listed).saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_stays_so_and_what_people_made_by_hand_is_counted_with_the_next() {
        let ek = EkDigest::from_hex(&"ab".repeat(32)).unwrap();
        let counted = CountedDenials::of(3);
        assert_eq!([1, 3, 7].map(|listed| counted.with(ek, listed).count), [4, 4, 8]);
        assert_eq!([1, 3, 7].map(|listed| counted.without_one(listed)), [2, 2, 6].map(CountedDenials::of));
        // Cut after it was counted down, the same is done again.
        assert_eq!(counted.without_one(3).without_one(3), CountedDenials::of(2));
    }
}
