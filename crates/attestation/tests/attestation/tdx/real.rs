//! Real quotes with what Intel published for them, as they come with the source of dcap-qvl: the library's answers are held against ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dcap_qvl::QuoteCollateralV3;
use latchkey_attestation::ReasonCode;
use latchkey_attestation::verify::CollateralFile;
use latchkey_attestation::verify::tdx::{TdxCollateral, TdxQuote};
use latchkey_test_support::vector;
use serde::Deserialize;

/// The folder of samples in the library's source.
fn samples() -> PathBuf {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        manifest_path: PathBuf,
    }
    // Without the filter cargo wants the sources for every platform.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let arguments = ["metadata", "--format-version", "1", "--offline", "--all-features", "--filter-platform"];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg(platform)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).unwrap();
    let found = metadata.packages.into_iter().find(|package| package.name == "dcap-qvl").unwrap();
    found.manifest_path.with_file_name("sample")
}

fn published(samples: &Path, name: &str) -> QuoteCollateralV3 {
    serde_json::from_slice(&fs::read(samples.join(name)).unwrap()).unwrap()
}

/// The same as files of a directory.
fn files(published: &QuoteCollateralV3) -> Vec<(&'static str, Vec<u8>)> {
    let answer = |name: &str, text: &str, signature: &[u8]| {
        format!(r#"{{"{name}":{text},"signature":"{}"}}"#, hex::encode(signature)).into_bytes()
    };
    vec![
        ("pck.pem", published.pck_crl_issuer_chain.clone().into_bytes()),
        ("signing.pem", published.tcb_info_issuer_chain.clone().into_bytes()),
        ("root.crl", published.root_ca_crl.clone()),
        ("pck.crl", published.pck_crl.clone()),
        ("tcb.json", answer("tcbInfo", &published.tcb_info, &published.tcb_info_signature)),
        ("qe.json", answer("enclaveIdentity", &published.qe_identity, &published.qe_identity_signature)),
    ]
}

fn collateral(published: &QuoteCollateralV3) -> TdxCollateral {
    let files = files(published);
    let files: Vec<_> = files.iter().map(|(name, content)| CollateralFile { name, content }).collect();
    TdxCollateral::new(&files).unwrap()
}

#[test]
fn real_quotes_verify_with_intel_s_own_root_as_the_library_alone_says() {
    let samples = samples();
    for (quote, name) in [
        ("tdx_quote", "tdx_quote_collateral.json"),
        ("tdx_quote_outdated", "tdx_quote_outdated_collateral.json"),
        ("tdx_quote_td15ex", "tdx_quote_td15ex_collateral.json"),
    ] {
        let bytes = fs::read(samples.join(quote)).unwrap();
        let published = published(&samples, name);
        let collateral = collateral(&published);
        let (_, end) = collateral.first_end().unwrap();
        let data = TdxQuote::parse(&bytes).unwrap().report_data();
        let verified = match (collateral.verify(&bytes, &data, end), dcap_qvl::verify::verify(&bytes, &published, end))
        {
            (Err(ours), Err(theirs)) => {
                assert_eq!((quote, ours.code()), ("tdx_quote_outdated", ReasonCode::TdxTcbTooOld), "{theirs:#}");
                continue;
            }
            (ours, _) => ours.unwrap(),
        };
        let theirs = dcap_qvl::verify::verify(&bytes, &published, end).unwrap();
        assert_eq!(format!("{:?}", verified.tcb_status()), theirs.status, "{quote}");
        let advisories: Vec<_> = verified.advisories().iter().cloned().collect();
        let mut others = theirs.advisory_ids.clone();
        others.sort();
        assert_eq!(advisories, others);
        assert_eq!(verified.ppid(), theirs.ppid);
        assert_eq!(verified.quote().mrtd().0, theirs.report.as_td10().unwrap().mr_td);
        let after = collateral.verify(&bytes, &data, end + 1).unwrap_err();
        assert_eq!(after.code(), ReasonCode::TdxCollateralExpired, "{after}");
        let mut elsewhere = data;
        elsewhere[63] ^= 1;
        let refusal = collateral.verify(&bytes, &elsewhere, end).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::TdxReportDataMismatch);
    }
}

#[test]
fn each_bit_of_a_real_quote_s_report_and_signatures_counts() {
    let samples = samples();
    let bytes = fs::read(samples.join("tdx_quote")).unwrap();
    let collateral = collateral(&published(&samples, "tdx_quote_collateral.json"));
    let (_, end) = collateral.first_end().unwrap();
    let data = TdxQuote::parse(&bytes).unwrap().report_data();
    // Header and report; signature and key; what vouches for the enclave. Lengths between them may lose white space behind PEM.
    for at in (0..632).chain(636..766).chain(770..1250) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(collateral.verify(&flipped, &data, end).is_err(), "byte {at}");
    }
}

/// Its platform is below every level of the TCB information of that time.
#[test]
fn a_real_quote_of_a_platform_that_is_too_old_is_told_as_that() {
    let names = ["pck.crl", "pck.pem", "qe.json", "root.crl", "signing.pem", "tcb.json"];
    let files = names.map(|name| vector(&format!("foreign/tdx-collateral/tdx/{name}")));
    let Some(quote) = vector("foreign/dcap-tdx-quote.dat") else { return };
    let files: Option<Vec<_>> =
        names.into_iter().zip(&files).map(|(name, file)| Some((name, file.as_ref()?))).collect();
    let Some(files) = files else { return };
    let files: Vec<_> = files.into_iter().map(|(name, content)| CollateralFile { name, content }).collect();
    let collateral = TdxCollateral::new(&files).unwrap();
    let data = TdxQuote::parse(&quote).unwrap().report_data();
    let refusal = collateral.verify(&quote, &data, JULY_2025).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::TdxTcbTooOld, "{refusal}");
}

/// 2025-07-01.
const JULY_2025: u64 = 1_751_328_000;

#[test]
fn a_real_quote_of_a_guest_that_does_not_protect_itself_is_refused() {
    let Some(bytes) = vector("tdx/quote-v4-spr.bin") else { return };
    let quote = TdxQuote::parse(&bytes).unwrap();
    assert_eq!(quote.attributes(), 1 << 30, "PKS alone");
    let collateral = collateral(&published(&samples(), "tdx_quote_collateral.json"));
    let (_, end) = collateral.first_end().unwrap();
    let refusal = collateral.verify(&bytes, &quote.report_data(), end).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::TdxAttributesRefused, "{refusal}");
}
