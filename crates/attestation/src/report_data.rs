//! What a confidential machine's processor signs for a session.

use latchkey_tpm::wire::Public;
use ring::digest::{Context, SHA512};

/// The report data (SEV-SNP: `REPORT_DATA`; TDX: `REPORTDATA`) of one session: SHA-512(binding ‖ name of the AK). So the hardware
/// vouches for the session and for the TPM key that quotes in it, at once.
pub fn report_data(binding: &[u8; 32], ak: &Public) -> [u8; 64] {
    let mut hash = Context::new(&SHA512);
    hash.update(binding);
    hash.update(&ak.name());
    let mut data = [0; 64];
    data.copy_from_slice(hash.finish().as_ref());
    data
}

/// The report data of one session where an SVSM asks for the report: SHA-512(nonce ‖ services manifest), where the nonce is
/// [`report_data`] of that session (*Secure VM Service Module for SEV-SNP Guests*, 58019 revision 1.00, section 7; the manifest is the vTPM service's, 8.3.1).
pub fn svsm_report_data(nonce: &[u8; 64], manifest: &[u8]) -> [u8; 64] {
    let mut hash = Context::new(&SHA512);
    hash.update(nonce);
    hash.update(manifest);
    let mut data = [0; 64];
    data.copy_from_slice(hash.finish().as_ref());
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_tpm::wire::{Curve, EccPoint, PublicKey, attestation_key};

    fn ak(x: u8) -> Public {
        let point = EccPoint { x: vec![x; 32], y: vec![2; 32] };
        Public { key: PublicKey::Ecc { curve: Curve::P256, point }, ..attestation_key() }
    }

    /// By Python's hashlib, with the key's public area written out by TPM 2.0 Library Part 2, section 12.2.4.
    #[test]
    fn it_is_of_the_session_and_of_the_key_as_another_program_computes_it() {
        for (binding, x, expected) in [
            (
                0xb1,
                1,
                concat!(
                    "405c6927b51d5a556ab3abe9d22b1d989f3cddc9a732e403e29b34c21eea5c99",
                    "0987fc902e1eda1b27ca1c89edcd9dab095420617b46d98e0fcafd683e31533f"
                ),
            ),
            (
                0xb2,
                1,
                concat!(
                    "71c6dcf63d1a97db51071f32fec35e26dee166b11a9fed70de01b4ab0f1ee222",
                    "7178a4d4546b0da0e06b03603e160751a7e716c59f4e842b5e289a12f469553a"
                ),
            ),
            (
                0xb1,
                3,
                concat!(
                    "7c52faa282d95c3890f3d35fb82bdac88fdca1b7a0b4c7f68335d4bd41abe299",
                    "10f5dc00bdb5ad0a7bde31a68f239085e2f17e5b82f7af908132398fb532d680"
                ),
            ),
        ] {
            assert_eq!(hex::encode(report_data(&[binding; 32], &ak(x))), expected, "{binding:#x} {x}");
        }
        let nonce = report_data(&[0xb1; 32], &ak(1));
        for (manifest, expected) in [
            (
                b"manifest",
                concat!(
                    "ffa38a525d0db548e08169456c419a8d007fb44211c42b0b8acd942f9de732c7",
                    "aacda34538a513561e34c1be687e8476beac921f8ce5d6cb086134b5913bea0d"
                ),
            ),
            (
                b"manifesu",
                concat!(
                    "4de0e4741b134fa41bf265b9741868d001ef444b3128c047f0855c01c0281c41",
                    "bc68391a0374c5a7877441e3a8ebd2a5c94fd6daa16efe206d70e5ee086ebcdf"
                ),
            ),
        ] {
            assert_eq!(hex::encode(svsm_report_data(&nonce, manifest)), expected);
        }
    }
}
