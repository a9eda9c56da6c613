//! What the helper answers.

use super::fields::{Fields, Message, WireError};
use super::{MAX_KEYS, MAX_NAMES, MAX_TOKEN};
use crate::code::KerberosCode;
use crate::denied::Denied;
use latchkey_factory_plus::Upn;
use zeroize::Zeroizing;

/// No key of a type that MIT has is longer.
const MAX_KEY: usize = 256;

/// A key of a principal.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_debug_implementations)] // it is a key
pub struct Key {
    /// The type of encryption, as RFC 3961 numbers it.
    pub kind: u16,
    /// Its bytes.
    pub bytes: Zeroizing<Vec<u8>>,
}

/// What kadmind tells about a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The version of its keys.
    pub version: u32,
    /// Whether tickets are issued.
    pub enabled: bool,
    /// When it ends, in seconds since 1970; never, where there is no time.
    pub expires: Option<u32>,
    /// When its password ends.
    pub password_expires: Option<u32>,
}

/// An answer.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_debug_implementations)] // it holds keys
pub enum Answer {
    /// It is done, or the helper is open.
    Done,
    /// The password is that of this principal.
    Verified(Upn),
    /// The token is from this principal; the reply proves that to it.
    Accepted {
        /// Who made it.
        principal: Upn,
        /// For `WWW-Authenticate: Negotiate`, without base64; may be empty.
        reply: Vec<u8>,
    },
    /// New keys.
    Keys {
        /// Their version.
        version: u32,
        /// One for each type of encryption.
        keys: Vec<Key>,
    },
    /// About a principal; nothing, where there is none of this name.
    Shown(Option<Shown>),
    /// Names of principals, as kadmind writes them.
    Names(Vec<String>),
    /// It is not done.
    Denied(Denied),
}

impl Answer {
    /// As bytes that wipe themselves.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Done => Message::new(0, 0),
            Self::Verified(principal) => Message::new(1, 256).text(principal.as_str()),
            Self::Accepted { principal, reply } => {
                Message::new(2, reply.len() + 256).text(principal.as_str()).bytes(reply)
            }
            Self::Keys { version, keys } => keys.iter().fold(
                Message::new(3, keys.len() * (MAX_KEY + 6)).number(*version).number(length(keys)),
                |message, key| message.number(key.kind.into()).bytes(&key.bytes),
            ),
            Self::Shown(None) => Message::new(4, 0).byte(0),
            Self::Shown(Some(shown)) => Message::new(4, 64)
                .byte(1)
                .number(shown.version)
                .byte(shown.enabled.into())
                .time(shown.expires)
                .time(shown.password_expires),
            Self::Names(names) => names
                .iter()
                .fold(Message::new(5, names.len() * 64).number(length(names)), |message, name| message.text(name)),
            Self::Denied(denied) => Message::new(6, 512).byte(denied.code().number()).text(denied.detail()),
        }
        .done()
    }

    /// Reads a message. Total: every text of bytes is an answer or an error.
    ///
    /// # Errors
    /// It breaks a limit, or is of no known kind.
    pub fn decode(message: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::of(message);
        let answer = match fields.byte()? {
            0 => Self::Done,
            1 => Self::Verified(fields.upn()?),
            2 => Self::Accepted { principal: fields.upn()?, reply: fields.bytes(MAX_TOKEN)?.to_vec() },
            3 => {
                let version = fields.number()?;
                let keys = (0..fields.count(MAX_KEYS, 8)?).map(|_| key(&mut fields)).collect::<Result<_, _>>()?;
                Self::Keys { version, keys }
            }
            4 if fields.flag()? => Self::Shown(Some(Shown {
                version: fields.number()?,
                enabled: fields.flag()?,
                expires: fields.time()?,
                password_expires: fields.time()?,
            })),
            4 => Self::Shown(None),
            5 => {
                let names = (0..fields.count(MAX_NAMES, 4)?).map(|_| fields.text(1024).map(str::to_owned));
                Self::Names(names.collect::<Result<_, _>>()?)
            }
            6 => {
                let code = KerberosCode::of_number(fields.byte()?).ok_or(WireError::Kind)?;
                Self::Denied(Denied::new(code, fields.text(1024)?))
            }
            _ => return Err(WireError::Kind),
        };
        fields.end()?;
        Ok(answer)
    }
}

fn length<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

fn key(fields: &mut Fields<'_>) -> Result<Key, WireError> {
    let kind = u16::try_from(fields.number()?).map_err(|_| WireError::Kind)?;
    Ok(Key { kind, bytes: fields.secret(MAX_KEY)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_answer_comes_back_and_no_shorter_or_longer_one_does() {
        let upn = "alice@R".parse::<Upn>().unwrap();
        let shown = Shown { version: 3, enabled: true, expires: None, password_expires: Some(7) };
        let key = Key { kind: 18, bytes: Zeroizing::new(vec![9; 32]) };
        for answer in [
            Answer::Done,
            Answer::Verified(upn.clone()),
            Answer::Accepted { principal: upn, reply: vec![1, 2, 3] },
            Answer::Keys { version: 2, keys: vec![key.clone(), key] },
            Answer::Shown(None),
            Answer::Shown(Some(shown)),
            Answer::Names(vec!["a@R".into(), "b@R".into()]),
            Answer::Denied(Denied::new(KerberosCode::ClockSkew, "why")),
        ] {
            let bytes = answer.encode();
            assert!(Answer::decode(&bytes).unwrap() == answer);
            assert!(Answer::decode(&[&bytes[..], &[0]].concat()).is_err());
            assert!((0..bytes.len()).all(|end| Answer::decode(&bytes[..end]).is_err()));
        }
    }

    #[test]
    fn a_count_without_its_items_allocates_nothing() {
        assert!(Answer::decode(&[5, 0, 0, 0xff, 0xff]).err() == Some(WireError::Length));
        assert!(Answer::decode(&[3, 0, 0, 0, 1, 0, 0, 0, 32]).err() == Some(WireError::Length));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Answer::decode(&bytes);
        }
    }
}
