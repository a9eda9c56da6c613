//! `latchkey collateral`: what a directory of AMD's files holds, and what of it is good.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;

use crate::support::command::{Ran, latchkey};
use latchkey_test_support::mirror::{Mirror, answers};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName, DnType,
    IsCa, KeyIdMethod, KeyPair, SerialNumber, date_time_ymd,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Certificates of real chips, from public projects.
fn real(name: &str) -> Option<Vec<u8>> {
    latchkey_test_support::vector(&format!("snp/{name}"))
}

fn with(files: &[(&str, &[u8])]) -> TempDir {
    let directory = TempDir::new().unwrap();
    fs::create_dir_all(directory.path().join("amd/snp")).unwrap();
    for (name, content) in files {
        fs::write(directory.path().join("amd/snp").join(name), content).unwrap();
    }
    directory
}

fn run(directory: &TempDir, arguments: &[&str]) -> Ran {
    latchkey(directory.path(), &[&["collateral"], arguments].concat())
}

/// File, kind and verdict of each row.
fn verdicts(ran: &Ran) -> Vec<[Value; 3]> {
    let rows = ran.json()["files"].as_array().unwrap().clone();
    rows.into_iter().map(|row| ["file", "kind", "verdict"].map(|name| row[name].clone())).collect()
}

#[test]
fn what_is_not_there_is_empty_or_is_no_file_of_amds_is_said_with_its_code() {
    let nothing = TempDir::new().unwrap();
    for command in ["show", "check"] {
        let ran = run(&nothing, &[command, "amd", "--output", "json"]).failed(2);
        assert_eq!(ran.json()["error"]["code"], "usage");
        run(&nothing, &[command]).failed(2);
    }
    let empty = with(&[]);
    let ran = run(&empty, &["check", "amd", "--output", "json"]).failed(1);
    assert_eq!(ran.json()["error"]["code"], "collateral-empty");
    assert_eq!(run(&empty, &["show", "amd", "--output", "json"]).succeeded().json()["files"], json!([]));

    let notes = with(&[("notes.txt", b"fetched on Monday"), (".notes.swp", b"an editor's")]);
    let ran = run(&notes, &["show", "amd", "--output", "json"]).failed(1);
    assert_eq!(ran.json()["files"][0]["refusal"]["code"], "collateral-malformed");
    let ran = run(&notes, &["check", "amd", "--output", "json"]).failed(1);
    assert_eq!(verdicts(&ran), [[json!("notes.txt"), Value::Null, json!("collateral-malformed")]]);
    let text = run(&notes, &["check", "amd"]).failed(1).out;
    assert!(
        text.contains("collateral-malformed") && text.contains("fetch the file that the detail names again"),
        "{text}"
    );
    let far = run(&notes, &["check", "amd", "--within", "99999", "--output", "json"]).failed(2);
    assert_eq!(far.json()["error"]["code"], "usage");
}

#[test]
fn real_files_are_shown_with_chip_and_firmware_and_each_is_checked() {
    let (Some(chain), Some(vcek), Some(turin)) =
        (real("chain-milan.pem"), real("vcek-milan-1.der"), real("vcek-turin.der"))
    else {
        return;
    };
    let there = with(&[("chain.pem", &chain), ("chip.der", &vcek), ("turin.der", &turin)]);
    let ran = run(&there, &["show", "amd", "--output", "json"]).succeeded();
    let rows = ran.json()["files"].as_array().unwrap().clone();
    let kinds: Vec<_> = rows.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ASK", "ARK", "VCEK", "VCEK"]);
    assert_eq!(rows[2]["product"], "milan");
    assert_eq!((rows[2]["chip"].as_str().unwrap().len(), rows[3]["chip"].as_str().unwrap().len()), (128, 16));
    assert!(rows[2]["tcb"]["microcode"].as_u64().unwrap() > 0 && rows[3]["tcb"]["fmc"].as_u64().is_some(), "{rows:?}");
    let text = run(&there, &["show", "amd"]).succeeded().out;
    let chip = &rows[2]["chip"].as_str().unwrap()[..16];
    assert!(text.contains(chip) && text.contains("boot loader") && text.contains("ARK"), "{text}");

    // AMD's list of what it revoked is not among the vectors, and of Turin there is no chain.
    let missing = json!("snp-revocation-list-missing");
    let ran = run(&there, &["check", "amd", "--output", "json"]).failed(1);
    let expected = [
        [json!("chain.pem"), json!("ASK"), json!("good")],
        [json!("chain.pem"), json!("ARK"), missing.clone()],
        [json!("chip.der"), json!("VCEK"), missing],
        [json!("turin.der"), json!("VCEK"), json!("snp-certificate-untrusted")],
    ];
    assert_eq!((verdicts(&ran), &ran.json()["good"]), (expected.to_vec(), &json!(false)));
    // All of it ends within a hundred years.
    let ran = run(&there, &["check", "amd", "--within", "36500", "--output", "json"]).failed(1);
    assert_eq!(verdicts(&ran)[0][2], "collateral-ends-soon");
    assert!(ran.json()["files"][0]["fix"].as_str().unwrap().contains("fetch it again"));

    // With another bit in the ASK, its signature is nobody's.
    let text = String::from_utf8(chain).unwrap();
    let middle = text.len() / 4;
    let (at, letter) = text.char_indices().skip(middle).find(|(_, letter)| letter.is_ascii_lowercase()).unwrap();
    let mut changed = text.clone().into_bytes();
    changed[at] = if letter == 'b' { b'c' } else { b'b' };
    fs::write(there.path().join("amd/snp/chain.pem"), changed).unwrap();
    let ran = run(&there, &["check", "amd", "--output", "json"]).failed(1);
    assert_eq!(verdicts(&ran)[0][2], "snp-certificate-untrusted", "{}", ran.out);
}

