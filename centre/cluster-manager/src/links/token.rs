//! The secret in a link.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// Its random bytes.
const BYTES: usize = 32;
/// Its characters in a URL.
const CHARACTERS: usize = 43;

/// The secret in a link: 256 random bits. It is stored nowhere.
pub struct Token(Zeroizing<[u8; BYTES]>);

/// A text that is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token has {CHARACTERS} characters of base64url; see that the link was copied whole")]
pub struct TokenError;

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

impl Token {
    /// The token of these bytes, from the system's random numbers.
    pub fn from_random(bytes: [u8; BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Reads the text of a link.
    pub fn read(text: &str) -> Result<Self, TokenError> {
        if text.len() != CHARACTERS {
            return Err(TokenError);
        }
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError)?);
        let bytes = <[u8; BYTES]>::try_from(bytes.as_slice()).map_err(|_| TokenError)?;
        Ok(Self::from_random(bytes))
    }

    /// Its text in a link.
    pub fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(URL_SAFE_NO_PAD.encode(*self.0))
    }

    /// What is stored in its place. A hash without salt or stretching: nobody guesses 256 bits.
    pub(super) fn hash(&self) -> Hash {
        Hash::of(self.0.as_slice())
    }
}

/// SHA-256, compared in constant time.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Hash([u8; 32]);

impl Hash {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Hash {}

impl TryFrom<String> for Hash {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, hex::FromHexError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes)?;
        Ok(Self(bytes))
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hex::encode(hash.0)
    }
}
