//! How people name machines: by a digest or the beginning of one, in digits or in words, or by a node's name.
//!
//! The words are those of BIP-39's English list (`data/bip39-english.txt`, as it is published: 2048 words, of which no two have the
//! same first four letters). A word is eleven bits, and they follow each other from the digest's first bit on: so the first words are
//! always the beginning of all of them, as the first digits are.

mod qr;

use std::fmt;

pub use qr::EkQr;

use crate::ek::EkDigest;

const WORDS: &str = include_str!("../../data/bip39-english.txt");
/// Bits of a word.
const WORD: usize = 11;
/// Words that are shown: 132 bits.
const SHOWN: usize = 12;
/// Bits of a digest.
const WHOLE: usize = 256;

/// A digest in twelve words with hyphens between them, to be read aloud and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EkWords(EkDigest);

impl EkDigest {
    /// Its first 132 bits in words.
    pub const fn words(&self) -> EkWords {
        EkWords(*self)
    }
}

impl fmt::Display for EkWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for at in 0..SHOWN {
            let number = (at * WORD..(at + 1) * WORD)
                .fold(0, |number, bit| (number << 1) | usize::from(bit_of(self.0.as_bytes(), bit)));
            let hyphen = if at == 0 { "" } else { "-" };
            write!(f, "{hyphen}{}", WORDS.lines().nth(number).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// The beginning of a digest, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EkPrefix {
    bytes: [u8; 32],
    bits: usize,
}

impl EkPrefix {
    /// Fewer bits name nothing: eight digits, or three words.
    pub const SHORTEST: usize = 32;
    /// With so many bits nobody makes another key whose digest begins alike: 32 digits, or twelve words.
    pub const ALONE: usize = 128;

    /// Reads 8 to 64 hexadecimal digits, or 3 to 23 words with hyphens, commas or spaces between them; capitals count as small letters.
    /// `None` where it is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let mut prefix = Self { bytes: [0; 32], bits: 0 };
        if text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            for digit in text.chars() {
                prefix.push(digit.to_digit(16)?, 4)?;
            }
        } else {
            let between = |c: char| c == '-' || c == ',' || c.is_whitespace();
            for word in text.split(between).filter(|word| !word.is_empty()) {
                let number = WORDS.lines().position(|known| known == word)?;
                prefix.push(u32::try_from(number).ok()?, WORD)?;
            }
        }
        (prefix.bits >= Self::SHORTEST).then_some(prefix)
    }

    /// Whether the digest begins so.
    pub fn matches(&self, ek: &EkDigest) -> bool {
        (0..self.bits).all(|bit| bit_of(&self.bytes, bit) == bit_of(ek.as_bytes(), bit))
    }

    /// Whether it names a machine that nobody knows yet: it is long enough that no other machine can be made to match.
    pub const fn names_alone(&self) -> bool {
        self.bits >= Self::ALONE
    }

    /// The digest, where all of it was said.
    pub fn whole(&self) -> Option<EkDigest> {
        (self.bits == WHOLE).then(|| EkDigest::from_bytes(self.bytes))
    }

    /// Adds the low `count` bits of `value`; `None` where that is more than a digest has.
    fn push(&mut self, value: u32, count: usize) -> Option<()> {
        for at in (0..count).rev() {
            let byte = self.bytes.get_mut(self.bits / 8)?;
            *byte |= u8::from((value >> at) & 1 == 1) << (7 - self.bits % 8);
            self.bits += 1;
        }
        Some(())
    }
}

impl From<EkDigest> for EkPrefix {
    fn from(ek: EkDigest) -> Self {
        Self { bytes: *ek.as_bytes(), bits: WHOLE }
    }
}

impl fmt::Display for EkPrefix {
    /// As the digits that it begins with; of words the last bits may be no whole digit, and are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(hex::encode(self.bytes).get(..self.bits / 4).unwrap_or_default())?;
        f.write_str(if self.bits < WHOLE { "…" } else { "" })
    }
}

fn bit_of(bytes: &[u8; 32], bit: usize) -> bool {
    bytes.get(bit / 8).is_some_and(|byte| (byte >> (7 - bit % 8)) & 1 == 1)
}

/// A machine that is known where somebody names one: its digest, and its name on record if it has one.
pub type KnownMachine = (EkDigest, Option<String>);