/// What an authority of TPMs revoked, as it publishes it.
fn tpm_list(name: &str, until: i32) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2025, 1, 1),
        next_update: date_time_ymd(until, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    list.signed_by(&authority).unwrap().der().to_vec()
}

#[test]
fn lists_of_tpms_authorities_are_shown_with_their_dates_and_their_end_is_told_in_time() {
    let there = TempDir::new().unwrap();
    let directory = there.path().join("amd/tpm");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("cloud.crl"), tpm_list("a cloud", 2999)).unwrap();
    fs::write(directory.join("vendor.crl"), tpm_list("a vendor", 2999)).unwrap();
    let ran = run(&there, &["show", "amd", "--output", "json"]).succeeded();
    let row = &ran.json()["files"][1];
    assert_eq!((&row["file"], &row["kind"], &row["of"]), (&json!("vendor.crl"), &json!("CRL"), &json!("a vendor")));
    assert_eq!(
        (&row["valid_from"], &row["valid_until"]),
        (&json!("2025-01-01T00:00:00Z"), &json!("2999-01-01T00:00:00Z"))
    );
    let text = run(&there, &["show", "amd"]).succeeded().out;
    assert!(text.contains("TPM") && text.contains("a cloud"), "{text}");
    run(&there, &["check", "amd"]).succeeded();

    fs::write(directory.join("vendor.crl"), tpm_list("a vendor", 2026)).unwrap();
    let ran = run(&there, &["check", "amd", "--output", "json"]).failed(1);
    let of = |file: &str, verdict: &str| [json!(file), json!("CRL"), json!(verdict)];
    assert_eq!(verdicts(&ran), [of("cloud.crl", "good"), of("vendor.crl", "tpm-revocation-list-expired")]);
    // Within a thousand years the other one ends, too; and a hundred is as far as anybody may ask.
    fs::write(directory.join("cloud.crl"), tpm_list("a cloud", 2100)).unwrap();
    let ran = run(&there, &["check", "amd", "--within", "36500", "--output", "json"]).failed(1);
    assert_eq!(verdicts(&ran)[0], of("cloud.crl", "collateral-ends-soon"));

    fs::write(directory.join("vendor.crl"), "fetched on Monday").unwrap();
    let ran = run(&there, &["check", "amd", "--output", "json"]).failed(1);
    assert_eq!(verdicts(&ran), [[json!("tpm"), Value::Null, json!("collateral-malformed")]]);
    assert!(ran.out.contains("vendor.crl"), "{}", ran.out);
}

/// Into an API server: cli/tests/store.rs.
#[test]
fn nothing_is_installed_that_is_bad_or_where_nobody_reads_it() {
    let there = TempDir::new().unwrap();
    let directory = there.path().join("amd/tpm");
    fs::create_dir_all(&directory).unwrap();
    fs::create_dir(there.path().join("plant")).unwrap();
    let install = || run(&there, &["install", "amd", "--cluster", "plant", "--output", "json"]).failed(2);
    fs::write(directory.join("cloud.crl"), "fetched on Monday").unwrap();
    assert_eq!(install().json()["error"]["code"], "collateral-malformed");
    fs::rename(directory.join("cloud.crl"), there.path().join("notes")).unwrap();
    fs::write(directory.join("a cloud.crl"), tpm_list("a cloud", 2999)).unwrap();
    let said = install().out;
    assert!(said.contains("rename it"), "{said}");
    fs::rename(directory.join("a cloud.crl"), directory.join("cloud.crl")).unwrap();
    let said = install().out;
    assert!(said.contains("the directory that `collateral` in the service's configuration names"), "{said}");
}

