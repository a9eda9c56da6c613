//! The configuration file: closed JSON, checked as a whole before anything is opened.

use std::path::PathBuf;

use latchkey_edge_service::{AccountSection, CentreSection, ClusterSection, KubernetesSection, Namespace};
use latchkey_factory_plus::{Realm, Upn};
use latchkey_factory_plus_client::{BaseUrl, Insecure, Trust, TrustError};
use latchkey_service_runtime::config::{ConfigFile, ConfigFileError, check_range};
use latchkey_service_runtime::pages::PagesConfig;
use serde::Deserialize;

use crate::names::Names;
use crate::redeem::Kerberos;

/// The whole file. Unknown fields are refused; relative paths are relative to the file's directory.
/// `krb-keys.example.json` shows every field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Schema of this file: 1, which need not be said.
    #[serde(default = "known")]
    pub schema: u32,
    /// Where the centre is.
    pub centre: CentreSection,
    /// The centre's Kerberos realm.
    pub realm: Realm,
    /// The cluster whose keys these are.
    pub cluster: ClusterSection,
    /// The namespace of the Secrets.
    pub namespace: Namespace,
    /// The way to the API server; none in a pod.
    pub kubernetes: Option<KubernetesSection>,
    /// MIT's configuration. Default `/etc/krb5.conf`.
    pub krb5_config: Option<PathBuf>,
    /// The program that speaks Kerberos; none takes `latchkey-kerberos-helper` beside this one.
    pub kerberos_helper: Option<PathBuf>,
    /// The bootstrap link, for `redeem`.
    pub redeem: Option<RedeemSection>,
    /// The keytab of this operator, for `run`.
    pub keytab: Option<PathBuf>,
    /// Whose it is; none takes `op1krbkeys/CLUSTER@REALM`.
    pub principal: Option<Upn>,
    /// Who this operator is at the centre, for `run`; none sees to no accounts.
    pub account: Option<AccountSection>,
    /// Where its own `/metrics` and `/healthz` are, for `run`; without it nowhere.
    pub pages: Option<PagesConfig>,
}

/// A bootstrap link.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedeemSection {
    /// Where the cluster manager is.
    pub manager: BaseUrl,
    /// The file with the link's token, from a Secret.
    pub token_file: PathBuf,
    /// For how many seconds to try while something is away: 10 to 3600. Default 300.
    #[serde(default = "patience")]
    pub patience_seconds: u32,
}

const fn known() -> u32 {
    Config::SCHEMA
}

const fn patience() -> u32 {
    300
}

/// Why a configuration is refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, is no closed JSON of the schema, or has a value out of range.
    #[error("{0}")]
    File(#[from] ConfigFileError),
    /// A section that the command needs.
    #[error("`{0}` is missing, which this command needs")]
    Missing(&'static str),
    /// The authorities.
    #[error("`centre.authority`: {0}")]
    Trust(#[from] TrustError),
    /// A URL that would be asked in the clear, or without anybody to hold its certificate against.
    #[error(
        "`redeem.manager` is {0}; use https with `centre.authority`, or say `\"insecure\": true` in `centre` where nobody else can read the network"
    )]
    Insecure(BaseUrl),
    /// Where this program is, is not known.
    #[error("`kerberos_helper` is missing, and where this program is cannot be told: {0}")]
    Helper(std::io::Error),
}

impl ConfigFile for Config {
    const SCHEMA: u32 = 1;

    type Error = ConfigError;

    fn schema(&self) -> u32 {
        self.schema
    }

    fn check(&self) -> Result<(), ConfigError> {
        if let Some(redeem) = &self.redeem {
            check_range("redeem.patience_seconds", redeem.patience_seconds, (10, 3600))?;
        }
        Ok(self.pages.as_ref().map_or(Ok(()), PagesConfig::check)?)
    }

    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let Self { centre, kubernetes, krb5_config, kerberos_helper, redeem, keytab, account, pages, .. } = self;
        let named = centre.paths().chain(krb5_config).chain(kerberos_helper).chain(keytab);
        let named = named.chain(account.as_mut().map(|account| &mut account.password_file));
        let named = named.chain(redeem.as_mut().map(|redeem| &mut redeem.token_file));
        let named = named.chain(pages.iter_mut().flat_map(PagesConfig::paths));
        named.chain(kubernetes.as_mut().map(|kubernetes| &mut kubernetes.kubeconfig)).collect()
    }
}

