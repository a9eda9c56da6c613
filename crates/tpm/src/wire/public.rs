//! `TPMT_PUBLIC` (part 2, section 12.2.4): the public area of an asymmetric key, and its name.

use super::algorithm::{ALG_ECC, ALG_ECDSA, ALG_NULL, ALG_RSA, ALG_RSAPSS, ALG_RSASSA};
use super::{Attributes, Curve, EkTemplate, HashAlg, Reader, Signature, Symmetric, WireError, Writer};
use ring::signature::{self, UnparsedPublicKey};

/// `TPM_RH_ENDORSEMENT` (part 2, section 7.4), as the qualified name of the endorsement hierarchy.
pub const ENDORSEMENT_HIERARCHY: [u8; 4] = 0x4000_000b_u32.to_be_bytes();

/// The public area of an RSA or ECC key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Public {
    /// Hash of the name and of the key's policy.
    pub name_alg: HashAlg,
    /// What the key may do.
    pub attributes: Attributes,
    /// Digest of the policy that authorises use; empty or as long as `name_alg`'s digest.
    pub auth_policy: Vec<u8>,
    /// Cipher below the key: not `Null` for keys that wrap.
    pub symmetric: Symmetric,
    /// The key's only signature scheme, or `Null`.
    pub scheme: KeyScheme,
    /// The key itself.
    pub key: PublicKey,
}

/// The algorithm's own part of a public area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicKey {
    /// `TPM_ALG_RSA`
    Rsa {
        /// Length of the modulus in bits: 2048, 3072 or 4096.
        bits: u16,
        /// Public exponent; 0 stands for 65537.
        exponent: u32,
        /// Big-endian, `bits / 8` long in a key.
        modulus: Vec<u8>,
    },
    /// `TPM_ALG_ECC`
    Ecc {
        /// The curve.
        curve: Curve,
        /// The point. Whether it is on the curve is checked by whatever computes with it.
        point: EccPoint,
    },
}

/// What a public area's unique field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unique {
    /// A key.
    Key,
    /// What a key is made from.
    Any,
}

/// `TPMS_ECC_POINT`: coordinates as the TPM holds them, which may lack leading zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EccPoint {
    /// Big-endian.
    pub x: Vec<u8>,
    /// Big-endian.
    pub y: Vec<u8>,
}

/// The signature scheme a key is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyScheme {
    /// None bound.
    Null,
    /// PKCS #1 v1.5.
    RsaSsa(HashAlg),
    /// RSA-PSS.
    RsaPss(HashAlg),
    /// ECDSA.
    Ecdsa(HashAlg),
}

impl Public {
    /// Longest `TPMT_PUBLIC` accepted, in bytes: an RSA-4096 key with a SHA-512 policy fits.
    pub const MAX_SIZE: usize = 640;

