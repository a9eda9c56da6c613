//! A TDX quote as a peer sends it, and a file of what Intel publishes: the first byte tells which. What is read of a quote is what its
//! bytes say.
#![no_main]

use latchkey_attestation::verify::CollateralFile;
use latchkey_attestation::verify::tdx::{TdxCollateral, TdxQuote};
use libfuzzer_sys::fuzz_target;

/// Of a quote of version 4: the header has 48 bytes, and its TD report begins behind it.
const REPORT_DATA: usize = 48 + 520;

fuzz_target!(|input: &[u8]| {
    let Some((which, bytes)) = input.split_first() else { return };
    if which & 1 == 0 {
        let file = CollateralFile { name: "file", content: bytes };
        drop(TdxCollateral::new(&[file]));
        return;
    }
    if let Ok(quote) = TdxQuote::parse(bytes)
        && bytes.first() == Some(&4)
    {
        assert_eq!(quote.report_data()[..], bytes[REPORT_DATA..REPORT_DATA + 64]);
    }
});
