//! TDX guests: what Intel publishes is got for a quote, a policy is made after quotes, and machines are decided on by it.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use crate::support::command::Ran;
use crate::support::node::FakeNode;
use crate::support::operator::Operator;
use latchkey_attestation::fake_intel::{FakeIntel, Published, field};
use latchkey_test_support::mirror::{Answer, Mirror, answers};
use serde_json::json;

/// The operator's files, what Intel publishes in `intel`, and the quote of a good guest.
fn site(change: impl FnOnce(&mut Published)) -> (Operator, Arc<FakeIntel>) {
    let (operator, intel) = (Operator::new(), FakeIntel::with(change));
    latchkey_collateral::publish_fake_intel(&intel, &operator.path("intel")).unwrap();
    fs::write(operator.path("quote.bin"), intel.quote(|_| ())).unwrap();
    (operator, Arc::new(intel))
}

fn code(ran: &Ran) -> String {
    ran.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
}

/// Makes `new.json`, which trusts the TPM with this EK.
fn new(operator: &Operator, ek: &str, more: &[&str]) -> Ran {
    let _ = fs::remove_file(operator.path("new.json"));
    let trust = ["policy", "new", "--ek-pin", ek, "--manifest", "demo", "--unsigned", "--out", "new.json"];
    operator.run(&[&trust[..], &["--output", "json"], more].concat())
}

const AFTER_QUOTE: [&str; 4] = ["--tdx-quote", "quote.bin", "--collateral", "intel"];
const ANY_EK: &str = "9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a9a";

#[test]
fn a_policy_made_after_a_quote_admits_the_guest_and_its_evidence_does_as_well_as_the_quote() {
    let (operator, intel) = site(|_| ());
    let node = FakeNode::tdx_guest(&intel, &operator.init_secret());
    operator.record(&node).succeeded();
    let ek = node.ek().to_string();
    new(&operator, &ek, &AFTER_QUOTE).succeeded();
    let section = json!({
        "mrtd": ["d1".repeat(48)], "rtmrs": "any", "tcb_status": ["UpToDate"], "tolerated_advisories": [],
        "minimum_tcb_evaluation": 17, "xfam": "e702060000000000",
    });
    assert_eq!(operator.json("new.json")["tdx"], section);
    assert!(operator.json("new.json").get("snp").is_none());

    let address = node.address();
    let verify = |policy: &str, more: &[&str]| {
        let verify = ["verify", &address, "--policy", policy, "--reference", "demo.json"];
        operator.run(&[&verify[..], &["--collateral", "intel"], more].concat())
    };
    let shown = verify("new.json", &["--save-evidence", "evidence.json"]).succeeded().out;
    assert!(shown.contains("TDX, FMSPC b0c06f000000 (UpToDate)"), "{shown}");
    assert!(shown.contains("by Intel's evaluation 17\n") && shown.contains("no advisory is open"), "{shown}");
    assert!(shown.contains("rtmrs: any: the TPM alone tells which image runs"), "{shown}");
    assert!(shown.contains("Z  the list of what Intel's root revoked"), "{shown}");
    let json = verify("new.json", &["--output", "json"]).succeeded().json();
    let processor = &json["claims"]["processor"];
    assert_eq!((&processor["mrtd"], &processor["advisories"]), (&json!("d1".repeat(48)), &json!([])));
    assert_eq!(processor["rtmrs"].as_array().unwrap().len(), 4);
    assert!(
        json["demanded"].as_array().unwrap().contains(&json!({"field": "tcb_status", "value": "UpToDate"})),
        "{json}"
    );
    let first = &json["ends"][0]["ends"];
    assert_eq!(first, &processor["collateral_ends"], "{json}");
    new(&operator, &ek, &["--tdx-quote", "evidence.json", "--collateral", "intel"]).succeeded();
    assert_eq!(operator.json("new.json")["tdx"], section);
    let other = FakeNode::tdx_guest(&Arc::new(FakeIntel::default()), &operator.init_secret());
    new(&operator, &other.ek().to_string(), &AFTER_QUOTE).succeeded();
    let address = other.address();
    let verify = ["verify", &address, "--policy", "new.json", "--reference", "demo.json", "--output", "json"];
    let ran = operator.run(&[&verify[..], &["--collateral", "intel"]].concat()).failed(3);
    assert_eq!(code(&ran), "tdx-quote-untrusted", "{}", ran.out);
}

#[test]
fn what_a_quote_shows_is_taken_of_others_and_what_differs_between_quotes_is_left_out() {
    let (operator, intel) = site(|intel| {
        intel.status = "SWHardeningNeeded";
        intel.advisories = &["INTEL-SA-00837"];
    });
    let other = intel.quote(|report| {
        report[field::MRTD..][..48].fill(0xd2);
        report[field::XFAM] = 0xe3;
    });
    fs::write(operator.path("other.bin"), other).unwrap();
    new(&operator, ANY_EK, &[&AFTER_QUOTE[..], &["--tdx-quote", "other.bin"]].concat()).succeeded();
    let section = json!({
        "mrtd": ["d1".repeat(48), "d2".repeat(48)], "rtmrs": "any", "tcb_status": ["SWHardeningNeeded"],
        "tolerated_advisories": ["INTEL-SA-00837"], "minimum_tcb_evaluation": 17,
    });
    assert_eq!(operator.json("new.json")["tdx"], section);
}

