//! Why a LUKS2 header is refused: one reason per field, each with a stable code.

use latchkey_reason::reason_codes;

reason_codes! {
    /// The first thing in a header that is outside the closed list. Whoever wrote the disk is at fault.
    pub enum HeaderRefusal {
        // The binary header.
        /// Neither header copy has the LUKS2 magic.
        Magic = "luks-magic":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The header is of LUKS version 1.
        Luks1 = "luks-version-1":
            "convert the volume with `cryptsetup convert --type luks2`, or give the node another disk";
        /// The header's version is not 2.
        Version = "luks-version":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The header's size is not one that LUKS2 knows.
        HeaderSize = "luks-header-size":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The header reaches beyond what can be read.
        Truncated = "luks-truncated":
            "restore the header from a backup (`cryptsetup luksHeaderRestore`), or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew";
        /// The header says it stands at another place.
        HeaderOffset = "luks-header-offset":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The header's checksum is not SHA-256.
        ChecksumAlgorithm = "luks-checksum-algorithm":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The header's checksum is wrong in both copies.
        Checksum = "luks-checksum":
            "restore the header from a backup (`cryptsetup luksHeaderRestore`), or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew";
        /// The binary header's padding is not zero.
        BinaryPadding = "luks-padding":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The header's sequence id is absurd.
        SequenceId = "luks-sequence-id":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The label is not Latchkey's.
        Label = "luks-label":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The subsystem is not Latchkey's.
        Subsystem = "luks-subsystem":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The UUID is not one.
        Uuid = "luks-uuid":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        // The JSON area as a whole.
        /// Something stands behind the metadata's end.
        JsonPadding = "luks-json-padding":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The metadata is not JSON.
        JsonSyntax = "luks-json-syntax":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The metadata has a key or type outside the closed schema.
        JsonSchema = "luks-json-schema":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        // The key slot.
        /// There is not exactly one key slot.
        KeyslotCount = "luks-keyslot-count":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key slot's number is not 0.
        KeyslotId = "luks-keyslot-id":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key slot's type is not luks2.
        KeyslotType = "luks-keyslot-type":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The volume key's size is neither 64 nor 96.
        KeyslotKeySize = "luks-keyslot-key-size":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key slot has a priority.
        KeyslotPriority = "luks-keyslot-priority":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The anti-forensic splitter is not luks1.
        AfType = "luks-af-type":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The anti-forensic splitter has not 4000 stripes.
        AfStripes = "luks-af-stripes":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The anti-forensic splitter's hash is not sha256.
        AfHash = "luks-af-hash":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key slot area's type is not raw.
        AreaType = "luks-area-type":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key slot area lies outside the key slots or is not aligned.
        AreaOffset = "luks-area-offset":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key slot area's size is not that of its key.
        AreaSize = "luks-area-size":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key slot area is not encrypted (null cipher).
        AreaCipherNull = "luks-area-cipher-null":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key slot area's cipher is not aes-xts-plain64.
        AreaCipher = "luks-area-cipher":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key slot area's key size is not 64.
        AreaKeySize = "luks-area-key-size":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key slot uses argon2, which a random key does not need.
        KdfArgon2 = "luks-kdf-argon2":
            "convert the key slot with `cryptsetup luksConvertKey --pbkdf pbkdf2 --pbkdf-force-iterations 1000`";
        /// The key derivation is not pbkdf2.
        KdfType = "luks-kdf-type":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key derivation's hash is not sha256.
        KdfHash = "luks-kdf-hash":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key derivation's rounds are not 1000 to 100000.
        KdfIterations = "luks-kdf-iterations":
            "convert the key slot with `cryptsetup luksConvertKey --pbkdf pbkdf2 --pbkdf-force-iterations 1000`";
        /// The key derivation's salt is not 32 bytes.
        KdfSalt = "luks-kdf-salt":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// Pbkdf2 comes with argon2's parameters.
        KdfForeignParameters = "luks-kdf-foreign-parameters":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        // The segment.
        /// There is not exactly one segment.
        SegmentCount = "luks-segment-count":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The segment's number is not 0.
        SegmentId = "luks-segment-id":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The segment's type is not crypt.
        SegmentType = "luks-segment-type":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The segment's offset is not a whole MiB from 1 to 16 behind the key slots.
        SegmentOffset = "luks-segment-offset":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The segment's size is not dynamic.
        SegmentSize = "luks-segment-size":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The segment begins behind the device's end.
        SegmentOutsideDevice = "luks-segment-outside-device":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The segment's IV tweak is not 0.
        SegmentIvTweak = "luks-segment-iv-tweak":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The segment is not encrypted (null cipher).
        SegmentCipherNull = "luks-segment-cipher-null":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The segment's cipher is not that of its mode, aes-xts-plain64 or aes-xts-random.
        SegmentCipher = "luks-segment-cipher":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The segment's sector size is not 4096.
        SegmentSectorSize = "luks-segment-sector-size":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The segment's integrity is neither none nor hmac(sha256) with a plain journal.
        SegmentIntegrity = "luks-segment-integrity":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The segment has flags, as during re-encryption.
        SegmentFlags = "luks-segment-flags":
            "finish the re-encryption or upgrade with cryptsetup, or give the node another disk";
        // The digest.
        /// There is not exactly one digest.
        DigestCount = "luks-digest-count":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The digest's number is not 0.
        DigestId = "luks-digest-id":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The digest's type is not pbkdf2.
        DigestType = "luks-digest-type":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The digest is not that of key slot 0.
        DigestKeyslots = "luks-digest-keyslots":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The digest is not that of segment 0.
        DigestSegments = "luks-digest-segments":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The digest's hash is not sha256.
        DigestHash = "luks-digest-hash":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The digest's rounds are not 1000 to 100000.
        DigestIterations = "luks-digest-iterations":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The digest's salt is not 32 bytes.
        DigestSalt = "luks-digest-salt":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The digest is not 32 bytes.
        DigestValue = "luks-digest-value":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        // The configuration.
        /// The metadata's size does not agree with the header's.
        ConfigJsonSize = "luks-config-json-size":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The key slots' size is not aligned or reaches into the data.
        ConfigKeyslotsSize = "luks-config-keyslots-size":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The configuration has persistent flags.
        ConfigFlags = "luks-config-flags":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The configuration has requirements, as during re-encryption.
        ConfigRequirements = "luks-config-requirements":
            "finish the re-encryption or upgrade with cryptsetup, or give the node another disk";
        // The token.
        /// There is more than one token.
        TokenCount = "luks-token-count":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The token's number is not 0.
        TokenId = "luks-token-id":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The token's type is not latchkey.
        TokenType = "luks-token-type":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The token names key slots.
        TokenKeyslots = "luks-token-keyslots":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The token's version is not 1.
        TokenVersion = "luks-token-version":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The token's node state is out of bounds.
        TokenState = "luks-token-state":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The token's geometry is out of bounds, or does not belong to the segment's mode.
        TokenGeometry = "luks-token-geometry":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        /// The token's MAC is not 32 bytes.
        TokenMac = "luks-token-mac":
            "give the node another disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) to start anew: Latchkey did not make this header, or it was changed since";
        // The measured configuration.
        /// The disk's protection is not the one that the measured configuration pins.
        ModeNotPinned = "luks-mode-not-pinned":
            "boot an image whose latchkey.state_integrity is the disk's, or give the node another disk; this one was not touched";
    }
}

