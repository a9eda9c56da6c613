//! The whole way with real TPM code (swtpm) and certificates of its authority. Skipped, and says so, where swtpm is not
//! installed.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod support;

use std::sync::{Arc, Mutex};

use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::device::rig::Swtpm;
use latchkey_tpm::wire::EkTemplate;
use support::node::{FakeNode, Tpm};
use support::operator::Operator;

#[test]
fn a_certified_tpm_is_recorded_initialised_and_verified() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut attester = AttestingTpm::new(swtpm.connect().unwrap(), EkTemplate::P384H3).unwrap();
    attester.extend_event(11, b"the image of this test").unwrap();
    let operator = Operator::new();
    let node = FakeNode::with_tpm(Tpm::Real(Arc::new(Mutex::new(attester))), &operator.init_secret());
    let authority = swtpm.authority();
    std::fs::write(operator.path("root.pem"), authority.root_pem().unwrap()).unwrap();
    std::fs::write(operator.path("issuer.pem"), authority.issuer_pem().unwrap()).unwrap();
    let address = node.address();
    let recorded = operator.run(&[
        "record",
        &address,
        "--ek-root",
        "root.pem",
        "--ek-intermediate",
        "issuer.pem",
        "--ek-template",
        "ecc-p384",
        "--name",
        "demo",
        "--version",
        "1.0.0",
        "--out",
        "demo.json",
        "--policy-out",
        "policy.json",
    ]);
    recorded.succeeded();
    operator.init(&node, &[]).succeeded();
    let id = node.state().cluster.unwrap().to_string();
    // The authority certifies others, too: which machine is meant must be said.
    operator.verify(&node, &["--locked", &id]).failed(2);
    let ek = node.ek().to_string();
    let verified = operator.verify(&node, &["--locked", &id, "--ek", &ek, "--output", "json"]).succeeded().json();
    assert_eq!(verified["claims"]["trust"]["kind"], "ek-chain");
    assert_eq!(verified["claims"]["locked"], true);
}
