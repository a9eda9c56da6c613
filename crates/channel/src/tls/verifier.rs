//! Which peers TLS accepts: whoever shows one raw P-256 key and holds it now.
//!
//! That says nothing about *who* the peer is. Evidence bound to this very session says it, in the frames that follow.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerIncompatible, PeerMisbehaved,
    SignatureScheme,
};

use super::provider::SCHEME;
use super::spki::{PeerKeyError, Spki};

/// The verifier of both sides.
#[derive(Debug)]
pub(super) struct AnyHolder;

impl ServerCertVerifier for AnyHolder {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        verify_form(shown, others)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_possession(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SCHEME]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for AnyHolder {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        verify_form(shown, others)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_possession(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SCHEME]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn verify_form(shown: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
    if !others.is_empty() {
        return Err(refused(PeerKeyError::Number { got: others.len() + 1 }));
    }
    key(shown).map(drop)
}

/// RFC 8446 section 4.4.3: the signature that proves possession of the key that is shown, over the whole handshake.
fn verify_possession(
    message: &[u8],
    shown: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    if signed.scheme != SCHEME {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    if key(shown)?.verifies(message, signed.signature()) {
        Ok(HandshakeSignatureValid::assertion())
    } else {
        Err(CertificateError::BadSignature.into())
    }
}

fn key(shown: &CertificateDer<'_>) -> Result<Spki, Error> {
    Spki::from_der(shown).ok_or_else(|| refused(PeerKeyError::Form))
}

fn refused(error: PeerKeyError) -> Error {
    CertificateError::Other(OtherError(Arc::new(error))).into()
}
