//! What the library asks.

use super::fields::{Fields, Message, WireError};
use super::{MAX_KEYTAB, MAX_PASSWORD, MAX_PATH, MAX_TOKEN};
use latchkey_factory_plus::Upn;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// How somebody proves who it is.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_debug_implementations)] // it holds a password, or keys
pub enum AdminKey {
    /// With a password.
    Password(Zeroizing<Vec<u8>>),
    /// With a key in this keytab.
    Keytab(PathBuf),
    /// With a key in a keytab that has these bytes. They are written to no disk.
    KeytabBytes(Zeroizing<Vec<u8>>),
}

/// What is changed about a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Tickets are issued to it and for it.
    Enable,
    /// None are.
    Disable,
    /// It ends then, in seconds since 1970; never, where there is no time.
    Expires(Option<u32>),
    /// Its password ends then; never, where there is no time.
    PasswordExpires(Option<u32>),
}

/// A request. The first one opens the helper, for one of its three duties; the others belong to one duty.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_debug_implementations)] // it holds passwords
pub enum Request {
    /// Duty: to verify.
    OpenVerifier {
        /// The service's keytab.
        keytab: PathBuf,
        /// The service that clients get tickets for, `HTTP/host@REALM`.
        service: Upn,
    },
    /// Duty: to administrate.
    OpenAdmin {
        /// Who asks kadmind.
        principal: Upn,
        /// How it proves that.
        key: AdminKey,
    },
    /// Verifies a password; the answer is `Verified`.
    VerifyPassword {
        /// Whose.
        principal: Upn,
        /// The password.
        password: Zeroizing<Vec<u8>>,
    },
    /// Accepts a Negotiate token; the answer is `Accepted`.
    Accept {
        /// The token, without base64.
        token: Zeroizing<Vec<u8>>,
    },
    /// Makes a principal; the answer is `Done`.
    Create {
        /// Its name.
        principal: Upn,
        /// Its password; a random key, where there is none.
        password: Option<Zeroizing<Vec<u8>>>,
        /// When the password ends.
        password_expires: Option<u32>,
        /// When the principal ends.
        expires: Option<u32>,
    },
    /// Sets a password; the answer is `Done`.
    SetPassword {
        /// Whose.
        principal: Upn,
        /// The password.
        password: Zeroizing<Vec<u8>>,
        /// When it ends.
        password_expires: Option<u32>,
    },
    /// Gives random keys; the answer is `Keys`.
    NewKeys {
        /// To whom.
        principal: Upn,
        /// Whether tickets for older keys are still good.
        keep_old: bool,
    },
    /// Ends that for all keys but the newest; the answer is `Done`.
    Trim {
        /// Whose.
        principal: Upn,
    },
    /// Changes something else; the answer is `Done`.
    Modify {
        /// About whom.
        principal: Upn,
        /// What.
        change: Change,
    },
    /// Deletes a principal; the answer is `Done`.
    Delete {
        /// Which.
        principal: Upn,
    },
    /// Asks about a principal; the answer is `Shown`.
    Show {
        /// Which.
        principal: Upn,
    },
    /// Lists principals; the answer is `Names`.
    List {
        /// As kadmind matches it: `*`, `?` and `[…]` are wildcards.
        pattern: String,
    },
    /// Duty: to be somebody who has keys.
    OpenHolder,
    /// Gets a ticket, and throws it away; the answer is `Done`.
    Authenticate {
        /// Whose.
        principal: Upn,
        /// How it proves that.
        key: AdminKey,
    },
    /// Makes the keys that a password stands for; the answer is `Keys`.
    Derive {
        /// Whose: its name is part of what they are made of.
        principal: Upn,
        /// The password.
        password: Zeroizing<Vec<u8>>,
        /// The version that the KDC gave the password.
        version: u32,
    },
}

