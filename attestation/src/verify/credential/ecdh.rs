//! An ephemeral key against the endorsement key's point.

use latchkey_tpm::wire::{Curve, EccPoint};
use ring::agreement::{ECDH_P256, ECDH_P384, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::rand::SecureRandom;

/// Whose key it was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EcdhError {
    /// The peer's point is not on its curve.
    Peer,
    /// There is no ephemeral key.
    Ephemeral,
}

/// Gives `derive` the shared x-coordinate and the ephemeral point, and returns what it made with the latter.
pub(super) fn with_ring<T>(
    curve: Curve,
    peer: &[u8],
    random: &dyn SecureRandom,
    derive: impl FnOnce(&[u8], &EccPoint) -> T,
) -> Result<(T, EccPoint), EcdhError> {
    let algorithm = match curve {
        Curve::P256 => &ECDH_P256,
        Curve::P384 => &ECDH_P384,
    };
    let ephemeral = EphemeralPrivateKey::generate(algorithm, random).map_err(|_| EcdhError::Ephemeral)?;
    let public = ephemeral.compute_public_key().map_err(|_| EcdhError::Ephemeral)?;
    let public = EccPoint::from_uncompressed(public.as_ref(), curve).ok_or(EcdhError::Ephemeral)?;
    let derived = agree_ephemeral(ephemeral, &UnparsedPublicKey::new(algorithm, peer), |z| derive(z, &public));
    Ok((derived.map_err(|_| EcdhError::Peer)?, public))
}

/// The same on P-384, with the library's own randomness.
#[cfg(feature = "rsa-ek")]
pub(super) fn p384_with_aws_lc<T>(
    peer: &[u8],
    derive: impl FnOnce(&[u8], &EccPoint) -> T,
) -> Result<(T, EccPoint), EcdhError> {
    use aws_lc_rs::agreement::{ECDH_P384, PrivateKey, UnparsedPublicKey, agree};

    let ephemeral = PrivateKey::generate(&ECDH_P384).map_err(|_| EcdhError::Ephemeral)?;
    let public = ephemeral.compute_public_key().map_err(|_| EcdhError::Ephemeral)?;
    let public = EccPoint::from_uncompressed(public.as_ref(), Curve::P384).ok_or(EcdhError::Ephemeral)?;
    let peer = UnparsedPublicKey::new(&ECDH_P384, peer);
    let derived = agree(&ephemeral, peer, EcdhError::Peer, |z| Ok(derive(z, &public)))?;
    Ok((derived, public))
}

#[cfg(all(test, feature = "rsa-ek"))]
mod tests {
    use super::*;
    use aws_lc_rs::agreement::{self, PrivateKey};
    use ring::rand::SystemRandom;

    /// What the holder of the static key computes from the ephemeral point.
    fn holder(key: &PrivateKey, algorithm: &'static agreement::Algorithm, ephemeral: &[u8]) -> Vec<u8> {
        let peer = agreement::UnparsedPublicKey::new(algorithm, ephemeral);
        agreement::agree(key, peer, (), |z| Ok(z.to_vec())).expect("a point on the curve")
    }

    #[test]
    fn both_libraries_agree_with_the_holder_of_the_key() {
        for (curve, algorithm) in [(Curve::P256, &agreement::ECDH_P256), (Curve::P384, &agreement::ECDH_P384)] {
            let key = PrivateKey::generate(algorithm).unwrap();
            let public = key.compute_public_key().unwrap();
            let (z, point) = with_ring(curve, public.as_ref(), &SystemRandom::new(), |z, _| z.to_vec()).unwrap();
            assert_eq!(z, holder(&key, algorithm, &point.uncompressed(curve).unwrap()));
            if curve == Curve::P384 {
                let (z, point) = p384_with_aws_lc(public.as_ref(), |z, _| z.to_vec()).unwrap();
                assert_eq!(z, holder(&key, algorithm, &point.uncompressed(curve).unwrap()));
            }
        }
    }

    #[test]
    fn points_off_the_curve_or_at_infinity_are_refused_by_both() {
        let mut off =
            PrivateKey::generate(&agreement::ECDH_P384).unwrap().compute_public_key().unwrap().as_ref().to_vec();
        off[96] ^= 1;
        for peer in [&off[..], &[&[4][..], &[0; 96]].concat(), &[0], &[]] {
            let ring = with_ring(Curve::P384, peer, &SystemRandom::new(), |_, _| ());
            assert_eq!(ring.unwrap_err(), EcdhError::Peer);
            assert_eq!(p384_with_aws_lc(peer, |_, _| ()).unwrap_err(), EcdhError::Peer);
        }
    }
}
