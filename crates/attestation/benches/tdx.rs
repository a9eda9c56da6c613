//! What a quote of TDX costs a verifier, beside the library that verifies its signatures: `cargo bench -p latchkey-attestation --bench tdx`.
//!
//! Quote and collateral are those of a fake Intel: its keys, as Intel's, are of P-256 throughout.

use dcap_qvl::QuoteCollateralV3;
use dcap_qvl::verify::QuoteVerifier;
use latchkey_attestation::fake_intel::{FakeIntel, REPORT_DATA};
use latchkey_attestation::policy::TdxPolicy;
use latchkey_bench::Bench;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::value::RawValue;

/// In the time of the fake Intel's lists.
const NOW: u64 = 1_795_000_000;

fn main() {
    let bench = Bench::from_args();
    let intel = FakeIntel::default();
    let (quote, collateral) = (intel.quote(|_| ()), intel.collateral());
    let policy = format!(r#"{{"mrtd": ["{}"], "tcb_status": ["UpToDate"], "rtmrs": "any"}}"#, "d1".repeat(48));
    let policy = TdxPolicy::from_json(policy.as_bytes()).expect("a policy");
    let what = "TDX quote: dates and lists of the collateral, chains, quoting enclave, signatures, TCB status, policy";
    bench.measure("attestation/tdx-quote", what, || {
        let verified = collateral.verify(&quote, &REPORT_DATA, NOW).expect("a good quote");
        policy.validate(&verified).expect("a good guest")
    });
    let (root, library) = for_library(&intel);
    let verifier = QuoteVerifier::new(root);
    let what = "dcap-qvl alone: the same quote, with the collateral that belongs to it";
    bench.measure("dcap-qvl/tdx-quote", what, || verifier.verify(&quote, &library, NOW).expect("a good quote"));
}

/// One of the two, with its signature.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(borrow, alias = "enclaveIdentity")]
    tcb_info: &'a RawValue,
    signature: String,
}

/// DER of the root, and what the library takes.
fn for_library(intel: &FakeIntel) -> (Vec<u8>, QuoteCollateralV3) {
    let file = |name: &str| {
        let found = intel.files().iter().find(|(file, _)| *file == name);
        found.map(|(_, content)| content.clone()).expect("a fake Intel publishes it")
    };
    let text = |name: &str| String::from_utf8(file(name)).expect("text");
    let answer = |name: &str| {
        let json = text(name);
        let answer: Answer<'_> = serde_json::from_str(&json).expect("an answer");
        (answer.tcb_info.get().to_owned(), hex::decode(answer.signature).expect("hexadecimal digits"))
    };
    let root = text("root.pem");
    let signing = text("tcb-signing.pem") + &root;
    let ((tcb_info, tcb_info_signature), (qe_identity, qe_identity_signature)) =
        (answer("tcb.json"), answer("qe.json"));
    let library = QuoteCollateralV3 {
        pck_crl_issuer_chain: text("pck-platform.pem") + &root,
        root_ca_crl: file("root.crl"),
        pck_crl: file("pck-platform.crl"),
        tcb_info_issuer_chain: signing.clone(),
        tcb_info,
        tcb_info_signature,
        qe_identity_issuer_chain: signing,
        qe_identity,
        qe_identity_signature,
        pck_certificate_chain: None,
    };
    let root = CertificateDer::from_pem_slice(root.as_bytes()).expect("a certificate");
    (root.to_vec(), library)
}
