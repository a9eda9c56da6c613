//! The file of a secret key, as minisign writes it.
//!
//! ```text
//! untrusted comment: …
//! base64("Ed" ‖ kdf ‖ "B2" ‖ salt 32 ‖ opslimit u64 ‖ memlimit u64 ‖ key id 8 ‖ seed 32 ‖ public key 32 ‖ checksum 32)
//! ```
//!
//! Numbers are little-endian. `kdf` is `Sc` (the last four fields are combined with scrypt's output by exclusive or) or two
//! zero bytes. The checksum is BLAKE2b-256 over `"Ed" ‖ key id ‖ seed ‖ public key`, or zero in a key without password.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};
use latchkey_attestation::reference::KeyId;
use latchkey_keys::{Secret, SecretVec};
use ring::rand::{SecureRandom, SystemRandom};
use scrypt::{Params, scrypt};
use zeroize::Zeroizing;

use super::{SigningError, SigningKey};

/// Largest file that is read, bytes.
pub const MAX_KEY_FILE: usize = 4096;

const HEAD: usize = 2 + 2 + 2 + 32 + 8 + 8;
/// Key id, seed, public key, checksum.
const SECRET: usize = 8 + 32 + 32 + 32;
const SCRYPT: &[u8; 2] = b"Sc";
const COMMENT: &str = "untrusted comment: ";
/// libsodium's `crypto_pwhash_scryptsalsa208sha256_OPSLIMIT_SENSITIVE`.
const OPSLIMIT: u64 = 33_554_432;
/// libsodium's `crypto_pwhash_scryptsalsa208sha256_MEMLIMIT_SENSITIVE`: 1 GiB.
const MEMLIMIT: u64 = 1_073_741_824;

/// A key file that was read, still encrypted if it was.
pub(super) struct Stored {
    encrypted: bool,
    salt: [u8; 32],
    opslimit: u64,
    memlimit: u64,
    secret: Secret<SECRET>,
}

