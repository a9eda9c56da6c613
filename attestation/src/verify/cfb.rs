//! AES in cipher feedback mode with full blocks and a zero IV, as TPMs wrap what they wrap.

use aes::cipher::consts::U16;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use latchkey_tpm::wire::Symmetric;

/// Encrypts in place; `None` if the key is not as long as the cipher's.
pub(crate) fn encrypt(cipher: Symmetric, key: &[u8], data: &mut [u8]) -> Option<()> {
    match cipher {
        Symmetric::Aes128Cfb => feed(&aes::Aes128::new_from_slice(key).ok()?, data),
        Symmetric::Aes256Cfb => feed(&aes::Aes256::new_from_slice(key).ok()?, data),
        Symmetric::Null => return None,
    }
    Some(())
}

fn feed<C: BlockCipherEncrypt<BlockSize = U16>>(cipher: &C, data: &mut [u8]) {
    let mut feedback = aes::Block::default();
    for chunk in data.chunks_mut(feedback.len()) {
        cipher.encrypt_block(&mut feedback);
        for (byte, pad) in chunk.iter_mut().zip(feedback.iter_mut()) {
            *byte ^= *pad;
            *pad = *byte;
        }
    }
}

/// Decrypts in place; `None` if the key is not 16 bytes long.
#[cfg(any(test, feature = "fake-tpm"))]
pub(crate) fn decrypt_aes_128(key: &[u8], data: &mut [u8]) -> Option<()> {
    let cipher = aes::Aes128::new_from_slice(key).ok()?;
    let mut feedback = aes::Block::default();
    for chunk in data.chunks_mut(feedback.len()) {
        cipher.encrypt_block(&mut feedback);
        for (byte, pad) in chunk.iter_mut().zip(feedback.iter_mut()) {
            let cipher_byte = *byte;
            *byte ^= *pad;
            *pad = cipher_byte;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST SP 800-38A, F.3.13: CFB128-AES128.Encrypt, with its IV moved into a first block: E(0) of that block is
    /// xored with what makes the ciphertext the IV.
    #[test]
    fn agrees_with_the_vectors_of_sp_800_38a() {
        let key = hex::decode("2b7e151628aed2a6abf7158809cf4f3c").unwrap();
        let iv = hex::decode("000102030405060708090a0b0c0d0e0f").unwrap();
        let mut pad = vec![0; 16];
        encrypt(Symmetric::Aes128Cfb, &key, &mut pad).unwrap();
        let first: Vec<u8> = iv.iter().zip(&pad).map(|(iv, pad)| iv ^ pad).collect();
        let mut data =
            [first, hex::decode("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51").unwrap()].concat();
        let plain = data.clone();
        encrypt(Symmetric::Aes128Cfb, &key, &mut data).unwrap();
        assert_eq!(data[..16], iv);
        assert_eq!(hex::encode(&data[16..]), "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b");
        decrypt_aes_128(&key, &mut data).unwrap();
        assert_eq!(data, plain);
    }

    #[test]
    fn a_key_of_another_length_is_refused() {
        assert_eq!(encrypt(Symmetric::Aes256Cfb, &[0; 16], &mut [0; 4]), None);
        assert_eq!(encrypt(Symmetric::Null, &[], &mut [0; 4]), None);
    }
}
