//! Approves and denies kubelets' certificates, where the cluster is kept in an API server.
//!
//! For each request that waits: who asks, and what for (`latchkey_kubelet_certificates`); what is on record of its ticket or its
//! node; the claim of the ticket, written; the answer, written into the request; its line. A crash between the last two leaves a
//! request that waits and a claim that names it: whoever looks next, this service or another, finds both and answers. Several
//! services at once make one claim, and one of their answers counts.
//!
//! A denial is final, so it is decided on records that are read for it: what another service wrote a moment ago may not have
//! been told here. What cannot be decided, read or written now is looked at again, ever more rarely. Several are answered at a time
//! ([`rounds`]).

mod again;
mod decide;
mod pulse;
mod rounds;

use crate::decision::Refusal;
use crate::denials::DenialCheck;
use crate::documents::CurrentCluster;
use crate::metrics::Metrics;
use crate::store::Store;
use decide::Approvals;
use latchkey_cluster_store::StoreError;
use latchkey_kubernetes_store::{KubernetesStore, is_overload};
pub(crate) use pulse::Pulse;
use rounds::Rounds;
use smol::channel::bounded;
use std::convert::Infallible;
use std::sync::Arc;

/// What a line shows of a name that the requester chose, in characters.
const MAX_NAME: usize = 128;

/// Why a request is not answered now.
#[derive(Debug)]
enum Later {
    /// The node has not reported yet, or its record is not known here yet.
    Waits,
    /// The records could not be read or written.
    Records(Refusal),
    /// The API server did not do what was asked.
    Api(StoreError),
    /// A fault of this program.
    Panicked,
}

impl Later {
    /// Whether others would fail as well.
    fn is_trouble(&self) -> bool {
        match self {
            Self::Waits | Self::Panicked => false,
            Self::Records(refusal) => {
                [Refusal::RecordNotWritten, Refusal::ClusterUnheard, Refusal::DenialsLost].contains(refusal)
            }
            Self::Api(error) => is_overload(error),
        }
    }
}

impl From<Refusal> for Later {
    fn from(refusal: Refusal) -> Self {
        Self::Records(refusal)
    }
}

impl From<StoreError> for Later {
    fn from(error: StoreError) -> Self {
        Self::Api(error)
    }
}

/// Answers what waits, until dropped.
pub(crate) async fn run(
    api: Arc<KubernetesStore>,
    store: Arc<Store>,
    known: (Arc<CurrentCluster>, DenialCheck),
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
) -> Infallible {
    let (tell, told) = bounded(1);
    let tell = move || {
        // Full: it is told already.
        let _ = tell.try_send(());
    };
    api.follow_requests(Box::new(tell));
    let approvals = Approvals::new(api, store, known, Arc::clone(&metrics));
    Rounds::new(Arc::new(approvals), metrics, pulse).run(&told).await
}
