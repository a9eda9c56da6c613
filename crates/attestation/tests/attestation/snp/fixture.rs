//! A report with its certificate, chain and list, with keys of AMD's sizes: what benchmarks verify, ours and peers'.

use std::fs;
use std::path::{Path, PathBuf};

use latchkey_attestation::parse::{HostCertificates, SigningKey, SnpProduct, SnpReport};
use latchkey_attestation::verify::CollateralFile;
use latchkey_attestation::verify::snp::SnpCollateral;
use ring::digest::{SHA256, digest};

use crate::snp::RULE;
use crate::support::NOW;
use latchkey_attestation::fake_amd::{FakeAmd, REPORT_DATA};

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snp-milan").join(name)
}

/// Writes `tests/fixtures/snp-milan` anew: `cargo test -p latchkey-attestation --test attestation -- --ignored`.
#[test]
#[ignore = "writes the fixture that benchmarks read"]
fn record_fixture() {
    let amd = FakeAmd::with(SnpProduct::Milan, |it| it.large_keys = true);
    let guest = amd.guest(SigningKey::Vcek, 3, |_| ());
    fs::create_dir_all(place("")).unwrap();
    fs::write(place("report.bin"), guest.report).unwrap();
    fs::write(place("vcek.der"), guest.vcek.unwrap()).unwrap();
    let other = amd.guest(SigningKey::Vcek, 3, |_| ());
    fs::write(place("other-report.bin"), other.report).unwrap();
    fs::write(place("other-vcek.der"), other.vcek.unwrap()).unwrap();
    fs::write(place("ask.der"), amd.ders()[0].clone()).unwrap();
    fs::write(place("ark.der"), amd.ders()[1].clone()).unwrap();
    fs::write(place("list.crl"), &amd.later_list).unwrap();
}

#[test]
fn the_fixture_of_the_benchmarks_verifies_and_each_of_its_files_counts() {
    let names = ["ark.der", "ask.der", "list.crl", "report.bin", "vcek.der"];
    let files = names.map(|name| fs::read(place(name)).unwrap());
    let root = digest(&SHA256, &files[0]).as_ref().try_into().unwrap();
    let verify = |[ark, ask, list, report, vcek]: &[Vec<u8>; 5]| {
        let authorities = [("ark.der", ark), ("ask.der", ask), ("list.crl", list)];
        let authorities = authorities.map(|(name, content)| CollateralFile { name, content });
        let roots = [(SnpProduct::Milan, latchkey_attestation::parse::Digest(root))];
        let collateral = SnpCollateral::with_fake_roots(&authorities, &roots)?;
        let host = HostCertificates { vcek: Some(vcek), vlek: None };
        collateral.verify(&SnpReport::parse(report)?, host, &REPORT_DATA, RULE, NOW).map(drop)
    };
    verify(&files).unwrap();
    for (position, name) in names.iter().enumerate() {
        let mut changed = files.clone();
        // The last byte but eleven of each is of a signature; a report's ends before its padding.
        let at = if *name == "report.bin" { 0x2a0 } else { changed[position].len() - 12 };
        changed[position][at] ^= 1;
        assert!(verify(&changed).is_err(), "{name}");
    }
}
