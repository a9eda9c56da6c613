//! Sessions (part 1, section 19): HMAC sessions that make commands and answers authentic, and keep an answer's secret from who reads
//! the bus (section 21), and policy sessions.

use super::command::{Auth, Command};
use super::{Key, Tpm, TpmError};
use crate::wire::{self, EccPoint, HashAlg, PublicKey, Reader, Symmetric, WireError, Writer, cfb, kdf_a, kdf_e};
use ring::agreement::{self, ECDH_P256, ECDH_P384, EphemeralPrivateKey, UnparsedPublicKey};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use zeroize::Zeroizing;

const RH_NULL: u32 = 0x4000_0007;
/// Password authorisation stands where a session handle would (part 2, table 28).
const RS_PW: u32 = 0x4000_0009;
const TYPE_HMAC: u8 = 0;
const TYPE_POLICY: u8 = 1;
const NONCE: usize = 32;

/// `TPMA_SESSION` (part 2, section 8.4).
const CONTINUE: u8 = 1 << 0;
/// The answer's first parameter is encrypted.
const ENCRYPT: u8 = 1 << 6;
const AUDIT: u8 = 1 << 7;

/// The cipher of HMAC sessions for parameters. Every TPM of the PC Client platform profile has it.
const CIPHER: Symmetric = Symmetric::Aes128Cfb;

/// A SHA-256 HMAC session, salted to an ECC key of the TPM.
///
/// Only who knows the private half of that key learns the salt, and with it the session key: any bit that
/// somebody on the bus changes, in a command or in an answer, makes an HMAC fail. What remains is somebody who
/// replaces the *salt key itself* and plays the whole TPM. When the key is an endorsement key that verifiers know (pinned or certified),
/// that impostor's key is another and cannot activate credentials, so a verifier turns the node away. When it is
/// a key made for the purpose (endorsement keys of RSA or on P-521), or verifiers know the attestation key instead (`ak-chain`,
/// `ak-azure-hcl`), a complete interposer can read and change PCR traffic, but
/// still not forge the quote a verifier demands.
pub struct Session {
    handle: u32,
    key: Zeroizing<Vec<u8>>,
    nonce_tpm: Vec<u8>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("handle", &self.handle).finish_non_exhaustive()
    }
}

/// One entry of a command's authorisation area.
pub(super) struct Grant {
    handle: u32,
    nonce: Vec<u8>,
    attributes: u8,
    hmac: Vec<u8>,
}

impl Tpm {
    /// Starts an HMAC session salted to `key`, an ECC decryption key with SHA-256 or SHA-384 names.
    pub fn start_session(&mut self, key: &Key) -> Result<Session, TpmError> {
        let (salt, encrypted) = salt_for(key)?;
        let nonce_caller = nonce()?;
        let (handle, nonce_tpm) =
            self.start_auth_session(Some(key), &nonce_caller, &encrypted, (TYPE_HMAC, CIPHER), HashAlg::Sha256)?;
        // Part 1, section 19.6.8: "sessionKey ≔ KDFa(sessionAlg, (bind.authValue ‖ salt), ATH, nonceTPM, nonceCaller, bits)".
        let key = kdf_a(HashAlg::Sha256, &salt, "ATH", &nonce_tpm, &nonce_caller, 256);
        Ok(Session { handle, key, nonce_tpm })
    }

    /// Ends `session`.
    pub fn end_session(&mut self, session: &Session) -> Result<(), TpmError> {
        self.flush(session.handle)
    }

    /// Starts a policy session of `hash`, unsalted: it carries approval, not authenticity.
    pub(super) fn start_policy(&mut self, hash: HashAlg) -> Result<u32, TpmError> {
        self.start_auth_session(None, &nonce()?, &[], (TYPE_POLICY, Symmetric::Null), hash).map(|(handle, _)| handle)
    }

