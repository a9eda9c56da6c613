//! Making a header, and replacing the node state in one. Every step ends with a barrier, so that a power cut between
//! any two sectors leaves the old header, the new header, or a marked unfinished format.

use super::binary::{self, BINARY, Binary, Place, SALT};
use super::metadata::Numbered;
use super::token::Claimed;
use super::unlocked::VolumeKey;
use super::volume::{MIB, MIN_ITERATIONS, Volume};
use super::{NodeState, Phase, SegmentMode, StateError, TokenKey, UnlockedDisk};
use crate::block::BlockDevice;
use crate::bytes::place;
use crate::error::{DiskError, io};
use crate::kdf::{Pbkdf2, split};
use crate::marker::Marker;
use crate::probe::existing;
use crate::random::Random;
use crate::superblock::{Geometry, SUPERBLOCK};
use crate::xts;
use core::num::NonZeroU32;
use latchkey_keys::{Secret, SecretVec, Uuid};

/// Each copy: the smallest that LUKS2 knows, and what cryptsetup makes by default.
const HEADER_SIZE: u64 = 0x4000;

/// Both copies.
pub(crate) const HEADERS: u64 = 2 * HEADER_SIZE;

/// The data begins at 1 MiB. One key slot needs 252 KiB, so cryptsetup's 16 MiB, made for 32 key slots and online
/// re-encryption, would be wasted, and wiped on each reset; less than 1 MiB would break the alignment that flash
/// and RAID stripes like.
const DATA_OFFSET: u64 = MIB;

/// What a new disk shall be.
#[derive(Debug)]
pub struct NewDisk<'a> {
    /// How the data is protected: as the measured configuration pins it.
    pub mode: SegmentMode,
    /// The disk's name, of which its key was derived.
    pub uuid: Uuid,
    /// The key that opens it.
    pub key: &'a Secret<32>,
    /// The first node state; its phase is `formatted`.
    pub state: NodeState,
}

/// A format that was begun: sector 0 holds the marker and says "fresh", until [`Self::finish`] writes the headers. What is
/// written to the data in between is lost with a power cut, and so is nothing that counts.
pub(crate) struct Draft {
    volume: Volume,
    key_slots: Vec<u8>,
    unlocked: UnlockedDisk,
}

impl Draft {
    /// Makes the keys and writes the marker. In the authenticated mode also zeros over the place of the integrity
    /// superblock, which tell the kernel to make a new one.
    pub(crate) fn begin(
        device: &mut impl BlockDevice,
        new: NewDisk<'_>,
        marker: &Marker,
        random: &mut impl Random,
    ) -> Result<Self, DiskError> {
        if new.state.phase != Phase::Formatted {
            return Err(StateError::NotFormatted.into());
        }
        let size = device.size().map_err(io("ask for the disk's size"))?;
        let volume_key = SecretVec::fill_with(new.mode.key_size(), |key| random.fill(key))?;
        let volume = new_volume(&new, &volume_key, random)?;
        let key_slots = encrypted_key_slots(&volume, new.key, &volume_key, random)?;
        let token_key = TokenKey::derive(new.key, new.uuid);
        let unlocked = UnlockedDisk::new(VolumeKey::fresh(volume_key), token_key, new.state, &volume, None, size);

        write(device, 0, &marker.to_sector())?;
        if new.mode == SegmentMode::Authenticated {
            write(device, DATA_OFFSET, &[0; SUPERBLOCK])?;
        }
        Ok(Self { volume, key_slots, unlocked })
    }

    /// Takes what dm-integrity made of the disk.
    pub(crate) const fn measured(&mut self, geometry: Geometry) {
        self.unlocked.measured(geometry);
    }

    /// What will be on the disk, to be mapped before it is there.
    pub(crate) const fn unlocked(&self) -> &UnlockedDisk {
        &self.unlocked
    }

    /// Writes key slot, secondary header, primary header.
    ///
    /// Until the secondary is whole, sector 0 says "fresh". The primary replaces the marker last, when the secondary can
    /// already stand in for a torn primary.
    pub(crate) fn finish(
        self,
        device: &mut impl BlockDevice,
        random: &mut impl Random,
    ) -> Result<UnlockedDisk, DiskError> {
        let Self { volume, key_slots, unlocked } = self;
        let claimed = Claimed::sign(unlocked.token_key(), &volume, unlocked.geometry(), unlocked.state().clone());
        write(device, HEADERS, &key_slots)?;
        for place in [Place::Secondary, Place::Primary] {
            write_copy(device, place, 1, &volume, &claimed, random)?;
        }
        Ok(unlocked)
    }
}

