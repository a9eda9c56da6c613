//! Who callers are, by Kerberos.

use latchkey_http_server::{Negotiated, Password, Principal, Verdict, Verifier, VerifyError};
use latchkey_kerberos::{Denied, Kerberos, Secret, Upn};

/// Asks the KDC, through the helper.
#[derive(Debug, Clone)]
pub struct ByKerberos(pub Kerberos);

impl Verifier for ByKerberos {
    fn password<'a>(&'a self, principal: &'a Principal, password: &'a Password) -> Verdict<'a, ()> {
        Box::pin(async move {
            let upn = Upn::parse(principal.as_str()).map_err(|error| VerifyError::Denied(error.to_string()))?;
            let password = Secret::new(password.expose().as_bytes().to_vec());
            self.0.verify_password(&upn, &password).await.map(drop).map_err(|denied| told(&denied))
        })
    }

    fn negotiate<'a>(&'a self, token: &'a [u8]) -> Verdict<'a, Negotiated> {
        Box::pin(async move {
            let (verified, reply) = self.0.accept(token).await.map_err(|denied| told(&denied))?;
            let principal = Principal::parse(verified.principal().as_str());
            let principal = principal.map_err(|error| VerifyError::Denied(error.to_string()))?;
            Ok(Negotiated { principal, reply })
        })
    }
}

fn told(denied: &Denied) -> VerifyError {
    let text = denied.to_string();
    if denied.is_outage() { VerifyError::Unavailable(text) } else { VerifyError::Denied(text) }
}
