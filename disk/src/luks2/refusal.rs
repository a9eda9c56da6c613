//! Why a LUKS2 header is refused: one reason per field, each with a stable code and a sentence that names the fix.

use core::fmt;

/// The first thing in a header that is outside the closed list. Whoever wrote the disk is at fault.
///
/// Codes are stable: they go to logs, to the console and over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant's sentence is in `text`, next to its code")]
pub enum HeaderRefusal {
    // The binary header.
    Magic,
    Luks1,
    Version,
    HeaderSize,
    Truncated,
    HeaderOffset,
    ChecksumAlgorithm,
    Checksum,
    BinaryPadding,
    SequenceId,
    Label,
    Subsystem,
    Uuid,
    // The JSON area as a whole.
    JsonPadding,
    JsonSyntax,
    JsonSchema,
    // The key slot.
    KeyslotCount,
    KeyslotId,
    KeyslotType,
    KeyslotKeySize,
    KeyslotPriority,
    AfType,
    AfStripes,
    AfHash,
    AreaType,
    AreaOffset,
    AreaSize,
    AreaCipherNull,
    AreaCipher,
    AreaKeySize,
    KdfArgon2,
    KdfType,
    KdfHash,
    KdfIterations,
    KdfSalt,
    KdfForeignParameters,
    // The segment.
    SegmentCount,
    SegmentId,
    SegmentType,
    SegmentOffset,
    SegmentSize,
    SegmentOutsideDevice,
    SegmentIvTweak,
    SegmentCipherNull,
    SegmentCipher,
    SegmentSectorSize,
    SegmentIntegrity,
    SegmentFlags,
    // The digest.
    DigestCount,
    DigestId,
    DigestType,
    DigestKeyslots,
    DigestSegments,
    DigestHash,
    DigestIterations,
    DigestSalt,
    DigestValue,
    // The configuration.
    ConfigJsonSize,
    ConfigKeyslotsSize,
    ConfigFlags,
    ConfigRequirements,
    // The token.
    TokenCount,
    TokenId,
    TokenType,
    TokenKeyslots,
    TokenVersion,
    TokenState,
    TokenGeometry,
    TokenMac,
    // The measured configuration.
    ModeNotPinned,
}

