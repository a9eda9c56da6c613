//! What a report of SEV-SNP costs a verifier: `cargo bench -p latchkey-attestation --bench snp`.
//!
//! The fixture is that of a fake AMD, with keys of AMD's sizes: RSA-4096 for root, ASK and list, P-384 for the chip.

use std::path::Path;

use latchkey_attestation::parse::{Digest, HostCertificates, SnpProduct, SnpReport};
use latchkey_attestation::policy::RevocationList;
use latchkey_attestation::verify::snp::{CollateralFile, SnpCollateral};
use latchkey_bench::Bench;
use ring::digest::{SHA256, digest};

/// In the time of the fixture's list.
const NOW: u64 = 1_795_000_000;

fn main() {
    let bench = Bench::from_args();
    let fixture = Fixture::read();
    let what = "SNP report: certificate, chain with revocation list, signature; nothing known before";
    bench.measure_prepared(
        "attestation/snp-report",
        what,
        || fixture.collateral(true),
        |collateral| fixture.verify(&collateral, RevocationList::Demanded),
    );
    let what = "the same without a revocation list, which peers do not look into";
    bench.measure_prepared(
        "attestation/snp-report-no-list",
        what,
        || fixture.collateral(false),
        |collateral| fixture.verify(&collateral, RevocationList::IfThere),
    );
    let known = fixture.collateral(true);
    bench.measure("attestation/snp-report-known", "another SNP report of a chip whose chain is known", || {
        fixture.verify(&known, RevocationList::Demanded)
    });
}

struct Fixture {
    ark: Vec<u8>,
    ask: Vec<u8>,
    list: Vec<u8>,
    vcek: Vec<u8>,
    report: Vec<u8>,
}

impl Fixture {
    fn read() -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snp-milan");
        let read = |name| std::fs::read(directory.join(name)).expect("the fixture is there");
        let [ark, ask, list, vcek, report] = ["ark.der", "ask.der", "list.crl", "vcek.der", "report.bin"].map(read);
        Self { ark, ask, list, vcek, report }
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

    fn verify(&self, collateral: &SnpCollateral, rule: RevocationList) -> SnpProduct {
        let report = SnpReport::parse(&self.report).expect("a report");
        let host = HostCertificates { vcek: Some(&self.vcek), vlek: None };
        collateral.verify(&report, host, &report.report_data(), rule, NOW).expect("a good report").product()
    }
}
