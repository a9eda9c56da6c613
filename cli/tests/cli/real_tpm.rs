//! The whole way with real TPM code (swtpm) and certificates of its authority. Skipped, and says so, where swtpm is not
//! installed.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::sync::{Arc, Mutex};

use crate::support::node::{FakeNode, Tpm};
use crate::support::operator::Operator;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_attestation::EkDigest;
use latchkey_swtpm_rig::Swtpm;
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::EkTemplate;
use serde_json::json;

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

#[test]
fn an_endorsement_key_is_one_machine_in_every_form_that_tools_and_clouds_give_it() {
    let Some(swtpm) = Swtpm::start() else { return };
    let operator = Operator::new();
    for (template, handle, kind) in
        [(EkTemplate::RsaL1, "0x81010001", "rsa-2048"), (EkTemplate::P384H3, "0x81010016", "ecc-sec-p384")]
    {
        let attester = AttestingTpm::new(swtpm.connect().unwrap(), template).unwrap();
        let ek = EkDigest::of_public_area(&attester.ek_public().marshal()).unwrap().to_string();
        drop(attester);
        let pinned = |file: &[u8]| {
            let _ = std::fs::remove_file(operator.path("policy.json"));
            std::fs::write(operator.path("key"), file).unwrap();
            let trust = ["policy", "new", "--ek-pin", "key", "--ek-template", template.name(), "--manifest", "demo"];
            operator.run(&[&trust[..], &["--unsigned", "--out", "policy.json"]].concat())
        };
        let pin = |file: &[u8]| {
            pinned(file).succeeded();
            operator.json("policy.json")["ak_trust"][0]["ek_sha256"][0].as_str().unwrap().to_owned()
        };
        assert_eq!(pin(format!("{ek}\n").as_bytes()), ek);
        for form in ["tss", "tpmt", "pem", "der"] {
            let Some(_) = swtpm.tool("tpm2_readpublic", &["-c", handle, "-f", form, "-o", "key"]) else { return };
            let file = std::fs::read(swtpm.directory().join("key")).unwrap();
            assert_eq!(pin(&file), ek, "{kind} {form}");
            let cut = pinned(&file[..file.len() - 7]).failed(2);
            assert!(cut.err.contains("key"), "{}", cut.err);
            if matches!(form, "tpmt" | "der") {
                // As `aws ec2 get-instance-tpm-ek-pub` prints it.
                let value = STANDARD.encode(&file);
                let of_aws = json!({"InstanceId": "i-1", "KeyType": kind, "KeyFormat": form, "KeyValue": value});
                assert_eq!(pin(of_aws.to_string().as_bytes()), ek, "{kind} {form} of AWS");
            }
        }
    }
    // A key that does not say which template it is of: of none that is meant, or of two.
    let Some(_) = swtpm.tool("tpm2_readpublic", &["-c", "0x81010001", "-f", "pem", "-o", "key"]) else { return };
    std::fs::copy(swtpm.directory().join("key"), operator.path("key")).unwrap();
    let pin = |templates: &[&str]| {
        let trust = ["policy", "new", "--ek-pin", "key", "--manifest", "demo", "--unsigned", "--out", "two.json"];
        operator.run(&[&trust[..], templates].concat()).failed(2).err
    };
    assert!(pin(&[]).contains("of a kind that none of the endorsement-key templates"));
    let both = pin(&["--ek-template", "rsa-2048", "--ek-template", "rsa-2048-high"]);
    assert!(both.contains("may be of rsa-2048 or rsa-2048-high"), "{both}");
    for file in [&b""[..], b"{}", b"-----BEGIN PUBLIC KEY-----\n", b"\x30\x00", b"\x00\x23", b"\x00\x01\xff"] {
        std::fs::write(operator.path("key"), file).unwrap();
        let none = ["policy", "new", "--ek-pin", "key", "--manifest", "demo", "--unsigned", "--out", "none.json"];
        assert!(operator.run(&none).failed(2).err.contains("key"));
    }
}
