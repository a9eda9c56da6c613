//! Against a real TPM 2.0 (swtpm), with endorsement-key certificates of a local authority. Skipped, and says so, where
//! swtpm is not installed.

use std::sync::{Arc, Mutex};

use latchkey_attestation::AttesterIdentity;
use latchkey_attestation::LockExpectation;
use latchkey_attestation::parse::TpmEvidence;
use latchkey_channel::message::{Demand, Evidence, Identity};
use latchkey_channel::{
    Attester, ChannelError, Kind, Kinds, NoProof, PeerProof, PeerReason, PinnedKeyAttester, PinnedKeyVerifier,
    ProofError, ProofRequest, Purpose, TpmAttester, TpmVerifier,
};
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::{EkTemplate, PcrSelection, extended};
use smol::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::world::{meet, policy_trusting, terms};

pub(crate) const IMAGE_EVENT: &[u8] = b"the image of this test";
const LOCK_EVENT: &[u8] = b"the cluster of this test";

/// A machine that has booted the image.
fn booted(tpm: &Swtpm) -> Arc<Mutex<AttestingTpm>> {
    let mut attester = AttestingTpm::new(tpm.connect().unwrap(), EkTemplate::P384H3).unwrap();
    attester.extend_event(11, IMAGE_EVENT).unwrap();
    Arc::new(Mutex::new(attester))
}

/// Trusts every TPM of the authority, with the image of this test.
pub(crate) fn demand(tpm: &Swtpm, lock: LockExpectation) -> TpmVerifier {
    let pem = |pem: String| serde_json::to_string(&pem).unwrap();
    let authority = tpm.authority();
    let rule = format!(
        r#"{{"kind": "ek-chain", "roots": [{}], "intermediates": [{}]}}"#,
        pem(authority.root_pem().unwrap()),
        pem(authority.issuer_pem().unwrap())
    );
    let (policy, references) = policy_trusting(&rule, 11, extended(&[0; 32], IMAGE_EVENT));
    TpmVerifier::new(policy, references, lock)
}

#[test]
fn a_node_joins_is_locked_and_gets_nothing_more() {
    let Some(tpm) = Swtpm::start() else { return };
    let attester = booted(&tpm);
    let join = |purpose| {
        let service = PinnedKeyAttester::generate().unwrap();
        let pin = PinnedKeyVerifier::new([service.hash()]);
        meet(
            purpose,
            terms(TpmAttester::new(attester.clone()), pin),
            terms(service, demand(&tpm, LockExpectation::Unlocked)),
        )
    };
    let (node, service) = join(Purpose::Join);
    let (mut node, mut service) = (node.unwrap(), service.unwrap());
    let PeerProof::Tpm(peer) = service.peer() else { panic!("no TPM") };
    assert_eq!(peer.admission().image().name, "image");
    latchkey_test_support::block_on(async {
        service.write_all(b"the key").await.unwrap();
        service.close().await.unwrap();
        let mut ticket = String::new();
        node.read_to_string(&mut ticket).await.unwrap();
        assert_eq!(ticket, "the key");
    });

    attester.lock().unwrap().extend_event(15, LOCK_EVENT).unwrap();
    let (node, service) = join(Purpose::Rejoin);
    assert_eq!(service.unwrap_err().code().as_str(), "already-locked");
    assert!(matches!(node.unwrap_err(), ChannelError::PeerRefused(PeerReason::LockRefused)));
}

#[test]
fn two_machines_prove_themselves_to_each_other() {
    let (Some(tpm), Some(other)) = (Swtpm::start(), Swtpm::start_distinct("service")) else { return };
    let (node, service) = (booted(&tpm), booted(&other));
    service.lock().unwrap().extend_event(15, LOCK_EVENT).unwrap();
    let lock = extended(&[0; 32], LOCK_EVENT);
    let (node, service) = meet(
        Purpose::Join,
        terms(TpmAttester::new(node), demand(&tpm, LockExpectation::LockedTo(lock))),
        terms(TpmAttester::new(service), demand(&tpm, LockExpectation::Unlocked)),
    );
    let (node, service) = (node.unwrap(), service.unwrap());
    let of = |peer: &PeerProof| peer.admission().unwrap().ek_digest();
    assert_ne!(of(node.peer()), of(service.peer()));
    assert!(node.peer().admission().unwrap().locked());
}

#[test]
fn an_impostor_on_real_hardware_is_refused() {
    let Some(tpm) = Swtpm::start() else { return };
    let impostor = AttestingTpm::new(tpm.connect().unwrap(), EkTemplate::P384H3).unwrap();
    let attester = TpmAttester::new(Arc::new(Mutex::new(impostor)));
    let (command, node) =
        meet(Purpose::Init, terms(NoProof, demand(&tpm, LockExpectation::Unlocked)), terms(attester, NoProof));
    assert_eq!(command.unwrap_err().code().as_str(), "image-differs");
    assert!(matches!(node.unwrap_err(), ChannelError::PeerRefused(PeerReason::MeasurementsRefused)));
}

/// Shows the certified endorsement key of a machine it does not have, and quotes with its own TPM.
struct BorrowedEk {
    victim: AttesterIdentity,
    own: Arc<Mutex<AttestingTpm>>,
}

impl Attester for BorrowedEk {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Tpm])
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn identity(&self, _: Kind) -> Result<Identity, ProofError> {
        let identity = AttesterIdentity::new(
            self.victim.ek_public().to_vec(),
            self.victim.ek_certificate().map(<[u8]>::to_vec),
            self.victim.ek_intermediates().map(<[u8]>::to_vec).collect(),
            self.own.lock().unwrap().ak_public().marshal(),
        );
        Ok(Identity::Tpm(identity.unwrap()))
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Demand::Tpm(challenge) = request.demand() else { unreachable!() };
        let mut own = self.own.lock().unwrap();
        assert!(own.activate(challenge.credential()).is_err(), "the credential is for the victim's TPM");
        let selection = PcrSelection::new(challenge.pcrs().iter()).unwrap();
        let quote = own.quote(&selection, request.binding().as_bytes()).unwrap();
        let pcrs = latchkey_attestation::PcrValues::new(quote.pcrs).unwrap();
        let guessed = vec![0; 32].into();
        let evidence = TpmEvidence::new(quote.attest, quote.signature, pcrs, guessed, None).unwrap();
        Ok(Evidence::Tpm(Box::new(evidence)))
    }
}

#[test]
fn activation_with_the_ek_of_another_real_tpm_is_refused() {
    let (Some(tpm), Some(other)) = (Swtpm::start(), Swtpm::start_distinct("victim")) else { return };
    let victim = TpmAttester::new(booted(&other));
    let Ok(Identity::Tpm(victim)) = victim.identity(Kind::Tpm) else { panic!("no identity") };
    let thief = BorrowedEk { victim, own: booted(&tpm) };
    let (command, _) =
        meet(Purpose::Init, terms(NoProof, demand(&tpm, LockExpectation::Unlocked)), terms(thief, NoProof));
    assert_eq!(command.unwrap_err().code().as_str(), "activation-failed");
}
