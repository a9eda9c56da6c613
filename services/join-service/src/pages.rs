//! `/metrics` and `/healthz`: what is in memory. Nothing here waits for a disk, a peer or the key service.

use crate::api_certificate;
use crate::approver::Pulse;
use crate::decision::Warning;
use crate::denials::DenialCheck;
use crate::documents::{ClusterSnapshot, CurrentCluster};
use crate::metrics::{Gauges, Metrics};
use crate::service::LastKeyError;
use crate::store::Store;
use latchkey_attestation::EkDigest;
use latchkey_attesting_service::clock::unix;
use latchkey_attesting_service::ending::soon;
use latchkey_cluster_store::{DamagedRecord, Recorded};
use latchkey_kubernetes_store::KubernetesStore;
use latchkey_service_runtime::admin::Admin;
use latchkey_service_runtime::connections::ConnectionTable;
use latchkey_service_runtime::reload::Reloads;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Files that are named on a page; all of them are in the log.
const MOST_NAMED: usize = 32;

pub(crate) struct Pages {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) current: Arc<CurrentCluster>,
    pub(crate) denials: DenialCheck,
    pub(crate) store: Arc<Store>,
    pub(crate) last_key_error: Arc<LastKeyError>,
    /// How long the configuration in use may be behind the directory before the service counts as unable to do its work.
    pub(crate) stale: Duration,
    pub(crate) table: ConnectionTable,
    pub(crate) reloads: Reloads,
    /// Where the cluster is kept in an API server: who approves certificates there.
    pub(crate) approvals: Option<(Arc<KubernetesStore>, Arc<Pulse>)>,
}

impl Pages {
    /// Shut out at this service alone.
    fn denied_here(&self, snapshot: &ClusterSnapshot) -> impl Iterator<Item = EkDigest> {
        self.current.told().into_iter().filter(|ek| !snapshot.denials.has(ek))
    }

    fn certificate_ends(&self) -> Option<u64> {
        self.approvals.as_ref().and_then(|(api, _)| api.certificate_ends())
    }
}

impl Admin for Pages {
    fn metrics(&self) -> String {
        let now = self.store.now();
        let (nodes, leased, firmware_changed, damaged) = self.store.look(|state| {
            let files = state.damage().iter().take(MOST_NAMED).map(|record| record.file.clone()).collect();
            (state.len(), state.is_leased(now), state.firmware_changed().count(), (files, state.damage().len()))
        });
        let (snapshot, held) = (self.current.snapshot(), self.store.held());
        let denied_here = self.denied_here(&snapshot).count();
        let mut page = self.metrics.render(&Gauges {
            nodes,
            leased,
            firmware_changed,
            damaged,
            records_busy: self.store.busy(),
            records_usable: self.store.problem().is_none(),
            unheard: self.denials.age(),
            released_unheard: self.denials.released_unheard(),
            denied: snapshot.denials.iter().count() + denied_here,
            denied_here,
            held: held.map(|held| held.iter().filter(|ek| !snapshot.denials.has(ek)).count()),
            initialised: snapshot.own.cluster.is_some(),
            followed: self.current.followed(),
            behind: self.current.behind(),
            serials: self.current.serials(),
            reloads: self.current.reloads(),
            api_certificate_ends: self.certificate_ends(),
            collateral_ends: snapshot.collateral_ends().map(|(_, ends)| ends),
        });
        self.table.render(&mut page);
        self.reloads.render(&mut page);
        page.into_text()
    }

    fn health(&self) -> Result<Vec<String>, String> {
        if let Some(error) = self.last_key_error.read() {
            return Err(error);
        }
        if let Some(problem) = self.denials.problem() {
            return Err(problem);
        }
        if let Some(problem) = self.store.problem() {
            return Err(format!("records-unavailable: {problem}"));
        }
        if let Some(stopped) = self.approvals.as_ref().and_then(|(_, pulse)| pulse.problem(Instant::now())) {
            return Err(stopped);
        }
        let behind = self.current.behind();
        if let Some(behind) = behind.iter().find(|behind| behind.age >= self.stale) {
            return Err(format!(
                "config-stale: {} has been stale for {} s: {}",
                behind.part,
                behind.age.as_secs(),
                behind.why
            ));
        }
        let stale = behind.into_iter().map(|behind| format!("{} is stale: {}", behind.part, behind.why));
        let snapshot = self.current.snapshot();
        let waiting = snapshot.own.cluster.is_none().then(|| "the cluster is not initialised yet".to_owned());
        let uncounted = (!snapshot.own.counts()).then(|| {
            let nobody = if snapshot.own.gives() { "" } else { "no machine gets a new name or disk, and " };
            format!("denial-count-missing: {nobody}a denial that gets lost is not missed: once all services are of this release, run `latchkey upgrade store`")
        });
        // They cost the machines that they name; the others are served.
        let damaged = self.store.look(|state| {
            let line = |record: &DamagedRecord| format!("records-damaged: {:?}: {:?}", record.file, record.why);
            state.damage().iter().take(MOST_NAMED).map(line).collect::<Vec<_>>()
        });
        let unclear = self.store.unclear().into_iter().take(MOST_NAMED).map(|(ek, others)| {
            let others = others.into_iter().take(MOST_NAMED).collect::<Vec<_>>().join(", ");
            format!("records-damaged: {ek} names what {others} names, and which was first is not known: remove one of these machines")
        });
        let changed = self.store.look(|state| {
            let line = |record: &Recorded| format!("{}: {}", Warning::FirmwareChanged, record.name);
            state.firmware_changed().take(MOST_NAMED).map(line).collect::<Vec<_>>()
        });
        let no_denials = snapshot.denials.unreadable().iter().take(MOST_NAMED);
        let no_denials = no_denials.map(|name| format!("denials: {name} is no EK digest and denies nothing"));
        let denied_here = self.denied_here(&snapshot).take(MOST_NAMED).map(|ek| {
            format!("denials: {ek} is denied at this service alone, until it ends: run `latchkey node deny` again once the store can be written")
        });
        let crowded = self.approvals.iter().flat_map(|(api, _)| api.crowded_signers()).map(|signer| {
            format!("certificate-requests-left-out: more requests for {signer} wait than are looked at at a time")
        });
        let certificate = api_certificate::note(self.certificate_ends());
        let collateral = snapshot.collateral_ends().and_then(|(what, ends)| {
            let when = soon(ends, unix())?;
            let how = "`latchkey collateral fetch`, or a copy of a TPMs' authority's newer list in `tpm`";
            Some(format!("collateral-ends: {what} {when}: get what was published since: {how}"))
        });
        let carried = self.table.note().into_iter().chain(self.reloads.note());
        Ok(stale
            .chain(waiting)
            .chain(uncounted)
            .chain(damaged)
            .chain(unclear)
            .chain(changed)
            .chain(no_denials)
            .chain(denied_here)
            .chain(crowded)
            .chain(certificate)
            .chain(collateral)
            .chain(carried)
            .collect())
    }
}
