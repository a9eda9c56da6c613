//! The lower half of the channel: TLS 1.3, a fresh key on both sides, nothing to negotiate, nothing remembered.
//!
//! The sides show their keys as raw public keys (RFC 7250), not in certificates. A self-signed certificate would say the
//! same, cost a signature at one end and a verification at the other, and prove less than the TLS signature that
//! follows it anyway: RFC 8446 section 4.4.3 has each side sign the whole handshake with the key that it shows.
//!
//! After this half the two ends share a secret channel with *somebody*. [`Session`] is what the upper half binds
//! evidence to, so that the somebody becomes known.

mod config;
mod provider;
mod spki;
mod stream;
mod verifier;

use std::fmt;
use std::io;

use smol::io::{AsyncRead, AsyncWrite};
use zeroize::Zeroize;

pub use spki::{PeerKeyError, Spki, SpkiHash, SpkiHashError};
pub use stream::TlsStream;

pub(crate) use provider::{P256Key, fill_random};
pub(crate) use spki::{MAX_SIGNATURE_LEN, SPKI_LEN};
pub(crate) use stream::HandshakeTooLongError;

use crate::codes::ChannelCode;
use crate::purpose::Side;

/// The one protocol of the channel and its version: both ends must name it (RFC 7301).
pub const ALPN: &[u8] = b"latchkey/1";

/// RFC 9266 binds to `EXPORTER-Channel-Binding`; evidence here gets a label of its own, so that no other use of
/// the session's exporter can ever produce or consume what evidence covers.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-latchkey-attested-channel";

#[cfg(feature = "test-rig")]
pub(crate) use provider::provider as crypto_provider;

/// What is unique to one TLS session: evidence is bound to all of it.
///
/// Equal on both ends if and only if nobody is in the middle.
pub struct Session {
    /// Keying material exported under our label, with no context (RFC 8446 section 7.5).
    pub exporter: [u8; 32],
    /// The hash of the client's fresh key.
    pub client_key: SpkiHash,
    /// The hash of the server's fresh key.
    pub server_key: SpkiHash,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.exporter.zeroize();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("client_key", &self.client_key)
            .field("server_key", &self.server_key)
            .finish_non_exhaustive()
    }
}

/// Runs TLS as `side` over `io`. The peer may send `allowance` raw bytes before the stream is proven.
pub(crate) async fn establish<S>(io: S, side: Side, allowance: u64) -> Result<(TlsStream<S>, Session), TlsError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let key = P256Key::generate().map_err(|_| TlsError::NoKey)?;
    establish_with(key, io, side, allowance).await
}

/// As [`establish`], with a key that somebody else may have too.
pub(crate) async fn establish_with<S>(
    key: P256Key,
    io: S,
    side: Side,
    allowance: u64,
) -> Result<(TlsStream<S>, Session), TlsError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (tls, own_key) = config::connection(side, key).map_err(|_| TlsError::NoKey)?;
    let mut stream = TlsStream::new(io, tls, allowance);
    stream.handshake().await.map_err(TlsError::from_io)?;
    let session = session(stream.tls(), side, own_key)?;
    Ok((stream, session))
}

/// A key and what shows it, as rustls takes them.
#[cfg(feature = "test-rig")]
pub(crate) fn certified(key: P256Key) -> Option<rustls::sign::CertifiedKey> {
    config::certified(key).ok().map(|(certified, _)| certified)
}

fn session(tls: &rustls::Connection, side: Side, own_key: SpkiHash) -> Result<Session, TlsError> {
    if tls.alpn_protocol() != Some(ALPN) {
        return Err(TlsError::Alpn { got: tls.alpn_protocol().map(<[u8]>::to_vec) });
    }
    if tls.handshake_kind() != Some(rustls::HandshakeKind::Full) {
        return Err(TlsError::NotFull);
    }
    let peer_key = peer_key(tls)?;
    let (client_key, server_key) = match side {
        Side::Client => (own_key, peer_key),
        Side::Server => (peer_key, own_key),
    };
    let mut session = Session { exporter: [0; 32], client_key, server_key };
    tls.export_keying_material(&mut session.exporter, EXPORTER_LABEL, None).map_err(TlsError::Protocol)?;
    if client_key == server_key { Err(TlsError::OwnKey) } else { Ok(session) }
}

fn peer_key(tls: &rustls::Connection) -> Result<SpkiHash, TlsError> {
    match tls.peer_certificates() {
        Some([shown]) => Spki::from_der(shown).map(|spki| spki.hash()).ok_or(TlsError::Key(PeerKeyError::Form)),
        others => Err(TlsError::Key(PeerKeyError::Number { got: others.map_or(0, <[_]>::len) })),
    }
}

/// Why there is no TLS session.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The transport failed or ended.
    #[error("the connection failed: {0}")]
    Transport(io::Error),
    /// rustls refused what the peer sent, or the peer refused us by an alert.
    #[error("{0}")]
    Protocol(rustls::Error),
    /// The peer's key is not of the channel.
    #[error("{0}")]
    Key(PeerKeyError),
    /// The peer named another protocol, or none.
    #[error("expected the protocol latchkey/1, the peer named {}", named(.got.as_deref()))]
    Alpn {
        /// What was agreed upon.
        got: Option<Vec<u8>>,
    },
    /// The session was resumed, where every session must be fresh.
    #[error("the session was resumed, expected a full handshake")]
    NotFull,
    /// The peer shows our own key.
    #[error("the peer shows our own key")]
    OwnKey,
    /// The peer sent more than a whole handshake can need.
    #[error("the peer sent {HandshakeTooLongError}")]
    HandshakeTooLong,
    /// No random key could be made here.
    #[error("no random key could be made")]
    NoKey,
}

impl TlsError {
    pub(crate) fn from_io(error: io::Error) -> Self {
        let Some(inner) = error.get_ref() else { return Self::Transport(error) };
        if inner.is::<HandshakeTooLongError>() {
            return Self::HandshakeTooLong;
        }
        match inner.downcast_ref::<rustls::Error>() {
            Some(protocol) => Self::Protocol(protocol.clone()),
            None => Self::Transport(error),
        }
    }
}

impl TlsError {
    /// The stable reason code.
    pub const fn code(&self) -> ChannelCode {
        match self {
            Self::Transport(_) => ChannelCode::Transport,
            Self::Protocol(_) => ChannelCode::TlsRefused,
            Self::Key(_) => ChannelCode::TlsKey,
            Self::Alpn { .. } => ChannelCode::TlsProtocolName,
            Self::NotFull => ChannelCode::TlsResumed,
            Self::OwnKey => ChannelCode::TlsOwnKey,
            Self::HandshakeTooLong => ChannelCode::HandshakeTooLong,
            Self::NoKey => ChannelCode::NoRandomness,
        }
    }
}

fn named(protocol: Option<&[u8]>) -> String {
    protocol.map_or_else(|| "none".to_owned(), |name| format!("\"{}\"", name.escape_ascii()))
}
