//! The header's way through the types: unchecked → checked → unlocked, each made only by the check before it.

use super::binary::{self, Place};
use super::metadata;
use super::token::Claimed;
use super::volume::Volume;
use super::{
    HeaderRefusal as Refusal, NodeState, Phase, SECTOR, SegmentMode, TokenKey, UnlockError, UnlockedDisk, VolumeKey,
};
use crate::kdf::merge;
use crate::reset::ResetPermit;
use crate::xts;
use core::fmt;
use latchkey_boot_formats::slice_at;
use latchkey_keys::{Secret, Uuid};
use zeroize::Zeroizing;

/// The beginning of a device that carries a LUKS2 magic, in memory. Attacker's input: nothing of it is checked yet.
///
/// The device is not looked at again. What is checked is this copy, and what is used is this copy, so the disk cannot
/// show one header to the check and another to the use.
pub struct UncheckedHeader {
    region: Vec<u8>,
    device_size: u64,
}

impl UncheckedHeader {
    /// From the first bytes of a device of `device_size` bytes, read once. [`crate::probe`] makes these.
    pub const fn from_bytes(region: Vec<u8>, device_size: u64) -> Self {
        Self { region, device_size }
    }

    /// Checks every field against the closed list, of which the measured configuration `pinned` one mode.
    ///
    /// # Errors
    /// The first field outside it; [`Refusal::ModeNotPinned`] for a disk of the other mode.
    pub fn check(self, pinned: SegmentMode) -> Result<CheckedHeader, Refusal> {
        let header = self.check_either_mode()?;
        if header.segment_mode() == pinned { Ok(header) } else { Err(Refusal::ModeNotPinned) }
    }

    /// The same without a pinned mode. For those who open nothing, and authenticate the header, with its mode, by the
    /// token's key.
    ///
    /// # Errors
    /// The first field outside the closed list.
    pub fn check_either_mode(self) -> Result<CheckedHeader, Refusal> {
        let binary = binary::newest(&self.region)?;
        let metadata = metadata::parse(binary.json_area)?;
        let volume = Volume::check(&binary, metadata.keyslots, metadata.segments, metadata.digests, &metadata.config)?;
        let claimed = Claimed::check(metadata.tokens, volume.mode)?;
        if volume.data_offset.checked_add(SECTOR).is_none_or(|end| end > self.device_size) {
            return Err(Refusal::SegmentOutsideDevice);
        }
        let (sequence_id, place) = (binary.sequence_id, binary.place);
        let at = usize::try_from(volume.area_offset).map_err(|_| Refusal::Truncated)?;
        let key_material = slice_at(&self.region, at, volume.mode.split()).ok_or(Refusal::Truncated)?.to_vec();
        Ok(CheckedHeader { volume, claimed, sequence_id, place, key_material, device_size: self.device_size })
    }
}

impl fmt::Debug for UncheckedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UncheckedHeader").field("bytes", &self.region.len()).finish_non_exhaustive()
    }
}

/// A header inside the closed list. Well-formed, but not yet authenticated: anybody can make one.
pub struct CheckedHeader {
    pub(super) volume: Volume,
    pub(super) claimed: Option<Claimed>,
    pub(super) sequence_id: u64,
    pub(super) place: Place,
    key_material: Vec<u8>,
    device_size: u64,
}

impl CheckedHeader {
    /// The disk's UUID, as it claims it; names the key to ask for.
    pub const fn uuid(&self) -> Uuid {
        self.volume.uuid
    }

    /// How the data is protected.
    pub const fn segment_mode(&self) -> SegmentMode {
        self.volume.mode
    }

    /// The node state as the disk claims it. **Unauthenticated**: fit for choosing whom to ask for a key, and for logs;
    /// nothing may be granted on it.
    pub fn claimed_state(&self) -> Option<&NodeState> {
        self.claimed.as_ref().map(|claimed| &claimed.state)
    }

    /// Permission to reset a disk whose first bootstrap was never finished, on the disk's own, **unauthenticated** word.
    ///
    /// Needed because the key of a first node that failed cannot be had from anybody. A forged phase costs the data,
    /// and whoever can write the phase could have overwritten the data as well.
    pub fn claims_unfinished_bootstrap(&self) -> Option<ResetPermit> {
        self.claimed_state().filter(|state| state.phase == Phase::Formatted).map(|_| ResetPermit::granted())
    }

    /// Checks the MAC over state and header with the token's key.
    ///
    /// # Errors
    /// [`UnlockError::TokenMissing`], [`UnlockError::TokenForged`].
    pub fn authenticate(&self, key: &TokenKey) -> Result<NodeState, UnlockError> {
        let claimed = self.claimed.as_ref().ok_or(UnlockError::TokenMissing)?;
        if claimed.is_genuine(key, &self.volume) { Ok(claimed.state.clone()) } else { Err(UnlockError::TokenForged) }
    }

    /// Opens the key slot with the disk's key and authenticates the header.
    ///
    /// Borrows, because a recovery server must survive a wrong key and go on listening.
    ///
    /// # Errors
    /// [`UnlockError::WrongKey`] when the key does not open the key slot, else as for [`Self::authenticate`].
    pub fn unlock(&self, key: &Secret<32>) -> Result<UnlockedDisk, UnlockError> {
        let volume_key = self.volume_key_without_authentication(key.expose())?;
        let token_key = TokenKey::derive(key, self.volume.uuid);
        let state = self.authenticate(&token_key)?;
        let geometry = self.claimed.as_ref().and_then(|claimed| claimed.geometry);
        Ok(UnlockedDisk::new(volume_key, token_key, state, &self.volume, geometry, self.device_size))
    }

    /// Opens the key slot with any passphrase and skips the MAC. For volumes that stock cryptsetup made, which carry no
    /// token; the node agent must never use it, since whoever knows *a* passphrase may have made the header.
    ///
    /// # Errors
    /// [`UnlockError::WrongKey`].
    pub fn volume_key_without_authentication(&self, passphrase: &[u8]) -> Result<VolumeKey, UnlockError> {
        let area_key = self.volume.kdf.derive(passphrase);
        let mut stripes = Zeroizing::new(self.key_material.clone());
        xts::decrypt(&area_key, &mut stripes);
        let key = merge(&stripes, self.volume.mode.key_size());
        VolumeKey::verify(key, &self.volume)
    }
}

impl fmt::Debug for CheckedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedHeader")
            .field("uuid", &self.volume.uuid)
            .field("sequence_id", &self.sequence_id)
            .field("copy", &self.place)
            .field("claimed_state", &self.claimed_state())
            .finish_non_exhaustive()
    }
}
