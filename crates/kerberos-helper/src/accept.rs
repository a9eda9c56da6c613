//! Negotiate tokens.

use crate::libraries::gss::{Credentials, Gss};
use crate::verify::keytab_name;
use latchkey_factory_plus::Upn;
use latchkey_kerberos::wire::MAX_TOKEN;
use latchkey_kerberos::{Denied, KerberosCode};
use std::ffi::CString;
use std::path::Path;

/// Accepts tokens. The library reads the keytab for each, so a new one counts at once.
pub(crate) struct Acceptor {
    gss: Gss,
    keytab: CString,
    service: Upn,
    credentials: Option<Credentials>,
}

impl Acceptor {
    /// Loads the library.
    pub(crate) fn open(keytab: &Path, service: &Upn) -> Result<Self, Denied> {
        let gss = Gss::load()?;
        Ok(Self { gss, keytab: keytab_name(keytab)?, service: service.clone(), credentials: None })
    }

    /// Who made a token, and the reply to it.
    pub(crate) fn accept(&mut self, token: &[u8]) -> Result<(Upn, Vec<u8>), Denied> {
        let credentials = match &self.credentials {
            Some(credentials) => credentials,
            None => self.credentials.insert(self.gss.credentials(&self.keytab, &self.service)?),
        };
        let (name, reply) = credentials.accept(token, MAX_TOKEN)?;
        let principal = name.parse::<Upn>();
        let principal = principal.map_err(|error| Denied::new(KerberosCode::PrincipalNotAccepted, error))?;
        Ok((principal, reply))
    }
}
