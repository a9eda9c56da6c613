//! The configuration file: closed JSON, checked as a whole before anything is opened.

use std::path::PathBuf;
use std::time::Duration;

use latchkey_centre_service::{AccessConfig, CentreConfig, KerberosConfig, shared_paths};
use latchkey_factory_plus::Upn;
use latchkey_factory_plus_client::BaseUrl;
use latchkey_factory_plus_server::{HttpConfig, HttpConfigError};
use latchkey_kerberos::{Admin, AdminKey, AdminSettings};
use latchkey_keys::{KeyError, read_private_file};
use latchkey_service_runtime::config::{ConfigFile, ConfigFileError};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::script::{Authorities, AuthoritiesError, CentreValues, ScriptError};

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory.
/// `cluster-manager.example.json` shows every field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Schema of this file: 1.
    pub schema: u32,
    /// How the service and its page are reached.
    pub http: HttpConfig,
    /// How callers are verified.
    pub kerberos: KerberosConfig,
    /// Where the other services are, as edges and browsers reach them: configuration database, authorisation service, git server
    /// and directory; and this one's own URL, which links begin with. Its authorities stand in bootstrap scripts, too.
    pub centre: CentreConfig,
    /// Whose permissions are known without the authorisation service.
    #[serde(default)]
    pub access: AccessConfig,
    /// The file that keeps bootstrap links; it is made when it is not there. Working copies of repositories lie beside it, for as
    /// long as each is needed.
    pub data: PathBuf,
    /// What Sparkplug groups begin with: `ORGANISATION-NAME`.
    pub organisation: String,
    /// How principals of clusters are enabled, disabled and deleted.
    pub kadmin: KadminConfig,
    /// What stands in bootstrap scripts.
    pub bootstrap: BootstrapConfig,
    /// How long nobody gets the name of a cluster that was decommissioned. Default 47 400: a ticket of the KDC lives ten hours
    /// (its `max_life`), a token that it was shown for at its end three hours more, and clocks may differ by five minutes each.
    #[serde(default = "names_held_seconds")]
    pub names_held_seconds: u64,
}

fn names_held_seconds() -> u64 {
    Duration::from_hours(13).as_secs() + Duration::from_mins(10).as_secs()
}

/// How kadmind is asked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KadminConfig {
    /// The program `latchkey-kerberos-helper`.
    pub helper: PathBuf,
    /// MIT's configuration. Default `/etc/krb5.conf`.
    pub krb5_config: Option<PathBuf>,
    /// Who asks; `kadm5.acl` says what it may.
    pub principal: Upn,
    /// The file with its password; nobody else may read it.
    pub password_file: PathBuf,
}

/// What stands in bootstrap scripts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootstrapConfig {
    /// The domain that edges find the KDC in: `kdc.DOMAIN`, `kadmin.DOMAIN`.
    pub domain: String,
    /// Where the KDC is instead, `HOST` or `HOST:PORT`.
    pub kdc: Option<String>,
    /// Where its administration is instead, `HOST` or `HOST:PORT`.
    pub kadmin: Option<String>,
    /// The container image of the operator of keys, with its digest: `NAME@sha256:…`.
    pub krbkeys_image: String,
    /// Whether machines know the authority of this service's certificate anyway. Otherwise the command that bootstraps an edge
    /// carries `centre.authorities`.
    #[serde(default)]
    pub publicly_trusted: bool,
}

