//! Evidence that is fresh and bound, and still not good enough. The full list is `attestation`'s; here is what the
//! channel makes of it, and what both sides are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use latchkey_attestation::LockExpectation;
use latchkey_attestation::parse::Bytes;
use latchkey_channel::binding::Binding;
use latchkey_channel::frame::Slot;
use latchkey_channel::message::{Admitted, Challenge, Demand, Evidence, Hello, Identity, KeyEvidence, Message};
use latchkey_channel::rig::{self, SharedKey};
use latchkey_channel::{
    Appraisal, AppraisalError, Attester, AttesterSet, ChannelError, Claim, Kind, Kinds, MisuseError, NoProof,
    PeerProof, PeerReason, PeerRefusal, PinnedKeyAttester, PinnedKeyVerifier, ProofError, ProofRequest, Purpose, Side,
    Verifier, VerifierSet, accept, connect,
};
use smol::future::zip;

use crate::support::fake_tpm::FakeTpm;
use crate::support::world::{
    CLUSTER, TIME, demand, fresh_node, init_terms, locked_node, meet, policy_trusting, terms, wire,
};

/// Shows the EK of one TPM and the AK of another; whoever has the EK does not know the AK.
struct Chimera {
    ek: FakeTpm,
    ak: FakeTpm,
}

impl Attester for Chimera {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Tpm])
    }

    fn identity(&self, _: Kind) -> Result<Identity, ProofError> {
        let identity =
            latchkey_attestation::AttesterIdentity::new(self.ek.ek_public(), None, Vec::new(), self.ak.ak_public());
        Ok(Identity::Tpm(identity.unwrap()))
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Demand::Tpm(challenge) = request.demand() else { unreachable!() };
        // The TPM with the EK opens the credential with the name of its own AK; the other one signs.
        let secret = self.ek.activate(challenge.credential()).unwrap();
        let (quote, signature, pcrs) = self.ak.quote(challenge, request.binding().as_bytes()).unwrap();
        let evidence = latchkey_attestation::TpmEvidence::new(quote, signature, pcrs, secret, None);
        Ok(Evidence::Tpm(Box::new(evidence.unwrap())))
    }
}

#[test]
fn activation_with_another_tpms_ek_is_refused() {
    let chimera = Chimera { ek: fresh_node(), ak: fresh_node() };
    let of_node = demand(&[&chimera.ek], LockExpectation::Unlocked);
    let service = PinnedKeyAttester::generate().unwrap();
    let pin = PinnedKeyVerifier::new([service.hash()]);
    let (node, service) = meet(Purpose::Join, terms(chimera, pin), terms(service, of_node));
    assert_eq!(service.unwrap_err().code().as_str(), "activation-failed");
    assert!(matches!(node.unwrap_err(), ChannelError::PeerRefused(PeerReason::TpmNotTrusted)));
}

#[test]
fn an_unknown_tpm_is_refused_before_it_is_challenged() {
    let (node, other) = (fresh_node(), fresh_node());
    let of_node = demand(&[&other], LockExpectation::Unlocked);
    let service = PinnedKeyAttester::generate().unwrap();
    let pin = PinnedKeyVerifier::new([service.hash()]);
    let (node, service) = meet(Purpose::Join, terms(node, pin), terms(service, of_node));
    assert_eq!(service.unwrap_err().code().as_str(), "ek-not-pinned");
    assert!(matches!(node.unwrap_err(), ChannelError::PeerRefused(PeerReason::TpmNotTrusted)));
}

#[test]
fn an_impostor_with_another_image_is_refused_with_the_component_that_differs() {
    let impostor = FakeTpm::new([(9, [0xbb; 32])]);
    let rule = format!(
        r#"{{"kind": "pinned-ek", "ek_sha256": ["{}"]}}"#,
        latchkey_attestation::EkDigest::of_public_area(&impostor.ek_public()).unwrap()
    );
    let (policy, references) = policy_trusting(&rule, 9, [0xaa; 32]);
    let of_node = latchkey_channel::TpmVerifier::new(policy, references, LockExpectation::Unlocked);
    let (command, _) = meet(Purpose::Init, terms(NoProof, of_node), terms(impostor, NoProof));
    let error = command.unwrap_err();
    assert_eq!(error.code().as_str(), "command-line-differs");
    assert_eq!(error.refusal().unwrap().difference().unwrap().pcr, 9);
}

#[test]
fn a_locked_node_gets_no_key_again_in_this_boot() {
    for purpose in [Purpose::Join, Purpose::Rejoin] {
        let node = locked_node(CLUSTER);
        let of_node = demand(&[&node], LockExpectation::Unlocked);
        let service = PinnedKeyAttester::generate().unwrap();
        let pin = PinnedKeyVerifier::new([service.hash()]);
        let (node, service) = meet(purpose, terms(node, pin), terms(service, of_node));
        assert_eq!(service.unwrap_err().code().as_str(), "already-locked");
        assert!(matches!(node.unwrap_err(), ChannelError::PeerRefused(PeerReason::LockRefused)));
    }
}

