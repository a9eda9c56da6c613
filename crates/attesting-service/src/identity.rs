//! The key that the service proves itself with.

use latchkey_channel::{PinnedKeyAttester, PinnedKeyError};
use latchkey_keys::{KeyError, read_private_file, write_private_file};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const MAX_KEY_FILE: usize = 16 * 1024;

/// Why there is no key to prove the service with. The operator's fault, or the file system's.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file is unsafe or unreadable; or a new one cannot be written, or is there already.
    #[error("{error}; {remedy}", error = .0, remedy = .0.code().remedy())]
    File(KeyError),
    /// What it holds is no P-256 key in PKCS#8.
    #[error("{}: {source}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with the key.
        source: PinnedKeyError,
    },
    /// The kernel gives no random numbers.
    #[error("the kernel gives no random numbers")]
    NoRandomness,
}

/// Reads the key: PKCS#8, PEM or DER, in a file that only the service's user or root can read.
///
/// # Errors
/// [`IdentityError`].
pub fn load(path: &Path) -> Result<PinnedKeyAttester, IdentityError> {
    let file = read_private_file(path, MAX_KEY_FILE).map_err(IdentityError::File)?;
    match PrivatePkcs8KeyDer::from_pem_slice(file.expose()) {
        Ok(der) => attester(path, der.secret_pkcs8_der()),
        Err(_) => attester(path, file.expose()),
    }
}

fn attester(path: &Path, pkcs8: &[u8]) -> Result<PinnedKeyAttester, IdentityError> {
    PinnedKeyAttester::from_pkcs8(pkcs8).map_err(|source| IdentityError::Unusable { path: path.to_owned(), source })
}

/// Writes a new key as PEM, mode 0600, durable when this returns; an existing file is left as it is.
///
/// # Errors
/// [`IdentityError`].
pub fn create(path: &Path) -> Result<PinnedKeyAttester, IdentityError> {
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
    let der = der.map_err(|_| IdentityError::NoRandomness)?;
    let pem = pem(der.as_ref());
    write_private_file(path, pem.as_bytes()).map_err(IdentityError::File)?;
    attester(path, der.as_ref())
}

/// RFC 7468 section 10, in lines of 64 characters.
fn pem(der: &[u8]) -> Zeroizing<String> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Zeroizing::new(String::with_capacity(der.len() * 2 + 128));
    text.push_str("-----BEGIN PRIVATE KEY-----\n");
    for line in der.chunks(48) {
        for group in line.chunks(3) {
            let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
            for place in 0..4 {
                let symbol = ALPHABET.get((bits >> (18 - 6 * place) & 63) as usize).copied().unwrap_or_default();
                text.push(if place <= group.len() { char::from(symbol) } else { '=' });
            }
        }
        text.push('\n');
    }
    text.push_str("-----END PRIVATE KEY-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_new_key_is_private_readable_and_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity.key");
        let hash = create(&path).unwrap().hash();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(load(&path).unwrap().hash(), hash);
        assert!(create(&path).unwrap_err().to_string().contains("exists"));
        assert_eq!(load(&path).unwrap().hash(), hash);
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity.key");
        create(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("chmod"));
    }

    #[test]
    fn der_is_read_as_well() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity.der");
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new()).unwrap();
        std::fs::write(&path, der.as_ref()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        load(&path).unwrap();
    }
}
