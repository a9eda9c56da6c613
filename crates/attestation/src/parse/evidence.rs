//! What an attester sends: first who it says it is, then, bound to the session, what it can prove.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::parse::{Bytes, PcrSet, PcrValues, ProcessorEvidence, ProcessorKind, from_json};
use crate::refusal::{ReasonCode, Refusal};

/// An attester's claimed identity: public areas and certificates, nothing of it trusted yet.
///
/// JSON: `{"ek_public": base64, "ek_certificate": base64?, "ek_intermediates": [base64]?, "ak_public": base64,
/// "ak_certificate": base64?}`.
/// Public areas are `TPMT_PUBLIC` (TPM 2.0 Library Part 2, section 12.2.4) without the size prefix of `TPM2B_PUBLIC`;
/// certificates are DER.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttesterIdentity {
    ek_public: Bytes<MAX_PUBLIC>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ek_certificate: Option<Bytes<MAX_CERTIFICATE>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "intermediates")]
    ek_intermediates: Vec<Bytes<MAX_CERTIFICATE>>,
    ak_public: Bytes<MAX_PUBLIC>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ak_certificate: Option<Bytes<MAX_CERTIFICATE>>,
}

impl AttesterIdentity {
    /// The identity of this machine's TPM.
    ///
    /// # Errors
    /// `identity-malformed` when something is longer than the wire allows.
    pub fn new(
        ek_public: Vec<u8>,
        ek_certificate: Option<Vec<u8>>,
        ek_intermediates: Vec<Vec<u8>>,
        ak_public: Vec<u8>,
    ) -> Result<Self, Refusal> {
        if ek_intermediates.len() > MAX_INTERMEDIATES {
            return Err(identity_too_large("ek_intermediates"));
        }
        let certificate = |der| Bytes::new(der).ok_or_else(|| identity_too_large("a certificate"));
        Ok(Self {
            ek_public: Bytes::new(ek_public).ok_or_else(|| identity_too_large("ek_public"))?,
            ek_certificate: ek_certificate.map(certificate).transpose()?,
            ek_intermediates: ek_intermediates.into_iter().map(certificate).collect::<Result<_, _>>()?,
            ak_public: Bytes::new(ak_public).ok_or_else(|| identity_too_large("ak_public"))?,
            ak_certificate: None,
        })
    }

    /// The same with the certificate that a cloud issued for the attestation key.
    ///
    /// # Errors
    /// `identity-malformed` when it is longer than the wire allows.
    pub fn with_ak_certificate(self, der: Vec<u8>) -> Result<Self, Refusal> {
        let certificate = Bytes::new(der).ok_or_else(|| identity_too_large("ak_certificate"))?;
        Ok(Self { ak_certificate: Some(certificate), ..self })
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// `identity-malformed`.
    pub fn from_json(json: &[u8]) -> Result<Self, Refusal> {
        from_json(json, MAX_IDENTITY_JSON, ReasonCode::IdentityMalformed)
    }

    /// `TPMT_PUBLIC` of the endorsement key.
    pub fn ek_public(&self) -> &[u8] {
        self.ek_public.as_slice()
    }

    /// DER of the endorsement key's certificate.
    pub fn ek_certificate(&self) -> Option<&[u8]> {
        self.ek_certificate.as_ref().map(Bytes::as_slice)
    }

    /// DER of certificates between the EK's certificate and a root.
    pub fn ek_intermediates(&self) -> impl Iterator<Item = &[u8]> {
        self.ek_intermediates.iter().map(Bytes::as_slice)
    }

    /// `TPMT_PUBLIC` of the attestation key.
    pub fn ak_public(&self) -> &[u8] {
        self.ak_public.as_slice()
    }

    /// DER of the attestation key's certificate.
    pub fn ak_certificate(&self) -> Option<&[u8]> {
        self.ak_certificate.as_ref().map(Bytes::as_slice)
    }
}

/// What the verifier asks of an attester: open this credential, quote these PCRs, have the processor vouch for it.
///
/// JSON: `{"credential": base64, "pcrs": [index, …], "processors": ["snp", "tdx"]?, "vmpl": 1?}`, `["snp-svsm"]` or `["snp-azure-hcl"]`. One of
/// those is the answer: a machine has one kind. `vmpl` is absent where it is 0, as agents that do not know it have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpmChallenge {
    credential: Bytes<MAX_CREDENTIAL>,
    pcrs: PcrSet,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    processors: BTreeSet<ProcessorKind>,
    #[serde(default, skip_serializing_if = "is_highest")]
    vmpl: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_highest(vmpl: &u32) -> bool {
    *vmpl == 0
}

impl TpmChallenge {
    pub(crate) fn new(
        credential: Bytes<MAX_CREDENTIAL>,
        pcrs: PcrSet,
        (processors, vmpl): (BTreeSet<ProcessorKind>, u32),
    ) -> Self {
        Self { credential, pcrs, processors, vmpl }
    }

