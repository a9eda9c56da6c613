//! What an import does to the repository of charts.

use serde::{Deserialize, Serialize};

use crate::definitions::Dropped;
use crate::edge_cluster::{CHART_VERSION, edge_cluster};
use crate::flux::FluxSet;
use crate::input::{Content, Input};

/// Where things are in the repository.
const FLUX: &str = "flux-system/flux-system.yaml";
const CHART: &str = "edge-cluster";
const RECORD: &str = "inputs.json";

/// What was imported: the file `inputs.json` of the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Inputs {
    /// The form of this file: 1.
    pub schema: u32,
    /// The version of our own chart.
    pub edge_cluster: String,
    /// Flux's manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flux: Option<Recorded>,
    /// The chart of Sealed Secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_secrets: Option<Recorded>,
}

/// One thing that was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The file or directory that it came from.
    pub name: String,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// The release that it says it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What is in the repository already.
#[derive(Debug, Clone, Default)]
pub struct Import {
    record: Option<Inputs>,
    flux: Option<FluxSet>,
}

/// What is done to the repository: first all deletions, then all files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Paths that go, with all below them.
    pub deleted: Vec<String>,
    /// Files by path.
    pub written: Vec<(String, Vec<u8>)>,
    /// What the repository has then.
    pub record: Inputs,
}

/// Why there is no import.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Two inputs of one kind.
    #[error("{0:?} and {1:?} are the same thing twice; name one of them")]
    Twice(String, String),
    /// What is in the repository cannot be read.
    #[error("the repository of charts has a file {0} that cannot be read: {1}")]
    Repository(&'static str, String),
    /// The new Flux drops versions.
    #[error(
        "this Flux no longer knows {list}. A cluster that has objects stored in these would stop following its repository. Run `flux \
         migrate` in every cluster with the Flux of now, and then import with --migrated",
        list = .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Dropped(Vec<Dropped>),
}

impl Import {
    /// The files that [`Self::new`] wants to see, and the most bytes of each.
    pub const READS: [(&'static str, usize); 2] = [(RECORD, 64 << 10), (FLUX, 8 << 20)];

    /// Into a repository that has these files: the contents of [`Self::READS`], in that order.
    ///
    /// # Errors
    /// [`ImportError::Repository`].
    pub fn new([record, flux]: [Option<Vec<u8>>; 2]) -> Result<Self, ImportError> {
        let unreadable = |file, why: String| ImportError::Repository(file, why);
        let read =
            |bytes: Vec<u8>| serde_json::from_slice(&bytes).map_err(|error| unreadable(RECORD, error.to_string()));
        let text = |bytes| String::from_utf8(bytes).map_err(|error| unreadable(FLUX, error.to_string()));
        let flux = flux.map(text).transpose()?.map(|text| FluxSet::read(text).map_err(|why| unreadable(FLUX, why)));
        Ok(Self { record: record.map(read).transpose()?, flux: flux.transpose()? })
    }

    /// What these inputs make of it. `migrated`: every cluster has no object left in a version that a new Flux drops.
    ///
    /// # Errors
    /// [`ImportError::Twice`], [`ImportError::Dropped`].
    pub fn change(&self, inputs: &[Input], migrated: bool) -> Result<Change, ImportError> {
        let (mut flux, mut sealed) = (None, None);
        for input in inputs {
            let place = match input.content {
                Content::Flux(_) => &mut flux,
                Content::SealedSecrets(_) => &mut sealed,
            };
            if let Some(first) = place.replace(input) {
                let first: &Input = first;
                return Err(ImportError::Twice(first.name.clone(), input.name.clone()));
            }
        }
        let before = self.record.clone();
        let mut record = Inputs {
            schema: 1,
            edge_cluster: CHART_VERSION.to_owned(),
            flux: before.as_ref().and_then(|before| before.flux.clone()),
            sealed_secrets: before.and_then(|before| before.sealed_secrets),
        };
        // What is below `charts` stays, where it is not imported anew.
        let mut deleted = ["templates", "crds"].map(|name| format!("{CHART}/{name}")).to_vec();
        let mut written = Vec::new();
        if let Some(Input { content: Content::Flux(new), name, sha256 }) = flux {
            let dropped = self.flux.as_ref().map(|old| old.definitions().dropped_by(new.definitions()));
            if let Some(dropped) = dropped.filter(|dropped| !dropped.is_empty() && !migrated) {
                return Err(ImportError::Dropped(dropped));
            }
            record.flux = Some(recorded(name, sha256, new.version()));
            written.push((FLUX.to_owned(), new.text().as_bytes().to_vec()));
        }
        if let Some(Input { content: Content::SealedSecrets(chart), name, sha256 }) = sealed {
            let place = format!("{CHART}/charts/sealed-secrets");
            deleted.push(place.clone());
            written.extend(chart.files().iter().map(|(path, content)| (format!("{place}/{path}"), content.clone())));
            record.sealed_secrets = Some(recorded(name, sha256, Some(chart.version())));
        }
        let version = record.sealed_secrets.as_ref().and_then(|sealed| sealed.version.as_deref());
        written.extend(edge_cluster(version).into_iter().map(|(path, content)| (format!("{CHART}/{path}"), content)));
        // An object of texts always makes JSON.
        let text = format!("{}\n", serde_json::to_string_pretty(&record).unwrap_or_default());
        written.push((RECORD.to_owned(), text.into_bytes()));
        Ok(Change { deleted, written, record })
    }
}

fn recorded(name: &str, sha256: &str, version: Option<&str>) -> Recorded {
    Recorded { name: name.to_owned(), sha256: sha256.to_owned(), version: version.map(str::to_owned) }
}