#[test]
fn a_service_on_an_unlocked_node_is_refused() {
    let (node, service) = (fresh_node(), fresh_node());
    let (of_service, of_node) =
        (demand(&[&service], LockExpectation::Locked), demand(&[&node], LockExpectation::Unlocked));
    let (node, service) = meet(Purpose::Join, terms(node, of_service), terms(service, of_node));
    assert_eq!(node.unwrap_err().code().as_str(), "not-locked");
    assert!(matches!(service.unwrap_err(), ChannelError::PeerRefused(PeerReason::LockRefused)));
}

/// Counts how often it is asked for a proof.
struct Watched {
    tpm: FakeTpm,
    proofs: Arc<AtomicUsize>,
}

impl Attester for Watched {
    fn kinds(&self) -> Kinds {
        self.tpm.kinds()
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        Attester::identity(&self.tpm, kind)
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        self.proofs.fetch_add(1, Ordering::Relaxed);
        self.tpm.prove(request)
    }
}

#[test]
fn a_key_that_is_not_pinned_is_refused_before_the_node_proves_anything() {
    let (service, other) =
        (Arc::new(PinnedKeyAttester::generate().unwrap()), PinnedKeyAttester::generate().unwrap().hash());
    // The service would admit the node each time; what the node has pinned is all that differs.
    for (pins, proofs) in [(vec![other], 0), (vec![], 0), (vec![other, service.hash()], 1)] {
        let (tpm, counted) = (fresh_node(), Arc::new(AtomicUsize::new(0)));
        let join_service = terms(AttesterSet(vec![service.clone()]), demand(&[&tpm], LockExpectation::Unlocked));
        let client = terms(Watched { tpm, proofs: counted.clone() }, PinnedKeyVerifier::new(pins));
        let (node, served) = meet(Purpose::Join, client, join_service);
        assert_eq!(counted.load(Ordering::Relaxed), proofs);
        if proofs == 1 {
            assert!(node.is_ok() && served.is_ok(), "the control");
            continue;
        }
        let (error, shown) = (node.unwrap_err(), service.hash());
        assert!(
            matches!(&error, ChannelError::Refused(PeerRefusal::KeyNotPinned { got: Some(got) }) if *got == shown),
            "{error}"
        );
        assert!(matches!(served.unwrap_err(), ChannelError::PeerRefused(PeerReason::KeyNotTrusted)));
    }
}

/// The purpose table stands above what either side is set up to show or to accept.
#[test]
fn no_configuration_accepts_what_the_purpose_forbids() {
    // A join service that would take anybody.
    let service = terms(PinnedKeyAttester::generate().unwrap(), NoProof);
    let (node, served) = meet(Purpose::Join, terms(fresh_node(), PinnedKeyVerifier::new([])), service);
    assert!(matches!(served.unwrap_err(), ChannelError::Misuse(MisuseError::NothingAccepted { .. })));
    assert!(matches!(node.unwrap_err(), ChannelError::PeerRefused(PeerReason::ProofUnavailable)));
    // A command that would take a pinned key for a node.
    let (node, key) = (fresh_node(), PinnedKeyAttester::generate().unwrap());
    let (command, _) = meet(Purpose::Init, terms(NoProof, PinnedKeyVerifier::new([key.hash()])), terms(node, NoProof));
    assert!(matches!(command.unwrap_err(), ChannelError::Misuse(MisuseError::NothingAccepted { .. })));
    // A node that would show nothing.
    let (node, _) = meet(Purpose::Join, terms(NoProof, PinnedKeyVerifier::new([key.hash()])), terms(key, NoProof));
    assert!(matches!(node.unwrap_err(), ChannelError::Misuse(MisuseError::NothingToShow { .. })));
    // A service that gives keys to locked nodes.
    let (node, service) = (locked_node(CLUSTER), PinnedKeyAttester::generate().unwrap());
    let of_node = demand(&[&node], LockExpectation::Any);
    let pin = PinnedKeyVerifier::new([service.hash()]);
    let (_, served) = meet(Purpose::Rejoin, terms(node, pin), terms(service, of_node));
    assert!(matches!(served.unwrap_err(), ChannelError::Misuse(MisuseError::Lock { .. })));
}

