//! Annex B.10.4: a random seed, sent with RSA-OAEP.

use aws_lc_rs::rsa::{
    OAEP_SHA256_MGF1SHA256, OAEP_SHA384_MGF1SHA384, OAEP_SHA512_MGF1SHA512, OaepPublicEncryptingKey,
    PublicEncryptingKey, PublicKeyComponents,
};
use zeroize::Zeroizing;

use super::{HashAlg, ReasonCode, Refusal, SecureRandom, Seed, verifier_error};

pub(super) fn encrypt_seed(
    hash: HashAlg,
    modulus: &[u8],
    random: &dyn SecureRandom,
) -> Result<(Seed, Vec<u8>), Refusal> {
    // Annex B.4: a key without a scheme of its own takes the hash of its name, for the mask, too.
    let scheme = match hash {
        HashAlg::Sha256 => &OAEP_SHA256_MGF1SHA256,
        HashAlg::Sha384 => &OAEP_SHA384_MGF1SHA384,
        HashAlg::Sha512 => &OAEP_SHA512_MGF1SHA512,
    };
    let invalid = || Refusal::new(ReasonCode::EkKeyInvalid, "the modulus is not that of an RSA key");
    let key = public_key(modulus).ok_or_else(invalid)?;
    let mut seed = Zeroizing::new(vec![0; hash.size()]);
    random.fill(&mut seed).map_err(|_| verifier_error("no random numbers"))?;
    let mut sealed = vec![0; key.ciphertext_size()];
    key.encrypt(scheme, &seed, &mut sealed, Some(LABEL)).map_err(|_| invalid())?;
    Ok((seed, sealed))
}

fn public_key(modulus: &[u8]) -> Option<OaepPublicEncryptingKey> {
    let components = PublicKeyComponents { n: modulus, e: &EXPONENT };
    let key: PublicEncryptingKey = components.try_into().ok()?;
    OaepPublicEncryptingKey::new(key).ok()
}

/// The label of Annex B.10.4, with the terminating zero that annex B.4 makes part of it.
const LABEL: &[u8] = b"IDENTITY\0";
/// 65537, the exponent of every TCG template.
const EXPONENT: [u8; 3] = [1, 0, 1];
