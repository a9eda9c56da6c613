//! TPM structures as a peer sends them. What is read and written again is the same.
#![no_main]

use latchkey_tpm::wire::{Attest, Credential, PcrSelection, Public, Signature};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(public) = Public::parse(bytes) {
        assert_eq!(public.marshal(), bytes);
        assert!(!public.name().is_empty());
        if let Ok(signature) = Signature::parse(&bytes[bytes.len() / 2..]) {
            drop(public.verify(b"message", &signature));
        }
    }
    if let Ok(attest) = Attest::parse(bytes) {
        assert_eq!(attest.marshal(), bytes);
    }
    if let Ok(signature) = Signature::parse(bytes) {
        assert_eq!(signature.marshal(), bytes);
    }
    if let Ok(credential) = Credential::parse(bytes) {
        assert_eq!(credential.marshal(), bytes);
    }
    if let Ok(selection) = PcrSelection::parse(bytes) {
        assert_eq!(PcrSelection::parse(&selection.marshal()), Ok(selection));
    }
});