    fn start_auth_session(
        &mut self,
        salt_key: Option<&Key>,
        nonce_caller: &[u8],
        encrypted_salt: &[u8],
        (kind, cipher): (u8, Symmetric),
        hash: HashAlg,
    ) -> Result<(u32, Vec<u8>), TpmError> {
        let parameters = Writer::build(|out| {
            out.sized(nonce_caller).sized(encrypted_salt).u8(kind);
            cipher.write(out);
            out.u16(hash.id());
        });
        let null_name = RH_NULL.to_be_bytes();
        let null = (RH_NULL, null_name.as_slice());
        let command = Command {
            name: "TPM2_StartAuthSession",
            code: 0x176,
            handles: &[salt_key.map_or(null, |key| (key.handle, &key.name)), null],
            parameters: &parameters,
            returns_handle: true,
        };
        let response = self.run(&command, &mut [])?;
        let nonce_tpm = Reader::all(&response.parameters, |reader| reader.sized("nonce", HashAlg::MAX_SIZE))
            .map_err(|error| command.malformed(error))?
            .to_vec();
        Ok((response.handle.unwrap_or(RH_NULL), nonce_tpm))
    }

    /// `TPM2_PolicySecret` of the endorsement hierarchy, whose authorisation is empty.
    pub(super) fn policy_secret(&mut self, policy: u32, session: &mut Session) -> Result<(), TpmError> {
        let endorsement = super::Hierarchy::Endorsement.handle();
        let parameters = Writer::build(|out| {
            // No nonce, no command hash, no policy reference, no expiry.
            out.sized(&[]).sized(&[]).sized(&[]).u32(0);
        });
        let command = Command {
            name: "TPM2_PolicySecret",
            code: 0x151,
            handles: &[(endorsement, &endorsement.to_be_bytes()), (policy, &policy.to_be_bytes())],
            parameters: &parameters,
            returns_handle: false,
        };
        self.run(&command, &mut [Auth::Hmac(session)]).map(drop)
    }

    /// `TPM2_PolicyOR` of the branches of `PolicyB`.
    pub(super) fn policy_or(&mut self, policy: u32, hash: HashAlg) -> Result<(), TpmError> {
        let branches = wire::policy_branches(hash);
        let parameters = Writer::build(|out| {
            out.u32(u32::try_from(branches.len()).unwrap_or(u32::MAX));
            for branch in &branches {
                out.sized(branch);
            }
        });
        let command = Command {
            name: "TPM2_PolicyOR",
            code: 0x171,
            handles: &[(policy, &policy.to_be_bytes())],
            parameters: &parameters,
            returns_handle: false,
        };
        self.run(&command, &mut []).map(drop)
    }
}

impl Auth<'_> {
    pub(super) fn grant(&mut self, cp_hash: &[u8]) -> Result<Grant, TpmError> {
        match self {
            Self::Empty => Ok(Grant { handle: RS_PW, nonce: Vec::new(), attributes: 0, hmac: Vec::new() }),
            // "the HMAC is an Empty Buffer" when neither key nor authorisation value is there (part 1, section 19.6.5).
            Self::Policy(handle) => Ok(Grant { handle: *handle, nonce: nonce()?, attributes: 0, hmac: Vec::new() }),
            Self::Hmac(session) => session.grant(cp_hash, CONTINUE),
            Self::Encrypting(session) => session.grant(cp_hash, CONTINUE | ENCRYPT),
            Self::Audit(session) => session.grant(cp_hash, CONTINUE | AUDIT),
        }
    }

    pub(super) fn accepts(&mut self, rp_hash: &[u8], grant: &Grant, nonce: &[u8], attributes: u8, hmac: &[u8]) -> bool {
        match self {
            // Nothing to verify: no key is shared. The HMAC session beside it covers the answer.
            Self::Empty | Self::Policy(_) => hmac.is_empty(),
            Self::Hmac(session) | Self::Encrypting(session) | Self::Audit(session) => {
                session.accepts(rp_hash, grant, nonce, attributes, hmac)
            }
        }
    }

    /// Decrypts the first of an answer's parameters, once the answer was accepted, where the command asked for that.
    pub(super) fn decrypt(&self, grant: &Grant, parameters: &mut [u8]) -> Result<(), WireError> {
        match self {
            Self::Empty | Self::Policy(_) | Self::Hmac(_) | Self::Audit(_) => Ok(()),
            Self::Encrypting(session) => session.decrypt(grant, parameters),
        }
    }
}

