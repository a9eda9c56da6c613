//! The certificate that secrets of a cluster are sealed for.

use aws_lc_rs::rsa::{OaepPublicEncryptingKey, PublicEncryptingKey};
use x509_cert::Certificate;
use x509_cert::der::Encode as _;

use super::SealError;

/// The longest text of certificates, in bytes.
const MAX_PEM: usize = 32 << 10;
/// How large an RSA key may be, in bits.
const KEY_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// A key that secrets are sealed for. There is one only of a certificate that is valid at the time.
#[derive(Debug)]
pub struct SealingKey(OaepPublicEncryptingKey);

impl SealingKey {
    /// The key of the first certificate of `pem`, as the edge reported it (`kubeseal_cert`), at `now` in seconds
    /// since 1970.
    ///
    /// Nobody signed it but the controller itself: what vouches for it is that only the cluster's own account can
    /// write it.
    pub fn of(pem: &str, now: u64) -> Result<Self, SealError> {
        if pem.len() > MAX_PEM {
            return Err(SealError::Certificate("is too large"));
        }
        let chain = Certificate::load_pem_chain(pem.as_bytes());
        let chain = chain.map_err(|_| SealError::Certificate("is no X.509 certificate in PEM"))?;
        let certificate = chain.first().ok_or(SealError::Certificate("is missing in its PEM"))?.tbs_certificate();
        let validity = certificate.validity();
        let seconds = |time: &x509_cert::time::Time| time.to_unix_duration().as_secs();
        let (from, to) = (seconds(&validity.not_before), seconds(&validity.not_after));
        if !(from..=to).contains(&now) {
            return Err(SealError::Validity { from, to });
        }
        let unusable = SealError::Certificate("has no RSA key of 2048 to 8192 bits");
        let Ok(info) = certificate.subject_public_key_info().to_der() else { return Err(unusable) };
        let Ok(key) = PublicEncryptingKey::from_der(&info) else { return Err(unusable) };
        if !KEY_BITS.contains(&key.key_size_bits()) {
            return Err(unusable);
        }
        OaepPublicEncryptingKey::new(key).map(Self).map_err(|_| unusable)
    }

    pub(super) const fn oaep(&self) -> &OaepPublicEncryptingKey {
        &self.0
    }
}
