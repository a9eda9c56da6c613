//! Finding a node's endorsement key and its certificate (*TCG EK Credential Profile* 2.5, section 2.2).

use super::{Hierarchy, Key, ResponseReason, Tpm, TpmError};
use crate::wire::{EkTemplate, Public, PublicKey};

/// Persistent handles reserved for endorsement keys (*TCG Registry of Reserved TPM 2.0 Handles*, section 2.3.1).
const PERSISTENT: std::ops::RangeInclusive<u32> = 0x8101_0000..=0x8101_ffff;
/// "EK Certificate Chain" (profile, section 2.2.1.5.1): indices with the certificates of the issuers.
const CHAIN: std::ops::RangeInclusive<u32> = 0x01c0_0100..=0x01c0_01ff;
/// Issuers' certificates taken from a TPM.
const MAX_CHAIN: usize = 4;

/// One of a TPM's endorsement keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndorsementKey {
    /// What it is made from.
    pub template: EkTemplate,
    /// Its public area.
    pub public: Public,
    /// Its certificate (DER), if the TPM holds one.
    pub certificate: Option<Vec<u8>>,
}

/// An endorsement key and, where the TPM holds one, its certificate (DER).
#[derive(Debug)]
pub(super) struct Endorsement {
    pub(super) key: Key,
    pub(super) certificate: Option<Vec<u8>>,
}

impl Tpm {
    /// Every endorsement key that this TPM can make, one of each template that it implements. Making an RSA key takes a
    /// discrete TPM many seconds.
    ///
    /// # Errors
    /// A command failed for another reason than that the TPM does not implement the key.
    pub fn endorsement_keys(&mut self) -> Result<Vec<EndorsementKey>, TpmError> {
        let mut keys = Vec::new();
        for template in EkTemplate::ALL {
            let Endorsement { key, certificate } = match self.endorsement(template) {
                Err(TpmError::Refused { code, .. })
                    if matches!(code.reason(), ResponseReason::Algorithm | ResponseReason::Value) =>
                {
                    continue;
                }
                other => other?,
            };
            if !PERSISTENT.contains(&key.handle) {
                self.flush(key.handle)?;
            }
            keys.push(EndorsementKey { template, public: key.public, certificate });
        }
        Ok(keys)
    }

    /// The endorsement key of `template`, and its certificate if the TPM holds one. Which template is asked for is never
    /// decided by what the TPM says: whoever hides an index on the bus hides a certificate, and is not shown another key
    /// that still has one.
    pub(super) fn endorsement(&mut self, template: EkTemplate) -> Result<Endorsement, TpmError> {
        if let Some(certificate) = self.certificate(template)?
            && let Some(key) = self.certified_key(template, &certificate)?
        {
            return Ok(Endorsement { key, certificate: Some(certificate) });
        }
        let key = self.create_primary(Hierarchy::Endorsement, &template.public(), None)?;
        Ok(Endorsement { key, certificate: None })
    }

    /// Certificates of the endorsement key's issuers that the manufacturer left in the TPM (DER), at most four.
    pub fn endorsement_chain(&mut self) -> Result<Vec<Vec<u8>>, TpmError> {
        let mut bytes = Vec::new();
        for index in self.handles(*CHAIN.start())?.into_iter().filter(|index| CHAIN.contains(index)).take(MAX_CHAIN) {
            bytes.extend(self.nv_read(index)?.unwrap_or_default());
        }
        let mut rest = bytes.as_slice();
        let mut chain = Vec::new();
        while let Some((certificate, tail)) = split_der(rest).filter(|_| chain.len() < MAX_CHAIN) {
            chain.push(certificate.to_vec());
            rest = tail;
        }
        Ok(chain)
    }

    /// The certificate for `template`, if its index holds something of a certificate's form. Indices may be longer
    /// than what is in them, and some have the certificate wrapped, as TPM 1.2 had it.
    fn certificate(&mut self, template: EkTemplate) -> Result<Option<Vec<u8>>, TpmError> {
        let content = self.nv_read(template.certificate_index())?;
        let certificate = content.as_deref().map(unwrapped).and_then(split_der);
        Ok(certificate.map(|(certificate, _)| certificate.to_vec()))
    }