/// Why a configuration is refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, is no closed JSON of the schema, or has a value out of range.
    #[error("{0}")]
    File(#[from] ConfigFileError),
    /// The section `http`.
    #[error("`http`: {0}")]
    Http(#[from] HttpConfigError),
    /// A word that would mean something else in a Sparkplug group.
    #[error("`organisation` is {0:?}; letters, digits, hyphens and underscores make one, at most 63")]
    Organisation(String),
    /// A URL is missing that edges or browsers need.
    #[error("`centre.services.{0}` is missing: its URL stands in what edges or browsers get from this service")]
    Url(&'static str),
    /// The password's file.
    #[error("`kadmin.password_file`: {error}; {remedy}", error = .0, remedy = .0.code().remedy())]
    Password(KeyError),
    /// The authorities that bootstrap commands carry.
    #[error(
        "`centre.authorities`: {0}; or say `bootstrap.publicly_trusted` where every machine trusts the certificate"
    )]
    Authorities(#[from] AuthoritiesError),
    /// Names that never become free.
    #[error("`names_held_seconds` is {0}; at most {MOST_NAMES_HELD}, a year")]
    NamesHeld(u64),
    /// A value that a shell would not take as one word, or authorities that are not certificates and nothing else.
    #[error("what stands in bootstrap scripts: {0}; see `bootstrap` and `centre`")]
    Word(ScriptError),
}

/// A year, in seconds.
const MOST_NAMES_HELD: u64 = 365 * 24 * 3600;
/// The longest password, in bytes.
const LONGEST_PASSWORD: usize = 1000;
/// What one call of kadmind may take, with the wait for those before it.
const KADMIN_DEADLINE: Duration = Duration::from_secs(30);

impl ConfigFile for Config {
    const SCHEMA: u32 = 1;

    type Error = ConfigError;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.http.check()?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if !(1..=63).contains(&self.organisation.len()) || !self.organisation.bytes().all(plain) {
            return Err(ConfigError::Organisation(self.organisation.clone()));
        }
        if self.names_held_seconds > MOST_NAMES_HELD {
            return Err(ConfigError::NamesHeld(self.names_held_seconds));
        }
        self.config_db()?;
        self.git()?;
        self.in_scripts(String::new())?.check().map_err(ConfigError::Word)
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let kadmin = [&mut self.kadmin.helper, &mut self.kadmin.password_file];
        let own = std::iter::once(&mut self.data).chain(kadmin).chain(self.kadmin.krb5_config.as_mut());
        own.chain(shared_paths(&mut self.http, &mut self.kerberos, &mut self.centre)).collect()
    }
}

impl Config {
    /// Where browsers reach the configuration database.
    pub fn config_db(&self) -> Result<&BaseUrl, ConfigError> {
        self.centre.services.config_db.as_ref().ok_or(ConfigError::Url("config_db"))
    }

    /// Where edges reach the git server.
    pub fn git(&self) -> Result<&BaseUrl, ConfigError> {
        self.centre.services.git.as_ref().ok_or(ConfigError::Url("git"))
    }

    /// What the command that bootstraps an edge has to carry. Reads the file.
    ///
    /// # Errors
    /// [`ConfigError::Authorities`].
    pub fn authorities(&self) -> Result<Option<Authorities>, ConfigError> {
        if self.bootstrap.publicly_trusted || !self.own_url()?.is_secure() {
            return Ok(None);
        }
        Ok(self.centre.authorities.as_deref().map(Authorities::read).transpose()?)
    }

    /// What bootstrap scripts say of the centre. Reads the file of authorities.
    ///
    /// # Errors
    /// [`ConfigError::Authorities`], [`ConfigError::Word`], [`ConfigError::Url`].
    pub fn centre_values(&self) -> Result<CentreValues, ConfigError> {
        let authority = match &self.centre.authorities {
            Some(path) if self.own_url()?.is_secure() => Authorities::read(path)?.pem().to_owned(),
            _ => String::new(),
        };
        let values = self.in_scripts(authority)?;
        values.check().map_err(ConfigError::Word)?;
        Ok(values)
    }

