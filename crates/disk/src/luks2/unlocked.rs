//! An unlocked disk: the volume key, the authenticated node state, and where the data lies.

use super::volume::Volume;
use super::{NodeState, Phase, SECTOR, SegmentMode, TokenKey};
use crate::reset::ResetPermit;
use crate::superblock::{Geometry, UNIT};
use core::fmt;
use latchkey_keys::{SecretVec, Uuid};
use latchkey_reason::reason_codes;
use subtle::ConstantTimeEq;

/// The key of the data: two AES-256 keys for XTS, and in the authenticated mode the key of the HMAC behind them, in the
/// order in which dm-crypt takes them. Exists only after its digest was checked, or freshly made.
#[derive(PartialEq, Eq)]
pub struct VolumeKey(SecretVec);

impl VolumeKey {
    /// Checks the digest (specification, 3.4) in constant time.
    pub(super) fn verify(key: SecretVec, volume: &Volume) -> Result<Self, UnlockError> {
        let digest = Self::digest(&key, volume);
        if bool::from(digest.ct_eq(&volume.digest)) { Ok(Self(key)) } else { Err(UnlockError::WrongKey) }
    }

    pub(super) const fn fresh(key: SecretVec) -> Self {
        Self(key)
    }

    pub(super) fn digest(key: &SecretVec, volume: &Volume) -> [u8; 32] {
        *volume.digest_kdf.derive::<32>(key.expose()).expose()
    }

    /// The 64 or 96 bytes, for the kernel's keyring.
    pub fn expose(&self) -> &[u8] {
        self.0.expose()
    }
}

impl fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeKey(hidden)")
    }
}

/// A disk whose key was right and whose header is authentic; the witness that it may be mapped.
pub struct UnlockedDisk {
    volume_key: VolumeKey,
    token_key: TokenKey,
    state: NodeState,
    uuid: Uuid,
    mode: SegmentMode,
    geometry: Option<Geometry>,
    data_offset: u64,
    data_length: u64,
}

impl UnlockedDisk {
    pub(super) fn new(
        volume_key: VolumeKey,
        token_key: TokenKey,
        state: NodeState,
        volume: &Volume,
        geometry: Option<Geometry>,
        device_size: u64,
    ) -> Self {
        let rest = device_size.saturating_sub(volume.data_offset);
        let data_length = geometry.map_or(rest - rest % SECTOR, |geometry| geometry.data_sectors.saturating_mul(UNIT));
        Self {
            volume_key,
            token_key,
            state,
            uuid: volume.uuid,
            mode: volume.mode,
            data_offset: volume.data_offset,
            geometry,
            data_length,
        }
    }

    pub(super) const fn measured(&mut self, geometry: Geometry) {
        self.data_length = geometry.data_sectors.saturating_mul(UNIT);
        self.geometry = Some(geometry);
    }

    /// The disk's UUID.
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The authenticated node state.
    pub const fn state(&self) -> &NodeState {
        &self.state
    }

    /// How the data is protected.
    pub const fn segment_mode(&self) -> SegmentMode {
        self.mode
    }

    /// What dm-integrity made of the disk; there exactly in the authenticated mode.
    pub const fn geometry(&self) -> Option<Geometry> {
        self.geometry
    }

    /// Where the data begins on the device, in bytes; in the authenticated mode behind a superblock, a journal and tags.
    pub const fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// How long the data is, in bytes: whole sectors up to the device's end, or what was recorded.
    pub const fn data_length(&self) -> u64 {
        self.data_length
    }

    /// The key of the data.
    pub const fn volume_key(&self) -> &VolumeKey {
        &self.volume_key
    }

    /// The key with which the OS stage writes the next node state.
    pub const fn token_key(&self) -> &TokenKey {
        &self.token_key
    }

    /// Wipes the volume key and keeps what the hand-over needs.
    pub fn into_token_key(self) -> TokenKey {
        self.token_key
    }

    /// Permission to reset this disk, if its first bootstrap was never finished.
    pub fn reset_permit(&self) -> Option<ResetPermit> {
        (self.state.phase == Phase::Formatted).then(ResetPermit::granted)
    }
}

impl fmt::Debug for UnlockedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnlockedDisk").field("uuid", &self.uuid).field("state", &self.state).finish_non_exhaustive()
    }
}

/// Why a well-formed header does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnlockError {
    /// The key does not open the key slot, or the key slot is damaged.
    #[error("the key does not open the state disk's key slot")]
    WrongKey,
    /// There is no `latchkey` token: the key is right, but the header was not made here.
    #[error("the state disk's header carries no Latchkey token")]
    TokenMissing,
    /// The MAC is wrong: state or header were changed by somebody without the key.
    #[error("the MAC of the state disk's header is wrong: it was changed outside Latchkey")]
    TokenForged,
}

reason_codes! {
    /// Why a well-formed header does not open.
    pub enum UnlockCode {
        /// The key does not open the key slot, or the key slot is damaged.
        WrongKey = "disk-wrong-key":
            "give the key of this disk, by its UUID, and of the right version of the master secret";
        /// There is no Latchkey token: the key is right, but the header was not made here.
        TokenMissing = "disk-token-missing": "give the node a disk that it formatted itself";
        /// The MAC is wrong: state or header were changed by somebody without the key.
        TokenForged = "disk-token-forged": "restore the header's backup, or reset the disk";
    }
}

impl UnlockError {
    /// The stable reason code.
    pub const fn code(self) -> UnlockCode {
        match self {
            Self::WrongKey => UnlockCode::WrongKey,
            Self::TokenMissing => UnlockCode::TokenMissing,
            Self::TokenForged => UnlockCode::TokenForged,
        }
    }
}
