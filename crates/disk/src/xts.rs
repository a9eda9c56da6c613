//! AES-256 in XTS mode (IEEE Std 1619-2018, section 5) over data units of 512 bytes, the units of a LUKS2 key slot area.
//!
//! "LUKS2 on-disk format 1.1, section 3.2": a `raw` area is encrypted like dm-crypt with `plain64` would: the tweak is the
//! number of the 512-byte sector, counted from the start of the area, little-endian.

use aes::Aes256;
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use latchkey_keys::Secret;

/// Bytes of one data unit.
pub(crate) const UNIT: usize = 512;

const BLOCK: usize = 16;

/// Which way the area is turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Encrypt,
    Decrypt,
}

/// Encrypts `area` in place; a last unit shorter than 512 bytes must be a multiple of 16.
pub(crate) fn encrypt(key: &Secret<64>, area: &mut [u8]) {
    apply(key, area, 0, Way::Encrypt);
}

/// Decrypts `area` in place; a last unit shorter than 512 bytes must be a multiple of 16.
pub(crate) fn decrypt(key: &Secret<64>, area: &mut [u8]) {
    apply(key, area, 0, Way::Decrypt);
}

fn apply(key: &Secret<64>, area: &mut [u8], first_unit: u64, way: Way) {
    let (data_key, tweak_key) = key.expose().split_at(32);
    let (Ok(data_key), Ok(tweak_key)) = (Aes256::new_from_slice(data_key), Aes256::new_from_slice(tweak_key)) else {
        unreachable!("both halves of a 64-byte key are 32 bytes")
    };
    for (unit, number) in area.chunks_mut(UNIT).zip(first_unit..) {
        let mut tweak = [0; BLOCK];
        tweak[..8].copy_from_slice(&number.to_le_bytes());
        let mut tweak = Array::from(tweak);
        tweak_key.encrypt_block(&mut tweak);
        let tweaks = powers(u128::from_le_bytes(tweak.into()));
        let (blocks, rest) = Array::slice_as_chunks_mut(unit);
        debug_assert!(rest.is_empty(), "no ciphertext stealing here");
        mask(blocks, &tweaks);
        match way {
            Way::Encrypt => data_key.encrypt_blocks(blocks),
            Way::Decrypt => data_key.decrypt_blocks(blocks),
        }
        mask(blocks, &tweaks);
    }
}

/// The tweak of each block: the one before times α in GF(2¹²⁸) with x¹²⁸ + x⁷ + x² + x + 1 (IEEE 1619, 5.2).
fn powers(first: u128) -> [u128; UNIT / BLOCK] {
    let mut tweak = first;
    std::array::from_fn(|_| {
        let this = tweak;
        tweak = (tweak << 1) ^ ((tweak >> 127) * 0x87);
        this
    })
}

