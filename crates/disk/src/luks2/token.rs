//! The `latchkey` token: the node's state, authenticated together with everything else in the header.
//!
//! Source of the place: LUKS2 On-Disk Format Specification 1.1, section 3.5 (tokens are for external tools; unknown
//! types are kept). The MAC is ours: HMAC-SHA256 over the length-prefixed parts of `transcript`.

use super::HeaderRefusal as Refusal;
use super::metadata::{Decimal, Numbered, State, Token, TokenGeometry};
use super::mode::SegmentMode;
use super::volume::Volume;
use super::{NodeState, StateError};
use crate::superblock::Geometry;
use core::convert::Infallible;
use core::fmt;
use latchkey_keys::{Secret, Uuid};
use ring::hmac;

const TYPE: &str = "latchkey";
const VERSION: u64 = 1;
const KEY_LABEL: &[u8] = b"latchkey state-disk token key v1";
const MAC_LABEL: &[u8] = b"latchkey state-disk token v1";

/// The key of the token's MAC. Derived from the disk key, and all that the OS stage gets: it can write down that the
/// node was bootstrapped, and cannot open the disk.
#[derive(PartialEq, Eq)]
pub struct TokenKey(Secret<32>);

impl TokenKey {
    /// Derives the key for the disk `uuid` from that disk's key: HKDF-SHA256 (RFC 5869) without salt, one block of
    /// output, the label and the UUID length-prefixed.
    pub fn derive(disk_key: &Secret<32>, uuid: Uuid) -> Self {
        let extract = hmac::Key::new(hmac::HMAC_SHA256, &[0; 32]);
        let expand = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&extract, disk_key.expose()).as_ref());
        let mut info = hmac::Context::with_key(&expand);
        for part in [KEY_LABEL, uuid.as_bytes()] {
            info.update(&prefix(part));
            info.update(part);
        }
        info.update(&[1]);
        let Ok(key) = Secret::fill_with(|key| {
            key.copy_from_slice(info.sign().as_ref());
            Ok::<_, Infallible>(())
        });
        Self(key)
    }

    /// Takes the key as the hand-over carries it.
    pub const fn from_secret(key: Secret<32>) -> Self {
        Self(key)
    }

    /// The key's bytes, for the hand-over.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    fn mac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.0.expose())
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(hidden)")
    }
}

/// A node state as the disk claims it, with a MAC that was not looked at yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub(crate) state: NodeState,
    /// There exactly in the authenticated mode.
    pub(crate) geometry: Option<Geometry>,
    mac: [u8; 32],
}

impl Claimed {
    /// Signs `state` and `geometry` for `volume`.
    pub(crate) fn sign(key: &TokenKey, volume: &Volume, geometry: Option<Geometry>, state: NodeState) -> Self {
        let tag = hmac::sign(&key.mac(), &transcript(volume, geometry, &state));
        let mut mac = [0; 32];
        mac.copy_from_slice(tag.as_ref());
        Self { state, geometry, mac }
    }

    /// Whether the holder of `key` wrote this state into this very header. Constant time.
    pub(crate) fn is_genuine(&self, key: &TokenKey, volume: &Volume) -> bool {
        hmac::verify(&key.mac(), &transcript(volume, self.geometry, &self.state), &self.mac).is_ok()
    }

    /// Reads the token, if there is one.
    pub(crate) fn check(tokens: Numbered<Token>, mode: SegmentMode) -> Result<Option<Self>, Refusal> {
        if tokens.count == 0 {
            return Ok(None);
        }
        let token = tokens.only(Refusal::TokenCount, Refusal::TokenId)?;
        if token.kind != TYPE {
            return Err(Refusal::TokenType);
        }
        if !token.keyslots.is_empty() {
            return Err(Refusal::TokenKeyslots);
        }
        if token.version != VERSION {
            return Err(Refusal::TokenVersion);
        }
        let mac = hex32(&token.mac).ok_or(Refusal::TokenMac)?;
        let state = read_state(&token.state).ok_or(Refusal::TokenState)?;
        let geometry = token.geometry.as_ref().map(read_geometry);
        if geometry.is_some() != (mode == SegmentMode::Authenticated)
            || geometry.is_some_and(|geometry| !geometry.is_possible())
        {
            return Err(Refusal::TokenGeometry);
        }
        Ok(Some(Self { state, geometry, mac }))
    }

