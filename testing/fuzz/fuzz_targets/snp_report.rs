//! A SEV-SNP report and the certificates beside it, as a peer sends them: the first byte tells which. What is read of a report is what
//! its bytes say.
#![no_main]

use latchkey_attestation::parse::{CertificateTable, SnpReport};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((which, bytes)) = input.split_first() else { return };
    if which & 1 == 0 {
        if let Ok(certificates) = CertificateTable::parse(bytes) {
            let inside = |der: &[u8]| bytes.as_ptr_range().contains(&der.as_ptr()) && der.len() <= bytes.len();
            assert!(certificates.vcek.is_none_or(inside) && certificates.vlek.is_none_or(inside));
        }
        return;
    }
    if let Ok(report) = SnpReport::parse(bytes) {
        assert_eq!(report.as_bytes()[..], bytes[..SnpReport::SIZE]);
        assert_eq!(report.report_data()[..], bytes[0x50..0x90]);
        let _ = (report.signature(), report.product(), report.signing_key());
    }
});