    fn in_scripts(&self, authority: String) -> Result<CentreValues, ConfigError> {
        let BootstrapConfig { domain, kdc, kadmin, krbkeys_image, publicly_trusted: _ } = &self.bootstrap;
        let directory = self.centre.services.directory.as_ref().ok_or(ConfigError::Url("directory"))?;
        Ok(CentreValues {
            domain: domain.clone(),
            realm: self.kerberos.realm.to_string(),
            kdc: kdc.clone().unwrap_or_else(|| format!("kdc.{domain}")),
            kadmin: kadmin.clone().unwrap_or_else(|| format!("kadmin.{domain}")),
            krbkeys: krbkeys_image.clone(),
            directory: directory.to_string(),
            manager: self.own_url()?.to_string(),
            authority,
        })
    }

    /// Where browsers and edges reach this service.
    pub fn own_url(&self) -> Result<&BaseUrl, ConfigError> {
        self.centre.services.cluster_manager.as_ref().ok_or(ConfigError::Url("cluster_manager"))
    }
}

impl KadminConfig {
    /// Who administrates principals. Nothing is started yet.
    ///
    /// # Errors
    /// [`ConfigError::Password`].
    pub fn admin(&self) -> Result<Admin, ConfigError> {
        let secret = read_private_file(&self.password_file, LONGEST_PASSWORD + 2).map_err(ConfigError::Password)?;
        let bytes = secret.expose();
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let password = Zeroizing::new(bytes.strip_suffix(b"\r").unwrap_or(bytes).to_vec());
        Ok(Admin::new(AdminSettings {
            helper: self.helper.clone(),
            krb5_config: self.krb5_config.clone(),
            principal: self.principal.clone(),
            key: AdminKey::Password(password),
            deadline: KADMIN_DEADLINE,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const EXAMPLE: &str = include_str!("../cluster-manager.example.json");

    fn load(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("/etc/latchkey/config.json"), text.as_bytes())
    }

    #[test]
    fn the_example_is_accepted() {
        let config = load(EXAMPLE).unwrap();
        assert_eq!(config.own_url().unwrap().to_string(), "https://clusters.example.org");
        assert_eq!(config.names_held_seconds, names_held_seconds(), "it shows what is the default");
    }

    #[test]
    fn scripts_get_certificates_and_nothing_else_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("authorities.pem");
        let text = EXAMPLE.replace("/etc/latchkey/cluster-manager/authorities.pem", path.to_str().unwrap());
        let text = text.replace("\"kdc\": \"kdc.example.org:88\",", "");
        let config = load(&text).unwrap();
        let told = config.centre_values().unwrap_err().to_string();
        assert!(told.contains("authorities.pem"), "{told}");

        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(&path, format!("# $(reboot)\n{}{}", key.serialize_pem(), certificate.pem())).unwrap();
        let values = config.centre_values().unwrap();
        assert_eq!(values.authority, certificate.pem().replace("\r\n", "\n"));
        assert_eq!((values.kdc.as_str(), values.kadmin.as_str()), ("kdc.example.org", "kadmin.example.org:749"));
        std::fs::write(&path, "nothing").unwrap();
        assert!(config.centre_values().unwrap_err().to_string().contains("no certificate"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, named) in [
            ("\"schema\": 1", "\"schema\": 2", "schema"),
            ("\"organisation\": \"ACME\"", "\"organisation\": \"A/B\"", "`organisation`"),
            ("\"domain\": \"example.org\"", "\"domain\": \"$(reboot)\"", "the value of domain, \"$(reboot)\""),
            ("\"kdc.example.org:88\"", "\"a b\"", "the value of kdc, \"a b\""),
            ("\"directory\": \"https://directory.example.org\",", "", "centre.services.directory"),
            ("\"git\": \"https://git.example.org\",", "", "centre.services.git"),
            ("\"data\"", "\"date\"", "date"),
            ("\"names_held_seconds\": 47400", "\"names_held_seconds\": 40000000", "`names_held_seconds`"),
        ] {
            let text = EXAMPLE.replace(from, to);
            assert_ne!(text, EXAMPLE, "{from}");
            let error = load(&text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
