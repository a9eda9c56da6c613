//! Follows the configuration database, in the order that the machines need: the site's set-up, all stored statuses, then what is
//! wanted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use latchkey_factory_plus::cluster::{Registration, Status};
use latchkey_factory_plus::uuids::{application, k8s_resource, service};
use latchkey_factory_plus::{ClusterName, Uuid};
use latchkey_factory_plus_client::notify::{Children, Event as Heard, Search, Watch};
use serde::Deserialize as _;
use serde_json::Value;
use smol::future::FutureExt as _;

use super::{Manager, setup};
use crate::machine::{Classes, Event, Fleet};

/// How long the KDC has for its list of names before clusters are taken up.
const KDC_PATIENCE: Duration = Duration::from_secs(5);
/// How often that list is read again.
const NAMES_EVERY: Duration = Duration::from_mins(5);
/// And where the KDC did not answer.
const NAMES_AGAIN: Duration = Duration::from_secs(10);

impl Manager {
    /// Follows for as long as it is polled. While a service does not answer, what was heard last holds.
    pub async fn follow(&self) {
        let db = &self.centre().config_db;
        let mut own = db.watch_entry(application::SERVICE_CONFIG, service::CLUSTER_MANAGER);
        let charts = db.watch_entry(application::SERVICE_CONFIG, service::MANAGER);
        let (classes, helm) = first_setup(&mut own).await;
        let mut statuses = db.search_entries(application::EDGE_CLUSTER_SETUP_STATUS, None);
        let stored = complete(&mut statuses, "setup statuses").await;
        let components = self.components(&stored).await.unwrap_or_default();
        self.restore(classes, helm, &stored, &components);
        let mut edges = db.search_entries(application::EDGE_CLUSTER_STATUS, None);
        let mut configurations = db.search_entries(application::EDGE_CLUSTER_CONFIGURATION, None);
        self.all_edges(complete(&mut edges, "edges' statuses").await);
        self.all_configurations(&complete(&mut configurations, "configurations").await);
        let following = self.setups(own).or(self.follow_charts(charts));
        let following = following.or(self.follow_configurations(configurations)).or(self.follow_edges(edges));
        let following = following.or(self.follow_statuses(statuses)).or(self.follow_registrations());
        following.or(self.follow_templates()).or(self.follow_names()).await;
    }

    fn restore(&self, classes: Classes, helm: Uuid, stored: &Children, components: &[String]) {
        let mut fleet = Fleet::new(self.site(classes, helm), self.names(components));
        for (cluster, status) in stored {
            fleet.restore(*cluster, status);
        }
        let mut state = self.state();
        (state.fleet, state.helm) = (Some(fleet), Some(helm));
        tracing::info!(clusters = stored.len(), "Took up the stored statuses");
    }

    /// Every cluster hears what is wanted of it: also those that are wanted no more.
    fn all_configurations(&self, wanted: &Children) {
        let known: BTreeSet<Uuid> = {
            let mut state = self.state();
            state.configurations = wanted.iter().map(|(cluster, entry)| (*cluster, (**entry).clone())).collect();
            let machines = state.fleet.iter().flat_map(Fleet::machines).map(|(cluster, _)| cluster);
            machines.chain(wanted.keys().copied()).collect()
        };
        tracing::info!(configurations = wanted.len(), "Read what is wanted");
        for cluster in known {
            let entry = wanted.get(&cluster).map(|entry| (**entry).clone());
            self.tell(cluster, Event::Configuration(entry));
        }
        self.state().ready = true;
        self.0.changed.notify(usize::MAX);
    }

    fn configuration(&self, cluster: Uuid, entry: Option<Value>) {
        {
            let mut state = self.state();
            match &entry {
                Some(entry) => drop(state.configurations.insert(cluster, entry.clone())),
                None => drop(state.configurations.remove(&cluster)),
            }
        }
        self.tell(cluster, Event::Configuration(entry));
    }

    async fn follow_configurations(&self, mut search: Search) {
        loop {
            match next(&mut search, "configurations").await {
                Change::Set(cluster, entry) => self.configuration(cluster, Some((*entry).clone())),
                Change::Gone(cluster) => self.configuration(cluster, None),
            }
        }
    }