/// Replaces the node state of an existing disk, while it may be mapped and in use.
///
/// Reads the header anew, checks it, authenticates it with `key`, and only then lets `change` say what comes next. The
/// copy that is *not* in force is written first: whichever copy a power cut tears, the other one is whole.
///
/// # Errors
/// What reading, checking and authenticating can find, a state that may not follow ([`StateError`]), and I/O.
pub fn update_state(
    device: &mut impl BlockDevice,
    key: &TokenKey,
    change: impl FnOnce(&NodeState) -> NodeState,
    random: &mut impl Random,
) -> Result<NodeState, DiskError> {
    let header = existing(device)?.check_either_mode()?;
    let current = header.authenticate(key)?;
    let next = change(&current);
    current.check_successor(&next)?;
    let geometry = header.claimed.as_ref().and_then(|claimed| claimed.geometry);
    let claimed = Claimed::sign(key, &header.volume, geometry, next.clone());
    for place in [header.place.other(), header.place] {
        write_copy(device, place, header.sequence_id + 1, &header.volume, &claimed, random)?;
    }
    Ok(next)
}

fn new_volume(new: &NewDisk<'_>, volume_key: &SecretVec, random: &mut impl Random) -> Result<Volume, DiskError> {
    let mut volume = Volume {
        uuid: new.uuid,
        labelled: true,
        header_size: HEADER_SIZE,
        keyslots_size: DATA_OFFSET - HEADERS,
        area_offset: HEADERS,
        kdf: rounds(random)?,
        digest_kdf: rounds(random)?,
        digest: [0; 32],
        data_offset: DATA_OFFSET,
        mode: new.mode,
    };
    volume.digest = VolumeKey::digest(volume_key, &volume);
    Ok(volume)
}

/// All bytes from the headers' end to the data: the encrypted stripes, and zeros over whatever an unfinished format or
/// reset left there.
fn encrypted_key_slots(
    volume: &Volume,
    key: &Secret<32>,
    volume_key: &SecretVec,
    random: &mut impl Random,
) -> Result<Vec<u8>, DiskError> {
    #[expect(clippy::cast_possible_truncation, reason = "less than 1 MiB fits any usize")]
    const LENGTH: usize = (DATA_OFFSET - HEADERS) as usize;
    const { assert!(SegmentMode::Authenticated.area() <= DATA_OFFSET - HEADERS, "one key slot fits") };
    let area_key = volume.kdf.derive(key.expose());
    let mut stripes = split(volume_key.expose(), random)?;
    xts::encrypt(&area_key, &mut stripes);
    let mut area = vec![0; LENGTH];
    place(&mut area, 0, &stripes);
    Ok(area)
}

fn write_copy(
    device: &mut impl BlockDevice,
    place: Place,
    sequence_id: u64,
    volume: &Volume,
    claimed: &Claimed,
    random: &mut impl Random,
) -> Result<(), DiskError> {
    let mut metadata = volume.metadata();
    metadata.tokens = Numbered::one(claimed.token());
    let json = serde_json::to_vec(&metadata).map_err(|_| super::HeaderRefusal::JsonSchema)?;
    let mut salt = [0; SALT];
    random.fill(&mut salt)?;
    let binary = Binary {
        place,
        header_size: volume.header_size,
        sequence_id,
        label: volume.label(),
        subsystem: volume.subsystem(),
        uuid: volume.uuid,
        json_area: &[],
    };
    let copy = binary::write(&binary, &salt, &json)?;
    debug_assert!(json.len() < copy.len() - BINARY, "the state is bounded, so the metadata fits");
    write(device, place.offset(volume.header_size), &copy)
}

/// Writes and waits until it is durable.
fn write(device: &mut impl BlockDevice, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
    device.write_at(offset, bytes).map_err(io("write the disk's header"))?;
    device.flush().map_err(io("flush the disk's header"))
}

fn rounds(random: &mut impl Random) -> Result<Pbkdf2, DiskError> {
    const ITERATIONS: NonZeroU32 = NonZeroU32::new(1000).unwrap();
    const _: () = assert!(ITERATIONS.get() as u64 == MIN_ITERATIONS);
    let mut salt = [0; 32];
    random.fill(&mut salt)?;
    Ok(Pbkdf2 { iterations: ITERATIONS, salt })
}
