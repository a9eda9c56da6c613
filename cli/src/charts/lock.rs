//! One operator at a time changes a cluster's charts: a `Lease` in the cluster, named by who holds it.
//!
//! It is held when it was seen unchanged *here* for its whole time, whatever the clocks say; so a run that was interrupted is
//! followed by the next one after that time, and one that goes on is never taken over.

use std::time::{Duration, Instant};

use latchkey_attestation::reference::format_rfc3339;
use serde::{Deserialize, Serialize};
use smol::Timer;
use smol::future::FutureExt as _;

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::output::{Output, printable};
use crate::stock::{Kubectl, Scope, StockCode, StockError};
use crate::trust::now;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "latchkey-charts";
/// For how long it is held once it was written.
const HELD: Duration = Duration::from_secs(30);
/// How often it is written anew.
const RENEWED: Duration = Duration::from_secs(8);
/// How often it is looked at while somebody else holds it.
const LOOK: Duration = Duration::from_secs(2);
/// How often others may be quicker.
const TRIES: usize = 8;

/// The lock, held.
#[derive(Debug)]
pub(crate) struct Lock {
    kubectl: Kubectl,
    lease: Lease,
    /// Whether the one before did not give it back: what is half done is its work, and nobody is at it.
    pub(crate) taken_over: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lease {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder_identity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_duration_seconds: Option<u64>,
    /// For whoever looks at it; nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    renew_time: Option<String>,
}

impl Lock {
    /// Takes the lock. Somebody else who goes on holding it is named; one who went away is waited out.
    pub(crate) async fn take(kubectl: &Kubectl, output: &Output) -> Result<Self, CommandError> {
        let mut waited: Option<(String, Instant)> = None;
        for _ in 0..TRIES {
            let known: Option<Lease> =
                kubectl.get("leases.coordination.k8s.io", Scope::Namespace(NAMESPACE), NAME).await?;
            let held = known.as_ref().and_then(|lease| Some((lease.holder()?.to_owned(), lease.version())));
            let mut taken_over = false;
            if let Some((holder, version)) = held {
                let (first, since) = waited.get_or_insert_with(|| (version.clone(), Instant::now()));
                if *first != version {
                    return Err(busy(&holder));
                }
                output.waiting(&format!("{} worked on the charts, and may be gone", printable(&holder)));
                if !unchanged(kubectl, &version, *since).await? {
                    continue;
                }
                taken_over = true;
            }
            let written = match known.as_ref().map(Lease::version) {
                None => kubectl.create(&Lease::of_mine(None).json()?).await,
                Some(version) => kubectl.replace(&Lease::of_mine(Some(version)).json()?).await,
            };
            match written {
                Ok(lease) => return Ok(Self { kubectl: kubectl.uninterrupted(), lease, taken_over }),
                Err(error) if lost(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(busy("others, one after the other,"))
    }

    /// Does the work while the lock is held. It is given back afterwards, unless the work was interrupted: then the next run
    /// has to know that something is half done.
    pub(crate) async fn held<T>(
        mut self,
        work: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        let done = work.or(self.keep()).await;
        let interrupted = |error: &CommandError| error.code == StockCode::Interrupted.into();
        let lost = |error: &CommandError| error.code == CommandCode::LockLost.into();
        if !done.as_ref().err().is_some_and(|error| interrupted(error) || lost(error)) {
            self.lease.spec = Spec::default();
            // Not given back it ends by itself; what was done is done.
            drop(self.kubectl.replace::<Lease>(&self.lease.json()?).await);
        }
        done
    }

    /// Writes it anew, again and again; ends only when it is lost.
    async fn keep<T>(&mut self) -> Result<T, CommandError> {
        let mut written = Instant::now();
        loop {
            Timer::after(RENEWED).await;
            let lease = Lease::of_mine(Some(self.lease.version()));
            match self.kubectl.replace(&lease.json()?).await {
                Ok(lease) => {
                    self.lease = lease;
                    written = Instant::now();
                }
                // Somebody else has it, or the API server has been away for longer than it is ours.
                Err(error) if lost(&error) || written.elapsed() >= HELD => {
                    let failure =
                        CommandError::local(CommandCode::LockLost, "the lock on the cluster's charts was lost");
                    return Err(failure.because(error.to_string()));
                }
                Err(_) => {}
            }
        }
    }
}

/// Whether the lease stays as it is until it has ended.
async fn unchanged(kubectl: &Kubectl, version: &str, since: Instant) -> Result<bool, CommandError> {
    while since.elapsed() < HELD {
        Timer::after(LOOK).await;
        let lease: Option<Lease> = kubectl.get("leases.coordination.k8s.io", Scope::Namespace(NAMESPACE), NAME).await?;
        if lease.is_none_or(|lease| lease.version() != version) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Lease {
    fn of_mine(version: Option<String>) -> Self {
        let spec = Spec {
            holder_identity: Some(my_name()),
            lease_duration_seconds: Some(HELD.as_secs()),
            renew_time: Some(format_rfc3339(now()).replace('Z', ".000000Z")),
        };
        let metadata = Metadata { name: NAME.into(), namespace: NAMESPACE.into(), resource_version: version };
        Self { api_version: "coordination.k8s.io/v1".into(), kind: "Lease".into(), metadata, spec }
    }

    fn holder(&self) -> Option<&str> {
        self.spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    fn version(&self) -> String {
        self.metadata.resource_version.clone().unwrap_or_default()
    }

    fn json(&self) -> Result<Vec<u8>, CommandError> {
        serde_json::to_vec(self).map_err(|error| CommandError::local(StockCode::Malformed, error.to_string()))
    }
}

/// Somebody else was quicker.
fn lost(error: &StockError) -> bool {
    [StockCode::Conflict, StockCode::ObjectExists, StockCode::ObjectMissing].into_iter().any(|code| error.is(code))
}

/// User, machine and process: whom to ask.
fn my_name() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".into());
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    let short = |text: &str| text.chars().filter(|c| !c.is_control()).take(64).collect::<String>();
    format!("{}@{} (process {})", short(&user), short(&machine), std::process::id())
}

fn busy(holder: &str) -> CommandError {
    CommandError::local(CommandCode::ChartsBusy, format!("{} works on this cluster's charts", printable(holder)))
}
