//! What is done at the centre for a cluster that is on record. Each step may be done again.

use crate::decision::{Record, Refusal};
use latchkey_factory_plus::cluster::Configuration;
use latchkey_factory_plus::manager::{BootstrapManifests, Cluster, ManifestsRequest, NameAnswer, Phase};
use latchkey_factory_plus::uuids::{application, class, service};
use latchkey_factory_plus::{ClusterName, Uuid};
use latchkey_factory_plus_client::{CallError, Client, ConfigDb, Precondition, Service};
use smol::future::{self, FutureExt as _};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a call waits for a cluster's set-up; the node asks again.
const PATIENCE: Duration = Duration::from_secs(45);
/// Between two questions whether the centre knows already that a new cluster is ours.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// The centre. Clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Centre {
    config_db: ConfigDb,
    manager: Service,
}

/// What somebody lacks who wants to be told of a cluster.
#[derive(Debug)]
pub(crate) struct Hindrance {
    pub(crate) refusal: Refusal,
    pub(crate) detail: String,
}

impl Centre {
    pub(crate) fn new(client: &Client) -> Self {
        Self { config_db: ConfigDb::of(client), manager: client.service(service::CLUSTER_MANAGER) }
    }

    /// Why a new cluster cannot be called so, if that is so.
    pub(crate) async fn name_refusal(&self, name: &ClusterName) -> Result<Option<String>, Hindrance> {
        let path = format!("v1/name/{name}");
        let answer = self.manager.read::<NameAnswer>(&path).await?;
        let NameAnswer { free, reason } = answer.ok_or_else(|| Hindrance {
            refusal: Refusal::CentreRefused,
            detail: format!("the cluster manager has no {path}: it is older than this service"),
        })?;
        Ok((!free).then(|| reason.unwrap_or_default()))
    }

    /// Makes the object of a cluster, says who registered it, and configures it: then the cluster manager sets it up. Whatever of
    /// that is done already comes to the same; a cluster whose configuration is gone since is not made again.
    pub(crate) async fn configure(&self, record: &Record) -> Result<(), Hindrance> {
        let cluster = record.cluster;
        let app = application::EDGE_CLUSTER_CONFIGURATION;
        if record.configured {
            let known = self.config_db.entry::<Configuration>(app, cluster).await?;
            let deleted = || Hindrance { refusal: Refusal::Deleted, detail: format!("{cluster} has no configuration") };
            return known.map(|_| ()).ok_or_else(deleted);
        }
        let (_, made) = self.config_db.create_object(class::EDGE_CLUSTER, Some(cluster)).await?;
        if made.class != class::EDGE_CLUSTER {
            let detail = format!("{cluster} has the class {}", made.class);
            return Err(Hindrance { refusal: Refusal::CentreRefused, detail });
        }
        let (registered, configured) = (record.registration(), record.configuration());
        let register = async {
            let app = application::EDGE_CLUSTER_REGISTRATION;
            self.config_db.put_entry(app, cluster, &registered, &Precondition::None).await
        };
        let configure = async {
            match self.config_db.put_entry(app, cluster, &configured, &Precondition::Absent).await {
                // It was written before, and may have been changed since.
                Err(CallError::PreconditionFailed(_)) => Ok(()),
                written => written.map(drop),
            }
        };
        future::try_zip(register, configure).await?;
        Ok(())
    }

    /// Which of these clusters, whose configurations were written once, have nothing at the centre any more.
    ///
    /// Neither a configuration nor a setup status: the cluster manager removes the status last, when principals, accounts and
    /// repository are gone. The configurations are read first: a cluster without one gets no status any more, but where the
    /// cluster manager is late; and then it refuses the name for that long, since no name counts that it has not accepted.
    pub(crate) async fn ended(&self, clusters: &[Uuid]) -> Result<Vec<Uuid>, Hindrance> {
        let configured = self.entries(application::EDGE_CLUSTER_CONFIGURATION).await?;
        let set_up = self.entries(application::EDGE_CLUSTER_SETUP_STATUS).await?;
        let ended = clusters.iter().filter(|cluster| !configured.contains(cluster) && !set_up.contains(cluster));
        Ok(ended.copied().collect())
    }

    /// The objects that have an entry of an application.
    async fn entries(&self, app: Uuid) -> Result<BTreeSet<Uuid>, Hindrance> {
        let none = || Hindrance { refusal: Refusal::CentreRefused, detail: format!("there is no application {app}") };
        Ok(self.config_db.entries(app).await?.ok_or_else(none)?.into_iter().collect())
    }

    /// Waits until a cluster is set up.
    pub(crate) async fn ready(&self, cluster: Uuid) -> Result<(), Hindrance> {
        let mut status = self.config_db.watch_entry(application::EDGE_CLUSTER_SETUP_STATUS, cluster);
        let ready = async {
            loop {
                let body = status.reading().and_then(|reading| reading.body);
                if body.is_some_and(|body| body.get("ready").and_then(serde_json::Value::as_bool) == Some(true)) {
                    return true;
                }
                status.changed().await;
            }
        };
        if ready.or(too_long()).await {
            return Ok(());
        }
        Err(self.why_not(cluster).await)
    }

    /// Its manifests, with a link that takes the place of those that were made before.
    pub(crate) async fn manifests(&self, cluster: Uuid) -> Result<BootstrapManifests, Hindrance> {
        let asked = ManifestsRequest { replaces_own: true };
        let path = format!("v1/cluster/{cluster}/manifests");
        let asking = async {
            loop {
                match self.manager.post(&path, &asked).await {
                    Ok((_, manifests)) => return Ok(manifests),
                    // Whose a new cluster is the cluster manager hears from the authorisation service, which hears it from the
                    // configuration database.
                    Err(CallError::Forbidden { .. }) => smol::Timer::after(ASK_AGAIN).await,
                    Err(error) => return Err(Hindrance::from(error)),
                };
            }
        };
        let late = async {
            too_long().await;
            let detail = format!("{path}: still forbidden after {} s", PATIENCE.as_secs());
            Err(Hindrance { refusal: Refusal::CentreRefused, detail })
        };
        asking.or(late).await
    }

    /// What the cluster manager says of a cluster that is not ready.
    async fn why_not(&self, cluster: Uuid) -> Hindrance {
        let known = self.manager.read::<Cluster>(&format!("v1/cluster/{cluster}/status")).await;
        match known {
            Ok(Some(Cluster { phase, error: Some(problem), .. })) => {
                let given_up = phase == Phase::Refused || !problem.retried;
                let refusal = if given_up { Refusal::CentreRefused } else { Refusal::BeingSetUp };
                Hindrance { refusal, detail: format!("{}; {}", problem.message, problem.fix) }
            }
            Ok(_) => Hindrance { refusal: Refusal::BeingSetUp, detail: "it is not set up yet".to_owned() },
            Err(error) => error.into(),
        }
    }
}

async fn too_long() -> bool {
    smol::Timer::after(PATIENCE).await;
    false
}

impl From<CallError> for Hindrance {
    fn from(error: CallError) -> Self {
        let again = error.is_transient() || matches!(error, CallError::Conflict { .. });
        let refusal = if again { Refusal::BeingSetUp } else { Refusal::CentreRefused };
        Self { refusal, detail: error.to_string() }
    }
}
