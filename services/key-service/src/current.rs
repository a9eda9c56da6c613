//! What was read from files and counts now; and how it changes when the operator asks.

use crate::callers::Caller;
use crate::config::{CallerRule, ClusterConfig, Config};
use crate::decision::{Asked, Decision, Gate};
use crate::tls;
use futures_rustls::TlsAcceptor;
use latchkey_keys::MasterSecret;
use latchkey_service_runtime::config::{ConfigFile as _, MetricsConfig};
use latchkey_service_runtime::guarded;
use latchkey_service_runtime::program::ProgramError;
use latchkey_service_runtime::reload::Reload;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Everything that was read from files and found good.
pub(crate) struct Prepared {
    pub(crate) config: Config,
    pub(crate) master: MasterSecret,
    pub(crate) acceptor: TlsAcceptor,
}

impl Prepared {
    /// Reads and checks everything that the service needs from files.
    pub(crate) fn load(file: &Path) -> Result<Self, ProgramError> {
        let config = Config::load(file).map_err(ProgramError::unusable)?;
        let master = MasterSecret::load(&config.master_secret)
            .map_err(|error| ProgramError::unusable(format!("{error}; {}", error.code().remedy())))?;
        if let Some(ClusterConfig { cluster_id, measurement_salt, key_version }) = &config.cluster {
            cluster_id.prove(&master, *key_version, measurement_salt).map_err(|error| {
                let file = config.master_secret.display();
                ProgramError::unusable(format!("{file}: {error}; {}", error.code().remedy()))
            })?;
        }
        let acceptor = tls::acceptor(&config.tls).map_err(ProgramError::unusable)?;
        guarded::check(config.metrics.as_ref()).map_err(ProgramError::unusable)?;
        Ok(Self { config, master, acceptor })
    }
}

/// The rules for calls, with the secret behind them.
pub(crate) struct Rules {
    callers: Vec<CallerRule>,
    gate: Mutex<Gate>,
}

impl Rules {
    pub(crate) fn callers(&self) -> &[CallerRule] {
        &self.callers
    }

    /// Decides a call of a caller that was identified by these rules.
    pub(crate) fn decide(&self, caller: Caller, asked: Asked<'_>, now: Duration) -> Decision {
        // A panic elsewhere cannot leave the gate half-changed: it holds counters and the secret, which never changes.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner).handle(caller, asked, now)
    }
}

/// What counts now. Connections take the acceptor of their beginning, calls the rules of theirs.
pub(crate) struct Current {
    file: PathBuf,
    /// As it was at the start: what a reload cannot change.
    fixed: Fixed,
    in_force: RwLock<(TlsAcceptor, Arc<Rules>)>,
}

/// The part of the configuration that needs a restart.
#[derive(PartialEq, Eq)]
struct Fixed {
    listen: std::net::SocketAddr,
    admin_listen: std::net::SocketAddr,
    metrics: Option<MetricsConfig>,
    limits: crate::config::Limits,
}

impl Current {
    pub(crate) fn new(file: PathBuf, prepared: Prepared) -> Self {
        let (fixed, in_force) = parts(prepared);
        Self { file, fixed, in_force: RwLock::new(in_force) }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.in_force.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner).1)
    }
}

fn parts(Prepared { config, master, acceptor }: Prepared) -> (Fixed, (TlsAcceptor, Arc<Rules>)) {
    let (metrics, limits) = (config.metrics, config.limits);
    let fixed = Fixed { listen: config.listen, admin_listen: config.admin_listen, metrics, limits };
    let gate = Mutex::new(Gate::new(master, &config.callers));
    (fixed, (acceptor, Arc::new(Rules { callers: config.callers, gate })))
}

impl Reload for Current {
    /// Certificates, authorities, rules and the master secret. Open connections go on, and are judged by the new rules.
    fn reload(&self) -> Result<(), String> {
        let (fixed, next) = parts(Prepared::load(&self.file).map_err(|failure| failure.to_string())?);
        if fixed != self.fixed {
            return Err("`listen`, `admin_listen`, `metrics` and `limits` change only with a restart".to_owned());
        }
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }
}

impl std::fmt::Debug for Current {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current").field("file", &self.file).finish_non_exhaustive()
    }
}
