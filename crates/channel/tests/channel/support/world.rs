//! Machines of a cluster, what they demand of each other, and wires between them.

use std::sync::Arc;
use std::time::Duration;

use latchkey_attestation::reference::{Description, ManifestName, Origin, PlatformProfile, Reference};
use latchkey_attestation::verify::EkDigest;
use latchkey_attestation::{AuthenticManifest, ImageVersion, LockExpectation, Policy, ReferenceValues, References};
use latchkey_channel::tls::Session;
use latchkey_channel::{
    Attester, ChannelError, NoProof, Nonce, PinnedKeyAttester, PinnedKeyVerifier, Proven, Purpose, Side, Terms,
    TpmVerifier, Verifier, accept, connect,
};
use smol::net::unix::UnixStream;

use super::fake_tpm::FakeTpm;

/// PCR 11 of the image that is admitted.
pub(crate) const IMAGE: [u8; 32] = [0x0b; 32];
/// PCR 15 of the cluster's nodes.
pub(crate) const CLUSTER: [u8; 32] = [0xc1; 32];
/// Longer than any test's handshake takes.
pub(crate) const TIME: Duration = Duration::from_mins(1);

/// A machine running the admitted image, not locked.
pub(crate) fn fresh_node() -> FakeTpm {
    FakeTpm::new([(11, IMAGE)])
}

/// A machine running the admitted image, locked to a cluster.
pub(crate) fn locked_node(lock: [u8; 32]) -> FakeTpm {
    FakeTpm::new([(11, IMAGE), (15, lock)])
}

/// A policy for these machines and the admitted image.
pub(crate) fn policy(machines: &[&FakeTpm]) -> (Arc<Policy>, Arc<References>) {
    let eks: Vec<String> =
        machines.iter().map(|tpm| format!("\"{}\"", EkDigest::of_public_area(&tpm.ek_public()).unwrap())).collect();
    policy_trusting(&format!(r#"{{"kind": "pinned-ek", "ek_sha256": [{}]}}"#, eks.join(",")), 11, IMAGE)
}

/// A policy with this trust rule, and reference values with this one PCR.
pub(crate) fn policy_trusting(rule: &str, pcr: u8, value: [u8; 32]) -> (Arc<Policy>, Arc<References>) {
    let policy = format!(
        r#"{{"version": 3, "ek_templates": ["ecc-p256", "ecc-p384"],
            "ak_trust": [{rule}], "ak_algorithms": ["ecdsa-p256-sha256"],
            "pcrs": {{"enforce": [{pcr}], "warn": []}}, "lock": "pcr-15",
            "references": [{{"manifest": "test", "minimum_version": "1.0.0", "unsigned": "trust-local-file"}}]}}"#
    );
    let value = latchkey_attestation::Digest(value);
    let about = Description {
        manifest: ManifestName::new("test").unwrap(),
        serial: 1,
        image: "image",
        version: ImageVersion::new(1, 0, 0),
        by: "test",
        at: None,
    };
    let origin = Origin { products: [("image.raw".to_owned(), value)].into(), ..Origin::default() };
    let machine = PlatformProfile::new("test", [(pcr, Reference::enforced(value))].into());
    let values = ReferenceValues::predicted(&about, origin, vec![machine]).unwrap();
    let policy = Policy::from_json(policy.as_bytes()).unwrap();
    let references = References::new(&policy, vec![AuthenticManifest::local(values)]).unwrap();
    (Arc::new(policy), Arc::new(references))
}

pub(crate) fn demand(machines: &[&FakeTpm], lock: LockExpectation) -> TpmVerifier {
    let (policy, references) = policy(machines);
    TpmVerifier::new(policy, references, lock)
}

pub(crate) fn terms(attester: impl Attester + 'static, verifier: impl Verifier + 'static) -> Terms {
    Terms { attester: Arc::new(attester), verifier: Arc::new(verifier) }
}

/// A node that asks a join service outside the cluster for a ticket: TPM against pinned key.
pub(crate) fn join_terms() -> (Terms, Terms) {
    let (node, service) = (fresh_node(), PinnedKeyAttester::generate().unwrap());
    let demanded = demand(&[&node], LockExpectation::Unlocked);
    let pin = PinnedKeyVerifier::new([service.hash()]);
    (terms(node, pin), terms(service, demanded))
}

/// A command that starts a cluster on a node: nothing against TPM.
pub(crate) fn init_terms() -> (Terms, Terms) {
    let node = fresh_node();
    let demanded = demand(&[&node], LockExpectation::Unlocked);
    (terms(NoProof, demanded), terms(node, NoProof))
}

pub(crate) fn wire() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

/// What both ends make of a connection.
pub(crate) fn meet(
    purpose: Purpose,
    client: Terms,
    server: Terms,
) -> (Result<Proven<UnixStream>, ChannelError>, Result<Proven<UnixStream>, ChannelError>) {
    let (near, far) = wire();
    let reception = move |_| Some(server.clone());
    latchkey_test_support::block_on(smol::future::zip(
        connect(near, purpose, client, TIME),
        accept(far, &reception, TIME),
    ))
}

/// The binding, written down a second time: what stands in `crates/channel/src/binding.rs` has to give the same.
pub(crate) fn independent_binding(
    session: &Session,
    purpose: Purpose,
    maker: Side,
    client: Nonce,
    server: Nonce,
) -> [u8; 32] {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    for field in [
        &b"latchkey attested channel v1"[..],
        purpose.name().as_bytes(),
        maker.name().as_bytes(),
        &session.exporter,
        &session.client_key.0,
        &session.server_key.0,
        client.as_bytes(),
        server.as_bytes(),
    ] {
        hash.update(&u32::try_from(field.len()).unwrap().to_be_bytes());
        hash.update(field);
    }
    hash.finish().as_ref().try_into().unwrap()
}
