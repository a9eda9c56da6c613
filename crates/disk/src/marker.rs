//! The marker: one sector at the very beginning of a disk that holds nothing worth keeping.
//!
//! It says "a format or a reset was begun here" and carries how often and why the disk was reset. It is **advisory and
//! not authenticated**: no key exists when it is needed. Who forges it can make the node format a disk, and could have
//! zeroed the disk just as well; who forges the count can make the node give up, and could have unplugged it.
//!
//! It is one sector of 512 bytes, the largest unit every disk writes at once, so it is there or it is not.

use crate::bytes::{is_zero, place};
use core::str::FromStr;
use latchkey_boot_formats::{array_at, sha256, slice_at};

/// Bytes of the marker.
pub(crate) const SECTOR: usize = 512;

const MAGIC: [u8; 16] = *b"LATCHKEY-MARKER\0";
const VERSION: u32 = 1;
const AT_VERSION: usize = 16;
const AT_STEP: usize = 20;
const AT_ATTEMPTS: usize = 24;
const AT_REASON: usize = 32;
const AT_PADDING: usize = AT_REASON + ResetReason::MAX;
const AT_CHECKSUM: usize = SECTOR - 32;

/// What was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A format that has not reached its last header yet.
    Formatting = 1,
    /// A reset that has not wiped everything yet.
    Resetting = 2,
    /// A finished reset.
    Reset = 3,
}

/// The marker sector's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) step: Step,
    pub(crate) reset: ResetMarker,
}

/// How often this disk was reset, and why the last time. Unauthenticated advice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResetMarker {
    /// Bootstraps that were begun on this disk and given up.
    pub attempts: u32,
    /// Why the last of them was given up.
    pub reason: ResetReason,
}

/// A reason code: up to 64 of `a-z 0-9 -`; empty on a disk that was never reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResetReason(String);

impl ResetReason {
    /// Longest code, in bytes.
    pub const MAX: usize = 64;

    /// The code.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ResetReason {
    type Err = ResetReasonError;

    fn from_str(code: &str) -> Result<Self, ResetReasonError> {
        let plain = code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if plain && code.len() <= Self::MAX { Ok(Self(code.to_owned())) } else { Err(ResetReasonError) }
    }
}

/// Not a reason code. The caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a reason code: up to 64 of a-z, 0-9 and -")]
pub struct ResetReasonError;

/// What stands in sector 0.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// No marker.
    Absent,
    /// Our magic, and then something that we never wrote.
    Damaged,
    Present(Marker),
}

impl Marker {
    pub(crate) fn read(region: &[u8]) -> Reading {
        match slice_at(region, 0, SECTOR) {
            Some(sector) if sector.starts_with(&MAGIC) => {
                Self::parse(sector).map_or(Reading::Damaged, Reading::Present)
            }
            _ => Reading::Absent,
        }
    }

    fn parse(sector: &[u8]) -> Option<Self> {
        let (content, checksum) = sector.split_at_checked(AT_CHECKSUM)?;
        let padding = slice_at(content, AT_PADDING, AT_CHECKSUM - AT_PADDING)?;
        let version = u32::from_be_bytes(array_at(content, AT_VERSION)?);
        if sha256(&[content]) != checksum || version != VERSION || !is_zero(padding) {
            return None;
        }
        let step = match u32::from_be_bytes(array_at(content, AT_STEP)?) {
            1 => Step::Formatting,
            2 => Step::Resetting,
            3 => Step::Reset,
            _ => return None,
        };
        let reason = slice_at(content, AT_REASON, ResetReason::MAX)?;
        let end = reason.iter().position(|&byte| byte == 0).unwrap_or(reason.len());
        let (reason, rest) = reason.split_at_checked(end)?;
        let reason = core::str::from_utf8(reason).ok()?.parse().ok()?;
        let attempts = u32::from_be_bytes(array_at(content, AT_ATTEMPTS)?);
        is_zero(rest).then_some(Self { step, reset: ResetMarker { attempts, reason } })
    }

    pub(crate) fn to_sector(&self) -> [u8; SECTOR] {
        let mut sector = [0; SECTOR];
        place(&mut sector, 0, &MAGIC);
        place(&mut sector, AT_VERSION, &VERSION.to_be_bytes());
        place(&mut sector, AT_STEP, &(self.step as u32).to_be_bytes());
        place(&mut sector, AT_ATTEMPTS, &self.reset.attempts.to_be_bytes());
        place(&mut sector, AT_REASON, self.reset.reason.0.as_bytes());
        let checksum = sha256(&[sector.split_at(AT_CHECKSUM).0]);
        place(&mut sector, AT_CHECKSUM, &checksum);
        sector
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marker() -> Marker {
        let reset = ResetMarker { attempts: 2, reason: "init-timeout".parse().unwrap() };
        Marker { step: Step::Reset, reset }
    }

    #[test]
    fn a_marker_reads_back() {
        for step in [Step::Formatting, Step::Resetting, Step::Reset] {
            let marker = Marker { step, ..marker() };
            assert_eq!(Marker::read(&marker.to_sector()), Reading::Present(marker));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let sector = marker().to_sector();
        for bit in 0..SECTOR * 8 {
            let mut flipped = sector;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(Marker::read(&flipped), Reading::Present(_)), "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_sectors_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), fix in any::<bool>()) {
            let mut sector = MAGIC.to_vec();
            sector.extend(bytes);
            if fix && sector.len() >= SECTOR {
                let sum = sha256(&[&sector[..AT_CHECKSUM]]);
                sector[AT_CHECKSUM..SECTOR].copy_from_slice(sum.as_ref());
            }
            let _ = Marker::read(&sector);
        }
    }
}
