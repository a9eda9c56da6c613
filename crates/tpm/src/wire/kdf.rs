//! Key derivation of the TPM library (part 1, sections 11.4.10.2 `KDFa` and 11.4.10.3 `KDFe`).

use super::HashAlg;
use zeroize::{Zeroize, Zeroizing};

/// `KDFa`: "SP800-108 counter mode with HMAC". `label` goes without its terminating zero, which is added here.
/// `bits` is a multiple of 8; the result is `bits / 8` bytes.
pub fn kdf_a(
    hash: HashAlg,
    key: &[u8],
    label: &str,
    context_u: &[u8],
    context_v: &[u8],
    bits: u16,
) -> Zeroizing<Vec<u8>> {
    expand(hash, bits, |counter| {
        let parts = [counter, label.as_bytes(), &[0], context_u, context_v, &u32::from(bits).to_be_bytes()];
        hash.hmac(key, &parts).as_ref().to_vec()
    })
}

/// `KDFe`: "SP800-56A" on the x-coordinate `z` of a shared point. Party values are x-coordinates: the ephemeral
/// key's (U) and the static key's (V). `bits` is a multiple of 8; the result is `bits / 8` bytes.
pub fn kdf_e(hash: HashAlg, z: &[u8], label: &str, party_u: &[u8], party_v: &[u8], bits: u16) -> Zeroizing<Vec<u8>> {
    expand(hash, bits, |counter| hash.digest(&[counter, z, label.as_bytes(), &[0], party_u, party_v]))
}

fn expand(hash: HashAlg, bits: u16, block: impl Fn(&[u8]) -> Vec<u8>) -> Zeroizing<Vec<u8>> {
    let len = usize::from(bits / 8);
    // Room for a whole last block, so that the buffer never moves and leaves a copy behind.
    let mut out = Zeroizing::new(Vec::with_capacity(len + hash.size()));
    for counter in 1u32.. {
        if out.len() >= len {
            break;
        }
        let mut next = block(&counter.to_be_bytes());
        out.extend_from_slice(&next);
        next.zeroize();
    }
    out.truncate(len);
    out
}