    fn all_edges(&self, edges: Children) {
        for (cluster, entry) in edges {
            self.edge(cluster, Some(&entry));
        }
    }

    /// An entry that cannot be read counts as one that says nothing: the edge did report.
    fn edge(&self, cluster: Uuid, entry: Option<&Value>) {
        {
            let mut state = self.state();
            match entry {
                Some(entry) => {
                    let status = Status::deserialize(entry).unwrap_or_else(|error| {
                        tracing::warn!(%cluster, %error, "An edge's status cannot be read");
                        Status::default()
                    });
                    state.edges.insert(cluster, Arc::new(status));
                }
                None => drop(state.edges.remove(&cluster)),
            }
        }
        self.0.changed.notify(usize::MAX);
    }

    async fn follow_edges(&self, mut search: Search) {
        loop {
            match next(&mut search, "edges' statuses").await {
                Change::Set(cluster, entry) => self.edge(cluster, Some(&entry)),
                Change::Gone(cluster) => self.edge(cluster, None),
            }
        }
    }

    /// They are shown, and nothing else depends on them: nobody waits until they are read.
    async fn follow_registrations(&self) {
        let mut search = self.centre().config_db.search_entries(application::EDGE_CLUSTER_REGISTRATION, None);
        let all = complete(&mut search, "registrations").await;
        for (cluster, entry) in all {
            self.registration(cluster, Some(&entry));
        }
        loop {
            match next(&mut search, "registrations").await {
                Change::Set(cluster, entry) => self.registration(cluster, Some(&entry)),
                Change::Gone(cluster) => self.registration(cluster, None),
            }
        }
    }

    fn registration(&self, cluster: Uuid, entry: Option<&Value>) {
        let read = entry.map(Registration::deserialize).transpose();
        let read = read.inspect_err(|error| tracing::warn!(%cluster, %error, "A registration cannot be read"));
        {
            let mut state = self.state();
            match read.ok().flatten() {
                Some(registration) => drop(state.registrations.insert(cluster, registration)),
                None => drop(state.registrations.remove(&cluster)),
            }
        }
        self.0.changed.notify(usize::MAX);
    }

    /// Nobody else writes statuses; but one that could not be read is mended by somebody.
    async fn follow_statuses(&self, mut search: Search) {
        loop {
            let change = next(&mut search, "setup statuses").await;
            let (Change::Set(cluster, _) | Change::Gone(cluster)) = &change;
            let cluster = *cluster;
            let wanted = {
                let mut state = self.state();
                let wanted = state.configurations.get(&cluster).cloned();
                let Some(fleet) = &mut state.fleet else { continue };
                if fleet.machine(cluster).is_none_or(|machine| machine.unreadable().is_none()) {
                    continue;
                }
                match change {
                    Change::Set(_, entry) => fleet.restore(cluster, &entry),
                    Change::Gone(_) => fleet.lost(cluster),
                }
                wanted
            };
            tracing::info!(%cluster, "A setup status was mended");
            self.tell(cluster, Event::Configuration(wanted));
        }
    }

    /// A changed set-up is taken up; nothing that runs ends.
    async fn setups(&self, mut own: Watch) {
        loop {
            own.changed().await;
            let Some((classes, helm)) = setup_of(&own) else { continue };
            let site = self.site(classes, helm);
            {
                let mut state = self.state();
                state.helm = Some(helm);
                let Some(fleet) = &mut state.fleet else { continue };
                fleet.set_site(site);
            }
            tracing::info!("Took up the site's set-up");
            self.tell_all(&Event::Refresh);
        }
    }

    async fn follow_charts(&self, mut charts: Watch) {
        loop {
            charts.changed().await;
            if let Some(entry) = charts.reading().and_then(|reading| reading.body) {
                self.state().charts = setup::read_charts(&entry);
            }
        }
    }

