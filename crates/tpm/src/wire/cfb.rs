//! AES in cipher feedback mode with full blocks, as TPMs wrap what they wrap (part 1, section 11.4.10) and encrypt parameters
//! (part 1, section 21.3).

use super::Symmetric;
use aes::cipher::consts::U16;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

/// Length of a block and of an initialisation vector, in bytes.
pub const BLOCK: usize = 16;

/// Encrypts in place; `None` if the key is not as long as the cipher's.
pub fn encrypt(cipher: Symmetric, key: &[u8], iv: [u8; BLOCK], data: &mut [u8]) -> Option<()> {
    run(cipher, key, iv, data, Direction::Encrypt)
}

/// Decrypts in place; `None` if the key is not as long as the cipher's.
pub fn decrypt(cipher: Symmetric, key: &[u8], iv: [u8; BLOCK], data: &mut [u8]) -> Option<()> {
    run(cipher, key, iv, data, Direction::Decrypt)
}

#[derive(Clone, Copy)]
enum Direction {
    Encrypt,
    Decrypt,
}

fn run(cipher: Symmetric, key: &[u8], iv: [u8; BLOCK], data: &mut [u8], direction: Direction) -> Option<()> {
    match cipher {
        Symmetric::Aes128Cfb => feed(&aes::Aes128::new_from_slice(key).ok()?, iv, data, direction),
        Symmetric::Aes256Cfb => feed(&aes::Aes256::new_from_slice(key).ok()?, iv, data, direction),
        Symmetric::Null => return None,
    }
    Some(())
}

fn feed<C: BlockCipherEncrypt<BlockSize = U16>>(cipher: &C, iv: [u8; BLOCK], data: &mut [u8], direction: Direction) {
    let mut feedback = aes::Block::from(iv);
    for chunk in data.chunks_mut(BLOCK) {
        cipher.encrypt_block(&mut feedback);
        for (byte, pad) in chunk.iter_mut().zip(feedback.iter_mut()) {
            let before = *byte;
            *byte ^= *pad;
            *pad = match direction {
                Direction::Encrypt => *byte,
                Direction::Decrypt => before,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
    }

    /// NIST SP 800-38A, F.3.13 and F.3.17: CFB128-AES128 and CFB128-AES256, the first two blocks.
    #[test]
    fn agrees_with_the_vectors_of_sp_800_38a() {
        let iv: [u8; BLOCK] = hex("000102030405060708090a0b0c0d0e0f").try_into().expect("a block");
        let plain = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
        let aes_256 = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
        for (cipher, key, encrypted) in [
            (
                Symmetric::Aes128Cfb,
                "2b7e151628aed2a6abf7158809cf4f3c",
                "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b",
            ),
            (Symmetric::Aes256Cfb, aes_256, "dc7e84bfda79164b7ecd8486985d386039ffed143b28b1c832113c6331e5407b"),
        ] {
            let mut data = plain.clone();
            encrypt(cipher, &hex(key), iv, &mut data).expect("a key of the cipher's");
            assert_eq!(data, hex(encrypted));
            // A part of a block is the beginning of a whole one.
            let mut part = plain[..19].to_vec();
            encrypt(cipher, &hex(key), iv, &mut part).expect("a key of the cipher's");
            assert_eq!(part, data[..19]);
            decrypt(cipher, &hex(key), iv, &mut data).expect("a key of the cipher's");
            assert_eq!(data, plain);
        }
    }

    #[test]
    fn a_key_of_another_length_is_refused() {
        assert_eq!(encrypt(Symmetric::Aes256Cfb, &[0; 16], [0; BLOCK], &mut [0; 4]), None);
        assert_eq!(decrypt(Symmetric::Aes128Cfb, &[0; 32], [0; BLOCK], &mut [0; 4]), None);
        assert_eq!(encrypt(Symmetric::Null, &[], [0; BLOCK], &mut [0; 4]), None);
    }
}
