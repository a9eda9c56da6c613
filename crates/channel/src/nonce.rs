//! Nonces: one per side and connection, exactly 32 bytes, in exactly one encoding.

use std::fmt;

use latchkey_attestation::parse::Digest;
use serde::{Deserialize, Serialize};

use crate::tls::fill_random;

/// A side's contribution to the freshness of a connection. In JSON 64 lower-case hexadecimal digits, nothing else.
///
/// It is made for one handshake and consumed with it: there is no table of nonces that could hold one twice.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonce(Digest);

impl Nonce {
    /// A nonce of these bytes. Only for runs that must repeat; connections use [`Self::random`].
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Digest(bytes))
    }

    /// A fresh nonce, `None` if the operating system has no randomness to give.
    pub fn random() -> Option<Self> {
        let mut bytes = [0; 32];
        fill_random(&mut bytes).ok().map(|()| Self::from_bytes(bytes))
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({})", self.0)
    }
}
