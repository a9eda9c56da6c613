//! What the service proves itself with and where its keys come from, as it is now; and how it changes when the operator asks.

use crate::config::{Config, Limits, StoreConfig};
use crate::identity;
use crate::keys::KeySource;
use crate::watch::Look;
use latchkey_channel::PinnedKeyAttester;
use latchkey_keys::MasterSecret;
use latchkey_service_runtime::program::ProgramError;
use latchkey_service_runtime::reload::Reload;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Reads and checks the configuration, and what it names outside the cluster directory.
pub(crate) fn load(file: &Path) -> Result<(Config, PinnedKeyAttester, KeySource), ProgramError> {
    let config = Config::load(file).map_err(ProgramError::unusable)?;
    let identity = identity::load(&config.identity_key).map_err(ProgramError::unusable)?;
    let keys = match (&config.key_service, &config.master_secret_file) {
        (Some(service), _) => KeySource::remote(service).map_err(ProgramError::unusable)?,
        (None, Some(file)) => KeySource::embedded(
            MasterSecret::load(file)
                .map_err(|error| ProgramError::unusable(format!("{error}; {}", error.code().remedy())))?,
        ),
        (None, None) => return Err(ProgramError::unusable("there is no source of keys")),
    };
    Ok((config, identity, keys))
}

/// Connections take the identity of their beginning, calls the source of keys of theirs.
#[derive(Debug)]
pub(crate) struct Credentials {
    file: PathBuf,
    fixed: Fixed,
    in_force: RwLock<(Arc<PinnedKeyAttester>, Arc<KeySource>)>,
    look: Look,
}

/// The part of the configuration that needs a restart.
#[derive(Debug, PartialEq, Eq)]
struct Fixed {
    listen: SocketAddr,
    admin_listen: SocketAddr,
    cluster_directory: Option<PathBuf>,
    store: Option<StoreConfig>,
    limits: Limits,
}

impl Fixed {
    fn of(config: Config) -> Self {
        let Config { listen, admin_listen, cluster_directory, store, limits, .. } = config;
        Self { listen, admin_listen, cluster_directory, store, limits }
    }
}

impl Credentials {
    pub(crate) fn new(
        file: &Path,
        config: Config,
        identity: PinnedKeyAttester,
        keys: Arc<KeySource>,
        look: Look,
    ) -> Self {
        let in_force = RwLock::new((Arc::new(identity), keys));
        Self { file: file.to_owned(), fixed: Fixed::of(config), in_force, look }
    }

    pub(crate) fn identity(&self) -> Arc<PinnedKeyAttester> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner).0)
    }

    pub(crate) fn keys(&self) -> Arc<KeySource> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner).1)
    }
}

impl Reload for Credentials {
    /// The service's key, the certificates for the key service, the master secret; and a look at the cluster directory, each
    /// part of which is followed by itself.
    fn reload(&self) -> Result<(), String> {
        self.look.now();
        let (config, identity, keys) = load(&self.file).map_err(|failure| failure.to_string())?;
        if Fixed::of(config) != self.fixed {
            return Err(
                "`listen`, `admin_listen`, `cluster_directory`, `store` and `limits` change only with a restart"
                    .to_owned(),
            );
        }
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = (Arc::new(identity), Arc::new(keys));
        Ok(())
    }
}
