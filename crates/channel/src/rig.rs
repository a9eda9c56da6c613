//! Ends of the channel that do not follow the protocol, for tests that attack it. Behind the feature `test-rig`, for
//! dev-dependencies only; no release enables it.

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use smol::io::{AsyncRead, AsyncWrite};

use crate::accept::Greeting;
use crate::driver::{self, HANDSHAKE_TIME, Line};
use crate::error::ChannelError;
use crate::frame::{self, FrameError, Slot};
use crate::handshake::Reception;
use crate::message::Message;
use crate::proof::Terms;
use crate::proven::Proven;
use crate::purpose::{Purpose, Side};
use crate::tls::{self, P256Key, Session, TlsError, TlsStream};

/// A TLS key that can be in two hands.
#[derive(Debug)]
pub struct SharedKey(Vec<u8>);

impl SharedKey {
    /// A fresh key.
    ///
    /// # Panics
    /// Without randomness.
    #[expect(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Self {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        Self(pkcs8.expect("randomness").as_ref().to_vec())
    }

    fn take(&self) -> P256Key {
        P256Key::from_pkcs8(&self.0).expect("made by new")
    }

    /// The raw public key (DER) and the key as rustls takes them.
    ///
    /// # Panics
    /// Without randomness.
    pub fn for_rustls(&self) -> rustls::sign::CertifiedKey {
        tls::certified(self.take()).expect("randomness")
    }
}

/// The channel's cryptography, for a rustls end of the test's own.
pub fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    tls::crypto_provider()
}

/// Only TLS, with this key: what follows is up to the attacker.
pub async fn unproven<S>(key: &SharedKey, io: S, side: Side) -> Result<(TlsStream<S>, Session), TlsError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    tls::establish_with(key.take(), io, side, u64::MAX).await
}

/// The honest rest of the handshake of a client whose TLS is established.
pub async fn prove_as_client<S>(
    stream: TlsStream<S>,
    session: Session,
    purpose: Purpose,
    terms: Terms,
) -> Result<Proven<S>, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    driver::prove(Line::established(stream, HANDSHAKE_TIME), session, purpose, terms).await
}

/// The honest rest of the handshake of a server whose TLS is established.
pub async fn prove_as_server<S>(
    stream: TlsStream<S>,
    session: Session,
    reception: &dyn Reception,
) -> Result<Proven<S>, ChannelError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let greeting = Greeting::of(Line::established(stream, HANDSHAKE_TIME), session).await?;
    match reception.terms(greeting.purpose()) {
        Some(terms) => greeting.challenge(terms).await?.evidence().await?.conclude().await,
        None => Err(greeting.refuse().await),
    }
}

/// Sends one message.
pub async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &Message) -> std::io::Result<()> {
    frame::send(stream, message).await
}

/// Receives one message, bounded as for `slot`.
pub async fn receive(stream: &mut (impl AsyncRead + Unpin), slot: Slot) -> Result<Message, FrameError> {
    frame::receive(stream, slot).await
}
