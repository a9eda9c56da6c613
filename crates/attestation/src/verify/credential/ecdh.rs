//! An ephemeral key against the endorsement key's point.

use latchkey_tpm::wire::{Curve, EccPoint};
use ring::agreement::{ECDH_P256, ECDH_P384, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::rand::SecureRandom;

use crate::refusal::{ReasonCode, Refusal};

/// Whose key it was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EcdhError {
    /// The peer's point is not on its curve.
    Peer,
    /// There is no ephemeral key.
    Ephemeral,
    /// The library does not have the curve.
    Curve,
}

impl EcdhError {
    /// What whoever showed the key is refused with.
    pub(super) fn refusal(&self) -> Refusal {
        match self {
            Self::Peer => Refusal::new(ReasonCode::EkKeyInvalid, "the public point is not on its curve"),
            Self::Ephemeral => Refusal::new(ReasonCode::VerifierFault, "no ephemeral key"),
            Self::Curve => Refusal::new(
                ReasonCode::EkAlgorithmUnsupported,
                "an endorsement key on P-521, for which this build makes no credential",
            ),
        }
    }
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
        Curve::P521 => return Err(EcdhError::Curve),
    };
    let ephemeral = EphemeralPrivateKey::generate(algorithm, random).map_err(|_| EcdhError::Ephemeral)?;
    let public = ephemeral.compute_public_key().map_err(|_| EcdhError::Ephemeral)?;
    let public = EccPoint::from_uncompressed(public.as_ref(), curve).ok_or(EcdhError::Ephemeral)?;
    let derived = agree_ephemeral(ephemeral, &UnparsedPublicKey::new(algorithm, peer), |z| derive(z, &public));
    Ok((derived.map_err(|_| EcdhError::Peer)?, public))
}

/// The same with the library's own randomness, on P-384 and P-521.
#[cfg(feature = "rsa-ek")]
pub(super) fn with_aws_lc<T>(
    curve: Curve,
    peer: &[u8],
    derive: impl FnOnce(&[u8], &EccPoint) -> T,
) -> Result<(T, EccPoint), EcdhError> {
    use aws_lc_rs::agreement::{ECDH_P256, ECDH_P384, ECDH_P521, PrivateKey, UnparsedPublicKey, agree};

    let algorithm = match curve {
        Curve::P256 => &ECDH_P256,
        Curve::P384 => &ECDH_P384,
        Curve::P521 => &ECDH_P521,
    };
    let ephemeral = PrivateKey::generate(algorithm).map_err(|_| EcdhError::Ephemeral)?;
    let public = ephemeral.compute_public_key().map_err(|_| EcdhError::Ephemeral)?;
    let public = EccPoint::from_uncompressed(public.as_ref(), curve).ok_or(EcdhError::Ephemeral)?;
    let peer = UnparsedPublicKey::new(algorithm, peer);
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
        let curves = [
            (Curve::P256, &agreement::ECDH_P256),
            (Curve::P384, &agreement::ECDH_P384),
            (Curve::P521, &agreement::ECDH_P521),
        ];
        for (curve, algorithm) in curves {
            let key = PrivateKey::generate(algorithm).unwrap();
            let public = key.compute_public_key().unwrap();
            match with_ring(curve, public.as_ref(), &SystemRandom::new(), |z, _| z.to_vec()) {
                Ok((z, point)) => assert_eq!(z, holder(&key, algorithm, &point.uncompressed(curve).unwrap())),
                // All that a build without aws-lc-rs has.
                Err(error) => {
                    assert_eq!((curve, &error), (Curve::P521, &EcdhError::Curve));
                    assert_eq!(error.refusal().code(), ReasonCode::EkAlgorithmUnsupported);
                }
            }
            let (z, point) = with_aws_lc(curve, public.as_ref(), |z, _| z.to_vec()).unwrap();
            assert_eq!(z.len(), curve.size(), "with leading zeros");
            assert_eq!(z, holder(&key, algorithm, &point.uncompressed(curve).unwrap()));
        }
    }

    #[test]
    fn points_off_the_curve_or_at_infinity_are_refused_by_both() {
        for (curve, algorithm) in [(Curve::P384, &agreement::ECDH_P384), (Curve::P521, &agreement::ECDH_P521)] {
            let mut off = PrivateKey::generate(algorithm).unwrap().compute_public_key().unwrap().as_ref().to_vec();
            *off.last_mut().unwrap() ^= 1;
            let zeros = [&[4][..], &vec![0; 2 * curve.size()]].concat();
            for peer in [&off[..], &zeros, &[0], &[]] {
                if curve == Curve::P384 {
                    let ring = with_ring(curve, peer, &SystemRandom::new(), |_, _| ());
                    assert_eq!(ring.unwrap_err(), EcdhError::Peer);
                }
                assert_eq!(with_aws_lc(curve, peer, |_, _| ()).unwrap_err(), EcdhError::Peer);
            }
        }
    }
}
