//! `TPM2_MakeCredential` in software: TPM 2.0 Library Part 1, section 24 (credential protection) and annexes B.10.4
//! (RSA) and C.6.4 (ECC).

use latchkey_tpm::wire::{Credential, Curve, EccPoint, HashAlg, Public, PublicKey, cfb, kdf_a, kdf_e};
use ring::rand::SecureRandom;
use zeroize::Zeroizing;

use crate::parse::{Bytes, MAX_CREDENTIAL};
use crate::refusal::{ReasonCode, Refusal};

/// Wraps `secret` so that only the TPM that holds `ek` can open it, and only if it also holds the object named `name`.
/// The result is `TPM2B_ID_OBJECT` ‖ `TPM2B_ENCRYPTED_SECRET`.
pub(super) fn make(
    ek: &Public,
    name: &[u8],
    secret: &[u8],
    random: &dyn SecureRandom,
) -> Result<Bytes<MAX_CREDENTIAL>, Refusal> {
    let hash = ek.name_alg;
    let bits = digest_bits(hash);
    let (seed, encrypted_seed) = match &ek.key {
        PublicKey::Ecc { curve, point } => share_seed(hash, *curve, point, random)?,
        PublicKey::Rsa { modulus, .. } => rsa::encrypt_seed(hash, modulus, random)?,
    };
    // Part 1, section 24.4: the key from KDFa(nameAlg, seed, "STORAGE", name), then CFB with a zero IV.
    let key = kdf_a(hash, &seed, "STORAGE", name, &[], ek.symmetric.bits());
    let mut identity = Zeroizing::new(sized(secret)?);
    cfb::encrypt(ek.symmetric, &key, [0; cfb::BLOCK], &mut identity)
        .ok_or_else(|| verifier_error("no cipher for this endorsement key"))?;
    // Part 1, section 24.5: the key from KDFa(nameAlg, seed, "INTEGRITY"), the HMAC over ciphertext and name.
    let key = kdf_a(hash, &seed, "INTEGRITY", &[], &[], bits);
    let integrity = hash.hmac(&key, &[&identity, name]).as_ref().to_vec();
    let credential = Credential { integrity, identity: identity.to_vec(), secret: encrypted_seed };
    Bytes::new(credential.marshal()).ok_or_else(|| verifier_error("a credential longer than any"))
}

type Seed = Zeroizing<Vec<u8>>;

/// Annex C.6.4: one-pass Diffie-Hellman with an ephemeral key; the secret that is sent is its public point.
fn share_seed(
    hash: HashAlg,
    curve: Curve,
    ek: &EccPoint,
    random: &dyn SecureRandom,
) -> Result<(Seed, Vec<u8>), Refusal> {
    let peer = ek.uncompressed(curve).ok_or_else(|| ecdh::EcdhError::Peer.refusal())?;
    // Annex C.6.1: KDFe(nameAlg, Z, "IDENTITY", ephemeral.x, ek.x).
    let derive = |z: &[u8], ephemeral: &EccPoint| kdf_e(hash, z, "IDENTITY", &ephemeral.x, &ek.x, digest_bits(hash));
    let agreed = match curve {
        // ring takes 2.5 ms for P-384, a third of that here, and does not have P-521.
        #[cfg(feature = "rsa-ek")]
        Curve::P384 | Curve::P521 => ecdh::with_aws_lc(curve, &peer, derive),
        #[cfg(feature = "rsa-ek")]
        Curve::P256 => ecdh::with_ring(curve, &peer, random, derive),
        #[cfg(not(feature = "rsa-ek"))]
        Curve::P256 | Curve::P384 | Curve::P521 => ecdh::with_ring(curve, &peer, random, derive),
    };
    let (seed, ephemeral) = agreed.map_err(|error| error.refusal())?;
    Ok((seed, ephemeral.marshal()))
}

/// As `TPM2B_DIGEST`.
fn sized(secret: &[u8]) -> Result<Vec<u8>, Refusal> {
    let length = u16::try_from(secret.len()).map_err(|_| verifier_error("a secret longer than any"))?;
    Ok([&length.to_be_bytes(), secret].concat())
}

fn digest_bits(hash: HashAlg) -> u16 {
    match hash {
        HashAlg::Sha256 => 256,
        HashAlg::Sha384 => 384,
        HashAlg::Sha512 => 512,
    }
}

fn verifier_error(detail: &str) -> Refusal {
    Refusal::new(ReasonCode::VerifierFault, detail)
}

mod ecdh;

#[cfg(feature = "rsa-ek")]
mod rsa;

#[cfg(not(feature = "rsa-ek"))]
mod rsa {
    //! This build does without RSA: ring does not have OAEP.

    use super::{HashAlg, ReasonCode, Refusal, SecureRandom, Seed};

    pub(super) fn encrypt_seed(_: HashAlg, _: &[u8], _: &dyn SecureRandom) -> Result<(Seed, Vec<u8>), Refusal> {
        Err(Refusal::new(
            ReasonCode::EkAlgorithmUnsupported,
            "an RSA endorsement key, for which this build makes no credential",
        ))
    }
}
