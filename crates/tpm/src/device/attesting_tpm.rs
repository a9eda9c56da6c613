//! A node's identity for one boot: endorsement key, attestation key, and the session everything goes through.

use super::attestation_key::AttestationKey;
use super::{AttestationKeySource, Hierarchy, Key, Session, Tpm, TpmError};
use crate::wire::{Credential, Curve, EkTemplate, PcrSelection, PcrValues, Public, PublicKey, salt_key};
use zeroize::Zeroizing;

/// The TPM as what proves this node. After [`TpmError::Tampered`] its session is lost and every further call fails:
/// there is nothing left to trust but a reboot.
#[derive(Debug)]
pub struct AttestingTpm {
    tpm: Tpm,
    session: Session,
    ek: Key,
    certificate: Option<Vec<u8>>,
    intermediates: Vec<Vec<u8>>,
    ak: AttestationKey,
}

/// A quote and the values it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// `TPMS_ATTEST`, the bytes signed.
    pub attest: Vec<u8>,
    /// `TPMT_SIGNATURE`.
    pub signature: Vec<u8>,
    /// The registers quoted; their digest is the quote's.
    pub pcrs: PcrValues,
}

impl AttestingTpm {
    /// The same as [`Self::with_key_of`], with an attestation key of our own.
    pub fn new(tpm: Tpm, template: EkTemplate) -> Result<Self, TpmError> {
        Self::with_key_of(tpm, template, AttestationKeySource::Own)
    }

    /// Finds the endorsement key of `template`, salts a session to it (to a key made for the purpose if it is RSA or on P-521), and makes or
    /// finds the attestation key in that session. Both keys are the same at every boot of this TPM.
    pub fn with_key_of(mut tpm: Tpm, template: EkTemplate, source: AttestationKeySource) -> Result<Self, TpmError> {
        tpm.demand_sha256_bank()?;
        let endorsement = tpm.endorsement(template)?;
        let intermediates = match endorsement.certificate {
            Some(_) => tpm.endorsement_chain()?,
            None => Vec::new(),
        };
        let mut session = salted_session(&mut tpm, &endorsement.key)?;
        // What the session is salted to must be what the verifier will be shown.
        let ek = tpm.read_public(endorsement.key.handle(), Some(&mut session))?;
        if ek != endorsement.key {
            return Err(TpmError::Tampered { command: "TPM2_ReadPublic" });
        }
        let ak = tpm.attestation_key(source, &mut session)?;
        Ok(Self { tpm, session, ek, certificate: endorsement.certificate, intermediates, ak })
    }

    /// The endorsement key.
    pub fn ek_public(&self) -> &Public {
        self.ek.public()
    }

    /// Its certificate (DER), if the TPM holds one.
    pub fn ek_certificate(&self) -> Option<&[u8]> {
        self.certificate.as_deref()
    }

    /// Certificates of its issuers (DER) that the TPM holds, at most four.
    pub fn ek_intermediates(&self) -> &[Vec<u8>] {
        &self.intermediates
    }

    /// The attestation key.
    pub fn ak_public(&self) -> &Public {
        self.ak.key.public()
    }

    /// Its certificate (DER), if a cloud issued one.
    pub fn ak_certificate(&self) -> Option<&[u8]> {
        self.ak.certificate.as_deref()
    }

    /// What Azure's paravisor says of its attestation key: see [`Tpm::azure_hcl_report`].
    pub fn azure_hcl_report(&mut self) -> Result<Option<Vec<u8>>, TpmError> {
        self.tpm.azure_hcl_report()
    }

    /// Decrypts `TPM2B_ID_OBJECT ‖ TPM2B_ENCRYPTED_SECRET`, which proves that endorsement and attestation key are in
    /// the same TPM. The secret is at most 64 bytes long.
    pub fn activate(&mut self, credential: &[u8]) -> Result<Zeroizing<Vec<u8>>, TpmError> {
        let credential = Credential::parse(credential).map_err(TpmError::Argument)?;
        self.tpm.activate_credential(&self.ak.key, &self.ek, &credential, &mut self.session)
    }

    /// Quotes the registers in `selection` with `qualifying` as the quote's extra data. One signature per call.
    pub fn quote(&mut self, selection: &PcrSelection, qualifying: &[u8; 32]) -> Result<Quote, TpmError> {
        let (attest, signature, pcrs) =
            self.tpm.quote_with_values(&self.ak.key, *selection, qualifying, &mut self.session)?;
        Ok(Quote { attest, signature, pcrs })
    }

    /// Extends an event (at most 1024 bytes) into `pcr` of every bank, and checks that this and nothing else happened
    /// to the register. An error leaves open whether it was extended: treat it as fatal for this boot.
    pub fn extend_event(&mut self, pcr: u8, data: &[u8]) -> Result<(), TpmError> {
        self.tpm.pcr_event_checked(pcr, data, &mut self.session)
    }

    /// The value of `pcr` in the SHA-256 bank.
    pub fn read_pcr(&mut self, pcr: u8) -> Result<[u8; 32], TpmError> {
        self.tpm.pcr_value(pcr, &mut self.session)
    }
}

fn salted_session(tpm: &mut Tpm, ek: &Key) -> Result<Session, TpmError> {
    if let PublicKey::Ecc { curve: Curve::P256 | Curve::P384, .. } = ek.public().key {
        return tpm.start_session(ek);
    }
    let key = tpm.create_primary(Hierarchy::Null, &salt_key(), None)?;
    let session = tpm.start_session(&key);
    tpm.flush(key.handle())?;
    session
}
