//! For tests of services: a verifier that knows its passwords.

use crate::auth::{Negotiated, Password, Verdict, Verifier, VerifyError};
use latchkey_factory_plus::Upn;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

/// A fake in the place of a KDC: a list of principals and passwords. GSSAPI's token is `PRINCIPAL PASSWORD`, and the reply is
/// `mutual`. A principal named `outage` cannot be verified at the moment.
#[derive(Debug, Default)]
pub struct FakeVerifier {
    passwords: Mutex<Vec<(Upn, String)>>,
    asked: AtomicUsize,
}

impl FakeVerifier {
    /// With these principals and their passwords.
    ///
    /// # Panics
    /// If one is no UPN.
    pub fn of<'a>(list: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let known = |(name, password): (&str, &str)| (name.parse().expect("a UPN"), password.to_owned());
        Self { passwords: Mutex::new(list.into_iter().map(known).collect()), asked: AtomicUsize::new(0) }
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    fn judge(&self, upn: &Upn, password: &str) -> Result<(), VerifyError> {
        self.asked.fetch_add(1, SeqCst);
        if upn.name() == "outage" {
            return Err(VerifyError::Unavailable("the KDC does not answer".to_owned()));
        }
        let known = self.passwords.lock().expect("no test panics here");
        let good = known.iter().any(|(name, right)| name == upn && right == password);
        if good { Ok(()) } else { Err(VerifyError::Denied("no such principal and password".to_owned())) }
    }
}

impl Verifier for FakeVerifier {
    fn password<'a>(&'a self, upn: &'a Upn, password: &'a Password) -> Verdict<'a, ()> {
        Box::pin(async move { self.judge(upn, password.expose()) })
    }

    fn negotiate<'a>(&'a self, token: &'a [u8]) -> Verdict<'a, Negotiated> {
        Box::pin(async move {
            let denied = || VerifyError::Denied("this is no token".to_owned());
            let text = str::from_utf8(token).map_err(|_| denied())?;
            let (name, password) = text.split_once(' ').ok_or_else(denied)?;
            let upn = name.parse::<Upn>().map_err(|_| denied())?;
            self.judge(&upn, password)?;
            Ok(Negotiated { upn, reply: b"mutual".to_vec() })
        })
    }
}