impl HeaderRefusal {
    /// The stable, kebab-case code.
    pub const fn code(self) -> &'static str {
        self.text().0
    }

    /// What is wrong, in one sentence without the fix.
    pub const fn fault(self) -> &'static str {
        self.text().1
    }

    /// What to do about it.
    pub const fn fix(self) -> &'static str {
        match self {
            Self::Truncated | Self::Checksum => {
                "restore the header from a backup (`cryptsetup luksHeaderRestore`), or zero the disk's first MiB to start anew"
            }
            Self::Luks1 => "convert the volume with `cryptsetup convert --type luks2`, or give the node another disk",
            Self::ConfigRequirements | Self::SegmentFlags => {
                "finish the re-encryption or upgrade with cryptsetup, or give the node another disk"
            }
            Self::ModeNotPinned => {
                "boot an image whose latchkey.state_integrity is the disk's, or give the node another disk; this one was not touched"
            }
            Self::KdfArgon2 | Self::KdfIterations => {
                "convert the key slot with `cryptsetup luksConvertKey --pbkdf pbkdf2 --pbkdf-force-iterations 1000`"
            }
            _ => {
                "this disk was not made by Latchkey or was changed since: give the node another disk, or zero its first MiB to start anew"
            }
        }
    }

    const fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Magic => ("luks-magic", "neither header copy has the LUKS2 magic"),
            Self::Luks1 => ("luks-version-1", "the header is of LUKS version 1"),
            Self::Version => ("luks-version", "the header's version is not 2"),
            Self::HeaderSize => ("luks-header-size", "the header's size is not one that LUKS2 knows"),
            Self::Truncated => ("luks-truncated", "the header reaches beyond what can be read"),
            Self::HeaderOffset => ("luks-header-offset", "the header says it stands at another place"),
            Self::ChecksumAlgorithm => ("luks-checksum-algorithm", "the header's checksum is not SHA-256"),
            Self::Checksum => ("luks-checksum", "the header's checksum is wrong in both copies"),
            Self::BinaryPadding => ("luks-padding", "the binary header's padding is not zero"),
            Self::SequenceId => ("luks-sequence-id", "the header's sequence id is absurd"),
            Self::Label => ("luks-label", "the label is not Latchkey's"),
            Self::Subsystem => ("luks-subsystem", "the subsystem is not Latchkey's"),
            Self::Uuid => ("luks-uuid", "the UUID is not one"),
            Self::JsonPadding => ("luks-json-padding", "something stands behind the metadata's end"),
            Self::JsonSyntax => ("luks-json-syntax", "the metadata is not JSON"),
            Self::JsonSchema => ("luks-json-schema", "the metadata has a key or type outside the closed schema"),
            Self::KeyslotCount => ("luks-keyslot-count", "there is not exactly one key slot"),
            Self::KeyslotId => ("luks-keyslot-id", "the key slot's number is not 0"),
            Self::KeyslotType => ("luks-keyslot-type", "the key slot's type is not luks2"),
            Self::KeyslotKeySize => ("luks-keyslot-key-size", "the volume key's size is neither 64 nor 96"),
            Self::KeyslotPriority => ("luks-keyslot-priority", "the key slot has a priority"),
            Self::AfType => ("luks-af-type", "the anti-forensic splitter is not luks1"),
            Self::AfStripes => ("luks-af-stripes", "the anti-forensic splitter has not 4000 stripes"),
            Self::AfHash => ("luks-af-hash", "the anti-forensic splitter's hash is not sha256"),
            Self::AreaType => ("luks-area-type", "the key slot area's type is not raw"),
            Self::AreaOffset => ("luks-area-offset", "the key slot area lies outside the key slots or is not aligned"),
            Self::AreaSize => ("luks-area-size", "the key slot area's size is not that of its key"),
            Self::AreaCipherNull => ("luks-area-cipher-null", "the key slot area is not encrypted (null cipher)"),
            Self::AreaCipher => ("luks-area-cipher", "the key slot area's cipher is not aes-xts-plain64"),
            Self::AreaKeySize => ("luks-area-key-size", "the key slot area's key size is not 64"),
            Self::KdfArgon2 => ("luks-kdf-argon2", "the key slot uses argon2, which a random key does not need"),
            Self::KdfType => ("luks-kdf-type", "the key derivation is not pbkdf2"),
            Self::KdfHash => ("luks-kdf-hash", "the key derivation's hash is not sha256"),
            Self::KdfIterations => ("luks-kdf-iterations", "the key derivation's rounds are not 1000 to 100000"),
            Self::KdfSalt => ("luks-kdf-salt", "the key derivation's salt is not 32 bytes"),
            Self::KdfForeignParameters => ("luks-kdf-foreign-parameters", "pbkdf2 comes with argon2's parameters"),
            Self::SegmentCount => ("luks-segment-count", "there is not exactly one segment"),
            Self::SegmentId => ("luks-segment-id", "the segment's number is not 0"),
            Self::SegmentType => ("luks-segment-type", "the segment's type is not crypt"),
            Self::SegmentOffset => {
                ("luks-segment-offset", "the segment's offset is not a whole MiB from 1 to 16 behind the key slots")
            }
            Self::SegmentSize => ("luks-segment-size", "the segment's size is not dynamic"),
            Self::SegmentOutsideDevice => ("luks-segment-outside-device", "the segment begins behind the device's end"),
            Self::SegmentIvTweak => ("luks-segment-iv-tweak", "the segment's IV tweak is not 0"),
            Self::SegmentCipherNull => ("luks-segment-cipher-null", "the segment is not encrypted (null cipher)"),
            Self::SegmentCipher => (
                "luks-segment-cipher",
                "the segment's cipher is not that of its mode, aes-xts-plain64 or aes-xts-random",
            ),
            Self::SegmentSectorSize => ("luks-segment-sector-size", "the segment's sector size is not 4096"),
            Self::SegmentIntegrity => (
                "luks-segment-integrity",
                "the segment's integrity is neither none nor hmac(sha256) with a plain journal",
            ),
            Self::SegmentFlags => ("luks-segment-flags", "the segment has flags, as during re-encryption"),
            Self::DigestCount => ("luks-digest-count", "there is not exactly one digest"),
            Self::DigestId => ("luks-digest-id", "the digest's number is not 0"),
            Self::DigestType => ("luks-digest-type", "the digest's type is not pbkdf2"),
            Self::DigestKeyslots => ("luks-digest-keyslots", "the digest is not that of key slot 0"),
            Self::DigestSegments => ("luks-digest-segments", "the digest is not that of segment 0"),
            Self::DigestHash => ("luks-digest-hash", "the digest's hash is not sha256"),
            Self::DigestIterations => ("luks-digest-iterations", "the digest's rounds are not 1000 to 100000"),
            Self::DigestSalt => ("luks-digest-salt", "the digest's salt is not 32 bytes"),
            Self::DigestValue => ("luks-digest-value", "the digest is not 32 bytes"),
            Self::ConfigJsonSize => ("luks-config-json-size", "the metadata's size does not agree with the header's"),
            Self::ConfigKeyslotsSize => {
                ("luks-config-keyslots-size", "the key slots' size is not aligned or reaches into the data")
            }
            Self::ConfigFlags => ("luks-config-flags", "the configuration has persistent flags"),
            Self::ConfigRequirements => {
                ("luks-config-requirements", "the configuration has requirements, as during re-encryption")
            }
            Self::TokenCount => ("luks-token-count", "there is more than one token"),
            Self::TokenId => ("luks-token-id", "the token's number is not 0"),
            Self::TokenType => ("luks-token-type", "the token's type is not latchkey"),
            Self::TokenKeyslots => ("luks-token-keyslots", "the token names key slots"),
            Self::TokenVersion => ("luks-token-version", "the token's version is not 1"),
            Self::TokenState => ("luks-token-state", "the token's node state is out of bounds"),
            Self::TokenGeometry => (
                "luks-token-geometry",
                "the token's geometry is out of bounds, or does not belong to the segment's mode",
            ),
            Self::TokenMac => ("luks-token-mac", "the token's MAC is not 32 bytes"),
            Self::ModeNotPinned => {
                ("luks-mode-not-pinned", "the disk's protection is not the one that the measured configuration pins")
            }
        }
    }
}

impl fmt::Display for HeaderRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State disk header refused ({}): {}; {}", self.code(), self.fault(), self.fix())
    }
}

impl std::error::Error for HeaderRefusal {}