impl HeaderRefusal {
    /// What is wrong, in one sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Magic => "neither header copy has the LUKS2 magic",
            Self::Luks1 => "the header is of LUKS version 1",
            Self::Version => "the header's version is not 2",
            Self::HeaderSize => "the header's size is not one that LUKS2 knows",
            Self::Truncated => "the header reaches beyond what can be read",
            Self::HeaderOffset => "the header says it stands at another place",
            Self::ChecksumAlgorithm => "the header's checksum is not SHA-256",
            Self::Checksum => "the header's checksum is wrong in both copies",
            Self::BinaryPadding => "the binary header's padding is not zero",
            Self::SequenceId => "the header's sequence id is absurd",
            Self::Label => "the label is not Latchkey's",
            Self::Subsystem => "the subsystem is not Latchkey's",
            Self::Uuid => "the UUID is not one",
            Self::JsonPadding => "something stands behind the metadata's end",
            Self::JsonSyntax => "the metadata is not JSON",
            Self::JsonSchema => "the metadata has a key or type outside the closed schema",
            Self::KeyslotCount => "there is not exactly one key slot",
            Self::KeyslotId => "the key slot's number is not 0",
            Self::KeyslotType => "the key slot's type is not luks2",
            Self::KeyslotKeySize => "the volume key's size is neither 64 nor 96",
            Self::KeyslotPriority => "the key slot has a priority",
            Self::AfType => "the anti-forensic splitter is not luks1",
            Self::AfStripes => "the anti-forensic splitter has not 4000 stripes",
            Self::AfHash => "the anti-forensic splitter's hash is not sha256",
            Self::AreaType => "the key slot area's type is not raw",
            Self::AreaOffset => "the key slot area lies outside the key slots or is not aligned",
            Self::AreaSize => "the key slot area's size is not that of its key",
            Self::AreaCipherNull => "the key slot area is not encrypted (null cipher)",
            Self::AreaCipher => "the key slot area's cipher is not aes-xts-plain64",
            Self::AreaKeySize => "the key slot area's key size is not 64",
            Self::KdfArgon2 => "the key slot uses argon2, which a random key does not need",
            Self::KdfType => "the key derivation is not pbkdf2",
            Self::KdfHash => "the key derivation's hash is not sha256",
            Self::KdfIterations => "the key derivation's rounds are not 1000 to 100000",
            Self::KdfSalt => "the key derivation's salt is not 32 bytes",
            Self::KdfForeignParameters => "pbkdf2 comes with argon2's parameters",
            Self::SegmentCount => "there is not exactly one segment",
            Self::SegmentId => "the segment's number is not 0",
            Self::SegmentType => "the segment's type is not crypt",
            Self::SegmentOffset => "the segment's offset is not a whole MiB from 1 to 16 behind the key slots",
            Self::SegmentSize => "the segment's size is not dynamic",
            Self::SegmentOutsideDevice => "the segment begins behind the device's end",
            Self::SegmentIvTweak => "the segment's IV tweak is not 0",
            Self::SegmentCipherNull => "the segment is not encrypted (null cipher)",
            Self::SegmentCipher => "the segment's cipher is not that of its mode, aes-xts-plain64 or aes-xts-random",
            Self::SegmentSectorSize => "the segment's sector size is not 4096",
            Self::SegmentIntegrity => "the segment's integrity is neither none nor hmac(sha256) with a plain journal",
            Self::SegmentFlags => "the segment has flags, as during re-encryption",
            Self::DigestCount => "there is not exactly one digest",
            Self::DigestId => "the digest's number is not 0",
            Self::DigestType => "the digest's type is not pbkdf2",
            Self::DigestKeyslots => "the digest is not that of key slot 0",
            Self::DigestSegments => "the digest is not that of segment 0",
            Self::DigestHash => "the digest's hash is not sha256",
            Self::DigestIterations => "the digest's rounds are not 1000 to 100000",
            Self::DigestSalt => "the digest's salt is not 32 bytes",
            Self::DigestValue => "the digest is not 32 bytes",
            Self::ConfigJsonSize => "the metadata's size does not agree with the header's",
            Self::ConfigKeyslotsSize => "the key slots' size is not aligned or reaches into the data",
            Self::ConfigFlags => "the configuration has persistent flags",
            Self::ConfigRequirements => "the configuration has requirements, as during re-encryption",
            Self::TokenCount => "there is more than one token",
            Self::TokenId => "the token's number is not 0",
            Self::TokenType => "the token's type is not latchkey",
            Self::TokenKeyslots => "the token names key slots",
            Self::TokenVersion => "the token's version is not 1",
            Self::TokenState => "the token's node state is out of bounds",
            Self::TokenGeometry => "the token's geometry is out of bounds, or does not belong to the segment's mode",
            Self::TokenMac => "the token's MAC is not 32 bytes",
            Self::ModeNotPinned => "the disk's protection is not the one that the measured configuration pins",
        }
    }
}

impl std::error::Error for HeaderRefusal {}
