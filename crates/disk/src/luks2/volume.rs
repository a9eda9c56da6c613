//! The closed list: the only LUKS2 volumes this code works with, and what little it leaves open.

use super::HeaderRefusal as Refusal;
use super::binary::{BINARY, Binary};
use super::metadata::{
    Af, Area, Config, Decimal, Digest, Integrity, Kdf, Keyslot, Metadata, Numbered, Present, Segment,
};
use super::mode::{SECTOR, SegmentMode};
use crate::kdf::{Pbkdf2, STRIPES};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use core::num::NonZeroU32;
use latchkey_keys::Uuid;

/// One MiB, the unit partitions and segments are aligned to.
pub(crate) const MIB: u64 = 1 << 20;

/// The data begins no later than in a volume of cryptsetup's defaults (16 MiB).
const MAX_DATA_OFFSET: u64 = 16 * MIB;

/// RFC 8018 section 4.2 and cryptsetup both ask for at least 1000 rounds.
pub(crate) const MIN_ITERATIONS: u64 = 1000;

/// More rounds than this are a bomb: the key is 32 random bytes, and rounds add nothing to it. 100 000 rounds cost about
/// 0.1 s once.
pub(crate) const MAX_ITERATIONS: u64 = 100_000;

/// What key slots are encrypted with, in either mode.
const AREA_CIPHER: &str = "aes-xts-plain64";
const NULL_CIPHER: &str = "null";
pub(crate) const LABEL: &str = "latchkey-state";
pub(crate) const SUBSYSTEM: &str = "latchkey";
/// Bytes of the key that encrypts a key slot.
const AREA_KEY_SIZE: u64 = 64;
/// What cryptsetup calls the authenticated mode's tags.
const HMAC: &str = "hmac(sha256)";

/// A volume inside the closed list. Everything else about it is a constant of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) uuid: Uuid,
    /// Whether label and subsystem are ours; otherwise both are empty, as cryptsetup makes them.
    pub(crate) labelled: bool,
    pub(crate) header_size: u64,
    pub(crate) keyslots_size: u64,
    pub(crate) area_offset: u64,
    pub(crate) kdf: Pbkdf2,
    pub(crate) digest_kdf: Pbkdf2,
    pub(crate) digest: [u8; 32],
    pub(crate) data_offset: u64,
    pub(crate) mode: SegmentMode,
}

impl Volume {
    /// Checks every field of the header but the token.
    pub(crate) fn check(
        binary: &Binary<'_>,
        keyslots: Numbered<Keyslot>,
        segments: Numbered<Segment>,
        digests: Numbered<Digest>,
        config: &Config,
    ) -> Result<Self, Refusal> {
        let labelled = check_labels(binary)?;
        let keyslots_size = check_config(config, binary.header_size)?;
        let keyslot = keyslots.only(Refusal::KeyslotCount, Refusal::KeyslotId)?;
        let segment = segments.only(Refusal::SegmentCount, Refusal::SegmentId)?;
        let digest = digests.only(Refusal::DigestCount, Refusal::DigestId)?;
        let (kdf, mode) = check_keyslot(&keyslot)?;
        let keyslots_end = 2 * binary.header_size + keyslots_size;
        let area_offset = check_area(&keyslot.area, mode, 2 * binary.header_size, keyslots_end)?;
        let data_offset = check_segment(&segment, mode)?;
        if keyslots_end > data_offset {
            return Err(Refusal::ConfigKeyslotsSize);
        }
        let (digest_kdf, digest) = check_digest(&digest)?;
        Ok(Self {
            uuid: binary.uuid,
            labelled,
            header_size: binary.header_size,
            keyslots_size,
            area_offset,
            kdf,
            digest_kdf,
            digest,
            data_offset,
            mode,
        })
    }

