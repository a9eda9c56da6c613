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