fn mask(blocks: &mut [aes::Block], tweaks: &[u128]) {
    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
        let masked = u128::from_le_bytes((*block).into()) ^ tweak;
        *block = masked.to_le_bytes().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key and plaintext of the XTS-AES-256 vectors of IEEE 1619-2018 annex B: the digits of e and of pi.
    fn key_and_plain() -> (Secret<64>, Vec<u8>) {
        let key = "2718281828459045235360287471352662497757247093699959574966967627\
                   3141592653589793238462643383279502884197169399375105820974944592";
        (Secret::from_slice(&hex::decode(key).unwrap()).unwrap(), (0..=255).chain(0..=255).collect())
    }

    #[test]
    fn ieee_1619_vectors_10_and_11() {
        for (unit_number, expected) in [(0xff, VECTOR_10), (0xffff, VECTOR_11)] {
            let (key, plain) = key_and_plain();
            let mut unit = plain.clone();
            apply(&key, &mut unit, unit_number, Way::Encrypt);
            assert_eq!(hex::encode(&unit), expected);
            apply(&key, &mut unit, unit_number, Way::Decrypt);
            assert_eq!(unit, plain);
        }
    }

    #[test]
    fn each_unit_has_its_own_tweak() {
        let (key, _) = key_and_plain();
        let mut area = vec![0; 3 * UNIT];
        encrypt(&key, &mut area);
        assert_ne!(area[..UNIT], area[UNIT..2 * UNIT]);
        let mut second = vec![0; UNIT];
        apply(&key, &mut second, 1, Way::Encrypt);
        assert_eq!(area[UNIT..2 * UNIT], second);
        decrypt(&key, &mut area);
        assert!(area.iter().all(|&byte| byte == 0));
    }

    const VECTOR_10: &str = "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b5d31e276f8fe4a8d66b317f9ac683f44680a\
             86ac35adfc3345befecb4bb188fd5776926c49a3095eb108fd1098baec70aaa66999a72a82f27d848b21d4a741b0c5cd4d5f\
             ff9dac89aeba122961d03a757123e9870f8acf1000020887891429ca2a3e7a7d7df7b10355165c8b9a6d0a7de8b062c4500d\
             c4cd120c0f7418dae3d0b5781c34803fa75421c790dfe1de1834f280d7667b327f6c8cd7557e12ac3a0f93ec05c52e0493ef\
             31a12d3d9260f79a289d6a379bc70c50841473d1a8cc81ec583e9645e07b8d9670655ba5bbcfecc6dc3966380ad8fecb17b6\
             ba02469a020a84e18e8f84252070c13e9f1f289be54fbc481457778f616015e1327a02b140f1505eb309326d68378f837459\
             5c849d84f4c333ec4423885143cb47bd71c5edae9be69a2ffeceb1bec9de244fbe15992b11b77c040f12bd8f6a975a44a0f9\
             0c29a9abc3d4d893927284c58754cce294529f8614dcd2aba991925fedc4ae74ffac6e333b93eb4aff0479da9a410e4450e0\
             dd7ae4c6e2910900575da401fc07059f645e8b7e9bfdef33943054ff84011493c27b3429eaedb4ed5376441a77ed43851ad7\
             7f16f541dfd269d50d6a5f14fb0aab1cbb4c1550be97f7ab4066193c4caa773dad38014bd2092fa755c824bb5e54c4f36ffd\
             a9fcea70b9c6e693e148c151";
    const VECTOR_11: &str = "77a31251618a15e6b92d1d66dffe7b50b50bad552305ba0217a610688eff7e11e1d0225438e093242d6db274fde801d4cae0\
             6f2092c728b2478559df58e837c2469ee4a4fa794e4bbc7f39bc026e3cb72c33b0888f25b4acf56a2a9804f1ce6d3d6e1dc6\
             ca181d4b546179d55544aa7760c40d06741539c7e3cd9d2f6650b2013fd0eeb8c2b8e3d8d240ccae2d4c98320a7442e1c8d7\
             5a42d6e6cfa4c2eca1798d158c7aecdf82490f24bb9b38e108bcda12c3faf9a21141c3613b58367f922aaa26cd22f23d708d\
             ae699ad7cb40a8ad0b6e2784973dcb605684c08b8d6998c69aac049921871ebb65301a4619ca80ecb485a31d744223ce8ddc\
             2394828d6a80470c092f5ba413c3378fa6054255c6f9df4495862bbb3287681f931b687c888abf844dfc8fc28331e579928c\
             d12bd2390ae123cf03818d14dedde5c0c24c8ab018bfca75ca096f2d531f3d1619e785f1ada437cab92e980558b3dce1474a\
             fb75bfedbf8ff54cb2618e0244c9ac0d3c66fb51598cd2db11f9be39791abe447c63094f7c453b7ff87cb5bb36b7c79efb08\
             72d17058b83b15ab0866ad8a58656c5a7e20dbdf308b2461d97c0ec0024a2715055249cf3b478ddd4740de654f75ca686e0d\
             7345c69ed50cdc2a8b332b1f8824108ac937eb050585608ee734097fc09054fbff89eeaeea791f4a7ab1f9868294a4f9e27b\
             42af8100cb9d59cef9645803";
}
