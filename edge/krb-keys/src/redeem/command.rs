//! `krb-keys redeem`.

use latchkey_service_runtime::config::ConfigFile as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use latchkey_connection_limits::Backoff;
use latchkey_edge_service::connect;
use latchkey_service_runtime::program::ProgramError;

use super::edge::{Edge, Link};
use super::redeem;
use crate::config::{Config, ConfigError};
use crate::failure::Failure;
use crate::kubernetes::Secrets;
use crate::names::Names;

/// The longest pause between two attempts, in milliseconds.
const PAUSE_MS: u64 = 5000;

/// Everything that was read and checked.
pub(crate) struct Prepared {
    names: Names,
    edge: Edge,
    patience: Duration,
    manager: String,
}

impl Prepared {
    pub(crate) fn load(file: &Path) -> Result<Self, ProgramError> {
        let config = Config::load(file).map_err(ProgramError::unusable)?;
        let section = config.redeem.clone().ok_or(ConfigError::Missing("redeem")).map_err(ProgramError::unusable)?;
        let connection = connect(config.kubernetes.as_ref()).map_err(ProgramError::unusable)?;
        let secrets = Secrets::of(Arc::new(connection), config.namespace.as_str());
        let trust = config.trust(&section.manager).map_err(ProgramError::unusable)?;
        let manager = section.manager.to_string();
        let link =
            Link { manager: section.manager, trust, token_file: section.token_file, cluster: config.cluster.uuid };
        let kerberos = config.kerberos().map_err(ProgramError::unusable)?;
        let names = config.names();
        let patience = Duration::from_secs(section.patience_seconds.into());
        Ok(Self { names, edge: Edge::new(secrets, link, kerberos), patience, manager })
    }

    /// What it would do, for `--check`.
    pub(crate) fn describe(&self) -> String {
        format!(
            "- redeem the bootstrap link at {}, unless the keys in its Secrets serve\n\
             - take over {}, and see to {}\n\
             - try for {} s\n",
            self.manager,
            self.names.own,
            self.names.flux,
            self.patience.as_secs()
        )
    }
}

/// Redeems the link; what is away is asked again for a while.
pub(crate) fn run(prepared: Prepared) -> Result<(), ProgramError> {
    let Prepared { names, edge, patience, .. } = prepared;
    let (begin, mut backoff) = (Instant::now(), Backoff::new(std::process::id().into()).up_to(PAUSE_MS));
    smol::block_on(async {
        loop {
            let failure = match redeem(&edge, &names).await {
                Ok(()) => {
                    tracing::info!(cluster = %names.cluster, taken = ?begin.elapsed(), "This cluster has its keys");
                    return Ok(());
                }
                Err(failure) => failure,
            };
            match failure {
                Failure::Again(why) if begin.elapsed() < patience => {
                    tracing::warn!(why, "Not yet; it is tried again");
                    smol::Timer::after(Duration::from_millis(backoff.next_ms())).await;
                }
                failure => return Err(ProgramError::running(failure)),
            }
        }
    })
}