impl Stored {
    pub(super) fn parse(file: &[u8]) -> Result<Self, SigningError> {
        let text = std::str::from_utf8(file).map_err(|_| SigningError::NotAKey)?;
        let mut lines = text.lines();
        let comment = lines.next().is_some_and(|line| line.starts_with(COMMENT));
        let line = lines.next().filter(|_| comment && file.len() <= MAX_KEY_FILE).ok_or(SigningError::NotAKey)?;
        if lines.any(|line| !line.is_empty()) {
            return Err(SigningError::NotAKey);
        }
        let bytes = Zeroizing::new(STANDARD.decode(line).map_err(|_| SigningError::NotAKey)?);
        let (head, secret) = bytes.split_first_chunk::<HEAD>().ok_or(SigningError::NotAKey)?;
        let encrypted = match (head.first_chunk(), head.get(2..4), head.get(4..6)) {
            (Some(b"Ed"), Some(kdf), Some(b"B2")) if kdf == SCRYPT => true,
            (Some(b"Ed"), Some([0, 0]), Some(b"B2")) => false,
            _ => return Err(SigningError::NotAKey),
        };
        let secret = Secret::from_slice(secret).map_err(|_| SigningError::NotAKey)?;
        let (salt, opslimit, memlimit) = (array(head, 6), array(head, 38), array(head, 46));
        let (opslimit, memlimit) = (u64::from_le_bytes(opslimit), u64::from_le_bytes(memlimit));
        Ok(Self { encrypted, salt, opslimit, memlimit, secret })
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    pub(super) fn open(self, password: Option<&SecretVec>) -> Result<SigningKey, SigningError> {
        let Some(password) = password.filter(|_| self.encrypted) else {
            return if self.encrypted { Err(SigningError::WrongPassword) } else { key(&self.secret, true) };
        };
        let pad = pad(password, &self.salt, self.opslimit, self.memlimit)?;
        let opened = combined(&self.secret, &pad);
        // A wrong password gives noise, which the checksum does not fit.
        key(&opened, false).map_err(|_| SigningError::WrongPassword)
    }
}

/// The key in decrypted fields, if they fit together.
fn key(secret: &Secret<SECRET>, plain: bool) -> Result<SigningKey, SigningError> {
    let bytes = secret.expose();
    let (id, public, sum): ([u8; 8], [u8; 32], [u8; 32]) = (array(bytes, 0), array(bytes, 40), array(bytes, 72));
    let seed = Secret::from_slice(bytes.get(8..40).unwrap_or_default()).map_err(|_| SigningError::Damaged)?;
    let unchecked = plain && sum == [0; 32];
    if !unchecked && sum != checksum(bytes.get(..72).unwrap_or_default()) {
        return Err(SigningError::Damaged);
    }
    let key = SigningKey::from_seed(KeyId(id), seed)?;
    if key.public == public { Ok(key) } else { Err(SigningError::Damaged) }
}

pub(super) fn write(key: &SigningKey, password: Option<&SecretVec>) -> Result<SecretVec, SigningError> {
    let fields = Zeroizing::new([&key.id.0[..], key.seed.expose(), &key.public].concat());
    let sum = checksum(&fields);
    let mut secret = Secret::<SECRET>::from_slice(&Zeroizing::new([&fields[..], &sum].concat()))?;
    let mut salt = [0; 32];
    let (mut kdf, mut limits) = ([0; 2], (0, 0));
    if let Some(password) = password {
        SystemRandom::new().fill(&mut salt).map_err(|_| SigningError::Random)?;
        (kdf, limits) = (*SCRYPT, (OPSLIMIT, MEMLIMIT));
        secret = combined(&secret, &pad(password, &salt, OPSLIMIT, MEMLIMIT)?);
    }
    let (ops, mem) = (u64::to_le_bytes(limits.0), u64::to_le_bytes(limits.1));
    let bytes = Zeroizing::new([b"Ed", &kdf[..], b"B2", &salt, &ops, &mem, secret.expose()].concat());
    let kind = if password.is_some() { "encrypted" } else { "UNENCRYPTED" };
    let line = Zeroizing::new(STANDARD.encode(&bytes));
    let text = [COMMENT.as_bytes(), b"minisign ", kind.as_bytes(), b" secret key\n", line.as_bytes(), b"\n"];
    Ok(SecretVec::from(Zeroizing::new(text.concat())))
}

/// What the secret fields are combined with.
fn pad(password: &SecretVec, salt: &[u8; 32], opslimit: u64, memlimit: u64) -> Result<Secret<SECRET>, SigningError> {
    let params = params(opslimit, memlimit).ok_or(SigningError::TooCostly)?;
    Secret::fill_with(|pad| scrypt(password.expose(), salt, &params, pad).map_err(|_| SigningError::TooCostly))
}

/// libsodium's choice of N, r and p for these limits (`pwhash_scryptsalsa208sha256.c`), none above minisign's own.
fn params(opslimit: u64, memlimit: u64) -> Option<Params> {
    const R: u64 = 8;
    if opslimit > OPSLIMIT || memlimit > MEMLIMIT {
        return None;
    }
    let opslimit = opslimit.max(32_768);
    let few_operations = opslimit < memlimit / 32;
    let most = if few_operations { opslimit / (R * 4) } else { memlimit / (R * 128) };
    let log_n = (1..63_u8).find(|&log_n| 1 << log_n > most / 2)?;
    let parallel = if few_operations { 1 } else { ((opslimit / 4) >> log_n) / R };
    Params::new(log_n, u32::try_from(R).ok()?, u32::try_from(parallel).ok()?).ok()
}

fn combined(secret: &Secret<SECRET>, pad: &Secret<SECRET>) -> Secret<SECRET> {
    let filled: Result<_, std::convert::Infallible> = Secret::fill_with(|out| {
        for (out, (byte, pad)) in out.iter_mut().zip(secret.expose().iter().zip(pad.expose())) {
            *out = byte ^ pad;
        }
        Ok(())
    });
    let Ok(combined) = filled;
    combined
}

fn checksum(fields: &[u8]) -> [u8; 32] {
    Blake2b::<U32>::new().chain_update(b"Ed").chain_update(fields).finalize().into()
}

/// `N` bytes from `at`, zero beyond the end, which no caller asks for.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}
