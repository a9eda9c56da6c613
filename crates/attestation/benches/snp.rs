//! What a report of SEV-SNP costs a verifier: `cargo bench -p latchkey-attestation --bench snp`.
//!
//! The fixture is that of a fake AMD, with keys of AMD's sizes: RSA-4096 for root, ASK and list, P-384 for the chip.

use std::path::Path;

use latchkey_attestation::parse::{Digest, HostCertificates, SnpProduct, SnpReport};
use latchkey_attestation::policy::RevocationList;
use latchkey_attestation::verify::CollateralFile;
use latchkey_attestation::verify::snp::SnpCollateral;
use latchkey_bench::Bench;
use ring::digest::{SHA256, digest};

/// In the time of the fixture's list.
const NOW: u64 = 1_795_000_000;

fn main() {
    let bench = Bench::from_args();
    let fixture = Fixture::read();
    let what = "SNP report of a chip that is new: certificate, chain, signature; a service that knows its authority";
    let knows_authority = || {
        let collateral = fixture.collateral(true);
        Fixture::verify(&fixture.other, &collateral, RevocationList::Demanded);
        collateral
    };
    bench.measure_prepared("attestation/snp-report-new-chip", what, knows_authority, |collateral| {
        Fixture::verify(&fixture.guest, &collateral, RevocationList::Demanded)
    });
    let what = "the first one: its authority and the list of what is revoked, too";
    bench.measure_prepared(
        "attestation/snp-report",
        what,
        || fixture.collateral(true),
        |collateral| Fixture::verify(&fixture.guest, &collateral, RevocationList::Demanded),
    );
    let what = "the same without a revocation list, which peers do not look into";
    bench.measure_prepared(
        "attestation/snp-report-no-list",
        what,
        || fixture.collateral(false),
        |collateral| Fixture::verify(&fixture.guest, &collateral, RevocationList::IfThere),
    );
    let known = fixture.collateral(true);
    bench.measure("attestation/snp-report-known", "another SNP report of a chip whose chain is known", || {
        Fixture::verify(&fixture.guest, &known, RevocationList::Demanded)
    });
}

struct Fixture {
    ark: Vec<u8>,
    ask: Vec<u8>,
    list: Vec<u8>,
    guest: Guest,
    /// Of the same authority.
    other: Guest,
}

struct Guest {
    vcek: Vec<u8>,
    report: Vec<u8>,
}

impl Fixture {
    fn read() -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snp-milan");
        let read = |name: &str| std::fs::read(directory.join(name)).expect("the fixture is there");
        let guest = |[vcek, report]: [&str; 2]| Guest { vcek: read(vcek), report: read(report) };
        Self {
            ark: read("ark.der"),
            ask: read("ask.der"),
            list: read("list.crl"),
            guest: guest(["vcek.der", "report.bin"]),
            other: guest(["other-vcek.der", "other-report.bin"]),
        }
    }

    /// As a service has it, which reads it once.
    fn collateral(&self, with_list: bool) -> SnpCollateral {
        let mut files = vec![
            CollateralFile { name: "ark.der", content: &self.ark },
            CollateralFile { name: "ask.der", content: &self.ask },
        ];
        if with_list {
            files.push(CollateralFile { name: "list.crl", content: &self.list });
        }
        let root = digest(&SHA256, &self.ark).as_ref().try_into().expect("32 bytes");
        SnpCollateral::with_fake_roots(&files, &[(SnpProduct::Milan, Digest(root))]).expect("a good chain")
    }

    fn verify(guest: &Guest, collateral: &SnpCollateral, rule: RevocationList) -> SnpProduct {
        let report = SnpReport::parse(&guest.report).expect("a report");
        let host = HostCertificates { vcek: Some(&guest.vcek), vlek: None };
        collateral.verify(&report, host, &report.report_data(), rule, NOW).expect("a good report").product()
    }
}