    /// Parses a whole `TPMT_PUBLIC`.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() > Self::MAX_SIZE {
            return Err(WireError::Length { field: "public area", max: Self::MAX_SIZE, got: bytes.len() });
        }
        Reader::all(bytes, Self::read)
    }

    /// Parses a whole `TPMT_PUBLIC` that a key is to be made from: its unique field holds no key yet, but anything of at most
    /// a key's length. Zeros may follow: an NV index can be larger than what is in it.
    pub fn parse_template(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let template = Self::read_as(&mut reader, Unique::Any)?;
        match reader.rest() {
            rest if rest.iter().all(|byte| *byte == 0) => Ok(template),
            rest => Err(WireError::Trailing(rest.len())),
        }
    }

    /// As `TPMT_PUBLIC`; parsing the result gives `self` again.
    pub fn marshal(&self) -> Vec<u8> {
        Writer::build(|out| {
            let kind = match self.key {
                PublicKey::Rsa { .. } => ALG_RSA,
                PublicKey::Ecc { .. } => ALG_ECC,
            };
            out.u16(kind).u16(self.name_alg.id()).u32(self.attributes.bits()).sized(&self.auth_policy);
            self.symmetric.write(out);
            self.scheme.write(out);
            match &self.key {
                PublicKey::Rsa { bits, exponent, modulus } => {
                    out.u16(*bits).u32(*exponent).sized(modulus);
                }
                PublicKey::Ecc { curve, point } => {
                    out.u16(curve.id()).u16(ALG_NULL).bytes(&point.marshal());
                }
            }
        })
    }

    /// The object's name: "nameAlg ‖ Hash(publicArea)" (part 1, section 16).
    pub fn name(&self) -> Vec<u8> {
        let mut name = self.name_alg.id().to_be_bytes().to_vec();
        name.extend(self.name_alg.digest(&[&self.marshal()]));
        name
    }

    /// The object's qualified name below a parent: "nameAlg ‖ Hash(QN of the parent ‖ name)" (part 1, section 16). The parent
    /// of a primary is its hierarchy, whose qualified name is its handle, such as [`ENDORSEMENT_HIERARCHY`].
    pub fn qualified_name(&self, parent: &[u8]) -> Vec<u8> {
        let mut name = self.name_alg.id().to_be_bytes().to_vec();
        name.extend(self.name_alg.digest(&[parent, &self.name()]));
        name
    }

    /// Whether a signature of this key over `TPM_GENERATED_VALUE` can only come from a TPM that made the key
    /// itself and never gives it away: restricted, signing, not decrypting, fixed to TPM and parent, its secret
    /// the TPM's own, and bound to one scheme.
    pub fn is_restricted_signing_key(&self) -> bool {
        let needed = Attributes::RESTRICTED
            | Attributes::SIGN
            | Attributes::FIXED_TPM
            | Attributes::FIXED_PARENT
            | Attributes::SENSITIVE_DATA_ORIGIN;
        self.attributes.contains(needed)
            && !self.attributes.contains(Attributes::DECRYPT)
            && !self.attributes.contains(Attributes::X509_SIGN)
            && self.symmetric == Symmetric::Null
            && self.scheme != KeyScheme::Null
    }

    /// Whether this is an endorsement key made from a template of the TCG EK Credential Profile, whatever its
    /// unique part. Says nothing about the key being genuine: that is for its certificate and for activation.
    pub fn is_endorsement_key(&self) -> bool {
        self.endorsement_template().is_some()
    }

    /// The template an endorsement key was made from.
    pub fn endorsement_template(&self) -> Option<EkTemplate> {
        EkTemplate::ALL.into_iter().find(|template| self.matches(&template.public()))
    }

    /// Checks `signature` over `message` (which is hashed here).
    pub fn verify(&self, message: &[u8], signature: &Signature) -> Result<(), WireError> {
        match (&self.key, signature) {
            (PublicKey::Ecc { curve: Curve::P256, point }, Signature::Ecdsa { hash: HashAlg::Sha256, .. }) => {
                let key = point.uncompressed(Curve::P256).ok_or(WireError::BadSignature)?;
                let fixed = signature.fixed().ok_or(WireError::BadSignature)?;
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, key).verify(message, &fixed)
            }
            (PublicKey::Rsa { exponent, modulus, .. }, Signature::RsaSsa { hash, signature }) => {
                let exponent = if *exponent == 0 { 65537 } else { *exponent }.to_be_bytes();
                let first = exponent.iter().position(|byte| *byte != 0).unwrap_or(0);
                let components = signature::RsaPublicKeyComponents {
                    n: modulus.as_slice(),
                    e: exponent.get(first..).unwrap_or(&[]),
                };
                let scheme = match hash {
                    HashAlg::Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    HashAlg::Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    HashAlg::Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                };
                components.verify(scheme, message, signature)
            }
            _ => return Err(WireError::BadSignature),
        }
        .map_err(|_| WireError::BadSignature)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Self::read_as(reader, Unique::Key)
    }

    fn read_as(reader: &mut Reader<'_>, unique: Unique) -> Result<Self, WireError> {
        let kind = reader.u16()?;
        let name_alg = HashAlg::from_id(reader.u16()?)?;
        let attributes = Attributes::from_bits(reader.u32()?)?;
        let auth_policy = reader.sized("auth policy", name_alg.size())?.to_vec();
        if !auth_policy.is_empty() && auth_policy.len() != name_alg.size() {
            return Err(WireError::Length { field: "auth policy", max: name_alg.size(), got: auth_policy.len() });
        }
        let symmetric = Symmetric::read(reader)?;
        let scheme = KeyScheme::read(reader)?;
        let key = match (kind, scheme) {
            (ALG_RSA, KeyScheme::Null | KeyScheme::RsaSsa(_) | KeyScheme::RsaPss(_)) => {
                PublicKey::read_rsa(reader, unique)?
            }
            (ALG_ECC, KeyScheme::Null | KeyScheme::Ecdsa(_)) => PublicKey::read_ecc(reader, unique)?,
            (ALG_RSA | ALG_ECC, _) => {
                return Err(WireError::Unsupported { field: "scheme of key type", got: kind.into() });
            }
            _ => return Err(WireError::Unsupported { field: "key type", got: kind.into() }),
        };
        Ok(Self { name_alg, attributes, auth_policy, symmetric, scheme, key })
    }

    /// Whether this is a key of `template`: everything but the unique part is equal.
    pub fn matches(&self, template: &Self) -> bool {
        let same_key = match (&self.key, &template.key) {
            (
                PublicKey::Rsa { bits, exponent, .. },
                PublicKey::Rsa { bits: want_bits, exponent: want_exponent, .. },
            ) => bits == want_bits && exponent == want_exponent,
            (PublicKey::Ecc { curve, .. }, PublicKey::Ecc { curve: want, .. }) => curve == want,
            _ => false,
        };
        same_key
            && self.name_alg == template.name_alg
            && self.attributes == template.attributes
            && self.auth_policy == template.auth_policy
            && self.symmetric == template.symmetric
            && self.scheme == template.scheme
    }
}

