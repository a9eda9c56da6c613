//! Who is not shut out, as of when. Nobody gets a key, a ticket or a certificate without the witness that is made here.

use crate::decision::Refusal;
use crate::documents::CurrentCluster;
use latchkey_attestation::EkDigest;
use latchkey_attesting_service::follow::LOOK_ANYWAY;
use latchkey_cluster_store::{NotDenied, ReleaseRefusal};
use latchkey_kubernetes_store::KubernetesStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How old may be what is known of a cluster in a directory. It is looked at anew after [`LOOK_ANYWAY`] at the latest.
const UNREAD: Duration = LOOK_ANYWAY.saturating_add(Duration::from_secs(30));

/// Looks whether a machine is shut out, by the denials of this moment.
#[derive(Clone, Debug)]
pub(crate) struct DenialCheck {
    current: Arc<CurrentCluster>,
    /// Where the cluster is kept in an API server.
    api: Option<Arc<KubernetesStore>>,
    /// How old may be what is known of it.
    most: Duration,
    /// Disk keys that were released by what was known last.
    unheard: Arc<AtomicU64>,
}

impl DenialCheck {
    /// `api` says, too, how old may be what it told; a directory is read here.
    pub(crate) fn new(current: Arc<CurrentCluster>, api: Option<(Arc<KubernetesStore>, Duration)>) -> Self {
        let (api, most) = api.unzip();
        Self { current, api, most: most.unwrap_or(UNREAD), unheard: Arc::default() }
    }

    /// The witness that nobody shut this machine out.
    ///
    /// # Errors
    /// [`Refusal::Denied`]; [`Refusal::DenialsLost`] where a denial is missed; [`Refusal::ClusterUnheard`] where a denial, a revocation or a
    /// policy of the last while may not be known here.
    pub(crate) fn of(&self, ek: &EkDigest) -> Result<NotDenied, Refusal> {
        let not_denied = self.as_known(ek)?;
        if self.is_old(not_denied.as_of()) { Err(Refusal::ClusterUnheard) } else { Ok(not_denied) }
    }

    /// The same by what was known last, however old it is: for what nothing else can bring back while nobody answers. `None` where that
    /// is not so.
    pub(crate) fn unheard(&self, ek: &EkDigest) -> Option<Result<NotDenied, Refusal>> {
        let may = self.current.snapshot().policy.may_rejoin_unheard();
        let is_unanswered = self.api.as_ref().is_some_and(|api| api.is_unanswered());
        (may && is_unanswered).then(|| self.as_known(ek))
    }

    fn as_known(&self, ek: &EkDigest) -> Result<NotDenied, Refusal> {
        self.current.not_denied(ek).map_err(|refusal| match refusal {
            ReleaseRefusal::DenialsLost { .. } => Refusal::DenialsLost,
            _ => Refusal::Denied,
        })
    }

    /// Whether the records are known as of so long ago that one may be another by now.
    pub(crate) fn are_records_old(&self) -> bool {
        self.records_as_of().is_some_and(|as_of| self.is_old(as_of))
    }

    fn records_as_of(&self) -> Option<Instant> {
        self.api.as_ref()?.records_as_of()
    }

    fn is_old(&self, as_of: Instant) -> bool {
        as_of.elapsed() > self.most
    }

    /// A disk key was released by what was known last.
    pub(crate) fn count_unheard(&self) {
        self.unheard.fetch_add(1, Relaxed);
    }

    /// How many were.
    pub(crate) fn released_unheard(&self) -> u64 {
        self.unheard.load(Relaxed)
    }

    /// How old the oldest is of what the cluster decides by; `None` where it is kept in a directory.
    pub(crate) fn age(&self) -> Option<Duration> {
        Some(self.records_as_of()?.min(self.current.as_of()).elapsed())
    }

    /// What is to be said where a denial is missed, or that is too old to decide by.
    pub(crate) fn problem(&self) -> Option<String> {
        if let Err(lost) = self.current.snapshot().denials.check_complete() {
            return Some(format!("{}: {lost}; {}", lost.code(), lost.code().remedy()));
        }
        if self.api.is_none() {
            let age = Some(self.current.as_of().elapsed()).filter(|age| *age > self.most)?;
            return Some(format!(
                "{}: the denials could not be read in the cluster's directory for {} s, and nobody is let in{}",
                Refusal::ClusterUnheard,
                age.as_secs(),
                self.why()
            ));
        }
        let age = self.age().filter(|age| *age > self.most)?;
        let released = self.released_unheard();
        Some(format!(
            "{}: nothing complete was heard of the cluster for {} s, and nobody new is let in; control planes that got their disk key \
             by what was known last: {released}{}",
            Refusal::ClusterUnheard,
            age.as_secs(),
            self.why()
        ))
    }

    /// Why the denials in force are of before, where that is known.
    fn why(&self) -> String {
        let behind = self.current.behind().into_iter().find(|behind| behind.part == "denials");
        behind.map_or_else(String::new, |behind| format!(": {}", behind.why))
    }
}
