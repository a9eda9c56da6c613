//! A certificate request, as a kubelet or whoever has a token posts it: as it comes, and as DER in the right armour, since few
//! changes of the armour get through.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_kubelet_certificates::{CertificateRequest, MAX_NAMES, MAX_PEM};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = STANDARD.encode(bytes);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| str::from_utf8(line).expect("base64")).collect();
    let label = "CERTIFICATE REQUEST";
    let armoured = format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"));
    for pem in [bytes, armoured.as_bytes()] {
        let Ok(request) = CertificateRequest::read(pem) else { continue };
        assert!(pem.len() <= MAX_PEM && request.dns().len() + request.addresses().len() <= MAX_NAMES, "bounds");
        assert!(request.common_name().bytes().all(|byte| byte.is_ascii_graphic()), "{:?}", request.common_name());
    }
});
