//! `krb-keys run`.

use latchkey_service_runtime::config::ConfigFile as _;
use std::path::Path;
use std::sync::Arc;

use latchkey_edge_service::{connect, work};
use latchkey_factory_plus::{Realm, Upn};
use latchkey_kerberos::AdminKey;
use latchkey_kubernetes_client::Connection;
use latchkey_service_runtime::pages::{PagesConfig, VersionPage};
use latchkey_service_runtime::program::ProgramError;

use super::account::Accounts;
use super::act::Act;
use super::object::Objects;
use super::work::Work;
use crate::config::{Config, ConfigError};
use crate::kubernetes::Secrets;

/// Keys that are tried at once.
const HELPERS: usize = 2;

/// Everything that was read and checked.
pub(crate) struct Prepared {
    act: Act,
    connection: Arc<Connection>,
    namespace: String,
    realm: Realm,
    principal: Upn,
    pages: Option<PagesConfig>,
}

impl Prepared {
    pub(crate) fn load(file: &Path) -> Result<Self, ProgramError> {
        let config = Config::load(file).map_err(ProgramError::unusable)?;
        let keytab = config.keytab.clone().ok_or(ConfigError::Missing("keytab")).map_err(ProgramError::unusable)?;
        let principal = config.own_principal();
        let account = config.account.as_ref();
        let client =
            account.map(|account| config.centre.client(account)).transpose().map_err(ProgramError::unusable)?;
        let connection = Arc::new(connect(config.kubernetes.as_ref()).map_err(ProgramError::unusable)?);
        let namespace = config.namespace.as_str().to_owned();
        let kerberos = config.kerberos().map_err(ProgramError::unusable)?;
        let act = Act {
            secrets: Secrets::of(Arc::clone(&connection), &namespace),
            objects: Objects::of(Arc::clone(&connection), &namespace, &config.realm),
            admin: kerberos.admin(&principal, AdminKey::Keytab(keytab)),
            holder: kerberos.holder(HELPERS),
            own: principal.clone(),
            accounts: client.map(|client| Accounts::of(&client, config.cluster.uuid)),
        };
        let pages = config.pages.clone();
        Ok(Self { act, connection, namespace, realm: config.realm.clone(), principal, pages })
    }

    /// What it would do, for `--check`.
    pub(crate) fn describe(&self) -> String {
        let accounts = if self.act.accounts.is_some() { "with" } else { "without" };
        format!(
            "- keep the keys that KerberosKeys and LocalSecrets in the namespace {} ask for\n- be {} at kadmind\n- do so {accounts} accounts at the centre\n",
            self.namespace, self.principal,
        )
    }
}

/// Keeps keys until it is told to stop.
pub(crate) fn run(prepared: Prepared) -> Result<(), ProgramError> {
    let Prepared { act, connection, namespace, realm, pages, .. } = prepared;
    work("krb-keys", (pages, VersionPage("latchkey_krb_keys_")), Work::new(act, &connection, &namespace, &realm).run())
}
