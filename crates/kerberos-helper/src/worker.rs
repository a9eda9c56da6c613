//! One request after another.

use crate::accept::Acceptor;
use crate::admin::Administrator;
use crate::holder::Holder;
use crate::verify::Verifier;
use latchkey_kerberos::wire::{Answer, Request, write_frame};
use latchkey_kerberos::{Denied, KerberosCode};
use std::fs::File;
use std::sync::mpsc::Receiver;

/// What the first request made of this process.
enum Duty {
    None,
    Verify(Box<(Verifier, Acceptor)>),
    Administrate(Box<Administrator>),
    Hold(Holder),
}

/// Answers requests until there are none, or nobody reads the answers.
pub(crate) fn run(requests: Receiver<Request>, mut answers: File) {
    let mut duty = Duty::None;
    for request in requests {
        let answer = duty.answer(&request).unwrap_or_else(Answer::Denied);
        if write_frame(&mut answers, &answer.encode()).is_err() {
            return;
        }
    }
}

impl Duty {
    fn answer(&mut self, request: &Request) -> Result<Answer, Denied> {
        match (&mut *self, request) {
            (Self::None, Request::OpenVerifier { keytab, service }) => {
                let opened = (Verifier::open(keytab, service)?, Acceptor::open(keytab, service)?);
                *self = Self::Verify(Box::new(opened));
                Ok(Answer::Done)
            }
            (Self::None, Request::OpenAdmin { principal, key }) => {
                *self = Self::Administrate(Box::new(Administrator::open(principal, key)?));
                Ok(Answer::Done)
            }
            (Self::None, Request::OpenHolder) => {
                *self = Self::Hold(Holder::open()?);
                Ok(Answer::Done)
            }
            (Self::Hold(duty), Request::Authenticate { principal, key }) => {
                duty.authenticate(principal, key).map(|()| Answer::Done)
            }
            (Self::Hold(duty), Request::Derive { principal, password, version }) => {
                duty.derive(principal, password, *version)
            }
            (Self::Verify(duty), Request::VerifyPassword { principal, password }) => {
                duty.0.verify(principal, password)?;
                Ok(Answer::Verified(principal.clone()))
            }
            (Self::Verify(duty), Request::Accept { token }) => {
                let (principal, reply) = duty.1.accept(token)?;
                Ok(Answer::Accepted { principal, reply })
            }
            (Self::Administrate(duty), request) => duty.answer(request),
            _ => Err(Denied::new(KerberosCode::HelperFailed, "a request of another duty")),
        }
    }
}