impl Session {
    /// "authHMAC ≔ HMAC(sessionKey ‖ authValue, pHash ‖ nonceNewer ‖ nonceOlder ‖ sessionAttributes)": part 1,
    /// section 19.6.5. The authorisation value is empty.
    fn grant(&self, cp_hash: &[u8], attributes: u8) -> Result<Grant, TpmError> {
        let nonce = nonce()?;
        let hmac = HashAlg::Sha256.hmac(&self.key, &[cp_hash, &nonce, &self.nonce_tpm, &[attributes]]);
        Ok(Grant { handle: self.handle, nonce, attributes, hmac: hmac.as_ref().to_vec() })
    }

    fn accepts(&mut self, rp_hash: &[u8], grant: &Grant, nonce: &[u8], attributes: u8, hmac: &[u8]) -> bool {
        let signed = [rp_hash, nonce, &grant.nonce, &[attributes]].concat();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.key);
        // The TPM gives back what it was asked for: a session that ended, or an answer in the clear, is not that.
        let asked = CONTINUE | ENCRYPT;
        let genuine = attributes & asked == grant.attributes & asked && ring::hmac::verify(&key, &signed, hmac).is_ok();
        if genuine {
            self.nonce_tpm = nonce.to_vec();
        }
        genuine
    }

    /// "CFB", part 1, section 21.3: key and IV from KDFa(sessionAlg, sessionKey ‖ authValue, "CFB", nonceNewer, nonceOlder, bits), where the
    /// TPM's nonce is the newer one of an answer. The parameter's length stays in the clear. The authorisation value is empty.
    fn decrypt(&self, grant: &Grant, parameters: &mut [u8]) -> Result<(), WireError> {
        let bits = CIPHER.bits() + u16::try_from(8 * cfb::BLOCK).unwrap_or(u16::MAX);
        let derived = kdf_a(HashAlg::Sha256, &self.key, "CFB", &self.nonce_tpm, &grant.nonce, bits);
        let (key, iv) = derived.split_at(usize::from(CIPHER.bits() / 8).min(derived.len()));
        let truncated = |expected, got| WireError::Truncated { expected, got };
        let [high, low, rest @ ..] = parameters else { return Err(truncated(2, parameters.len())) };
        let (length, got) = (usize::from(u16::from_be_bytes([*high, *low])), rest.len());
        let secret = rest.get_mut(..length).ok_or(truncated(length, got))?;
        let iv = iv.try_into().map_err(|_| truncated(cfb::BLOCK, iv.len()))?;
        cfb::decrypt(CIPHER, key, iv, secret).ok_or(truncated(16, key.len()))
    }
}

impl Grant {
    /// `TPMS_AUTH_COMMAND` (part 2, section 10.13.2).
    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.handle).sized(&self.nonce).u8(self.attributes).sized(&self.hmac);
    }
}

/// A fresh salt for `key`, and the same encrypted to it (part 1, appendix C.6.1: one-pass ECDH and `KDFe`).
fn salt_for(key: &Key) -> Result<(Zeroizing<Vec<u8>>, Vec<u8>), TpmError> {
    let PublicKey::Ecc { curve, point } = &key.public.key else { return Err(TpmError::SaltKey) };
    let algorithm = match curve {
        wire::Curve::P256 => &ECDH_P256,
        wire::Curve::P384 => &ECDH_P384,
        // ring does not have it.
        wire::Curve::P521 => return Err(TpmError::SaltKey),
    };
    let hash = key.public.name_alg;
    let ours = EphemeralPrivateKey::generate(algorithm, &SystemRandom::new()).map_err(|_| TpmError::Random)?;
    let ephemeral = ours.compute_public_key().map_err(|_| TpmError::Random)?;
    let ephemeral = EccPoint::from_uncompressed(ephemeral.as_ref(), *curve).ok_or(TpmError::SaltKey)?;
    let theirs = UnparsedPublicKey::new(algorithm, point.uncompressed(*curve).ok_or(TpmError::SaltKey)?);
    let bits = u16::try_from(8 * hash.size()).unwrap_or(u16::MAX);
    let salt = agreement::agree_ephemeral(ours, &theirs, |z| kdf_e(hash, z, "SECRET", &ephemeral.x, &point.x, bits))
        .map_err(|_| TpmError::SaltKey)?;
    Ok((salt, ephemeral.marshal()))
}

fn nonce() -> Result<Vec<u8>, TpmError> {
    let mut nonce = vec![0; NONCE];
    SystemRandom::new().fill(&mut nonce).map_err(|_| TpmError::Random)?;
    Ok(nonce)
}
