//! Evidence that is fresh and bound, and still not good enough. The full list is `attestation`'s; here is what the
//! channel makes of it, and what both sides are told.

use std::sync::Arc;

use latchkey_attestation::LockExpectation;
use latchkey_channel::binding::Binding;
use latchkey_channel::message::{Demand, Evidence, Identity};
use latchkey_channel::{
    Appraisal, AppraisalError, Attester, AttesterSet, ChannelError, Claim, Kind, Kinds, MisuseError, NoProof,
    PeerProof, PeerReason, PeerRefusal, PinnedKeyAttester, PinnedKeyVerifier, ProofError, ProofRequest, Purpose,
    Verifier, VerifierSet,
};

use crate::support::fake_tpm::FakeTpm;
use crate::support::world::{
    CLUSTER, IMAGE, demand, fresh_node, init_terms, locked_node, meet, policy_trusting, terms,
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

#[test]
fn a_key_that_is_not_pinned_is_refused_before_the_node_proves_anything() {
    let (node, service, other) =
        (fresh_node(), PinnedKeyAttester::generate().unwrap(), PinnedKeyAttester::generate().unwrap());
    let of_node = demand(&[&node], LockExpectation::Unlocked);
    let shown = service.hash();
    for pins in [vec![other.hash()], vec![]] {
        let service = terms(AttesterSet(vec![Arc::new(PinnedKeyAttester::generate().unwrap())]), of_node.clone());
        let client = terms(FakeTpm::new([(11, IMAGE)]), PinnedKeyVerifier::new(pins));
        let (node, _) = meet(Purpose::Join, client, service);
        // The service refuses the unknown EK first, or the node the unknown key: never both are content.
        assert!(node.is_err());
    }
    let pin = PinnedKeyVerifier::new([other.hash()]);
    let (node, service) = meet(Purpose::Join, terms(node, pin), terms(service, of_node));
    let error = node.unwrap_err();
    assert!(
        matches!(&error, ChannelError::Refused(PeerRefusal::KeyNotPinned { got: Some(got) }) if *got == shown),
        "{error}"
    );
    assert!(matches!(service.unwrap_err(), ChannelError::PeerRefused(PeerReason::KeyNotTrusted)));
}

/// Shows the kinds it likes, whatever it is.
struct Liar(Kinds, Arc<dyn Attester>);

impl Attester for Liar {
    fn kinds(&self) -> Kinds {
        self.0
    }

    fn identity(&self, _: Kind) -> Result<Identity, ProofError> {
        self.1.identity(self.1.kinds().strongest().unwrap())
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        self.1.prove(request)
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

/// The peer chooses the kind of its evidence, and with it the verifier: only configured kinds are looked at.
#[test]
fn the_peer_cannot_choose_its_verifier() {
    let (node, key) = (fresh_node(), PinnedKeyAttester::generate().unwrap());
    let of_service = demand(&[&node], LockExpectation::Locked);
    let of_node = demand(&[&node], LockExpectation::Unlocked);
    // The node wants a TPM, the service offers its key under the name of a TPM.
    let liar = Liar(Kinds::of(&[Kind::Tpm]), Arc::new(key));
    let (node, served) =
        meet(Purpose::Join, terms(node, VerifierSet(vec![Arc::new(of_service)])), terms(liar, of_node));
    assert!(matches!(served.unwrap_err(), ChannelError::Misuse(MisuseError::WrongKind { .. })));
    assert!(node.is_err());
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
