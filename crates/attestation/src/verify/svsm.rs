//! The endorsement key of an SVSM's TPM, by the SVSM's services manifest: *Secure VM Service Module for SEV-SNP Guests*, 58019 revision 1.00,
//! section 8.3.1 (manifest version 0 of the vTPM service is the `TPMT_PUBLIC` of its endorsement key).

use latchkey_tpm::wire::Public;

use crate::ek::EkDigest;
use crate::refusal::{ReasonCode, Refusal};

/// Checks that a services manifest is the public area of this endorsement key, and nothing else.
///
/// The report is over SHA-512(nonce ‖ manifest), and the guest chooses the nonce. Were it of any length, a key whose public area *ends* with
/// that of the SVSM's could be passed off as the manifest, its beginning being part of the nonce. COCONUT-SVSM, by its source
/// (`kernel/src/protocols/attest.rs`), takes nonces of 64 bytes alone; of others nobody knows, so a manifest of which some end is a public
/// area, too, is refused. A shorter nonce, which an earlier form of it took, passes nothing off: what is shown would be an end of the
/// SVSM's own manifest, and the beginning of that an end of our nonce, a hash.
pub(super) fn check_services_manifest(manifest: &[u8], ek: EkDigest) -> Result<(), Refusal> {
    let refuse = |detail: String| Err(Refusal::new(ReasonCode::SnpSvsmManifestOfAnotherKey, detail));
    match EkDigest::of_public_area(manifest) {
        Ok(digest) if digest == ek => {}
        Ok(digest) => return refuse(format!("the services manifest is EK {digest}, the machine shows {ek}")),
        Err(refusal) => return refuse(format!("the services manifest is no endorsement key: {}", refusal.detail())),
    }
    if (1..manifest.len()).any(|at| manifest.get(at..).is_some_and(|end| Public::parse(end).is_ok())) {
        return refuse("the services manifest ends with another public area".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_tpm::wire::{Curve, EccPoint, EkTemplate, PublicKey};

    fn p256() -> Vec<u8> {
        let point = EccPoint { x: vec![1; 32], y: vec![2; 32] };
        Public { key: PublicKey::Ecc { curve: Curve::P256, point }, ..EkTemplate::P256L2.public() }.marshal()
    }

    fn rsa(end: &[u8]) -> Vec<u8> {
        let mut template = EkTemplate::RsaL1.public();
        let PublicKey::Rsa { modulus, .. } = &mut template.key else { panic!("RSA") };
        *modulus = vec![0xc5; 256];
        let at = 256 - end.len();
        modulus[at..].copy_from_slice(end);
        template.marshal()
    }

    #[test]
    fn only_the_public_area_itself_is_the_manifest_of_a_key() {
        let digest = |area: &[u8]| EkDigest::of_public_area(area).unwrap();
        let (ecc, plain) = (p256(), rsa(&[]));
        check_services_manifest(&ecc, digest(&ecc)).unwrap();
        check_services_manifest(&plain, digest(&plain)).unwrap();
        let longer = [&plain[..], &[0]].concat();
        for (manifest, ek) in [(&plain[..], digest(&ecc)), (&[], digest(&ecc)), (&longer, digest(&plain))] {
            let code = check_services_manifest(manifest, ek).unwrap_err().code();
            assert_eq!(code, ReasonCode::SnpSvsmManifestOfAnotherKey);
        }
        // Whoever could choose the length of a nonce would make this one of the SVSM's answer for `ecc`.
        let swallowed = rsa(&ecc);
        let refusal = check_services_manifest(&swallowed, digest(&swallowed)).unwrap_err();
        assert!(refusal.detail().contains("ends with another"), "{refusal}");
    }
}
