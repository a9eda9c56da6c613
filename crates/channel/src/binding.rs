//! What evidence covers: this session, this purpose, this side, now.
//!
//! SHA-256 over these fields in this order, each preceded by its length as a big-endian u32:
//!
//! 1. the label `latchkey attested channel v1`
//! 2. the purpose's name
//! 3. `client` or `server`: the side that makes the evidence
//! 4. the TLS exporter, 32 bytes
//! 5. SHA-256 of the client's `SubjectPublicKeyInfo`
//! 6. SHA-256 of the server's `SubjectPublicKeyInfo`
//! 7. the client's nonce, 32 bytes
//! 8. the server's nonce, 32 bytes
//!
//! Relayed to another session, evidence meets another exporter; sent back to its maker, another side; used for
//! another purpose, another purpose; kept for later, another nonce.

use std::fmt;

use latchkey_attestation::parse::Digest;
use ring::digest::{Context, SHA256};

use crate::nonce::Nonce;
use crate::purpose::{Purpose, Side};
use crate::tls::Session;

const LABEL: &[u8] = b"latchkey attested channel v1";

/// The 32 bytes that a side's evidence covers. Displays as hexadecimal, for audit.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Binding(Digest);

impl Binding {
    /// The bytes, a quote's `extraData`.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    pub(crate) fn new(session: &Session, purpose: Purpose, maker: Side, nonces: &Nonces) -> Self {
        let fields: [&[u8]; 8] = [
            LABEL,
            purpose.name().as_bytes(),
            maker.name().as_bytes(),
            &session.exporter,
            &session.client_key.0,
            &session.server_key.0,
            nonces.client.as_bytes(),
            nonces.server.as_bytes(),
        ];
        let mut hash = Context::new(&SHA256);
        for field in fields {
            // Every field is far shorter than 2³² bytes.
            let length = u32::try_from(field.len()).unwrap_or(u32::MAX);
            hash.update(&length.to_be_bytes());
            hash.update(field);
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(hash.finish().as_ref());
        Self(Digest(digest))
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Binding({self})")
    }
}

/// Both nonces of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nonces {
    pub(crate) client: Nonce,
    pub(crate) server: Nonce,
}

/// What each side's evidence covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bindings {
    /// What the client's evidence covers. Both ends log it, so that their logs can be joined.
    pub client: Binding,
    /// What the server's evidence covers.
    pub server: Binding,
}

impl Bindings {
    pub(crate) fn new(session: &Session, purpose: Purpose, nonces: &Nonces) -> Self {
        Self {
            client: Binding::new(session, purpose, Side::Client, nonces),
            server: Binding::new(session, purpose, Side::Server, nonces),
        }
    }

    /// What one side's evidence covers.
    pub const fn of(&self, side: Side) -> Binding {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::SpkiHash;

    fn session() -> Session {
        Session { exporter: [0x11; 32], client_key: SpkiHash([0x22; 32]), server_key: SpkiHash([0x33; 32]) }
    }

    fn nonces() -> Nonces {
        Nonces { client: Nonce::from_bytes([0x44; 32]), server: Nonce::from_bytes([0x55; 32]) }
    }

    /// Computed independently with Python's hashlib:
    /// `sha256(b"".join(struct.pack(">I", len(f)) + f for f in fields))`.
    #[test]
    fn known_answer() {
        let bindings = Bindings::new(&session(), Purpose::Join, &nonces());
        assert_eq!(bindings.client.to_string(), "7e661669020ba5746ceb9cf856bcad6eac7a9ad34fd80634fc306212ba9c38d0");
        assert_eq!(bindings.server.to_string(), "33c0af098d0cd48417f5789ed1f470f59cf192d4e11d8b830945099cc64da425");
    }

    #[test]
    fn every_field_changes_the_binding() {
        let original = Binding::new(&session(), Purpose::Join, Side::Client, &nonces());
        let mut others = vec![original];
        for purpose in Purpose::ALL {
            others.push(Binding::new(&session(), purpose, Side::Server, &nonces()));
            if purpose != Purpose::Join {
                others.push(Binding::new(&session(), purpose, Side::Client, &nonces()));
            }
        }
        for change in [
            (|session, _| session.exporter[31] ^= 1) as fn(&mut Session, &mut Nonces),
            |session, _| session.client_key.0[31] ^= 1,
            |session, _| session.server_key.0[31] ^= 1,
            |_, nonces| nonces.client = Nonce::from_bytes([0x54; 32]),
            |_, nonces| nonces.server = Nonce::from_bytes([0x45; 32]),
            |session, _| std::mem::swap(&mut session.client_key, &mut session.server_key),
            |_, nonces| std::mem::swap(&mut nonces.client, &mut nonces.server),
        ] {
            let (mut session, mut nonces) = (session(), nonces());
            change(&mut session, &mut nonces);
            others.push(Binding::new(&session, Purpose::Join, Side::Client, &nonces));
        }
        let distinct: std::collections::HashSet<_> = others.iter().collect();
        assert_eq!(distinct.len(), others.len());
    }
}