    pub(crate) const fn label(&self) -> &'static str {
        if self.labelled { LABEL } else { "" }
    }

    pub(crate) const fn subsystem(&self) -> &'static str {
        if self.labelled { SUBSYSTEM } else { "" }
    }

    /// The metadata of this volume, without a token.
    pub(crate) fn metadata(&self) -> Metadata {
        let sha256 = || "sha256".to_owned();
        let key_size = self.mode.key_size() as u64;
        Metadata {
            keyslots: Numbered::one(Keyslot {
                kind: "luks2".to_owned(),
                key_size,
                af: Af { kind: "luks1".to_owned(), stripes: STRIPES as u64, hash: sha256() },
                area: Area {
                    kind: "raw".to_owned(),
                    offset: Decimal(self.area_offset),
                    size: Decimal(self.mode.area()),
                    encryption: AREA_CIPHER.to_owned(),
                    key_size: AREA_KEY_SIZE,
                },
                kdf: Kdf {
                    kind: "pbkdf2".to_owned(),
                    hash: sha256(),
                    iterations: self.kdf.iterations.get().into(),
                    salt: BASE64.encode(self.kdf.salt),
                    time: Present(false),
                    memory: Present(false),
                    cpus: Present(false),
                },
                priority: Present(false),
            }),
            tokens: Numbered::none(),
            segments: Numbered::one(Segment {
                kind: "crypt".to_owned(),
                offset: Decimal(self.data_offset),
                size: "dynamic".to_owned(),
                iv_tweak: Decimal(0),
                encryption: self.mode.cipher().to_owned(),
                sector_size: SECTOR,
                integrity: integrity(self.mode),
                flags: Present(false),
            }),
            digests: Numbered::one(Digest {
                kind: "pbkdf2".to_owned(),
                keyslots: vec!["0".to_owned()],
                segments: vec!["0".to_owned()],
                hash: sha256(),
                iterations: self.digest_kdf.iterations.get().into(),
                salt: BASE64.encode(self.digest_kdf.salt),
                value: BASE64.encode(self.digest),
            }),
            config: Config {
                json_size: Decimal(self.header_size - BINARY as u64),
                keyslots_size: Decimal(self.keyslots_size),
                flags: Present(false),
                requirements: Present(false),
            },
        }
    }
}

fn integrity(mode: SegmentMode) -> Option<Integrity> {
    let none = || "none".to_owned();
    match mode {
        SegmentMode::Confidential => None,
        SegmentMode::Authenticated => {
            Some(Integrity { kind: HMAC.to_owned(), journal_cipher: none(), journal_mac: none() })
        }
    }
}

fn check_labels(binary: &Binary<'_>) -> Result<bool, Refusal> {
    match (binary.label, binary.subsystem) {
        ("", "") => Ok(false),
        (LABEL, SUBSYSTEM) => Ok(true),
        (LABEL | "", _) => Err(Refusal::Subsystem),
        _ => Err(Refusal::Label),
    }
}

fn check_config(config: &Config, header_size: u64) -> Result<u64, Refusal> {
    require(config.requirements == Present(false), Refusal::ConfigRequirements)?;
    require(config.flags == Present(false), Refusal::ConfigFlags)?;
    require(config.json_size.0 == header_size - BINARY as u64, Refusal::ConfigJsonSize)?;
    let size = config.keyslots_size.0;
    require(size.is_multiple_of(SECTOR) && size <= MAX_DATA_OFFSET, Refusal::ConfigKeyslotsSize)?;
    Ok(size)
}

/// The volume key's size says which mode it is for; the segment must say the same.
fn check_keyslot(keyslot: &Keyslot) -> Result<(Pbkdf2, SegmentMode), Refusal> {
    require(keyslot.kind == "luks2", Refusal::KeyslotType)?;
    let mode = [SegmentMode::Confidential, SegmentMode::Authenticated]
        .into_iter()
        .find(|mode| keyslot.key_size == mode.key_size() as u64)
        .ok_or(Refusal::KeyslotKeySize)?;
    require(keyslot.priority == Present(false), Refusal::KeyslotPriority)?;
    require(keyslot.af.kind == "luks1", Refusal::AfType)?;
    require(keyslot.af.stripes == STRIPES as u64, Refusal::AfStripes)?;
    require(keyslot.af.hash == "sha256", Refusal::AfHash)?;
    Ok((check_kdf(&keyslot.kdf)?, mode))
}