fn fetch(directory: &TempDir, from: &str, more: &[&str]) -> Ran {
    let fetch = ["fetch", "--from", from, "--snp-report", "report.bin", "--to", "amd", "--output", "json"];
    run(directory, &[&fetch[..], more].concat())
}

/// A report as Milan's firmware writes it, version 2, which nobody signed.
fn report() -> Vec<u8> {
    let mut report = vec![0; 0x4a0];
    report[0] = 2;
    report[0x0a] = 2;
    report[0x34] = 1;
    report[0x1a0..0x1e0].fill(0xc1);
    report
}

#[test]
fn a_report_product_or_mirror_that_cannot_be_used_is_refused_and_nothing_is_written() {
    let there = TempDir::new().unwrap();
    let code = |ran: Ran| ran.json()["error"]["code"].as_str().unwrap().to_owned();
    fs::write(there.path().join("report.bin"), &report()[1..]).unwrap();
    assert_eq!(code(fetch(&there, "mirror", &[]).failed(2)), "snp-report-malformed");
    fs::write(there.path().join("report.bin"), report()).unwrap();
    assert_eq!(code(fetch(&there, "mirror", &[]).failed(1)), "collateral-product-unsaid");
    let milan = ["--product", "milan"];
    assert_eq!(code(fetch(&there, "mirror", &["--product", "naples"]).failed(2)), "usage");
    assert_eq!(code(fetch(&there, "ftp://mirror", &milan).failed(1)), "collateral-origin-refused");
    assert_eq!(code(fetch(&there, "mirror", &milan).failed(1)), "collateral-missing");
    let throttled = answers("429 Too Many Requests", "Retry-After: 10\r\nContent-Length: 0\r\n", b"");
    let mirror = Mirror::new(vec![throttled]);
    let error = fetch(&there, &mirror.address, &milan).failed(1).json()["error"].clone();
    assert_eq!(error["code"], "collateral-throttled");
    assert!(error["because"][0].as_str().unwrap().contains("/vcek/v1/Milan/cert_chain: the server answers 429"));
    assert!(mirror.requests()[0].starts_with("GET /vcek/v1/Milan/cert_chain HTTP/1.1\r\n"));
    let mirror = Mirror::new((0..3).map(|_| answers("200 OK", "Content-Length: 5\r\n", b"hello")).collect());
    assert_eq!(code(fetch(&there, &mirror.address, &milan).failed(1)), "collateral-malformed");
    assert!(!there.path().join("amd").exists());
}

/// AMD's list of what it revoked is not among the vectors: what cannot be verified is not kept.
#[test]
fn real_files_without_the_list_are_not_kept() {
    let (Some(report), Some(vcek), Some(chain)) =
        (real("report-milan-1.hex"), real("vcek-milan-1.der"), real("chain-milan.pem"))
    else {
        return;
    };
    let there = TempDir::new().unwrap();
    let report = hex::decode(String::from_utf8(report).unwrap().trim()).unwrap();
    fs::write(there.path().join("report.bin"), &report).unwrap();
    let serve = |list: &[u8]| {
        let answer = |file: &[u8]| answers("200 OK", &format!("Content-Length: {}\r\n", file.len()), file);
        Mirror::new(vec![answer(&chain), answer(list), answer(&vcek)])
    };
    let mirror = serve(&vcek);
    let error = fetch(&there, &mirror.address, &["--product", "milan"]).failed(1).json()["error"].clone();
    assert_eq!(error["code"], "collateral-not-as-asked", "{error}");
    // The chip's number and firmware, as its certificate has them, too.
    let asked = mirror.requests().concat();
    let chip = hex::encode(&report[0x1a0..0x1e0]);
    let [bootloader, tee, snp, microcode] = [0x180, 0x181, 0x186, 0x187].map(|at| report[at]);
    let firmware = format!("blSPL={bootloader:02}&teeSPL={tee:02}&snpSPL={snp:02}&ucodeSPL={microcode:02}");
    assert!(asked.contains(&format!("GET /vcek/v1/Milan/{chip}?{firmware} ")), "{asked}");
    let error = fetch(&there, &serve(b"no list").address, &["--product", "milan"]).failed(1).json()["error"].clone();
    assert_eq!(error["code"], "collateral-malformed", "{error}");
    assert!(!there.path().join("amd").exists());
}
