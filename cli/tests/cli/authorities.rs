//! What the operator hears of TPM makers' authorities when a policy is made of them.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;

use crate::support::command::{Ran, latchkey};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// A root, and an intermediate of its that ended long ago.
fn store() -> TempDir {
    let directory = TempDir::new().unwrap();
    let root = CertifiedIssuer::self_signed(params("root"), KeyPair::generate().unwrap()).unwrap();
    let mut ended = params("of old");
    (ended.not_before, ended.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(2020, 1, 1));
    let ended = CertifiedIssuer::signed_by(ended, KeyPair::generate().unwrap(), &root).unwrap();
    fs::write(directory.path().join("root.pem"), root.pem()).unwrap();
    fs::write(directory.path().join("between.pem"), ended.pem()).unwrap();
    directory
}

fn new(directory: &TempDir, more: &[&str]) -> Ran {
    let trust = ["policy", "new", "--ek-root", "root.pem", "--ek-intermediate", "between.pem"];
    let rest = ["--manifest", "demo", "--unsigned", "--out", "policy.json"];
    latchkey(directory.path(), &[&trust[..], &rest, more].concat())
}

#[test]
fn an_intermediate_by_which_no_tpm_can_be_verified_is_told_when_the_policy_is_made() {
    let directory = store();
    let said = new(&directory, &[]).succeeded().out;
    assert!(said.contains("no TPM is trusted by the intermediate CN=of old: it ended at 2020-01-01"), "{said}");
    fs::remove_file(directory.path().join("policy.json")).unwrap();
    let json = new(&directory, &["--output", "json"]).succeeded().json();
    assert_eq!(json["unusable"][0]["name"], "CN=of old", "{json}");
}

#[test]
fn a_file_of_authorities_that_is_cut_is_refused_with_the_line_at_which_it_is_wrong() {
    let directory = store();
    let path = directory.path().join("between.pem");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("of the maker\n{}", &whole[..whole.len() / 2])).unwrap();
    let said = new(&directory, &[]).failed(2).err;
    assert!(said.contains("between.pem cannot be used") && said.contains("line 2: the section does not end"), "{said}");
    assert_eq!(new(&directory, &["--output", "json"]).failed(2).json()["error"]["code"], "pem-malformed");
    assert!(!directory.path().join("policy.json").exists());
}