impl Config {
    /// The principals of the cluster.
    pub fn names(&self) -> Names {
        Names::of(self.cluster.uuid, &self.cluster.name, &self.realm)
    }

    /// Who this operator is at kadmind.
    pub(crate) fn own_principal(&self) -> Upn {
        self.principal.clone().unwrap_or_else(|| self.names().own)
    }

    /// Whom to believe to be the cluster manager at this URL.
    pub(crate) fn trust(&self, manager: &BaseUrl) -> Result<Trust, ConfigError> {
        let trusted = if manager.is_secure() { self.centre.authority.is_some() } else { self.centre.insecure };
        if !trusted {
            return Err(ConfigError::Insecure(manager.clone()));
        }
        let trust = self.centre.authority.as_deref().map_or_else(|| Ok(Trust::none()), Trust::roots)?;
        Ok(if self.centre.insecure { trust.allowing(Insecure) } else { trust })
    }

    /// How Kerberos is spoken.
    pub(crate) fn kerberos(&self) -> Result<Kerberos, ConfigError> {
        const HELPER: &str = "latchkey-kerberos-helper";
        let helper = match &self.kerberos_helper {
            Some(helper) => helper.clone(),
            None => std::env::current_exe().map_err(ConfigError::Helper)?.with_file_name(HELPER),
        };
        Ok(Kerberos { helper, krb5_config: self.krb5_config.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../krb-keys.example.json");

    fn load(text: &str) -> Result<Config, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        Config::load(&path)
    }

    #[test]
    fn the_example_is_accepted() {
        let config = load(EXAMPLE).unwrap();
        let names = config.names();
        assert_eq!(
            (names.own.as_str(), names.flux.as_str()),
            ("op1krbkeys/Bolt@EXAMPLE.ORG", "op1flux/Bolt@EXAMPLE.ORG")
        );
        assert_eq!(config.own_principal(), names.own);
        assert_eq!(config.redeem.unwrap().patience_seconds, 300);
        let plain = load(&EXAMPLE.replace("  \"principal\": \"op1krbkeys/Bolt@EXAMPLE.ORG\",\n", "")).unwrap();
        assert_eq!(plain.own_principal(), names.own);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, named) in [
            ("\"schema\": 1", "\"schema\": 2", "schema"),
            ("\"Bolt\" }", "\"$(reboot)\" }", "name"),
            ("\"patience_seconds\": 300", "\"patience_seconds\": 0", "patience_seconds"),
            ("\"fplus-edge\"", "\"Edge\"", "namespace"),
            ("\"keytab\"", "\"keytabs\"", "keytabs"),
        ] {
            let text = EXAMPLE.replace(from, to);
            assert_ne!(text, EXAMPLE, "{from}");
            let error = load(&text).unwrap_err().to_string();
            assert!(error.contains(named), "{from}: {error}");
        }
        let other = load(&EXAMPLE.replace("\"op1krbkeys/Bolt@EXAMPLE.ORG\",", "\"op1krbkeys\","));
        assert!(other.unwrap_err().to_string().contains("principal"));
    }

    #[test]
    fn a_link_is_redeemed_where_somebody_vouches_for_the_manager() {
        let config = load(EXAMPLE).unwrap();
        let plain = config.trust(&"http://clusters.example.org".parse().unwrap());
        assert!(matches!(plain, Err(ConfigError::Insecure(_))));
        let without = load(&EXAMPLE.replace("    \"authority\": \"/etc/latchkey/centre/ca.pem\",\n", "")).unwrap();
        let refused = without.trust(&without.redeem.as_ref().unwrap().manager);
        assert!(matches!(refused, Err(ConfigError::Insecure(_))));
    }
}