    /// Changed templates are rolled out.
    async fn follow_templates(&self) {
        let db = &self.centre().config_db;
        let mut charts = db.search_entries(application::HELM_CHART_TEMPLATE, None);
        let mut flux = db.watch_entry(application::FLUX_TEMPLATE, application::FLUX_TEMPLATE);
        let mut release = db.watch_entry(application::K8S_RESOURCE_TEMPLATE, k8s_resource::HELM_RELEASE);
        complete(&mut charts, "chart templates").await;
        // What the clusters' repositories were made of is not known: those that differ are written.
        let (mut seen_flux, mut seen_release) = (false, false);
        loop {
            let charts = async {
                next(&mut charts, "chart templates").await;
                true
            };
            let watched = |seen: &mut bool| std::mem::replace(seen, true);
            let flux = async {
                flux.changed().await;
                watched(&mut seen_flux)
            };
            let release = async {
                release.changed().await;
                watched(&mut seen_release)
            };
            if charts.or(flux).or(release).await {
                self.tell_all(&Event::Refresh);
            }
        }
    }

    /// Second components of principals that are not clusters'.
    ///
    /// A cluster that was decommissioned while the KDC made its list is in that list, though its name is free: so the clusters of
    /// before the question count, too.
    async fn components(&self, stored: &Children) -> Option<Vec<String>> {
        let stored = stored.values().filter_map(|status| status["spec"]["name"].as_str()).map(str::to_ascii_lowercase);
        let mut clusters: BTreeSet<String> = stored.chain(self.held()).collect();
        let late = async {
            smol::Timer::after(KDC_PATIENCE).await;
            Err("no answer in time".to_owned())
        };
        let mut all = match self.centre().principals.second_components().or(late).await {
            Ok(all) => all,
            Err(error) => {
                tracing::warn!(error, "The KDC does not say which names are taken");
                return None;
            }
        };
        clusters.extend(self.held());
        all.retain(|component| !clusters.contains(&component.to_ascii_lowercase()));
        Some(all)
    }

    /// The names that clusters hold now, folded.
    fn held(&self) -> Vec<String> {
        let state = self.state();
        let machines = state.fleet.iter().flat_map(Fleet::machines);
        machines.filter_map(|(_, machine)| machine.name()).map(ClusterName::folded).collect()
    }

    async fn follow_names(&self) {
        let mut pause = NAMES_AGAIN;
        loop {
            smol::Timer::after(pause).await;
            let Some(components) = self.components(&Children::new()).await else {
                pause = NAMES_AGAIN;
                continue;
            };
            pause = NAMES_EVERY;
            let names = self.names(&components);
            let waiting = self.state().fleet.as_mut().map(|fleet| fleet.set_names(names)).unwrap_or_default();
            for cluster in waiting {
                self.tell(cluster, Event::Again);
            }
        }
    }
}

/// The first set-up that can be read.
async fn first_setup(own: &mut Watch) -> (Classes, Uuid) {
    loop {
        own.changed().await;
        if let Some(setup) = setup_of(own) {
            return setup;
        }
    }
}

fn setup_of(own: &Watch) -> Option<(Classes, Uuid)> {
    let Some(entry) = own.reading().and_then(|reading| reading.body) else {
        tracing::warn!(state = ?own.state(), "No set-up of this service is known: load the centre's set-up data");
        return None;
    };
    let read = setup::read(&entry);
    read.inspect_err(|error| tracing::error!(%error, "The set-up of this service cannot be read")).ok()
}

/// A change of an entry.
enum Change {
    Set(Uuid, Arc<Value>),
    Gone(Uuid),
}

/// The next change; what hinders is logged.
async fn next(search: &mut Search, of: &str) -> Change {
    loop {
        match search.next().await {
            Heard::Set(uuid, entry) => return Change::Set(uuid, entry),
            Heard::Gone(uuid) => return Change::Gone(uuid),
            Heard::Stale(_, reason) => tracing::warn!(%reason, of, "Changes are not followed"),
            Heard::Fresh => tracing::info!(of, "Changes are followed again"),
            Heard::Complete(_) => {}
        }
    }
}

/// All entries, as soon as they are known.
async fn complete(search: &mut Search, of: &str) -> Children {
    loop {
        match search.next().await {
            Heard::Complete(all) => return all,
            Heard::Stale(_, reason) => tracing::warn!(%reason, of, "Entries cannot be read yet"),
            _ => {}
        }
    }
}
