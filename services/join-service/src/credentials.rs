//! What the service proves itself with and where its keys come from, as it is now; and how it changes when the operator asks.

use crate::config::{Config, StoreConfig};
use crate::control_plane::ControlPlaneKeys;
use crate::decision::Refusal;
use crate::documents::CurrentCluster;
use crate::keys::KeySource;
use crate::service_files::InsideFiles;
use crate::watch::Look;
use latchkey_attesting_service::{Limits, identity};
use latchkey_channel::PinnedKeyAttester;
use latchkey_cluster_store::{ClusterFile, ClusterMaterial};
use latchkey_keys::{KeyError, MasterSecret};
use latchkey_service_runtime::config::{ConfigFile as _, MetricsConfig};
use latchkey_service_runtime::guarded;
use latchkey_service_runtime::program::ProgramError;
use latchkey_service_runtime::reload::Reload;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// What the configuration names outside the cluster directory.
#[derive(Debug)]
pub(crate) struct Secrets {
    pub(crate) identity: PinnedKeyAttester,
    pub(crate) keys: KeySource,
    pub(crate) control_plane: Option<ControlPlaneKeys>,
    pub(crate) inside: Option<InsideFiles>,
}

impl Secrets {
    /// Whether what lies here of a master secret is the cluster's: with another one every machine would be refused, one by one.
    pub(crate) fn check(&self, config: &Config, cluster: Option<&ClusterFile>) -> Result<(), ProgramError> {
        let Some(cluster) = cluster else { return Ok(()) };
        let foreign = |path: Option<&Path>, error: KeyError| {
            let path = path.unwrap_or(Path::new("")).display();
            ProgramError::unusable(format!("{path}: {error}; {}", error.code().remedy()))
        };
        self.keys.check(cluster).map_err(|error| foreign(config.master_secret_file.as_deref(), error))?;
        let inside = self.inside.as_ref().map_or(Ok(()), |inside| inside.check(cluster));
        inside.map_err(|error| foreign(config.service_files.as_deref(), error))
    }
}

/// Reads and checks the configuration, and what it names outside the cluster directory.
pub(crate) fn load(file: &Path) -> Result<(Config, Secrets), ProgramError> {
    let config = Config::load(file).map_err(ProgramError::unusable)?;
    guarded::check(config.metrics.as_ref()).map_err(ProgramError::unusable)?;
    let identity = identity::load(&config.identity_key).map_err(ProgramError::unusable)?;
    let keys = match (&config.key_service, &config.master_secret_file) {
        (Some(service), _) => KeySource::remote(service).map_err(ProgramError::unusable)?,
        (None, Some(file)) => KeySource::embedded(
            MasterSecret::load(file)
                .map_err(|error| ProgramError::unusable(format!("{error}; {}", error.code().remedy())))?,
        ),
        (None, None) => return Err(ProgramError::unusable("there is no source of keys")),
    };
    let control_plane = config.control_plane_files.as_deref().map(ControlPlaneKeys::read).transpose();
    let control_plane = control_plane.map_err(ProgramError::unusable)?;
    let inside = config.service_files.as_deref().map(InsideFiles::read).transpose().map_err(ProgramError::unusable)?;
    Ok((config, Secrets { identity, keys, control_plane, inside }))
}

/// Connections take the identity of their beginning, calls the source of keys of theirs.
#[derive(Debug)]
pub(crate) struct Credentials {
    file: PathBuf,
    fixed: Fixed,
    in_force: RwLock<InForce>,
    current: Arc<CurrentCluster>,
    look: Look,
}

#[derive(Debug)]
struct InForce {
    identity: Arc<PinnedKeyAttester>,
    keys: Arc<KeySource>,
    control_plane: Option<Arc<ControlPlaneKeys>>,
    inside: Option<Arc<InsideFiles>>,
}

impl From<Secrets> for InForce {
    fn from(Secrets { identity, keys, control_plane, inside }: Secrets) -> Self {
        Self {
            identity: Arc::new(identity),
            keys: Arc::new(keys),
            control_plane: control_plane.map(Arc::new),
            inside: inside.map(Arc::new),
        }
    }
}

/// The part of the configuration that needs a restart.
#[derive(Debug, PartialEq, Eq)]
struct Fixed {
    listen: SocketAddr,
    admin_listen: SocketAddr,
    metrics: Option<MetricsConfig>,
    cluster_directory: Option<PathBuf>,
    store: Option<StoreConfig>,
    denial_socket: Option<PathBuf>,
    limits: Limits,
}

impl Fixed {
    fn of(config: Config) -> Self {
        let Config { listen, admin_listen, metrics, cluster_directory, store, denial_socket, limits, .. } = config;
        Self { listen, admin_listen, metrics, cluster_directory, store, denial_socket, limits }
    }
}

impl Credentials {
    pub(crate) fn new(file: &Path, config: Config, secrets: Secrets, current: Arc<CurrentCluster>, look: Look) -> Self {
        let (file, fixed, in_force) = (file.to_owned(), Fixed::of(config), RwLock::new(secrets.into()));
        Self { file, fixed, in_force, current, look }
    }

    pub(crate) fn identity(&self) -> Arc<PinnedKeyAttester> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner).identity)
    }

    pub(crate) fn keys(&self) -> Arc<KeySource> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner).keys)
    }

    /// What control planes of this cluster share.
    pub(crate) fn control_plane_keys(&self, cluster: &ClusterMaterial) -> Result<Arc<ControlPlaneKeys>, Refusal> {
        let known = self.in_force.read().unwrap_or_else(PoisonError::into_inner).control_plane.clone();
        let known = known.ok_or(Refusal::ControlPlaneFilesMissing)?;
        if known.are_of(&cluster.authority) { Ok(known) } else { Err(Refusal::ControlPlaneFilesForeign) }
    }

    /// What the services of another control plane read, where they run inside the cluster.
    pub(crate) fn inside_files(&self) -> Option<Arc<InsideFiles>> {
        self.in_force.read().unwrap_or_else(PoisonError::into_inner).inside.clone()
    }
}

impl Reload for Credentials {
    /// The service's key, the certificates for the key service, the master secret; and a look at the cluster directory, each
    /// part of which is followed by itself.
    fn reload(&self) -> Result<(), String> {
        self.look.now();
        let (config, secrets) = load(&self.file).map_err(|failure| failure.to_string())?;
        let cluster = self.current.snapshot().own.cluster.clone();
        secrets.check(&config, cluster.as_deref()).map_err(|failure| failure.to_string())?;
        if Fixed::of(config) != self.fixed {
            return Err(
                "`listen`, `admin_listen`, `metrics`, `cluster_directory`, `store`, `denial_socket` and `limits` change only \
                  with a restart"
                    .to_owned(),
            );
        }
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = secrets.into();
        Ok(())
    }
}
