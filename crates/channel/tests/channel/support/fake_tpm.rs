//! A TPM in software: structures of the right form and real signatures, but no protection of its keys at all. It stands
//! where a test needs a TPM in a state that no real one would take, or faster than any.

use std::collections::BTreeMap;

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aws_lc_rs::agreement::{self, ECDH_P256, PrivateKey, UnparsedPublicKey};
use latchkey_attestation::parse::{AttesterIdentity, PcrValues, TpmChallenge, TpmEvidence};
use latchkey_channel::message::{Demand, Evidence, Identity};
use latchkey_channel::{Attester, Kind, Kinds, ProofError, ProofRequest};
use latchkey_tpm::wire::{
    Attest, ClockInfo, Credential, Curve, ENDORSEMENT_HIERARCHY, EccPoint, EkTemplate, HashAlg, PcrSelection, Public,
    PublicKey, Signature, attestation_key, kdf_a, kdf_e, pcr_digest,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use zeroize::Zeroizing;

pub(crate) struct FakeTpm {
    ek: PrivateKey,
    ek_public: Public,
    ak: EcdsaKeyPair,
    ak_public: Public,
    pcrs: BTreeMap<u8, [u8; 32]>,
}

impl FakeTpm {
    /// Fresh keys; PCRs not named are zero.
    pub(crate) fn new(pcrs: impl IntoIterator<Item = (u8, [u8; 32])>) -> Self {
        let ek = PrivateKey::generate(&ECDH_P256).unwrap();
        let ak_pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let ak = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, ak_pkcs8.as_ref(), &SystemRandom::new())
            .unwrap();
        let ek_public = with_point(EkTemplate::P256L2.public(), ek.compute_public_key().unwrap().as_ref());
        let ak_public = with_point(attestation_key(), ak.public_key().as_ref());
        let mut all: BTreeMap<u8, [u8; 32]> = (0..24).map(|index| (index, [0; 32])).collect();
        all.extend(pcrs);
        Self { ek, ek_public, ak, ak_public, pcrs: all }
    }

    pub(crate) fn identity(&self) -> AttesterIdentity {
        AttesterIdentity::new(self.ek_public.marshal(), None, Vec::new(), self.ak_public.marshal()).unwrap()
    }

    pub(crate) fn ek_public(&self) -> Vec<u8> {
        self.ek_public.marshal()
    }

    pub(crate) fn ak_public(&self) -> Vec<u8> {
        self.ak_public.marshal()
    }

    /// `TPM2_ActivateCredential`, but without the check of integrity: what comes out is the secret if the credential is
    /// for this EK and AK, and else something.
    pub(crate) fn activate(&self, credential: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let credential = Credential::parse(credential).ok()?;
        let PublicKey::Ecc { point: ek, .. } = &self.ek_public.key else { unreachable!() };
        let ephemeral = EccPoint::parse(&credential.secret, Curve::P256).ok()?;
        let peer = UnparsedPublicKey::new(&ECDH_P256, ephemeral.uncompressed(Curve::P256)?);
        let seed = agreement::agree(&self.ek, peer, (), |z| {
            Ok(kdf_e(HashAlg::Sha256, z, "IDENTITY", &ephemeral.x, &ek.x, 256))
        })
        .ok()?;
        let key = kdf_a(HashAlg::Sha256, &seed, "STORAGE", &self.ak_public.name(), &[], 128);
        let mut identity = credential.identity;
        decrypt_cfb(&key, &mut identity);
        (identity.len() >= 2).then(|| Zeroizing::new(identity.split_off(2)))
    }

    /// `TPM2_Quote`.
    pub(crate) fn quote(
        &self,
        challenge: &TpmChallenge,
        qualifying: &[u8; 32],
    ) -> Option<(Vec<u8>, Vec<u8>, PcrValues)> {
        let selection = PcrSelection::new(challenge.pcrs().iter()).ok()?;
        let values: BTreeMap<u8, [u8; 32]> = selection.iter().map(|index| (index, self.pcrs[&index])).collect();
        let attest = Attest {
            qualified_signer: self.ak_public.qualified_name(&ENDORSEMENT_HIERARCHY),
            extra_data: qualifying.to_vec(),
            clock: ClockInfo { clock: 1, reset_count: 1, restart_count: 0, safe: true },
            firmware_version: 1,
            selection,
            pcr_digest: pcr_digest(HashAlg::Sha256, selection, &values).unwrap(),
        }
        .marshal();
        let fixed = self.ak.sign(&SystemRandom::new(), &attest).unwrap();
        let (r, s) = fixed.as_ref().split_at(32);
        let signature = Signature::Ecdsa { hash: HashAlg::Sha256, r: r.to_vec(), s: s.to_vec() }.marshal();
        Some((attest, signature, PcrValues::new(values)?))
    }

    /// Both, `None` where a TPM would have an error code.
    pub(crate) fn evidence(&self, challenge: &TpmChallenge, binding: &[u8; 32]) -> Option<TpmEvidence> {
        let secret = self.activate(challenge.credential())?;
        let (quote, signature, pcrs) = self.quote(challenge, binding)?;
        TpmEvidence::new(quote, signature, pcrs, secret, None).ok()
    }
}

impl Attester for FakeTpm {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Tpm])
    }

    fn identity(&self, _: Kind) -> Result<Identity, ProofError> {
        Ok(Identity::Tpm(self.identity()))
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Demand::Tpm(challenge) = request.demand() else {
            return Err(ProofError::new(Kind::Tpm, "no TPM evidence is demanded"));
        };
        let evidence = self.evidence(challenge, request.binding().as_bytes());
        let refused = || ProofError::new(Kind::Tpm, "the TPM refuses the challenge");
        evidence.map(|evidence| Evidence::Tpm(Box::new(evidence))).ok_or_else(refused)
    }
}

fn with_point(template: Public, point: &[u8]) -> Public {
    let point = EccPoint::from_uncompressed(point, Curve::P256).unwrap();
    Public { key: PublicKey::Ecc { curve: Curve::P256, point }, ..template }
}

/// CFB with full blocks and a zero IV, in place.
fn decrypt_cfb(key: &[u8], data: &mut [u8]) {
    let cipher = aes::Aes128::new_from_slice(key).unwrap();
    let mut feedback = aes::Block::default();
    for chunk in data.chunks_mut(16) {
        cipher.encrypt_block(&mut feedback);
        for (byte, pad) in chunk.iter_mut().zip(feedback.iter_mut()) {
            let ciphertext = *byte;
            *byte ^= *pad;
            *pad = ciphertext;
        }
    }
}