impl Request {
    /// As bytes that wipe themselves.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let plain = |kind, principal: &Upn| Message::new(kind, MAX_PATH + MAX_PASSWORD).text(principal.as_str());
        match self {
            Self::OpenVerifier { keytab, service } => plain(0, service).bytes(keytab.as_os_str().as_bytes()),
            Self::OpenAdmin { principal, key } => with_key(1, principal, key),
            Self::VerifyPassword { principal, password } => plain(2, principal).bytes(password),
            Self::Accept { token } => Message::new(3, token.len()).bytes(token),
            Self::Create { principal, password, password_expires, expires } => {
                let message = plain(4, principal).time(*password_expires).time(*expires);
                match password {
                    None => message.byte(0),
                    Some(password) => message.byte(1).bytes(password),
                }
            }
            Self::SetPassword { principal, password, password_expires } => {
                plain(5, principal).time(*password_expires).bytes(password)
            }
            Self::NewKeys { principal, keep_old } => plain(6, principal).byte((*keep_old).into()),
            Self::Modify { principal, change } => {
                let message = plain(7, principal);
                match change {
                    Change::Enable => message.byte(0),
                    Change::Disable => message.byte(1),
                    Change::Expires(time) => message.byte(2).time(*time),
                    Change::PasswordExpires(time) => message.byte(3).time(*time),
                }
            }
            Self::Delete { principal } => plain(8, principal),
            Self::Show { principal } => plain(9, principal),
            Self::List { pattern } => Message::new(10, pattern.len()).text(pattern),
            Self::OpenHolder => Message::new(11, 0),
            Self::Authenticate { principal, key } => with_key(12, principal, key),
            Self::Derive { principal, password, version } => plain(13, principal).number(*version).bytes(password),
            Self::Trim { principal } => plain(14, principal),
        }
        .done()
    }

    /// Reads a message. Total: every text of bytes is a request or an error.
    ///
    /// # Errors
    /// It breaks a limit, or is of no known kind.
    pub fn decode(message: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::of(message);
        let request = match fields.byte()? {
            0 => {
                let service = fields.upn()?;
                Self::OpenVerifier { service, keytab: path(&mut fields)? }
            }
            1 => Self::OpenAdmin { principal: fields.upn()?, key: admin_key(&mut fields)? },
            2 => Self::VerifyPassword { principal: fields.upn()?, password: fields.secret(MAX_PASSWORD)? },
            3 => Self::Accept { token: fields.secret(MAX_TOKEN)? },
            4 => {
                let (principal, password_expires, expires) = (fields.upn()?, fields.time()?, fields.time()?);
                let password = if fields.flag()? { Some(fields.secret(MAX_PASSWORD)?) } else { None };
                Self::Create { principal, password, password_expires, expires }
            }
            5 => {
                let (principal, password_expires) = (fields.upn()?, fields.time()?);
                Self::SetPassword { principal, password_expires, password: fields.secret(MAX_PASSWORD)? }
            }
            6 => Self::NewKeys { principal: fields.upn()?, keep_old: fields.flag()? },
            7 => Self::Modify { principal: fields.upn()?, change: change(&mut fields)? },
            8 => Self::Delete { principal: fields.upn()? },
            9 => Self::Show { principal: fields.upn()? },
            10 => Self::List { pattern: fields.text(255)?.to_owned() },
            11 => Self::OpenHolder,
            12 => Self::Authenticate { principal: fields.upn()?, key: admin_key(&mut fields)? },
            13 => {
                let (principal, version) = (fields.upn()?, fields.number()?);
                Self::Derive { principal, version, password: fields.secret(MAX_PASSWORD)? }
            }
            14 => Self::Trim { principal: fields.upn()? },
            _ => return Err(WireError::Kind),
        };
        fields.end()?;
        Ok(request)
    }
}

fn with_key(kind: u8, principal: &Upn, key: &AdminKey) -> Message {
    let message = |room| Message::new(kind, 256 + room).text(principal.as_str());
    match key {
        AdminKey::Password(password) => message(password.len()).byte(0).bytes(password),
        AdminKey::Keytab(path) => message(MAX_PATH).byte(1).bytes(path.as_os_str().as_bytes()),
        AdminKey::KeytabBytes(bytes) => message(bytes.len()).byte(2).bytes(bytes),
    }
}

