//! What the cluster decides by beside what evidence is judged by.

use crate::back_end::BackEnd;
use crate::decision::Rules;
use latchkey_attesting_service::{Current, Snapshot, Source, watched};
use latchkey_cluster_store::{ClusterFile, ClusterMaterial, Documents, Enrolment, Part, StoreError};
use latchkey_keys::SecretVec;
use latchkey_kubelet_certificates::Reserved;
use std::path::PathBuf;
use std::sync::Arc;

/// The documents of a cluster, wherever they are.
#[derive(Debug)]
pub struct Cluster(pub(crate) BackEnd);

/// All of a cluster that a decision is made by, as it is at one moment.
pub(crate) type ClusterSnapshot = Snapshot<Described>;

/// The same as it changes.
pub(crate) type CurrentCluster = Current<Cluster>;

/// What the documents say of the cluster.
#[derive(Clone, Debug)]
pub struct Described {
    /// Who is let in as what.
    pub enrolment: Arc<Enrolment>,
    /// The cluster, once it is initialised.
    pub cluster: Option<Arc<ClusterFile>>,
    /// What nodes join by, where the cluster is kept in an API server and somebody has said it.
    pub material: Option<Arc<ClusterMaterial>>,
    /// Opaque bytes for the nodes' cluster step.
    pub payload: Arc<SecretVec>,
    /// Whether the cluster is kept in an API server.
    pub in_api_server: bool,
}

impl Described {
    /// What machines are let in by.
    pub fn rules(&self) -> Rules {
        Rules { enrolment: Arc::clone(&self.enrolment), reserved: self.reserved(), gives: self.gives() }
    }

    /// See [`Rules::gives`]. In a directory services of the release before see what this one writes; in an API server they do not, and
    /// start with no cluster that counts its denials.
    pub fn gives(&self) -> bool {
        !self.in_api_server || self.counts()
    }

    /// Whether the cluster's document counts the denials; before there is one, nothing is to be counted.
    pub fn counts(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.denials.is_some())
    }

    /// What is no machine's name or address.
    pub fn reserved(&self) -> Reserved {
        self.material.as_ref().map(|material| material.file.reserved()).unwrap_or_default()
    }
}

impl Source for Cluster {
    type Own = Described;
    type Part = Part;
    const PARTS: &'static [Part] = &[Part::Enrolment, Part::Cluster, Part::Payload];

    fn name(part: Part) -> &'static str {
        part.name()
    }

    fn documents(&self) -> &dyn Documents {
        self.0.documents()
    }

    fn watched(&self) -> Option<Vec<PathBuf>> {
        match &self.0 {
            BackEnd::Folder(directory) => Some(watched(directory)),
            BackEnd::Kubernetes(_) => None,
        }
    }

    fn fingerprint(&self, part: Part) -> [u8; 32] {
        self.documents().fingerprint(part)
    }

    fn read(&self) -> Result<Described, StoreError> {
        let documents = self.documents();
        Ok(Described {
            enrolment: Arc::new(documents.enrolment()?),
            cluster: documents.cluster()?.map(Arc::new),
            material: documents.material()?.map(Arc::new),
            payload: documents.payload().map(Arc::new)?,
            in_api_server: self.0.api_server().is_some(),
        })
    }

    fn reread(&self, own: &Described, part: Part) -> Result<Described, StoreError> {
        let (documents, mut next) = (self.documents(), own.clone());
        match part {
            // Not this source's.
            Part::Attestation => {}
            Part::Enrolment => next.enrolment = Arc::new(documents.enrolment()?),
            Part::Cluster => {
                next.cluster = Some(Arc::new(documents.cluster()?.ok_or_else(|| gone(documents))?));
                next.material = documents.material()?.map(Arc::new);
            }
            Part::Payload => next.payload = documents.payload().map(Arc::new)?,
        }
        Ok(next)
    }
}

/// A cluster does not stop to be: a file that is gone is a mistake, and the cluster that was stays.
fn gone(documents: &dyn Documents) -> StoreError {
    let path = documents.place().join("cluster.json");
    StoreError::Io { action: "read", path, source: std::io::ErrorKind::NotFound.into() }
}
