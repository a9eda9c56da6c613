//! SHA-256 of bytes in memory.

use ring::digest::{Context, SHA256};

/// SHA-256 (FIPS 180-4) of these parts, one after the other.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_standard_however_the_bytes_are_cut() {
        // The example of FIPS 180-4 (its section B.1 in FIPS 180-2).
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for parts in [&[&b"abc"[..]][..], &[b"a", b"", b"bc"]] {
            assert_eq!(hex::encode(sha256(parts)), expected);
        }
    }
}