    /// The token as it stands in the metadata.
    pub(crate) fn token(&self) -> Token {
        let state = &self.state;
        Token {
            kind: TYPE.to_owned(),
            keyslots: Vec::new(),
            version: VERSION,
            state: State {
                role: state.role,
                node_name: state.node_name.to_string(),
                cluster_id: state.cluster_id.to_string(),
                measurement_salt: hex::encode(state.measurement_salt),
                phase: state.phase,
                epoch: state.epoch,
                attempt: state.attempt,
            },
            geometry: self.geometry.map(|geometry| TokenGeometry {
                data_sectors: Decimal(geometry.data_sectors),
                journal_sections: geometry.journal_sections,
            }),
            mac: hex::encode(self.mac),
        }
    }
}

fn read_state(state: &State) -> Option<NodeState> {
    Some(NodeState {
        role: state.role,
        node_name: state.node_name.parse().map_err(|_: StateError| ()).ok()?,
        cluster_id: state.cluster_id.parse().ok()?,
        measurement_salt: hex32(&state.measurement_salt)?,
        phase: state.phase,
        epoch: state.epoch,
        attempt: state.attempt,
    })
}

const fn read_geometry(geometry: &TokenGeometry) -> Geometry {
    Geometry { data_sectors: geometry.data_sectors.0, journal_sections: geometry.journal_sections }
}

/// Everything the MAC covers, each part behind its length: the state, and each value of the header that the closed list
/// leaves open. What the list pins need not be covered: another value is refused before. Not covered are the sequence
/// id and the salt of the checksum, which cryptsetup's own repair of a broken copy may change.
///
/// The mode's name stands in front of the geometry, so that a transcript with one is never also one without.
fn transcript(volume: &Volume, geometry: Option<Geometry>, state: &NodeState) -> Vec<u8> {
    let geometry =
        geometry.map(|geometry| (geometry.data_sectors.to_be_bytes(), geometry.journal_sections.to_be_bytes()));
    let parts: [&[u8]; 21] = [
        MAC_LABEL,
        volume.uuid.as_bytes(),
        volume.label().as_bytes(),
        volume.subsystem().as_bytes(),
        &volume.header_size.to_be_bytes(),
        &volume.keyslots_size.to_be_bytes(),
        &volume.area_offset.to_be_bytes(),
        &volume.kdf.iterations.get().to_be_bytes(),
        &volume.kdf.salt,
        &volume.digest_kdf.iterations.get().to_be_bytes(),
        &volume.digest_kdf.salt,
        &volume.digest,
        &volume.data_offset.to_be_bytes(),
        volume.mode.name().as_bytes(),
        state.role.name().as_bytes(),
        state.node_name.as_str().as_bytes(),
        state.cluster_id.as_bytes(),
        &state.measurement_salt,
        state.phase.name().as_bytes(),
        &state.epoch.to_be_bytes(),
        &state.attempt.to_be_bytes(),
    ];
    let geometry = geometry.iter().flat_map(|(data, journal)| [&data[..], &journal[..]]);
    parts.into_iter().chain(geometry).flat_map(|part| prefix(part).into_iter().chain(part.iter().copied())).collect()
}

fn prefix(part: &[u8]) -> [u8; 8] {
    (part.len() as u64).to_be_bytes()
}

fn hex32(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{key, uuid};
    use ring::hkdf;

    #[test]
    fn the_token_key_is_hkdf_sha256_of_the_disk_key() {
        let uuid = uuid();
        let info = [&prefix(KEY_LABEL)[..], KEY_LABEL, &prefix(uuid.as_bytes())[..], uuid.as_bytes()];
        let mut expected = [0; 32];
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(key().expose());
        prk.expand(&info, hkdf::HKDF_SHA256).unwrap().fill(&mut expected).unwrap();
        assert_eq!(TokenKey::derive(&key(), uuid).expose(), &expected);
    }

    #[test]
    fn another_disk_with_the_same_key_has_another_token_key() {
        let other = "00000000-0000-0000-0000-000000000001".parse().unwrap();
        assert_ne!(TokenKey::derive(&key(), uuid()), TokenKey::derive(&key(), other));
    }
}
