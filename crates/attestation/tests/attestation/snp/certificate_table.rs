//! What a host gives beside a report: its table of certificates, in the order of bytes that it has there.

use latchkey_attestation::parse::{CertificateTable, HostCertificates, SnpReport};
use latchkey_attestation::policy::RevocationList;
use latchkey_attestation::verify::CollateralFile;
use latchkey_attestation::verify::snp::SnpCollateral;
use latchkey_attestation::{ReasonCode, Refusal};
use latchkey_test_support::vector;

const VCEK: &str = "63da758d-e664-4564-adc5-f4b93be8accd";
const VLEK: &str = "a8074bc2-a25a-483e-aae6-39c045a0b8a1";
const ASK: &str = "4ab7b379-bbac-4fe4-a02f-05aef327c782";
const ARK: &str = "c0b406a4-a803-4952-9743-3fb6014cd0ae";
/// What Google's hosts say of their platform.
const OTHER: &str = "ecae0c0f-9502-43b1-afa2-0ae2e0d565b6";

/// In the order of its text: Python's `UUID(text).bytes`.
fn rfc_4122(text: &str) -> Vec<u8> {
    hex::decode(text.replace('-', "")).unwrap()
}

/// As partition tables have it: Python's `UUID(text).bytes_le`.
fn efi(text: &str) -> Vec<u8> {
    let mut bytes = rfc_4122(text);
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

fn table(rows: &[(Vec<u8>, &[u8])]) -> Vec<u8> {
    let (mut table, mut at) = (Vec::new(), (rows.len() + 1) * 24);
    for (guid, certificate) in rows {
        table.extend(guid);
        table.extend([at, certificate.len()].map(|number| u32::try_from(number).unwrap().to_le_bytes()).concat());
        at += certificate.len();
    }
    table.extend([0; 24]);
    table.extend(rows.iter().flat_map(|(_, certificate)| certificate.iter()));
    table
}

fn code(parsed: Result<HostCertificates<'_>, Refusal>) -> ReasonCode {
    parsed.unwrap_err().code()
}

#[test]
fn tables_are_read_in_the_order_of_rfc_4122_and_in_that_of_efi() {
    for order in [rfc_4122, efi] {
        let rows = [(ARK, "root"), (ASK, "issuer"), (OTHER, "platform"), (VLEK, "provider"), (VCEK, "chip")];
        let bytes = table(&rows.map(|(guid, certificate)| (order(guid), certificate.as_bytes())));
        let found = CertificateTable::parse(&bytes).unwrap();
        assert_eq!(found, HostCertificates { vcek: Some(b"chip"), vlek: Some(b"provider") });
        let twice = [(order(VCEK), &b"one"[..]), (order(VCEK), b"other")];
        assert_eq!(code(CertificateTable::parse(&table(&twice))), ReasonCode::SnpCertificateTableMalformed);
    }
}

#[test]
fn a_table_that_mixes_both_orders_is_refused_whichever_rows_differ() {
    for other in [VCEK, VLEK, ASK, ARK] {
        let one = [VCEK, VLEK].into_iter().find(|guid| *guid != other).unwrap();
        for rows in [[rfc_4122(one), efi(other)], [efi(one), rfc_4122(other)]] {
            let bytes = table(&rows.map(|guid| (guid, &b"certificate"[..])));
            assert_eq!(code(CertificateTable::parse(&bytes)), ReasonCode::SnpCertificateTableMalformed, "{other}");
        }
    }
}

/// A report of a guest at AWS, and the certificate of its key as hosts there give it.
#[test]
fn a_report_of_aws_is_verified_by_the_providers_key_in_its_hosts_table() {
    let names = ["auxblob-aws-rfc4122.bin", "constellation-aws-report.bin", "constellation-aws-vlek.der"];
    let [Some(table), Some(report), Some(vlek)] = names.map(|name| vector(&format!("foreign/{name}"))) else { return };
    let Some(chain) = vector("snp/chain-milan-vlek.pem") else { return };
    let host = CertificateTable::parse(&table).unwrap();
    assert_eq!(host, HostCertificates { vcek: None, vlek: Some(&vlek) });
    let collateral = SnpCollateral::new(&[CollateralFile { name: "chain.pem", content: &chain }]).unwrap();
    let report = SnpReport::parse(&report).unwrap();
    let verify = |host, now| collateral.verify(&report, host, &report.report_data(), RevocationList::IfThere, now);
    let verified = verify(host, FEBRUARY_2025).unwrap();
    assert_eq!(verified.certificate().kind().name(), "VLEK");
    let without = verify(HostCertificates::default(), FEBRUARY_2025).unwrap_err();
    assert_eq!(without.code(), ReasonCode::SnpCertificateMissing);
}

/// The provider's certificate is good for a year from December 2024 on.
const FEBRUARY_2025: u64 = 1_738_368_000;
