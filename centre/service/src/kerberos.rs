//! Who verifies callers: the Kerberos helper, as the server's verifier.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use latchkey_factory_plus::{Realm, Upn};
use latchkey_factory_plus_server::{Negotiated, Password, Verdict, Verifier, VerifyError};
use latchkey_kerberos::{Denied, Kerberos, Secret, Settings};
use serde::Deserialize;

/// How callers are verified. Relative paths are relative to the configuration's directory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KerberosConfig {
    /// The realm of callers who name none.
    pub realm: Realm,
    /// The service that clients get tickets for, without realm: `HTTP/host.example`.
    pub service: String,
    /// The keytab with the keys of `service`.
    pub keytab: PathBuf,
    /// A file where tokens that were used are remembered; its directory is this service's own.
    pub replay_cache: PathBuf,
    /// The program `latchkey-kerberos-helper`.
    pub helper: PathBuf,
    /// MIT's configuration. Default `/etc/krb5.conf`.
    pub krb5_config: Option<PathBuf>,
    /// Callers verified at the same time. Default 4, at most 64.
    #[serde(default = "four")]
    pub helpers: u32,
    /// Seconds that the KDC has for each. Default 10, at most 60.
    #[serde(default = "ten")]
    pub deadline_seconds: u32,
}

const fn four() -> u32 {
    4
}

const fn ten() -> u32 {
    10
}

/// Callers that wait for a helper beyond those that have one.
const WAITING: usize = 256;

/// Why a section cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KerberosConfigError {
    /// No name of a service.
    #[error("`kerberos.service` is {0:?}; it is written like HTTP/host.example, without realm")]
    Service(String),
    /// A number out of its range.
    #[error("`kerberos.{field}` is {got}; it must be between 1 and {most}")]
    Range {
        /// The field.
        field: &'static str,
        /// The largest value.
        most: u32,
        /// What the file says.
        got: u32,
    },
}

impl KerberosConfig {
    /// The paths in it, for making them absolute.
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.keytab, &mut self.replay_cache, &mut self.helper].into_iter().chain(self.krb5_config.as_mut())
    }

    /// Checks the section, and gives the realm and who verifies. Nothing is started yet.
    pub fn verifier(&self) -> Result<(Realm, Arc<dyn Verifier>), KerberosConfigError> {
        let (realm, kerberos) = self.kerberos()?;
        Ok((realm, Arc::new(Helper(kerberos))))
    }

    /// The same for who takes passwords otherwise than over HTTP.
    pub fn kerberos(&self) -> Result<(Realm, Kerberos), KerberosConfigError> {
        let bad_service = || KerberosConfigError::Service(self.service.clone());
        if self.service.contains('@') || !self.service.contains('/') {
            return Err(bad_service());
        }
        let service = Upn::in_realm(&self.service, &self.realm).map_err(|_| bad_service())?;
        for (field, got, most) in [("helpers", self.helpers, 64), ("deadline_seconds", self.deadline_seconds, 60)] {
            if got == 0 || got > most {
                return Err(KerberosConfigError::Range { field, most, got });
            }
        }
        let kerberos = Kerberos::new(Settings {
            helper: self.helper.clone(),
            krb5_config: self.krb5_config.clone(),
            keytab: self.keytab.clone(),
            service,
            replay_cache: self.replay_cache.clone(),
            helpers: self.helpers as usize,
            deadline: Duration::from_secs(self.deadline_seconds.into()),
            waiting: WAITING,
        });
        Ok((self.realm.clone(), kerberos))
    }

    /// What a check of the configuration looks for: the helper and the keytab.
    pub fn files(&self) -> [&Path; 2] {
        [&self.helper, &self.keytab]
    }
}

/// The helper, behind the server's trait.
struct Helper(Kerberos);

impl Verifier for Helper {
    fn password<'a>(&'a self, upn: &'a Upn, password: &'a Password) -> Verdict<'a, ()> {
        Box::pin(async move {
            let password = Secret::new(password.expose().as_bytes().to_vec());
            self.0.verify_password(upn, &password).await.map(drop).map_err(|denied| in_words(&denied))
        })
    }

    fn negotiate<'a>(&'a self, token: &'a [u8]) -> Verdict<'a, Negotiated> {
        Box::pin(async move {
            let (verified, reply) = self.0.accept(token).await.map_err(|denied| in_words(&denied))?;
            Ok(Negotiated { upn: verified.into_upn(), reply })
        })
    }
}

fn in_words(denied: &Denied) -> VerifyError {
    if denied.is_outage() {
        VerifyError::Unavailable(denied.to_string())
    } else {
        VerifyError::Denied(denied.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(service: &str, realm: &str, helpers: u32) -> KerberosConfig {
        serde_json::from_value(serde_json::json!({
            "realm": realm, "service": service, "keytab": "k", "replay_cache": "r", "helper": "h", "helpers": helpers,
        }))
        .unwrap()
    }

    #[test]
    fn a_section_that_cannot_work_is_refused_by_field() {
        assert_eq!(config("HTTP/a.example", "R.EXAMPLE", 2).verifier().unwrap().0.as_str(), "R.EXAMPLE");
        let refused = |config: KerberosConfig| config.verifier().err().unwrap().to_string();
        assert!(refused(config("HTTP/a@R", "R", 2)).contains("`kerberos.service`"));
        assert!(refused(config("HTTP", "R", 2)).contains("`kerberos.service`"));
        assert!(refused(config("HTTP/a", "R", 0)).contains("`kerberos.helpers`"));
    }
}
