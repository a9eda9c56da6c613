//! The command with a wrong clock, by libfaketime. Skipped, and says so, where that or swtpm is not installed.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::sync::{Arc, Mutex};

use crate::support::node::{FakeNode, Stage, Tpm};
use crate::support::operator::Operator;
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::EkTemplate;

const EARLY: &str = "1970-01-02 00:00:00";
const LATE: &str = "2099-01-01 00:00:00";

#[test]
fn a_clock_of_1970_refuses_certificates_by_name_and_one_of_2099_admits_those_without_end() {
    let Some(swtpm) = Swtpm::start() else { return };
    let mut attester = AttestingTpm::new(swtpm.connect().unwrap(), EkTemplate::P384H3).unwrap();
    attester.extend_event(11, b"the image of this test").unwrap();
    let mut operator = Operator::new();
    let node = FakeNode::with_tpm(Tpm::Real(Arc::new(Mutex::new(attester))), &operator.init_secret());
    let authority = swtpm.authority();
    std::fs::write(operator.path("root.pem"), authority.root_pem().unwrap()).unwrap();
    std::fs::write(operator.path("issuer.pem"), authority.issuer_pem().unwrap()).unwrap();
    let address = node.address();
    let certificates = ["--ek-template", "ecc-p384", "--ek-root", "root.pem", "--ek-intermediate", "issuer.pem"];
    let record = ["record", &address, "--name", "demo", "--version", "1.0.0", "--out", "demo.json"];
    operator.run(&[&record[..], &certificates, &["--policy-out", "policy.json"]].concat()).succeeded();

    let ek = node.ek().to_string();
    if operator.set_clock(Some(EARLY)).is_none() {
        return;
    }
    for refused in
        [operator.verify(&node, &["--ek", &ek, "--output", "json"]), operator.init(&node, &["--output", "json"])]
    {
        assert_ne!(refused.code, 0);
        assert!(refused.out.contains("ek-certificate-not-yet-valid"), "{refused:?}");
        assert!(refused.out.contains("clock"), "the remedy names it: {refused:?}");
    }
    operator.set_clock(Some(LATE)).unwrap();
    operator.verify(&node, &["--ek", &ek]).succeeded();
    operator.init(&node, &[]).succeeded();
}

/// Where no certificate is judged, the clock decides nothing.
#[test]
fn a_pinned_machine_is_initialised_and_recovered_whatever_the_clock_says() {
    for time in [EARLY, LATE] {
        let (mut operator, node) = Operator::with_node();
        if operator.set_clock(Some(time)).is_none() {
            return;
        }
        operator.init(&node, &[]).succeeded();
        node.restart(Stage::Existing);
        operator.recover(&node, "master.json", &[]).succeeded();
    }
}