    /// The processors one of which must vouch for the machine, over [`report_data`](crate::report_data); none where the TPM's word is
    /// enough.
    pub fn processors(&self) -> &BTreeSet<ProcessorKind> {
        &self.processors
    }

    /// The privilege level that a SEV-SNP guest has to ask for its report at; 0 is the highest.
    pub fn vmpl(&self) -> u32 {
        self.vmpl
    }

    /// `TPM2B_ID_OBJECT` ‖ `TPM2B_ENCRYPTED_SECRET`, as `TPM2_ActivateCredential` takes them.
    pub fn credential(&self) -> &[u8] {
        self.credential.as_slice()
    }

    /// The PCRs of the SHA-256 bank to quote: exactly these.
    pub fn pcrs(&self) -> PcrSet {
        self.pcrs
    }
}

/// An attester's evidence for one session, nothing of it trusted yet.
///
/// JSON: `{"quote": base64, "signature": base64, "pcrs": {index: hex}, "activated_secret": base64, "event_log": base64?,
/// "processor": {"snp": …}?}`; of the last, see [`ProcessorEvidence`].
// Cloned as part of a message that is sent: every copy of the secret wipes itself.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpmEvidence {
    quote: Bytes<MAX_QUOTE>,
    signature: Bytes<MAX_SIGNATURE>,
    pcrs: PcrValues,
    #[serde(with = "secret")]
    activated_secret: Zeroizing<Vec<u8>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event_log: Option<Bytes<MAX_EVENT_LOG>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    processor: Option<ProcessorEvidence>,
}

impl TpmEvidence {
    /// Evidence from the TPM's answers: `TPMS_ATTEST`, `TPMT_SIGNATURE`, the quoted PCRs' values, and the secret that
    /// `TPM2_ActivateCredential` returned.
    ///
    /// # Errors
    /// `evidence-malformed` when something is longer than the wire allows.
    pub fn new(
        quote: Vec<u8>,
        signature: Vec<u8>,
        pcrs: PcrValues,
        activated_secret: Zeroizing<Vec<u8>>,
        event_log: Option<Vec<u8>>,
    ) -> Result<Self, Refusal> {
        if activated_secret.len() > MAX_SECRET {
            return Err(evidence_too_large("activated_secret"));
        }
        Ok(Self {
            quote: Bytes::new(quote).ok_or_else(|| evidence_too_large("quote"))?,
            signature: Bytes::new(signature).ok_or_else(|| evidence_too_large("signature"))?,
            pcrs,
            activated_secret,
            event_log: event_log
                .map(|log| Bytes::new(log).ok_or_else(|| evidence_too_large("event_log")))
                .transpose()?,
            processor: None,
        })
    }

    /// The same with what the machine's processor says.
    #[must_use]
    pub fn with_processor(self, processor: ProcessorEvidence) -> Self {
        Self { processor: Some(processor), ..self }
    }

