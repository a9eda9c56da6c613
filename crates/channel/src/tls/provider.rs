//! The cryptography of the channel, all of it: swap the provider by swapping this file.
//!
//! One choice of each kind leaves nothing to negotiate and nothing to downgrade. RFC 8446 section 9.1 makes exactly
//! these three mandatory: "A TLS-compliant application MUST implement the `TLS_AES_128_GCM_SHA256` cipher suite",
//! "MUST support digital signatures with … `ecdsa_secp256r1_sha256`" and "MUST support key exchange with secp256r1".
//! They are of one strength, and the agent links them anyway: SHA-256 for PCRs, P-256 for quotes and for
//! `TPM2_MakeCredential`. X25519 or SHA-384 would add code and no strength. What they do not give is safety from a
//! future quantum computer reading a recording; see LIMITATIONS.md.

use std::fmt;
use std::sync::{Arc, LazyLock};

use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use rustls::crypto::ring::{cipher_suite::TLS13_AES_128_GCM_SHA256, kx_group::SECP256R1};
use rustls::crypto::{CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, WebPkiSupportedAlgorithms};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

/// Length of an uncompressed P-256 point: 04 ‖ X ‖ Y.
pub(super) const P256_POINT_LEN: usize = 65;
/// The one signature scheme, for TLS signatures and pinned keys.
pub(super) const SCHEME: SignatureScheme = SignatureScheme::ECDSA_NISTP256_SHA256;

/// The one provider.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        Arc::new(CryptoProvider {
            cipher_suites: vec![TLS13_AES_128_GCM_SHA256],
            kx_groups: vec![SECP256R1],
            // Used by rustls' own verifiers only; ours is in `verifier.rs`.
            signature_verification_algorithms: WebPkiSupportedAlgorithms { all: &[], mapping: &[] },
            secure_random: &OsRandom,
            key_provider: &NoStoredKeys,
        })
    });
    Arc::clone(&PROVIDER)
}

/// A P-256 private key: of one connection, or pinned.
pub(crate) struct P256Key(EcdsaKeyPair);

/// The key could not be made, read or used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionKeyError;

impl P256Key {
    /// A fresh key. `ring` hands it out by way of PKCS #8 on the stack, which it does not wipe: acceptable for a key
    /// that is worthless outside its own connection, because evidence covers the exporter and not only the key.
    pub(crate) fn generate() -> Result<Self, ConnectionKeyError> {
        let random = SystemRandom::new();
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).map_err(|_| ConnectionKeyError)?;
        Self::from_pkcs8(document.as_ref())
    }

    /// A stored key, PKCS #8 version 1 in DER with the public key inside, as `openssl pkcs8 -topk8` writes it.
    pub(crate) fn from_pkcs8(der: &[u8]) -> Result<Self, ConnectionKeyError> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der, &SystemRandom::new())
            .map(Self)
            .map_err(|_| ConnectionKeyError)
    }

    /// The public point, uncompressed (SEC 1 section 2.3.3).
    pub(crate) fn point(&self) -> Result<&[u8; P256_POINT_LEN], ConnectionKeyError> {
        self.0.public_key().as_ref().try_into().map_err(|_| ConnectionKeyError)
    }

    /// An ECDSA/SHA-256 signature in DER.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, ConnectionKeyError> {
        let signature = self.0.sign(&SystemRandom::new(), message).map_err(|_| ConnectionKeyError)?;
        Ok(signature.as_ref().to_vec())
    }
}

impl fmt::Debug for P256Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("P256Key(secret)")
    }
}

/// Whether `signature` (DER) over `message` is by the key at `point`, which may be any bytes.
pub(crate) fn signature_is_by(point: &[u8], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature).is_ok()
}

/// Fills `bytes` from the operating system.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), ConnectionKeyError> {
    SystemRandom::new().fill(bytes).map_err(|_| ConnectionKeyError)
}

/// A connection's key as rustls wants to hold it.
#[derive(Clone, Debug)]
pub(super) struct ConnectionKey(pub(super) Arc<P256Key>);

impl SigningKey for ConnectionKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&SCHEME).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for ConnectionKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        self.0.sign(message).map_err(|ConnectionKeyError| rustls::Error::General("signing failed".into()))
    }

    fn scheme(&self) -> SignatureScheme {
        SCHEME
    }
}

#[derive(Debug)]
struct OsRandom;

impl SecureRandom for OsRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        fill_random(bytes).map_err(|ConnectionKeyError| GetRandomFailed)
    }
}

/// There is no way to load a key into the TLS layer: each connection makes its own.
#[derive(Debug)]
struct NoStoredKeys;

impl KeyProvider for NoStoredKeys {
    fn load_private_key(&self, _: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, rustls::Error> {
        Err(rustls::Error::General("keys are made per connection".into()))
    }
}
