//! Which key a node quotes with: one that is made for it, or one that its cloud put into the TPM with a certificate.

use super::endorsement::{certifies, split_der};
use super::{Hierarchy, Key, ResponseReason, Session, Tpm, TpmError};
use crate::wire::{Public, attestation_key};

/// Where the attestation key comes from. It is asked for by name, and never what a TPM happens to have: whoever hides an NV
/// index on the bus hides a key, and is not shown another one.
///
/// Of clouds (read in their vendors' published sources, `google/go-tpm-tools` and `microsoft/openvmm`; seen with swtpm): all are
/// primaries of the endorsement hierarchy with an empty password and without `adminWithPolicy`, so that they activate credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttestationKeySource {
    /// Made by this crate, ECDSA on P-256, without a certificate.
    Own,
    /// Google's, ECDSA on P-256: made from the template in an NV index.
    GoogleEcc,
    /// Google's, RSASSA with 2048 bits: the same with other indices.
    GoogleRsa,
    /// Azure's, RSASSA with 2048 bits: a persistent key.
    Azure,
    /// The same key without its certificate: in a confidential machine the processor vouches for it ([`Tpm::azure_hcl_report`]).
    AzureHcl,
}

/// An attestation key and, where a cloud issued one, its certificate (DER).
#[derive(Debug)]
pub(super) struct AttestationKey {
    pub(super) key: Key,
    pub(super) certificate: Option<Vec<u8>>,
}

impl AttestationKeySource {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Own, Self::GoogleEcc, Self::GoogleRsa, Self::Azure, Self::AzureHcl];

    /// Its name in `latchkey.ak`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::GoogleEcc => "google-ecc",
            Self::GoogleRsa => "google-rsa",
            Self::Azure => "azure",
            Self::AzureHcl => "azure-hcl",
        }
    }
}

impl Tpm {
    /// Makes or finds the key, in `session`. A cloud's key comes with a certificate that is about it, and is one that signs what
    /// the TPM made and nothing else.
    pub(super) fn attestation_key(
        &mut self,
        source: AttestationKeySource,
        session: &mut Session,
    ) -> Result<AttestationKey, TpmError> {
        let (certificate, key) = match source {
            AttestationKeySource::Own => {
                let key = self.create_primary(Hierarchy::Endorsement, &attestation_key(), Some(session))?;
                return Ok(AttestationKey { key, certificate: None });
            }
            AttestationKeySource::GoogleEcc => self.google_key(0x01c1_0002, 0x01c1_0003, session)?,
            AttestationKeySource::GoogleRsa => self.google_key(0x01c1_0000, 0x01c1_0001, session)?,
            AttestationKeySource::Azure => {
                let certificate = self.attestation_certificate(0x01c1_01d0)?;
                (Some(certificate), self.persistent_key(AZURE_KEY, session)?)
            }
            AttestationKeySource::AzureHcl => (None, self.persistent_key(AZURE_KEY, session)?),
        };
        let certified = |public| certificate.as_deref().is_none_or(|certificate| certifies(certificate, public));
        let unfit = match key.public() {
            public if !public.is_restricted_signing_key() => Some("it is no restricted signing key of this TPM"),
            public if !certified(public) => Some("the certificate beside it is about another key"),
            _ => None,
        };
        match unfit {
            Some(why) => Err(TpmError::AttestationKeyUnfit { key: source.name(), why }),
            None => Ok(AttestationKey { key, certificate }),
        }
    }

    /// What Azure's paravisor says of the key at 0x81000003: a report of the processor, and claims; not verified. At most 8 KiB; `None`
    /// where it says nothing.
    pub fn azure_hcl_report(&mut self) -> Result<Option<Vec<u8>>, TpmError> {
        self.nv_read(AZURE_REPORT)
    }

    fn google_key(
        &mut self,
        certificate: u32,
        template: u32,
        session: &mut Session,
    ) -> Result<(Option<Vec<u8>>, Key), TpmError> {
        let missing = TpmError::AttestationKeyMissing { what: "template", handle: template };
        let bytes = self.nv_read(template)?.ok_or(missing)?;
        let malformed = |source| TpmError::Malformed { command: "TPM2_NV_Read", source };
        let public = Public::parse_template(&bytes).map_err(malformed)?;
        let certificate = self.attestation_certificate(certificate)?;
        Ok((Some(certificate), self.create_primary(Hierarchy::Endorsement, &public, Some(session))?))
    }

    fn persistent_key(&mut self, handle: u32, session: &mut Session) -> Result<Key, TpmError> {
        self.read_public(handle, Some(session)).map_err(|error| match error {
            TpmError::Refused { code, .. } if code.reason() == ResponseReason::Handle => {
                TpmError::AttestationKeyMissing { what: "key", handle }
            }
            other => other,
        })
    }

    fn attestation_certificate(&mut self, index: u32) -> Result<Vec<u8>, TpmError> {
        let content = self.nv_read(index)?;
        let certificate = content.as_deref().and_then(split_der).map(|(certificate, _)| certificate.to_vec());
        certificate.ok_or(TpmError::AttestationKeyMissing { what: "readable certificate", handle: index })
    }
}

/// Azure's attestation key, and what vouches for it in confidential machines (`kinvolk/azure-cvm-tooling`, `az-cvm-vtpm`).
const AZURE_KEY: u32 = 0x8100_0003;
const AZURE_REPORT: u32 = 0x0140_0001;