    /// The key of `template` that `certificate` is about: a persistent one, or made anew.
    fn certified_key(&mut self, template: EkTemplate, certificate: &[u8]) -> Result<Option<Key>, TpmError> {
        for handle in self.handles(*PERSISTENT.start())?.into_iter().filter(|handle| PERSISTENT.contains(handle)) {
            // Keys of other kinds, which this crate cannot even name, may be there as well.
            let Ok(key) = self.read_public(handle, None) else { continue };
            if key.public.endorsement_template() == Some(template) && certifies(certificate, &key.public) {
                return Ok(Some(key));
            }
        }
        for public in self.starting_points(template)? {
            let key = match self.create_primary(Hierarchy::Endorsement, &public, None) {
                Err(TpmError::Refused { .. }) => continue,
                other => other?,
            };
            if certifies(certificate, &key.public) {
                return Ok(Some(key));
            }
            self.flush(key.handle)?;
        }
        Ok(None)
    }

    /// What a manufacturer may have made the key of `template` from. They disagree on the unique field: zeros of full
    /// length or nothing, and before either a nonce from NV (profile, section 2.2.1.4). The certificate tells which
    /// one was taken.
    fn starting_points(&mut self, template: EkTemplate) -> Result<Vec<Public>, TpmError> {
        let full = match template.public().key {
            PublicKey::Rsa { bits, .. } => usize::from(bits / 8),
            PublicKey::Ecc { curve, .. } => curve.size(),
        };
        let nonce = match template.nonce_index() {
            Some(index) => self.nv_read(index)?.filter(|nonce| nonce.len() <= full),
            None => None,
        };
        let padded = nonce.map(|mut nonce| {
            nonce.resize(full, 0);
            with_unique(template, nonce)
        });
        let other = with_unique(template, if template.is_high_range() { vec![0; full] } else { Vec::new() });
        Ok(padded.into_iter().chain([template.public(), other]).collect())
    }
}

/// `template` with `unique` in its unique field.
fn with_unique(template: EkTemplate, unique: Vec<u8>) -> Public {
    let mut public = template.public();
    match &mut public.key {
        PublicKey::Rsa { modulus, .. } => *modulus = unique,
        PublicKey::Ecc { point, .. } => {
            point.y = vec![0; unique.len()];
            point.x = unique;
        }
    }
    public
}

/// Whether the key's number or point stands in the certificate. This only picks the right one of a node's own keys;
/// whether the certificate is genuine is for the verifier to say.
pub(super) fn certifies(certificate: &[u8], public: &Public) -> bool {
    let needle = match &public.key {
        PublicKey::Rsa { modulus, .. } => Some(modulus.clone()),
        PublicKey::Ecc { curve, point } => point.uncompressed(*curve),
    };
    needle.is_some_and(|needle| certificate.windows(needle.len()).any(|window| window == needle))
}

/// Without the head of `TCG_PCCLIENT_STORED_CERT` (TCG PC Client Implementation Specification for Conventional BIOS 1.21, section 7.4.5.1): tag 0x1001,
/// a whole certificate (0), and its size in two bytes.
fn unwrapped(content: &[u8]) -> &[u8] {
    match content {
        [0x10, 0x01, 0x00, _, _, certificate @ ..] => certificate,
        _ => content,
    }
}

/// Splits a DER SEQUENCE with a two-byte length, as every certificate is, off the front.
pub(super) fn split_der(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let [0x30, 0x82, high, low, ..] = bytes else { return None };
    bytes.split_at_checked(4 + usize::from(u16::from_be_bytes([*high, *low])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_found_with_padding_behind_it_and_in_a_wrapping() {
        let der = [&[0x30, 0x82, 0x00, 0x03][..], &[1, 2, 3]].concat();
        let padded = [&der[..], &[0xff; 40]].concat();
        let wrapped = [&[0x10, 0x01, 0x00, 0x00, 0x07][..], &padded].concat();
        for content in [&der, &padded, &wrapped] {
            assert_eq!(split_der(unwrapped(content)).unwrap().0, der);
        }
        // Of another kind of wrapping nothing is known.
        assert_eq!(split_der(unwrapped(&[&[0x10, 0x01, 0x01, 0x00, 0x07][..], &der].concat())), None);
    }
}
