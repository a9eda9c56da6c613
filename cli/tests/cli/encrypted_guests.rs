//! A policy that demands what SEV-SNP processors say: what the operator's commands need for it, show of it, and refuse.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use std::sync::Arc;

use crate::support::node::{FakeNode, Stage};
use crate::support::operator::Operator;
use latchkey_attestation::fake_amd::{Change, FakeAmd};
use latchkey_attestation::parse::{SigningKey, SnpProduct};
use serde_json::{Value, json};

/// The operator's files, with a policy that demands reports, a manifest with launches, and what AMD publishes in `amd`; and a guest.
fn site() -> (Operator, FakeNode) {
    let (operator, amd) = (Operator::new(), Arc::new(FakeAmd::new(SnpProduct::Milan)));
    let node = FakeNode::guest(&amd, &operator.init_secret());
    operator.record(&node).succeeded();
    demand_reports(&operator);
    latchkey_collateral::publish_fake(&amd, &operator.path("amd")).unwrap();
    (operator, node)
}

fn demand_reports(operator: &Operator) {
    change(operator, "policy.json", |policy| {
        policy["snp"] = json!({
            "tcb_floor": {"milan": {"bootloader": 3, "snp": 8, "microcode": 115}}, "keys": ["vcek"],
            "revocation_list": "demanded", "vmpl": 0, "minimum_abi": "0.0", "allow": ["smt"],
        });
    });
    change(operator, "demo.json", |manifest| {
        manifest["images"][0]["machines"][0]["snp_launch"] = json!([{
            "digest": "d1".repeat(48), "firmware_sha256": "09".repeat(32), "kernel_hashes": true, "vcpus": 4,
            "vcpu_type": "EPYC-v4", "guest_features": 1,
        }]);
    });
}

fn change(operator: &Operator, file: &str, change: impl FnOnce(&mut Value)) {
    let mut value = operator.json(file);
    change(&mut value);
    std::fs::write(operator.path(file), value.to_string()).unwrap();
}

const WITH: [&str; 2] = ["--collateral", "amd"];