fn check_kdf(kdf: &Kdf) -> Result<Pbkdf2, Refusal> {
    require(!kdf.kind.starts_with("argon2"), Refusal::KdfArgon2)?;
    require(kdf.kind == "pbkdf2", Refusal::KdfType)?;
    let foreign = [&kdf.time, &kdf.memory, &kdf.cpus];
    require(foreign.iter().all(|&parameter| *parameter == Present(false)), Refusal::KdfForeignParameters)?;
    require(kdf.hash == "sha256", Refusal::KdfHash)?;
    Ok(Pbkdf2 {
        iterations: iterations(kdf.iterations).ok_or(Refusal::KdfIterations)?,
        salt: bytes32(&kdf.salt).ok_or(Refusal::KdfSalt)?,
    })
}

fn check_area(area: &Area, mode: SegmentMode, keyslots_start: u64, keyslots_end: u64) -> Result<u64, Refusal> {
    require(area.kind == "raw", Refusal::AreaType)?;
    require(!area.encryption.contains(NULL_CIPHER), Refusal::AreaCipherNull)?;
    require(area.encryption == AREA_CIPHER, Refusal::AreaCipher)?;
    require(area.key_size == AREA_KEY_SIZE, Refusal::AreaKeySize)?;
    require(area.size.0 == mode.area(), Refusal::AreaSize)?;
    let offset = area.offset.0;
    let inside = offset >= keyslots_start && offset.checked_add(mode.area()).is_some_and(|end| end <= keyslots_end);
    require(inside && offset.is_multiple_of(SECTOR), Refusal::AreaOffset)?;
    Ok(offset)
}

fn check_segment(segment: &Segment, mode: SegmentMode) -> Result<u64, Refusal> {
    require(segment.kind == "crypt", Refusal::SegmentType)?;
    require(segment.flags == Present(false), Refusal::SegmentFlags)?;
    require(segment.integrity == integrity(mode), Refusal::SegmentIntegrity)?;
    require(!segment.encryption.contains(NULL_CIPHER), Refusal::SegmentCipherNull)?;
    require(segment.encryption == mode.cipher(), Refusal::SegmentCipher)?;
    require(segment.sector_size == SECTOR, Refusal::SegmentSectorSize)?;
    require(segment.iv_tweak.0 == 0, Refusal::SegmentIvTweak)?;
    require(segment.size == "dynamic", Refusal::SegmentSize)?;
    let offset = segment.offset.0;
    let placed = offset.is_multiple_of(MIB) && (MIB..=MAX_DATA_OFFSET).contains(&offset);
    require(placed, Refusal::SegmentOffset)?;
    Ok(offset)
}

fn check_digest(digest: &Digest) -> Result<(Pbkdf2, [u8; 32]), Refusal> {
    require(digest.kind == "pbkdf2", Refusal::DigestType)?;
    require(digest.keyslots == ["0"], Refusal::DigestKeyslots)?;
    require(digest.segments == ["0"], Refusal::DigestSegments)?;
    require(digest.hash == "sha256", Refusal::DigestHash)?;
    let kdf = Pbkdf2 {
        iterations: iterations(digest.iterations).ok_or(Refusal::DigestIterations)?,
        salt: bytes32(&digest.salt).ok_or(Refusal::DigestSalt)?,
    };
    Ok((kdf, bytes32(&digest.value).ok_or(Refusal::DigestValue)?))
}

fn require(holds: bool, refusal: Refusal) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(refusal) }
}

fn iterations(count: u64) -> Option<NonZeroU32> {
    (MIN_ITERATIONS..=MAX_ITERATIONS).contains(&count).then(|| u32::try_from(count).ok().and_then(NonZeroU32::new))?
}

fn bytes32(text: &str) -> Option<[u8; 32]> {
    // The length first: no allocation for a salt that cannot be right.
    (text.len() == 44).then(|| BASE64.decode(text).ok()?.try_into().ok())?
}
