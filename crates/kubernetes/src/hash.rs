//! SHA-256, as tables write it.

use std::fmt;

use ring::digest::{Context, SHA256};
use serde::Deserialize;

/// A SHA-256 hash. In tables: 64 hexadecimal digits, small letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(bytes);
        Self::finish(context)
    }

    /// The hash of what a context of SHA-256 has taken.
    pub(crate) fn finish(context: Context) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        Self(hash)
    }
}

impl TryFrom<String> for Sha256 {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let mut hash = [0; 32];
        let small = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        match hex::decode_to_slice(&text, &mut hash) {
            Ok(()) if small => Ok(Self(hash)),
            _ => Err("a SHA-256 hash is 64 hexadecimal digits, small letters"),
        }
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_64_small_hexadecimal_digits_are_a_hash() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Sha256::try_from(empty.to_owned()), Ok(Sha256::of(b"")));
        for text in
            ["", "e3", &empty.to_uppercase(), &format!("{empty}00"), &format!("0x{empty}"), &empty.replace('e', "g")]
        {
            assert!(Sha256::try_from((*text).to_owned()).is_err(), "{text}");
        }
    }
}