fn code(ran: &support::command::Ran) -> String {
    ran.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_guest_is_verified_initialised_and_recovered_by_what_amd_publishes() {
    let (operator, node) = site();
    let shown = operator.verify(&node, &WITH).succeeded().out;
    assert!(shown.contains("Milan (boot loader 3, TEE 0, SNP firmware 8, microcode 115)"), "{shown}");
    assert!(shown.contains("its VCEK signed; the certificate ends 2040-01-01T00:00:00Z"), "{shown}");
    let json = operator.verify(&node, &["--collateral", "amd", "--output", "json"]).succeeded().json();
    let processor = &json["claims"]["processor"];
    assert_eq!((&processor["product"], &processor["signed_by"]), (&json!("milan"), &json!("VCEK")));
    assert!(shown.contains("tcb_floor: Milan: boot loader 3, TEE 0, SNP firmware 8, microcode 115"), "{shown}");
    assert!(shown.contains("allow: smt\n") && shown.contains("  the list of what ARK-Milan revoked"), "{shown}");
    let ends = json["ends"].as_array().unwrap();
    let what: Vec<_> = ends.iter().map(|end| end["what"].as_str().unwrap()).collect();
    assert!(["the certificate of the VCEK", "the ASK of Milan"].iter().all(|one| what.contains(one)), "{what:?}");
    assert!(ends.is_sorted_by_key(|end| end["ends"].as_u64()), "{ends:?}");
    assert_eq!(json["identity"]["key"], "endorsement-key");

    let said = operator.init(&node, &WITH).succeeded().err;
    assert!(said.contains("processor Milan (boot loader 3"), "{said}");
    node.restart(Stage::Existing);
    operator.recover(&node, "master.json", &WITH).succeeded();
    assert_eq!(node.state().recoveries, 1);
}

#[test]
fn without_what_amd_publishes_no_node_is_asked() {
    let (operator, node) = site();
    for ran in [operator.verify(&node, &[]), operator.init(&node, &[])] {
        let said = ran.failed(2).err;
        assert!(said.contains("--collateral DIR"), "{said}");
    }
    assert_eq!(node.shown(), (0, 0));
    let nothing = operator.verify(&node, &["--collateral", "nothing"]).failed(2).err;
    assert!(nothing.contains("none of `snp`, `tdx` and `tpm` is in it"), "{nothing}");
    // Where a policy demands none, the directory is read, and has no say.
    change(&operator, "policy.json", |policy| drop(policy.as_object_mut().unwrap().remove("snp")));
    operator.verify(&node, &WITH).succeeded();
}

#[test]
fn a_machine_that_is_no_guest_is_refused_and_so_is_a_guest_of_somebody_else_s_processor() {
    let (operator, _) = site();
    let plain = FakeNode::start(&operator.init_secret());
    let foreign = FakeNode::guest(&Arc::new(FakeAmd::new(SnpProduct::Milan)), &operator.init_secret());
    operator.trust(&[&plain, &foreign]);
    demand_reports(&operator);
    let json = ["--collateral", "amd", "--output", "json"];
    assert_eq!(code(&operator.verify(&plain, &json).failed(3)), "snp-report-missing");
    assert_eq!(code(&operator.init(&plain, &json).failed(3)), "snp-report-missing");
    assert_eq!(plain.shown(), (0, 0));
    // Its evidence is kept, for it tells which certificate is missing.
    let keep = ["--collateral", "amd", "--output", "json", "--save-evidence", "foreign.json"];
    assert_eq!(code(&operator.verify(&foreign, &keep).failed(3)), "snp-certificate-untrusted");
    assert!(operator.json("foreign.json")["processor"]["snp"]["report"].is_string());
}

#[test]
fn kept_evidence_has_the_report_and_is_judged_by_it() {
    let (operator, node) = site();
    operator.verify(&node, &["--collateral", "amd", "--save-evidence", "evidence.json"]).succeeded();
    assert_eq!(operator.json("evidence.json")["version"], 2);
    let kept = |more: &[&str]| {
        let trust = ["--policy", "policy.json", "--reference", "demo.json", "--output", "json"];
        operator.run(&[&["verify", "--evidence", "evidence.json"], &trust[..], more].concat())
    };
    let json = kept(&WITH).succeeded().json();
    assert_eq!(json["claims"]["processor"]["tcb"]["microcode"], 115);
    assert_eq!(code(&kept(&[]).failed(3)), "snp-not-verifiable");
    let check =
        ["policy", "check", "--policy", "policy.json", "--reference", "demo.json", "--evidence", "evidence.json"];
    let shown = operator.run(&[&check[..], &WITH].concat()).succeeded().out;
    assert!(shown.contains("would be admitted, if the node answered live"), "{shown}");

    change(&operator, "evidence.json", |evidence| {
        evidence["version"] = json!(1);
    });
    assert_eq!(code(&kept(&WITH).failed(2)), "recording-malformed");
    change(&operator, "evidence.json", |evidence| drop(evidence.as_object_mut().unwrap().remove("processor")));
    assert_eq!(code(&kept(&WITH).failed(3)), "snp-report-missing");
}

#[test]
fn a_boot_is_not_recorded_for_a_policy_that_demands_launches() {
    let (operator, node) = site();
    let address = node.address();
    let record =
        ["record", &address, "--policy", "policy.json", "--name", "demo", "--version", "1.0.0", "--out", "new.json"];
    let said = operator.run(&record).failed(2).err;
    assert!(said.contains("a recorded manifest says nothing of launches") && said.contains("image build"), "{said}");
}

#[test]
fn a_policy_is_made_after_machines_that_are_good() {
    let (operator, node) = site();
    operator.verify(&node, &["--collateral", "amd", "--save-evidence", "evidence.json"]).succeeded();
    let ek = node.ek().to_string();
    let new = |more: &[&str]| {
        let trust = ["policy", "new", "--ek-pin", &ek, "--manifest", "demo", "--unsigned", "--out", "new.json"];
        operator.run(&[&trust[..], more].concat())
    };
    let said = new(&["--snp-report", "evidence.json"]).failed(2).err;
    assert!(said.contains("--collateral DIR: anybody can write a report"), "{said}");
    assert!(new(&WITH).failed(2).err.contains("--collateral goes with --snp-report"));
    new(&["--snp-report", "evidence.json", "--collateral", "amd"]).succeeded();
    let floor = json!({"milan": {"bootloader": 3, "tee": 0, "snp": 8, "microcode": 115, "fmc": 0}});
    let section = json!({
        "tcb_floor": floor, "keys": ["vcek"], "revocation_list": "demanded", "vmpl": 0, "minimum_abi": "0.0",
        "allow": ["smt"], "demand": [],
    });
    assert_eq!(operator.json("new.json")["snp"], section);
    let address = node.address();
    let verify = ["verify", &address, "--policy", "new.json", "--reference", "demo.json"];
    operator.run(&[&verify[..], &WITH].concat()).succeeded();

    let floors = ["policy", "floor", "--from", "evidence.json", "--collateral", "amd", "--output", "json"];
    assert_eq!(operator.run(&floors).succeeded().json()["tcb_floor"], floor);
}

#[test]
fn no_policy_is_made_after_a_report_that_is_not_true_or_a_guest_that_is_open() {
    let (operator, amd) = (Operator::new(), FakeAmd::new(SnpProduct::Milan));
    latchkey_collateral::publish_fake(&amd, &operator.path("amd")).unwrap();
    let make = |change: fn(&mut Change)| {
        let guest = amd.guest(SigningKey::Vcek, 3, change);
        std::fs::write(operator.path("report.bin"), guest.report).unwrap();
        std::fs::write(operator.path("amd/snp/vcek.der"), guest.vcek.unwrap()).unwrap();
        let _ = std::fs::remove_file(operator.path("new.json"));
        let trust = ["policy", "new", "--ek-root", "root.pem", "--manifest", "demo", "--unsigned", "--out", "new.json"];
        std::fs::write(operator.path("root.pem"), &amd.chain).unwrap();
        operator.run(&[&trust[..], &["--snp-report", "report.bin", "--output", "json"], &WITH].concat())
    };
    let debug = make(|change| change.report[0x08 + 2] |= 1 << 3).failed(2);
    assert_eq!(code(&debug), "snp-debug-allowed");
    assert_eq!(code(&make(|change| change.report[0x08 + 2] |= 1 << 2).failed(2)), "snp-migration-allowed");
    let older = |change: &mut Change| change.report[0x1e0 + 7] = 110;
    // The floor is the oldest of what runs, is committed, and ran at the launch.
    make(older).succeeded();
    assert_eq!(operator.json("new.json")["snp"]["tcb_floor"]["milan"]["microcode"], 110);
    assert_eq!(operator.json("new.json")["snp"]["demand"], json!([]));
    // What all of them say of their machine is demanded of each.
    make(|change| change.report[0x40] |= 1 << 6).succeeded();
    assert_eq!(operator.json("new.json")["snp"]["demand"], json!(["iommu-write-safe"]));
    make(older).succeeded();
    let report = std::fs::read(operator.path("report.bin")).unwrap();
    let mut altered = report.clone();
    altered[0x90] ^= 1;
    std::fs::write(operator.path("report.bin"), altered).unwrap();
    let floor = ["policy", "floor", "--from", "report.bin", "--output", "json"];
    let refused = operator.run(&[&floor[..], &WITH].concat()).failed(3);
    assert_eq!(code(&refused), "snp-signature-invalid");
}

/// Under a rule by which a processor vouches for the TPM the rule names the launches, and manifests say nothing of them. What Azure's
/// paravisor leaves in its TPM is taken as it is.
#[test]
fn a_kept_report_is_judged_by_the_launches_that_the_rule_of_trust_names() {
    let (operator, amd) = (Operator::new(), FakeAmd::new(SnpProduct::Milan));
    let node = FakeNode::start(&operator.init_secret());
    operator.record(&node).succeeded();
    demand_reports(&operator);
    latchkey_collateral::publish_fake(&amd, &operator.path("amd")).unwrap();
    let guest = amd.guest(SigningKey::Vcek, 3, |_| ());
    std::fs::write(operator.path("amd/snp/vcek.der"), guest.vcek.unwrap()).unwrap();
    std::fs::write(operator.path("report.bin"), latchkey_attestation::fake_hcl::content(&guest.report, b"{}", 2))
        .unwrap();
    let check = |launch: &str| {
        change(&operator, "policy.json", |policy| {
            policy["ak_trust"] = json!([{"kind": "ek-svsm", "launch_sha384": [launch.repeat(48)]}]);
        });
        let check =
            ["policy", "check", "--policy", "policy.json", "--reference", "demo.json", "--snp-report", "report.bin"];
        operator.run(&[&check[..], &WITH].concat()).succeeded().out
    };
    let text = check("d1");
    assert!(text.contains("the policy takes what it says") && text.contains("it may vouch for its TPM"), "{text}");
    let text = check("d2");
    assert!(text.contains("REFUSED") && text.contains("snp-launch-not-trusted-with-tpm"), "{text}");
    assert!(!text.contains("the policy takes what it says"), "{text}");
}