    /// What the machine's processor says of it.
    pub fn processor(&self) -> Option<&ProcessorEvidence> {
        self.processor.as_ref()
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// `evidence-malformed`.
    pub fn from_json(json: &[u8]) -> Result<Self, Refusal> {
        from_json(json, MAX_EVIDENCE_JSON, ReasonCode::EvidenceMalformed)
    }

    /// `TPMS_ATTEST`.
    pub fn quote(&self) -> &[u8] {
        self.quote.as_slice()
    }

    /// `TPMT_SIGNATURE`.
    pub fn signature(&self) -> &[u8] {
        self.signature.as_slice()
    }

    /// The values the attester claims were quoted.
    pub fn pcrs(&self) -> &PcrValues {
        &self.pcrs
    }

    /// What the attester found in the credential.
    pub fn activated_secret(&self) -> &[u8] {
        &self.activated_secret
    }

    /// The firmware's event log as claimed; meaningful only once replayed against quoted PCRs.
    pub fn event_log(&self) -> Option<&[u8]> {
        self.event_log.as_ref().map(Bytes::as_slice)
    }
}

impl fmt::Debug for TpmEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TpmEvidence")
            .field("quote", &self.quote)
            .field("signature", &self.signature)
            .field("pcrs", &self.pcrs)
            .field("event_log", &self.event_log)
            .field("processor", &self.processor)
            .finish_non_exhaustive()
    }
}

mod secret {
    //! The activated secret: base64 like everything else, but wiped.

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use zeroize::Zeroizing;

    pub(super) fn serialize<S: Serializer>(secret: &Zeroizing<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Zeroizing::new(STANDARD.encode(secret.as_slice())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<Vec<u8>>, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        if text.len() > super::MAX_SECRET.div_ceil(3) * 4 {
            return Err(D::Error::custom("an activated secret of more than 64 bytes"));
        }
        STANDARD.decode(text.as_bytes()).map(Zeroizing::new).map_err(|_| D::Error::custom("not base64"))
    }
}

/// Stops reading at the first certificate too many.
fn intermediates<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Bytes<MAX_CERTIFICATE>>, D::Error> {
    bounded_list(deserializer, MAX_INTERMEDIATES)
}

/// Reads a list, refusing at the first element beyond `limit`.
pub(crate) fn bounded_list<'de, D, T>(deserializer: D, limit: usize) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct ListVisitor<T>(usize, std::marker::PhantomData<T>);

    impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for ListVisitor<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {}", self.0)
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = sequence.next_element()? {
                if list.len() == self.0 {
                    return Err(serde::de::Error::custom(format_args!("a list of more than {}", self.0)));
                }
                list.push(element);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(ListVisitor(limit, std::marker::PhantomData))
}

fn identity_too_large(what: &str) -> Refusal {
    Refusal::new(ReasonCode::IdentityMalformed, format!("{what} is larger than the wire allows"))
}

pub(super) fn evidence_too_large(what: &str) -> Refusal {
    Refusal::new(ReasonCode::EvidenceMalformed, format!("{what} is larger than the wire allows"))
}

/// An RSA-4096 `TPMT_PUBLIC` has 626 bytes.
pub(crate) const MAX_PUBLIC: usize = 1024;
/// TPM vendors' EK certificates have 0.8 to 2 KiB.
pub(crate) const MAX_CERTIFICATE: usize = 4096;
/// Vendors put one or two issuers between the EK's certificate and their root.
pub(crate) const MAX_INTERMEDIATES: usize = 4;
/// `TPM2B_ID_OBJECT` of a 64-byte digest and `TPM2B_ENCRYPTED_SECRET` of an RSA-4096 EK.
pub(crate) const MAX_CREDENTIAL: usize = 1024;
/// A quote of one bank has about 150 bytes.
const MAX_QUOTE: usize = 1024;
/// An RSA-4096 `TPMT_SIGNATURE` has 518 bytes.
const MAX_SIGNATURE: usize = 1024;
/// TPM 2.0 Library Part 3, section 12.5 (`TPM2_ActivateCredential)`: the secret is a `TPM2B_DIGEST`, so at most 64 bytes.
const MAX_SECRET: usize = 64;
/// Firmware logs have 20 to 60 KiB.
const MAX_EVENT_LOG: usize = 128 * 1024;
const MAX_IDENTITY_JSON: usize = 64 * 1024;
const MAX_EVIDENCE_JSON: usize = 256 * 1024;