#[test]
fn no_policy_is_made_after_a_quote_that_is_not_true_or_a_guest_that_is_open_or_weak() {
    let (operator, intel) = site(|_| ());
    let said = new(&operator, ANY_EK, &AFTER_QUOTE[..2]).failed(2).json()["error"]["message"].to_string();
    assert!(said.contains("--collateral DIR: anybody can write a quote"), "{said}");
    let said = new(&operator, ANY_EK, &AFTER_QUOTE[2..]).failed(2).json()["error"]["message"].to_string();
    assert!(said.contains("--collateral goes with --snp-report FILE or --tdx-quote FILE"), "{said}");
    let made_after = |quote: &[u8]| {
        fs::write(operator.path("quote.bin"), quote).unwrap();
        new(&operator, ANY_EK, &AFTER_QUOTE)
    };
    assert_eq!(code(&made_after(&intel.quote(|report| report[field::ATTRIBUTES] |= 1)).failed(3)), "tdx-debug-allowed");
    let counts = intel.quote(|report| report[field::ATTRIBUTES + 7] |= 0x80);
    assert_eq!(code(&made_after(&counts).failed(2)), "tdx-attributes-refused");
    let mut altered = intel.quote(|_| ());
    altered[48 + field::MRTD] ^= 1;
    assert_eq!(code(&made_after(&altered).failed(3)), "tdx-quote-untrusted");
    assert_eq!(code(&made_after(&altered[..100]).failed(2)), "tdx-quote-malformed");
    assert_eq!(code(&made_after(&FakeIntel::default().quote(|_| ())).failed(3)), "tdx-quote-untrusted");
    assert!(!operator.path("new.json").exists());
}

/// Intel's service, which says who signed what in headers.
fn service(intel: &FakeIntel) -> Mirror {
    let file = |name: &str| {
        let mut files = intel.files().iter();
        files.find(|(is, _)| *is == name).unwrap().1.clone()
    };
    let answer = |name: &str, header: Option<(&str, &str)>| -> Answer {
        let content = file(name);
        let chain = header.map(|(header, signer)| {
            let chain = [file(signer), file("root.pem")].concat();
            let encoded = chain.iter().fold(String::new(), |mut text, byte| {
                write!(text, "%{byte:02x}").unwrap();
                text
            });
            format!("{header}: {encoded}\r\n")
        });
        answers("200 OK", &format!("Content-Length: {}\r\n{}", content.len(), chain.unwrap_or_default()), &content)
    };
    Mirror::new(vec![
        answer("pck-platform.crl", Some(("SGX-PCK-CRL-Issuer-Chain", "pck-platform.pem"))),
        answer("root.crl", None),
        answer("tcb.json", Some(("TCB-Info-Issuer-Chain", "tcb-signing.pem"))),
        answer("qe.json", None),
    ])
}

#[test]
fn what_intel_publishes_is_got_for_a_quote_and_nothing_where_it_does_not_verify() {
    let (operator, intel) = site(|_| ());
    let fetch = |from: &str, to: &str, more: &[&str]| {
        let fetch = ["collateral", "fetch", "--from", from, "--to", to, "--output", "json"];
        operator.run(&[&fetch[..], more].concat())
    };
    let quote = ["--tdx-quote", "quote.bin"];
    // Intel's root is built in, and this one is not it.
    let ran = fetch(&service(&intel).address, "got", &quote).failed(1);
    assert_eq!(code(&ran), "collateral-root-unknown", "{}", ran.out);
    assert!(!operator.path("got").exists());
    fs::create_dir_all(operator.path("got/tdx")).unwrap();
    fs::copy(operator.path("intel/tdx/.fake-root"), operator.path("got/tdx/.fake-root")).unwrap();
    let rows = fetch(&service(&intel).address, "got", &quote).succeeded().json()["files"].clone();
    let states: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["written"; 6]);
    let checked = operator.run(&["collateral", "check", "got", "--output", "json"]).succeeded().json();
    assert_eq!((checked["good"].as_bool(), checked["files"].as_array().unwrap().len()), (Some(true), 8));
    new(&operator, ANY_EK, &["--tdx-quote", "quote.bin", "--collateral", "got"]).succeeded();

    let ran = fetch("intel", "got", &quote).failed(1);
    assert_eq!(code(&ran), "collateral-origin-refused");
    assert!(ran.json()["error"]["because"][0].as_str().unwrap().contains("copy DIR/tdx itself"), "{}", ran.out);
    let both = [&quote[..], &["--snp-report", "quote.bin"]].concat();
    for (wrong, said) in [
        (&[][..], "--snp-report FILE or --tdx-quote FILE is missing"),
        (&both, "exclude each other"),
        (&[&quote[..], &["--product", "milan"]].concat(), "--product goes with --snp-report"),
    ] {
        let ran = fetch("http://127.0.0.1:1", "got", wrong).failed(2);
        assert!(ran.out.contains(said), "{}", ran.out);
    }
}