fn path(fields: &mut Fields<'_>) -> Result<PathBuf, WireError> {
    Ok(Path::new(OsStr::from_bytes(fields.bytes(MAX_PATH)?)).to_owned())
}

fn admin_key(fields: &mut Fields<'_>) -> Result<AdminKey, WireError> {
    match fields.byte()? {
        0 => Ok(AdminKey::Password(fields.secret(MAX_PASSWORD)?)),
        1 => Ok(AdminKey::Keytab(path(fields)?)),
        2 => Ok(AdminKey::KeytabBytes(fields.secret(MAX_KEYTAB)?)),
        _ => Err(WireError::Kind),
    }
}

fn change(fields: &mut Fields<'_>) -> Result<Change, WireError> {
    Ok(match fields.byte()? {
        0 => Change::Enable,
        1 => Change::Disable,
        2 => Change::Expires(fields.time()?),
        3 => Change::PasswordExpires(fields.time()?),
        _ => return Err(WireError::Kind),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn every_kind() -> Vec<Request> {
        let upn = || "op1flux/Test@R".parse::<Upn>().unwrap();
        let secret = || Zeroizing::new(b"secret\0\xff".to_vec());
        let mut all = vec![
            Request::OpenVerifier { keytab: "/a/b".into(), service: upn() },
            Request::OpenAdmin { principal: upn(), key: AdminKey::Password(secret()) },
            Request::OpenAdmin { principal: upn(), key: AdminKey::Keytab("/k".into()) },
            Request::VerifyPassword { principal: upn(), password: secret() },
            Request::Accept { token: Zeroizing::new(vec![7; MAX_TOKEN]) },
            Request::Create { principal: upn(), password: None, password_expires: None, expires: Some(9) },
            Request::Create { principal: upn(), password: Some(secret()), password_expires: Some(1), expires: None },
            Request::SetPassword { principal: upn(), password: secret(), password_expires: Some(u32::MAX) },
            Request::NewKeys { principal: upn(), keep_old: true },
            Request::OpenHolder,
            Request::Authenticate { principal: upn(), key: AdminKey::KeytabBytes(secret()) },
            Request::Derive { principal: upn(), password: secret(), version: 3 },
            Request::Trim { principal: upn() },
            Request::Delete { principal: upn() },
            Request::Show { principal: upn() },
            Request::List { pattern: "*/Test@R".into() },
        ];
        all.extend(
            [Change::Enable, Change::Disable, Change::Expires(Some(5)), Change::PasswordExpires(None)]
                .map(|change| Request::Modify { principal: upn(), change }),
        );
        all
    }

    #[test]
    fn every_request_comes_back_and_no_shorter_or_longer_one_does() {
        for request in every_kind() {
            let bytes = request.encode();
            assert!(bytes.len() <= super::super::MAX_REQUEST);
            assert!(Request::decode(&bytes).unwrap() == request);
            assert!(Request::decode(&[&bytes[..], &[0]].concat()).is_err());
            assert!((0..bytes.len().min(300)).all(|end| Request::decode(&bytes[..end]).is_err()));
        }
    }

    #[test]
    fn fields_over_their_limits_are_refused() {
        let long = Request::Accept { token: Zeroizing::new(vec![0; MAX_TOKEN + 1]) };
        assert!(Request::decode(&long.encode()).err() == Some(WireError::Length));
        let long = Request::VerifyPassword {
            principal: "a@R".parse::<Upn>().unwrap(),
            password: Zeroizing::new(vec![0; MAX_PASSWORD + 1]),
        };
        assert!(Request::decode(&long.encode()).err() == Some(WireError::Length));
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(&request.encode()[..], &bytes[..]);
            }
        }
    }
}
