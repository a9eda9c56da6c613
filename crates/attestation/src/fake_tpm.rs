//! A fake: what a TPM would say, from keys in this process's memory. For tests and benchmarks of verifiers only, behind
//! the feature `fake-tpm`. It proves nothing about a machine, and no policy trusts it unless its EK is pinned.
//!
//! It also says what no TPM would: [`FakeTpm::sign`] signs any bytes, so that attacks can be tested that a TPM refuses
//! to take part in.

#![expect(clippy::missing_panics_doc, clippy::expect_used, reason = "a fake for tests: what fails here fails the test")]

use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey};
use latchkey_tpm::wire::{
    Attest, ClockInfo, Credential, Curve, ENDORSEMENT_HIERARCHY, EccPoint, EkTemplate, HashAlg, PcrSelection, Public,
    PublicKey, Signature, attestation_key, cfb, kdf_a, kdf_e, pcr_digest,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use zeroize::Zeroizing;

use crate::parse::{AttesterIdentity, PcrSet, PcrValues, TpmChallenge, TpmEvidence};

/// A P-256 endorsement key, a P-256 attestation key, and 24 PCRs that are zero at first.
pub struct FakeTpm {
    ek: PrivateKey,
    ek_public: Public,
    ak: EcdsaKeyPair,
    ak_public: Public,
    pcrs: latchkey_tpm::wire::PcrValues,
    /// Resets and restarts.
    boot: (u32, u32),
    event_log: Option<Vec<u8>>,
}

impl FakeTpm {
    /// A fake with new keys.
    pub fn generate() -> Self {
        let ek = PrivateKey::generate(&agreement::ECDH_P256).expect("randomness");
        let ek_point = ek.compute_public_key().expect("a public key");
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let pkcs8 = pkcs8.expect("randomness");
        let ak = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &SystemRandom::new());
        let ak = ak.expect("a key pair");
        Self {
            ek_public: with_point(EkTemplate::P256L2.public(), ek_point.as_ref()),
            ak_public: with_point(attestation_key(), ak.public_key().as_ref()),
            ek,
            ak,
            pcrs: (0..PcrSet::COUNT).map(|index| (index, [0; 32])).collect(),
            boot: (2, 3),
            event_log: None,
        }
    }

    /// The endorsement key.
    pub fn ek_public(&self) -> &Public {
        &self.ek_public
    }

    /// The attestation key.
    pub fn ak_public(&self) -> &Public {
        &self.ak_public
    }

    /// The same keys, the AK claiming other attributes or another scheme.
    #[must_use]
    pub fn with_ak_public(self, ak_public: Public) -> Self {
        Self { ak_public, ..self }
    }

    /// The same AK beside a new EK: what a program can show of an AK in its reach.
    #[must_use]
    pub fn with_another_ek(self) -> Self {
        let Self { ek, ek_public, .. } = Self::generate();
        Self { ek, ek_public, ..self }
    }

    /// Sets a PCR.
    pub fn set_pcr(&mut self, index: u8, value: [u8; 32]) {
        self.pcrs.insert(index, value);
    }

    /// Sets `resetCount` and `restartCount`. At first they are 2 and 3.
    pub fn set_boot(&mut self, resets: u32, restarts: u32) {
        self.boot = (resets, restarts);
    }

    /// What a reset of the machine does to the counters.
    pub fn count_reset(&mut self) {
        self.boot = (self.boot.0 + 1, 0);
    }

    /// The firmware's event log of this boot, which is sent with the evidence. At first there is none.
    pub fn set_event_log(&mut self, log: Vec<u8>) {
        self.event_log = Some(log);
    }

    /// What it would send as its identity, without certificate.
    pub fn identity(&self) -> AttesterIdentity {
        AttesterIdentity::new(self.ek_public.marshal(), None, Vec::new(), self.ak_public.marshal()).expect("small")
    }

    /// `TPM2_ActivateCredential`: the secret, if the credential is for this EK and this AK.
    pub fn activate(&self, credential: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let Credential { integrity, identity, secret } = Credential::parse(credential).ok()?;
        let ephemeral = EccPoint::parse(&secret, Curve::P256).ok()?;
        let PublicKey::Ecc { point, .. } = &self.ek_public.key else { return None };
        let peer = UnparsedPublicKey::new(&agreement::ECDH_P256, ephemeral.uncompressed(Curve::P256)?);
        let seed = agreement::agree(&self.ek, peer, (), |z| {
            Ok(kdf_e(HashAlg::Sha256, z, "IDENTITY", &ephemeral.x, &point.x, 256))
        });
        let (seed, name) = (seed.ok()?, self.ak_public.name());
        let key = kdf_a(HashAlg::Sha256, &seed, "INTEGRITY", &[], &[], 256);
        if HashAlg::Sha256.hmac(&key, &[&identity, &name]).as_ref() != integrity {
            return None;
        }
        let key = kdf_a(HashAlg::Sha256, &seed, "STORAGE", &name, &[], 128);
        let mut plain = Zeroizing::new(identity);
        cfb::decrypt(self.ek_public.symmetric, &key, [0; cfb::BLOCK], &mut plain)?;
        Some(Zeroizing::new(plain.split_off(2)))
    }

    /// The `TPMS_ATTEST` that a quote of `selection` would sign.
    pub fn attest(&self, selection: PcrSelection, binding: &[u8; 32]) -> Attest {
        let values = selection.iter().filter_map(|index| Some((index, *self.pcrs.get(&index)?))).collect();
        Attest {
            qualified_signer: self.ak_public.qualified_name(&ENDORSEMENT_HIERARCHY),
            extra_data: binding.to_vec(),
            clock: ClockInfo { clock: 1, reset_count: self.boot.0, restart_count: self.boot.1, safe: true },
            firmware_version: 4,
            selection,
            pcr_digest: pcr_digest(HashAlg::Sha256, selection, &values).expect("same registers"),
        }
    }

    /// A `TPMT_SIGNATURE` over any bytes. A TPM would not: its AK is restricted.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        let signature = self.ak.sign(&SystemRandom::new(), bytes).expect("randomness");
        let (r, s) = signature.as_ref().split_at(32);
        Signature::Ecdsa { hash: HashAlg::Sha256, r: r.to_vec(), s: s.to_vec() }.marshal()
    }

    /// The values of some PCRs.
    pub fn pcr_values(&self, set: PcrSet) -> PcrValues {
        let values = self.pcrs.iter().filter(|(index, _)| set.contains(**index));
        PcrValues::new(values.map(|(&index, &value)| (index, value)).collect()).expect("24 registers")
    }

    /// The honest answer to a challenge; `None` if the credential is not for this fake.
    pub fn evidence(&self, challenge: &TpmChallenge, binding: &[u8; 32]) -> Option<TpmEvidence> {
        let secret = self.activate(challenge.credential())?;
        let quote = self.attest(challenge.pcrs().selection()?, binding).marshal();
        let signature = self.sign(&quote);
        TpmEvidence::new(quote, signature, self.pcr_values(challenge.pcrs()), secret, self.event_log.clone()).ok()
    }
}

impl std::fmt::Debug for FakeTpm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeTpm").field("ek_public", &self.ek_public).finish_non_exhaustive()
    }
}

fn with_point(template: Public, uncompressed: &[u8]) -> Public {
    let point = EccPoint::from_uncompressed(uncompressed, Curve::P256).expect("a P-256 point");
    Public { key: PublicKey::Ecc { curve: Curve::P256, point }, ..template }
}