/// Which machine `named` means: one of `known` by its name or by how its digest begins, or whichever has the digest that is said as a
/// whole. `None` where it means none of these.
///
/// # Errors
/// The machines that it may mean, where that are several: a name may be made of digits, or of words.
pub fn which(named: &str, known: &[KnownMachine]) -> Result<Option<EkDigest>, Vec<KnownMachine>> {
    let prefix = EkPrefix::parse(named);
    if let Some(whole) = prefix.and_then(|prefix| prefix.whole()) {
        return Ok(Some(whole));
    }
    let is_meant =
        |(ek, name): &&KnownMachine| name.as_deref() == Some(named) || prefix.is_some_and(|prefix| prefix.matches(ek));
    let mut meant: Vec<&KnownMachine> = known.iter().filter(is_meant).collect();
    // Of one machine what says its name comes first.
    meant.sort_by_key(|(ek, name)| (*ek, name.is_none()));
    meant.dedup_by_key(|(ek, _)| *ek);
    match meant.as_slice() {
        [] => Ok(None),
        [(ek, _)] => Ok(Some(*ek)),
        several => Err(several.iter().map(|known| (*known).clone()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ek(first: &str) -> EkDigest {
        EkDigest::from_hex(&format!("{first:0<64}")).unwrap()
    }

    /// `sha256sum` of the file as Bitcoin's BIP-39 and the Python package `mnemonic` publish it.
    #[test]
    fn the_words_are_the_published_ones() {
        let digest = ring::digest::digest(&ring::digest::SHA256, WORDS.as_bytes());
        assert_eq!(hex::encode(digest), "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda");
    }

    /// The test vectors of BIP-39 begin with the entropy's own bits, eleven a word; the last word has the checksum, which is none of ours.
    #[test]
    fn words_are_those_of_bip_39_for_the_same_bits() {
        for (digits, words) in [
            (
                "00000000000000000000000000000000",
                "abandon-abandon-abandon-abandon-abandon-abandon-abandon-abandon-abandon-abandon-abandon-",
            ),
            (
                "7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f",
                "legal-winner-thank-year-wave-sausage-worth-useful-legal-winner-thank-",
            ),
            (
                "80808080808080808080808080808080",
                "letter-advice-cage-absurd-amount-doctor-acoustic-avoid-letter-advice-cage-",
            ),
            (
                "9e885d952ad362caeb4efe34a8e91bd2",
                "ozone-drill-grab-fiber-curtain-grace-pudding-thank-cruise-elder-eight-",
            ),
        ] {
            let shown = ek(digits).words().to_string();
            assert!(shown.starts_with(words) && shown.split('-').count() == SHOWN, "{shown}");
        }
    }

    #[test]
    fn what_is_short_or_no_word_is_no_prefix_and_twelve_words_stand_alone() {
        for text in
            ["", "7d0c3f2", "legal-winner", "legal-winner-thanks", "zz", &"a".repeat(65), &"zoo ".repeat(24), "édge-1"]
        {
            assert_eq!(EkPrefix::parse(text), None, "{text}");
        }
        let machine = ek("7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f");
        for (text, alone) in [
            ("7F7F7F7F", false),
            (" legal Winner,thank ", false),
            (&"7f".repeat(15), false),
            (&"7f".repeat(16), true),
            (&machine.words().to_string(), true),
        ] {
            let prefix = EkPrefix::parse(text).unwrap();
            assert!(prefix.matches(&machine) && prefix.names_alone() == alone && prefix.whole().is_none(), "{text}");
        }
        assert_eq!(EkPrefix::parse("7f7f7f7f").unwrap().to_string(), "7f7f7f7f…");
        assert_eq!(EkPrefix::from(machine).to_string(), machine.to_string());
    }

    #[test]
    fn a_reference_means_one_machine_or_says_which_it_may_mean() {
        // A machine that chose the beginning of another one as its name, in digits and in words.
        let (first, second) = (ek("7f7f7f7f7f"), ek("7f7f7f7f80"));
        let words = first.words().to_string();
        let three = words.splitn(4, '-').take(3).collect::<Vec<_>>().join("-");
        let known = [
            (first, None),
            (first, Some("edge-1".to_owned())),
            (second, Some("edge-2".to_owned())),
            (ek("aa"), Some(three.clone())),
            (ek("bb"), Some("7f7f7f7f80".to_owned())),
        ];
        assert_eq!(which("edge-1", &known), Ok(Some(first)));
        assert_eq!(which("7f7f7f7f7", &known), Ok(Some(first)));
        assert_eq!(which("Edge-1", &known), Ok(None));
        assert_eq!(which("aa000000", &known), Ok(Some(ek("aa"))));
        // Whoever is not known is named by the whole digest alone.
        assert_eq!(which("cc000000", &known), Ok(None));
        assert_eq!(which(&ek("cc").to_string(), &known), Ok(Some(ek("cc"))));
        assert_eq!(which("7f7f7f7f", &known), Err(vec![known[1].clone(), known[2].clone()]));
        assert_eq!(which("7f7f7f7f80", &known), Err(vec![known[2].clone(), known[4].clone()]));
        assert_eq!(which(&three, &known), Err(vec![known[1].clone(), known[3].clone()]));
    }

    proptest! {
        #[test]
        fn every_beginning_of_a_digest_matches_it_in_digits_and_in_words(bytes: [u8; 32], digits in 8_usize..=64, words in 3_usize..=12) {
            let machine = EkDigest::from_bytes(bytes);
            let in_digits = EkPrefix::parse(&machine.to_string()[..digits]).unwrap();
            prop_assert!(in_digits.matches(&machine));
            prop_assert_eq!(in_digits.whole(), (digits == 64).then_some(machine));
            let shown = machine.words().to_string();
            let in_words = EkPrefix::parse(&shown.split('-').take(words).collect::<Vec<_>>().join("-")).unwrap();
            prop_assert!(in_words.matches(&machine));
            // One bit of those that were said is another machine's.
            let mut other = bytes;
            other[(digits * 4 - 1) / 8] ^= 1 << (7 - (digits * 4 - 1) % 8);
            prop_assert!(!in_digits.matches(&EkDigest::from_bytes(other)));
        }

        #[test]
        fn any_text_is_read_without_harm(text: String) {
            drop(which(&text, &[(ek("aa"), None)]));
        }
    }
}
