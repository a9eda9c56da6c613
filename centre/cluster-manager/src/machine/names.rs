//! Names that are taken.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_attestation::reference::format_rfc3339;
use latchkey_factory_plus::{ClusterName, Realm, Uuid};

/// The names that a new cluster cannot have: see [`Names::refusal`].
///
/// Whoever edits principals at an edge may edit those whose second component is the cluster's name. So no name may be
/// one of another's second component: the realm (`krbtgt/REALM`), hosts (`HTTP/HOST`), people and administrators
/// (`x/admin`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    realm: Realm,
    hosts: BTreeSet<String>,
    components: BTreeSet<String>,
    clusters: BTreeMap<String, Holder>,
}

/// Who has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    cluster: Uuid,
    name: ClusterName,
    /// The end of it, where the cluster was decommissioned: milliseconds since 1970.
    until: Option<u64>,
}

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameRefusal {
    /// Another cluster has it.
    #[error("the cluster {cluster} is called {name} already; upper and lower case make no difference")]
    Cluster {
        /// The other cluster.
        cluster: Uuid,
        /// Its name.
        name: ClusterName,
    },
    /// A cluster had it that was decommissioned.
    #[error(
        "tickets and tokens that were given to a cluster called {name}, which was decommissioned, may be good until {}",
        format_rfc3339(.until / 1000)
    )]
    Held {
        /// Its name.
        name: ClusterName,
        /// When the name is free: milliseconds since 1970.
        until: u64,
    },
    /// It is the realm's, or the first label of it.
    #[error("{0} is the name of the Kerberos realm {1}")]
    Realm(ClusterName, Realm),
    /// It is a host's.
    #[error("{0} is the name of the host {1} of the centre")]
    Host(ClusterName, String),
    /// It is the second component of a principal that is not the cluster's.
    #[error("{0} is the second part of a principal that is not this cluster's, such as those ending in /{1}")]
    Principal(ClusterName, String),
}

impl Names {
    /// The names of a site: its realm, its hosts' names (with or without domain), and the second components of the
    /// KDC's principals that are not of clusters (`admin` of `anna/admin@REALM`).
    pub fn new<'a>(
        realm: &Realm,
        hosts: impl IntoIterator<Item = &'a str>,
        components: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            realm: realm.clone(),
            hosts: hosts.into_iter().map(str::to_owned).collect(),
            components: components.into_iter().map(str::to_owned).collect(),
            clusters: BTreeMap::new(),
        }
    }

    /// Why `cluster` cannot be called `name`; `None` where it can.
    pub fn refusal(&self, cluster: Uuid, name: &ClusterName) -> Option<NameRefusal> {
        self.refused(name, |holder| holder.cluster != cluster)
    }

    /// Why a new cluster cannot be called `name`; `None` where it can.
    pub fn refusal_of_new(&self, name: &ClusterName) -> Option<NameRefusal> {
        self.refused(name, |_| true)
    }

    fn refused(&self, name: &ClusterName, is_another: impl Fn(&Holder) -> bool) -> Option<NameRefusal> {
        let folded = name.folded();
        if let Some(Holder { cluster, name, until }) = self.clusters.get(&folded).filter(|holder| is_another(holder)) {
            let (cluster, name) = (*cluster, name.clone());
            return Some(match *until {
                None => NameRefusal::Cluster { cluster, name },
                Some(until) => NameRefusal::Held { name, until },
            });
        }
        if is_host(&folded, self.realm.as_str()) {
            return Some(NameRefusal::Realm(name.clone(), self.realm.clone()));
        }
        if let Some(host) = self.hosts.iter().find(|host| is_host(&folded, host)) {
            return Some(NameRefusal::Host(name.clone(), host.clone()));
        }
        let component = self.components.iter().find(|component| is_host(&folded, component))?;
        Some(NameRefusal::Principal(name.clone(), component.clone()))
    }

    /// Notes that a cluster has a name, and until when, where it was decommissioned; another's is left alone. Whether those who want
    /// it are refused for another reason now.
    pub(super) fn claim(&mut self, cluster: Uuid, name: &ClusterName, until: Option<u64>) -> bool {
        let holder =
            self.clusters.entry(name.folded()).or_insert_with(|| Holder { cluster, name: name.clone(), until });
        let changed = holder.cluster == cluster && holder.until != until;
        if changed {
            holder.until = until;
        }
        changed
    }

    /// Notes that a cluster has no name but `kept`; whether one became free.
    pub(super) fn release(&mut self, cluster: Uuid, kept: Option<&ClusterName>) -> bool {
        let kept = kept.map(ClusterName::folded);
        let before = self.clusters.len();
        self.clusters.retain(|name, holder| holder.cluster != cluster || Some(name) == kept.as_ref());
        self.clusters.len() < before
    }

    /// The same clusters at a site whose other names changed.
    pub(super) fn with_clusters_of(mut self, other: &Self) -> Self {
        self.clusters.clone_from(&other.clusters);
        self
    }
}

/// Whether a folded name is that of a host, or its first label: Kerberos libraries may add a domain or take it away.
fn is_host(folded: &str, host: &str) -> bool {
    host.eq_ignore_ascii_case(folded) || host.split('.').next().is_some_and(|label| label.eq_ignore_ascii_case(folded))
}
