//! Secure Boot: signing the unified kernel image, and enrolling who signed it, so that firmware starts nothing else.

mod der;
mod enroll;
mod sign;

pub use enroll::Keys;
pub use sign::Signer;
use sign::certificate;

/// What Secure Boot needs of an image.
#[derive(Debug)]
pub struct SecureBoot {
    /// Signs the image; its certificate goes into `db`.
    pub signer: Signer,
    /// The platform key's certificate, DER [the signer's].
    pub platform: Option<Vec<u8>>,
    /// The key exchange key's, DER [the platform key's].
    pub exchange: Option<Vec<u8>>,
    /// A variable store without variables, to enroll the keys in: `OVMF_VARS_4M.fd`.
    pub variables: Option<Vec<u8>>,
}

impl SecureBoot {
    /// Who decides what boots.
    pub fn keys(&self) -> Keys {
        let image = self.signer.certificate().to_vec();
        let platform = self.platform.clone().unwrap_or_else(|| image.clone());
        let exchange = self.exchange.clone().unwrap_or_else(|| platform.clone());
        Keys { platform, exchange, image }
    }
}

/// A certificate, DER, from PEM.
pub fn certificate_from_pem(pem: &[u8]) -> Result<Vec<u8>, SecureBootError> {
    certificate(pem)
}

/// Why nothing was signed or enrolled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecureBootError {
    /// No RSA key that can be used.
    #[error("the key is no RSA key of at least 2048 bits in PEM without a password")]
    Key,
    /// No X.509 certificate in PEM.
    #[error("the certificate is no X.509 certificate in PEM")]
    Certificate,
    /// The certificate is of another key.
    #[error("the certificate is of another key")]
    KeyOfAnother,
    /// No PE file with room for a signature, or one that has a signature.
    #[error("the image has no room for a signature, or is signed already")]
    NoImage,
    /// No empty variable store.
    #[error("the template is no variable store without variables")]
    Template,
}

impl SecureBootError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Template => "give OVMF_VARS_4M.fd of the package ovmf",
            _ => return None,
        })
    }
}