/// Somebody between an honest node that demands `demands` and an honest service with a pinned key. He changes the node's hello and
/// demand so that the service answers, and with `identity` also who the service says it is. What the node makes of it:
fn node_that_is_shown_a_pinned_key(demands: impl Verifier + 'static, identity: Option<Identity>) -> ChannelError {
    let (node, service) = (fresh_node(), PinnedKeyAttester::generate().unwrap());
    let server = terms(service, demand(&[&node], LockExpectation::Unlocked));
    let ((node_end, up), (down, service_end)) = (wire(), wire());
    let (key, own) = (SharedKey::new(), SharedKey::new());
    let reception = move |_| Some(server.clone());
    let liar = async {
        // The same TLS keys on both sides, and messages that mean the same to both: only the kinds are lies.
        let (up, down) = zip(rig::unproven(&own, up, Side::Server), rig::unproven(&key, down, Side::Client)).await;
        let (mut up, mut down) = (up.unwrap().0, down.unwrap().0);
        let Message::Hello(hello) = rig::receive(&mut up, Slot::Hello).await.ok()? else { return None };
        assert!(!hello.accepts.contains(Kind::None));
        let hello = Hello { accepts: Kinds::of(&[Kind::PinnedKey]), ..*hello };
        rig::send(&mut down, &Message::Hello(Box::new(hello))).await.ok()?;
        let Message::Challenge(challenge) = rig::receive(&mut down, Slot::Challenge).await.ok()? else { return None };
        assert_eq!(challenge.identity.kind(), Kind::PinnedKey);
        let shown = identity.unwrap_or(challenge.identity);
        let challenge = Challenge { identity: shown, nonce: challenge.nonce, demand: challenge.demand };
        rig::send(&mut up, &Message::Challenge(Box::new(challenge))).await.ok()?;
        let Message::Proof(proof) = rig::receive(&mut up, Slot::Proof).await.ok()? else { return None };
        assert_eq!(proof.demand.kind(), Kind::Tpm);
        // A signature with some pinned key, in place of what was demanded.
        let evidence = Evidence::PinnedKey(KeyEvidence { signature: Bytes::new(vec![0x30; 70]).unwrap() });
        rig::send(&mut up, &Message::Admitted(Box::new(Admitted { evidence }))).await.ok()?;
        rig::receive(&mut up, Slot::ClientVerdict).await.ok()
    };
    let ends = zip(connect(node_end, Purpose::Join, terms(node, demands), TIME), accept(service_end, &reception, TIME));
    let ((node, _), _) = latchkey_test_support::block_on(zip(ends, liar));
    node.unwrap_err()
}

/// The peer chooses the kind of its evidence, and with it the verifier: only the configured kinds are looked at, and what was
/// claimed is what must be proven.
#[test]
fn the_peer_cannot_choose_its_verifier() {
    let locked = locked_node(CLUSTER);
    let of_service = || demand(&[&locked], LockExpectation::LockedTo(CLUSTER));
    // The node demands a TPM of the service. Whatever the service is asked for, a pinned key is none.
    let error = node_that_is_shown_a_pinned_key(VerifierSet(vec![Arc::new(of_service())]), None);
    assert!(
        matches!(&error, ChannelError::Refused(PeerRefusal::KindNotAccepted { got: Kind::PinnedKey, .. })),
        "{error}"
    );
    // It would take either. Who claims to be a machine does not get through with a key.
    let either = VerifierSet(vec![Arc::new(of_service()), Arc::new(PinnedKeyVerifier::new([]))]);
    let error = node_that_is_shown_a_pinned_key(either, Some(Identity::Tpm(locked.identity())));
    assert!(
        matches!(&error, ChannelError::Refused(PeerRefusal::KindChanged { expected: Kind::Tpm, got: Kind::PinnedKey })),
        "{error}"
    );
}

#[test]
fn a_tpm_that_fails_says_so_and_proves_nothing() {
    struct Broken(FakeTpm);
    impl Attester for Broken {
        fn kinds(&self) -> Kinds {
            self.0.kinds()
        }
        fn is_slow(&self) -> bool {
            true
        }
        fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
            Attester::identity(&self.0, kind)
        }
        fn prove(&self, _: &ProofRequest) -> Result<Evidence, ProofError> {
            Err(ProofError::new(Kind::Tpm, "TPM_RC_FAILURE"))
        }
    }
    let (client, _) = init_terms();
    let node = fresh_node();
    let client = latchkey_channel::Terms { verifier: Arc::new(demand(&[&node], LockExpectation::Unlocked)), ..client };
    let (command, node) = meet(Purpose::Init, client, terms(Broken(node), NoProof));
    assert_eq!(node.unwrap_err().to_string(), "cannot show evidence of kind tpm: TPM_RC_FAILURE");
    assert!(matches!(command.unwrap_err(), ChannelError::PeerRefused(PeerReason::ProofUnavailable)));
}

/// An verifier that demands a TPM and is content with whatever comes: the machine is not.
#[test]
fn a_careless_appraiser_admits_nobody() {
    struct Careless(latchkey_channel::TpmVerifier);
    struct Content;
    impl Verifier for Careless {
        fn accepts(&self) -> Kinds {
            self.0.accepts()
        }
        fn begin(&self, claim: &Claim<'_>) -> Result<(Demand, Box<dyn Appraisal>), AppraisalError> {
            self.0.begin(claim).map(|(demand, _)| (demand, Box::new(Content) as Box<dyn Appraisal>))
        }
    }
    impl Appraisal for Content {
        fn conclude(self: Box<Self>, _: &Evidence, _: &Binding, _: u64) -> Result<PeerProof, PeerRefusal> {
            Ok(PeerProof::Unproven)
        }
    }
    let node = fresh_node();
    let careless = Careless(demand(&[&node], LockExpectation::Unlocked));
    let (command, _) = meet(Purpose::Init, terms(NoProof, careless), terms(node, NoProof));
    assert!(matches!(
        command.unwrap_err(),
        ChannelError::Misuse(MisuseError::WrongKind { expected: Kind::Tpm, got: Kind::None })
    ));
}