impl PublicKey {
    fn read_rsa(reader: &mut Reader<'_>, unique: Unique) -> Result<Self, WireError> {
        let bits = reader.u16()?;
        if !matches!(bits, 2048 | 3072 | 4096) {
            return Err(WireError::Unsupported { field: "RSA key bits", got: bits.into() });
        }
        let exponent = reader.u32()?;
        if !matches!(exponent, 0 | 65537) {
            return Err(WireError::Unsupported { field: "RSA exponent", got: exponent });
        }
        let size = usize::from(bits / 8);
        let modulus = reader.sized("RSA modulus", size)?.to_vec();
        let is_key = unique == Unique::Key;
        if is_key && (modulus.len() != size || modulus.first().is_none_or(|byte| byte & 0x80 == 0)) {
            return Err(WireError::Length { field: "RSA modulus", max: size, got: modulus.len() });
        }
        Ok(Self::Rsa { bits, exponent, modulus })
    }

    fn read_ecc(reader: &mut Reader<'_>, unique: Unique) -> Result<Self, WireError> {
        let curve = Curve::read(reader)?;
        match reader.u16()? {
            ALG_NULL => {}
            got => return Err(WireError::Unsupported { field: "key derivation scheme", got: got.into() }),
        }
        let point = EccPoint::read_as(reader, curve, unique)?;
        Ok(Self::Ecc { curve, point })
    }
}

impl EccPoint {
    /// Parses a whole `TPMS_ECC_POINT` of `curve`.
    pub fn parse(bytes: &[u8], curve: Curve) -> Result<Self, WireError> {
        Reader::all(bytes, |reader| Self::read(reader, curve))
    }

    /// As `TPMS_ECC_POINT`.
    pub fn marshal(&self) -> Vec<u8> {
        Writer::build(|out| {
            out.sized(&self.x).sized(&self.y);
        })
    }

    /// The point as SEC 1 writes it uncompressed: `04 ‖ x ‖ y`, padded; `None` if a coordinate is too long.
    pub fn uncompressed(&self, curve: Curve) -> Option<Vec<u8>> {
        let size = curve.size();
        let mut out = vec![4];
        for coordinate in [&self.x, &self.y] {
            out.resize(out.len() + size.checked_sub(coordinate.len())?, 0);
            out.extend_from_slice(coordinate);
        }
        Some(out)
    }

    /// The point of an uncompressed SEC 1 encoding; `None` if it is none of `curve`'s length.
    pub fn from_uncompressed(bytes: &[u8], curve: Curve) -> Option<Self> {
        let (x, y) = bytes.strip_prefix(&[4])?.split_at_checked(curve.size())?;
        (y.len() == curve.size()).then(|| Self { x: x.to_vec(), y: y.to_vec() })
    }

    fn read(reader: &mut Reader<'_>, curve: Curve) -> Result<Self, WireError> {
        Self::read_as(reader, curve, Unique::Key)
    }

    fn read_as(reader: &mut Reader<'_>, curve: Curve, unique: Unique) -> Result<Self, WireError> {
        let mut coordinate = |field| match reader.sized(field, curve.size()) {
            Ok([]) if unique == Unique::Key => Err(WireError::Length { field, max: curve.size(), got: 0 }),
            other => other.map(<[u8]>::to_vec),
        };
        Ok(Self { x: coordinate("ECC x")?, y: coordinate("ECC y")? })
    }
}

impl KeyScheme {
    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let scheme: fn(HashAlg) -> Self = match reader.u16()? {
            ALG_NULL => return Ok(Self::Null),
            ALG_RSASSA => Self::RsaSsa,
            ALG_RSAPSS => Self::RsaPss,
            ALG_ECDSA => Self::Ecdsa,
            got => return Err(WireError::Unsupported { field: "key scheme", got: got.into() }),
        };
        Ok(scheme(HashAlg::from_id(reader.u16()?)?))
    }

    fn write(self, out: &mut Writer) {
        match self {
            Self::Null => out.u16(ALG_NULL),
            Self::RsaSsa(hash) => out.u16(ALG_RSASSA).u16(hash.id()),
            Self::RsaPss(hash) => out.u16(ALG_RSAPSS).u16(hash.id()),
            Self::Ecdsa(hash) => out.u16(ALG_ECDSA).u16(hash.id()),
        };
    }
}
