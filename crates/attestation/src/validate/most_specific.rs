//! Which of several differing PCRs tells what is wrong. One change shows in several: a changed initrd in the registers of
//! the boot loader (4), of the kernel (9) and of the image's sections (11).

use crate::parse::PcrSet;

/// The PCR to name first, and what it means beside the others. `None` if nothing differs.
///
/// Cause before effect, in this order:
///
/// | differs | as expected | names | because |
/// |---|---|---|---|
/// | 0 to 3, 6 | | that one | other firmware may do everything else in another way |
/// | 7 | | 7 | without Secure Boot the firmware measures the kernel, too (4) |
/// | 11 | 4 | 11 | the loaded file is the image's: something extended 11 afterwards, such as a boot phase |
/// | 11 | | 11 | the image's own parts; whether 9 differs tells command line and initrd from the rest |
/// | 4 | 11 | 4 | every section is the image's: the stub, something appended, another loader before it, or an addon beside it |
/// | 12 or 13 | 4, 11 | 12 or 13 | what lies beside the image goes into the initrd (9) as well |
/// | any other | | the lowest | |
pub(super) fn most_specific(differing: PcrSet, compared: PcrSet) -> Option<MostSpecific> {
    let differs = |pcr| differing.contains(pcr);
    let same = |pcr| compared.contains(pcr) && !differs(pcr);
    let firmware = FIRMWARE.into_iter().find(|&pcr| differs(pcr));
    let told = |pcr, means| Some(MostSpecific { pcr, means });
    match firmware {
        Some(pcr) => told(pcr, None),
        None if differs(7) => told(7, None),
        None if differs(11) && same(4) => {
            told(11, Some("the image itself is as expected, and something was measured after it, such as a boot phase"))
        }
        None if differs(11) && same(9) => {
            told(11, Some("its kernel or another section, not its command line or initrd"))
        }
        None if differs(11) && differs(9) => told(11, Some("its command line or its initrd, or it is another image")),
        None if differs(11) => told(11, None),
        None if differs(4) && same(11) => {
            let means = "no section of the image: its boot stub, something appended, another loader before it, or an addon \
                         beside it";
            told(4, Some(means))
        }
        None if differs(4) => told(4, None),
        None if differs(12) => told(12, None),
        None if differs(13) => told(13, None),
        None => told(differing.iter().next()?, None),
    }
}

/// What is named of several differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MostSpecific {
    pub(super) pcr: u8,
    /// What it can only be, given what else differs and what does not.
    pub(super) means: Option<&'static str>,
}

const FIRMWARE: [u8; 5] = [0, 1, 2, 3, 6];

#[cfg(test)]
mod tests {
    use super::*;

    fn named(differing: &[u8], compared: &[u8]) -> (u8, &'static str) {
        let [differing, compared] = [differing, compared].map(|set| PcrSet::of(set).unwrap());
        let MostSpecific { pcr, means } = most_specific(differing, compared).unwrap();
        (pcr, means.unwrap_or_default())
    }

    #[test]
    fn the_cause_is_named_and_not_the_lowest_register() {
        let all = [4, 7, 9, 11, 12, 13];
        for (differing, pcr, means) in [
            (&[4, 7][..], 7, ""),
            (&[4, 11], 11, "kernel"),
            (&[4, 9, 11], 11, "initrd"),
            (&[11], 11, "a boot phase"),
            (&[9, 11], 11, "a boot phase"),
            (&[4], 4, "boot stub"),
            (&[4, 12], 4, "another loader"),
            (&[4, 9, 12], 4, "an addon beside it"),
            (&[9, 12], 12, ""),
            (&[9, 13], 13, ""),
            (&[9], 9, ""),
        ] {
            let (named, why) = named(differing, &all);
            assert_eq!(named, pcr, "{differing:?}");
            assert!(why.contains(means) && means.is_empty() == why.is_empty(), "{differing:?}: {why}");
        }
        assert_eq!(named(&[0, 4, 7, 9, 11], &[0, 4, 7, 9, 11]).0, 0);
        assert_eq!(named(&[5, 10, 14], &[5, 10, 14]).0, 5);
        assert_eq!(most_specific(PcrSet::EMPTY, PcrSet::of(&all).unwrap()), None);
    }

    /// What is not compared cannot be as expected.
    #[test]
    fn nothing_is_concluded_from_registers_that_nobody_compared() {
        assert_eq!(named(&[4], &[4]), (4, ""));
        assert_eq!(named(&[4, 11], &[4, 11]), (11, ""));
    }
}
