//! A cluster that is kept in its API server, spoken to through stock kubectl.
//!
//! What the join service reads and writes there is in the crate `latchkey-kubernetes-store`, which this command has no part of: it
//! brings the field's client with its runtime, and kubectl is at hand. Names of objects are one list for both
//! (`latchkey_cluster_store::objects`).

mod credentials;
mod denials;
mod documents;
mod etcd;
mod kubeconfig;
mod machines;
mod maps;
mod note;
mod objects;
mod records;
mod rights;
mod status;

use std::path::Path;

use latchkey_cluster_store::objects::{CLUSTER_MAP, NAMESPACE};
use latchkey_cluster_store::{ClusterFile, ContentError};

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::node;
use crate::stock::{Kubectl, Scope, Stock, StockCode};
use crate::store_error::place_missing;

pub(crate) use credentials::{KUBEADM_PORT, Reach, SERVICE, issue, kubeconfig, reached_at};
pub(crate) use denials::DenialMaps;
pub(crate) use kubeconfig::Kubeconfig;
pub(crate) use maps::Maps;
pub(crate) use note::StoreNote;
pub(crate) use objects::{ConfigMap, Data};
pub(crate) use status::{ClientCertificate, KubernetesNode};

/// The key of [`CLUSTER_MAP`] that says what the cluster is.
const CLUSTER_FILE: &str = "cluster.json";
/// How often a write is made anew because others came first.
const TRIES: usize = 8;

/// The API server of a cluster.
#[derive(Debug)]
pub(crate) struct ApiServer {
    kubectl: Kubectl,
    shown: String,
    /// What kubectl reads is there as long as this is.
    _kubeconfig: Option<Kubeconfig>,
}

impl ApiServer {
    pub(crate) fn new(kubectl: Kubectl, kubeconfig: &Path) -> Self {
        Self { kubectl, shown: kubeconfig.display().to_string(), _kubeconfig: None }
    }

    /// By this kubeconfig; that it answers is asked now.
    pub(crate) fn connect(stock: &Stock, kubeconfig: Kubeconfig) -> Result<Self, CommandError> {
        let kubectl = node::block_on(async { Ok(stock.kubectl(&kubeconfig.path()).await?) })?;
        let api = Self::new(kubectl, kubeconfig.named());
        Ok(Self { _kubeconfig: Some(kubeconfig), ..api })
    }

    pub(crate) fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// The kubeconfig, for people.
    pub(crate) fn shown(&self) -> String {
        self.shown.clone()
    }

    /// The cluster whose store this is, `None` before it has one.
    pub(crate) async fn cluster(&self) -> Result<Option<ClusterFile>, CommandError> {
        let Some(text) = self.data_if_any(CLUSTER_MAP).await?.remove(CLUSTER_FILE) else { return Ok(None) };
        ClusterFile::parse(text.as_bytes()).map(Some).map_err(|error| malformed(CLUSTER_MAP, &error))
    }

    /// The same, of a cluster that was founded: its document is gone where it says of none.
    pub(crate) async fn founded(&self) -> Result<ClusterFile, CommandError> {
        self.cluster().await?.ok_or_else(|| self.is_gone(CLUSTER_MAP))
    }

    /// What a document holds; nothing if it is not there.
    async fn data_if_any(&self, map: &str) -> Result<Data, CommandError> {
        Ok(self.known(map).await?.map(|map| map.data).unwrap_or_default())
    }

    /// Writes documents as a whole, whatever an earlier call of this left: all in one call, since each asks the API server for more
    /// than it writes.
    pub(crate) async fn put<const N: usize>(&self, documents: [(&str, Data); N]) -> Result<(), CommandError> {
        let maps = documents.map(|(name, data)| ConfigMap::with(name, data));
        Ok(self.kubectl.apply(&objects::list(&maps), true).await?)
    }

    /// A document as it is, or empty, for who brings what it has to hold.
    async fn document(&self, name: &str) -> Result<ConfigMap, CommandError> {
        Ok(self.known(name).await?.unwrap_or_else(|| ConfigMap::new(name)))
    }
}

impl Maps for ApiServer {
    async fn known(&self, name: &str) -> Result<Option<ConfigMap>, CommandError> {
        Ok(self.kubectl.get("configmap", Scope::Namespace(NAMESPACE), name).await?)
    }

    async fn put_document(&self, map: &ConfigMap) -> Result<bool, CommandError> {
        let document = map.to_document();
        let written = if map.is_new() {
            self.kubectl.create::<ConfigMap>(&document).await
        } else {
            self.kubectl.replace::<ConfigMap>(&document).await
        };
        match written {
            Ok(_) => Ok(true),
            // What was decided on is not what is there.
            Err(error) if error.is(StockCode::Conflict) || error.is(StockCode::ObjectExists) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn is_gone(&self, name: &str) -> CommandError {
        let what = format!("the ConfigMap {name} is gone from the namespace {NAMESPACE}");
        let failure = place_missing(what, &format!("--kubeconfig {}", self.shown));
        if denials::MAY_BE_EMPTY.contains(&name) {
            failure
        } else {
            failure.fix("put it back from a copy, with what was in it")
        }
    }
}

fn others_first(map: &str) -> CommandError {
    let what = format!("others write the ConfigMap {map} first, each time");
    CommandError::new(Exit::Failed, StockCode::Conflict, what)
}

/// What stands in an object of the cluster is not of its schema.
fn malformed(about: &str, error: &ContentError) -> CommandError {
    let failure = CommandError::new(Exit::Usage, CommandCode::FileMalformed, format!("{about} cannot be used"));
    failure.because(error.to_string()).fix(format!("correct it: kubectl edit configmap {about} -n {NAMESPACE}"))
}
