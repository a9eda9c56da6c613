//! A credential for a TPM: what `TPM2_MakeCredential` gives and `TPM2_ActivateCredential` takes (part 1, section 24).

use super::{HashAlg, Reader, WireError, Writer};

/// Longest encrypted secret: an RSA-4096 ciphertext.
const MAX_SECRET: usize = 512;
/// Length field and content of the longest wrapped credential.
const MAX_IDENTITY: usize = 2 + HashAlg::MAX_SIZE;

/// `TPM2B_ID_OBJECT` and `TPM2B_ENCRYPTED_SECRET`, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// HMAC over the encrypted identity and the name of the key it is for; as long as the endorsement key's name hash.
    pub integrity: Vec<u8>,
    /// The credential as `TPM2B_DIGEST`, encrypted under a key derived from the seed; ≤ 66 bytes.
    pub identity: Vec<u8>,
    /// The seed, to the endorsement key: a `TPMS_ECC_POINT`, or an RSA-OAEP ciphertext; ≤ 512 bytes.
    pub secret: Vec<u8>,
}

impl Credential {
    /// Longest accepted, in bytes.
    pub const MAX_SIZE: usize = 2 + 2 + HashAlg::MAX_SIZE + MAX_IDENTITY + 2 + MAX_SECRET;

    /// Parses `TPM2B_ID_OBJECT ‖ TPM2B_ENCRYPTED_SECRET`.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        Reader::all(bytes, |reader| {
            let id_object = reader.sized("credential blob", 2 + HashAlg::MAX_SIZE + MAX_IDENTITY)?;
            let mut inner = Reader::new(id_object);
            let integrity = inner.sized("credential integrity", HashAlg::MAX_SIZE)?.to_vec();
            let identity = inner.rest().to_vec();
            if identity.len() > MAX_IDENTITY {
                return Err(WireError::Length { field: "encrypted identity", max: MAX_IDENTITY, got: identity.len() });
            }
            let secret = reader.sized("encrypted secret", MAX_SECRET)?.to_vec();
            Ok(Self { integrity, identity, secret })
        })
    }

    /// As `TPM2B_ID_OBJECT ‖ TPM2B_ENCRYPTED_SECRET`.
    pub fn marshal(&self) -> Vec<u8> {
        let id_object = Writer::build(|out| {
            out.sized(&self.integrity).bytes(&self.identity);
        });
        Writer::build(|out| {
            out.sized(&id_object).sized(&self.secret);
        })
    }
}
