//! `store.json` in a cluster's directory: its records and documents are elsewhere.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cluster_dir::{ClusterDir, STORE};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};

const VERSION: u32 = 1;
/// Far more than it has.
const MAX: usize = 16 * 1024;

/// Where a cluster is kept, if not in its directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreNote {
    version: u32,
    kubernetes: Kubernetes,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kubernetes {
    /// The operator's kubeconfig; relative to the directory.
    kubeconfig: PathBuf,
}

impl StoreNote {
    /// Writes down that the cluster is in the API server of this kubeconfig. The last step: without it nothing has moved.
    pub(crate) fn write(directory: &ClusterDir, kubeconfig: &Path) -> Result<(), CommandError> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (home, kubeconfig) = (absolute(&directory.path("")), absolute(kubeconfig));
        let kubeconfig = kubeconfig.strip_prefix(&home).map_or(kubeconfig.clone(), Path::to_owned);
        let note = Self { version: VERSION, kubernetes: Kubernetes { kubeconfig } };
        let text = serde_json::to_string_pretty(&note).unwrap_or_default();
        // Not as the directory's owner: who reads it trusts this user's word, and not that one's.
        files::replace(&directory.path(STORE), format!("{text}\n").as_bytes(), Readers::Anyone)
    }

    /// Whether there is one, whatever it says.
    pub(crate) fn is_in(directory: &Path) -> bool {
        directory.join(STORE).exists()
    }

    /// Whether `latchkey init` has to write one: none is there, or one that is not taken. Releases before this one wrote it as the
    /// directory's owner.
    pub(crate) fn is_to_be_written(directory: &Path) -> bool {
        match Self::kubeconfig(directory) {
            Ok(note) => note.is_none(),
            Err(failure) => failure.code == CommandCode::StoreUntrusted.into(),
        }
    }

    /// The kubeconfig of the cluster's store, `None` if that is the directory itself. Programs are run by it: who may have written the
    /// note is asked here, and of the kubeconfig in [`Kubeconfig::of_directory`](super::Kubeconfig::of_directory).
    pub(crate) fn kubeconfig(directory: &Path) -> Result<Option<PathBuf>, CommandError> {
        let path = directory.join(STORE);
        let Some(text) = files::read_own(&path, MAX)? else { return Ok(None) };
        let unusable = |why: String| {
            let what = format!("{} cannot be used", path.display());
            let failure = CommandError::new(Exit::Usage, CommandCode::FileMalformed, what).because(why);
            failure.fix("name the kubeconfig of the cluster with --kubeconfig instead of --cluster")
        };
        let note: Self = serde_json::from_slice(&text).map_err(|error| unusable(error.to_string()))?;
        if note.version != VERSION {
            return Err(unusable(format!("`version` is {}, expected {VERSION}", note.version)));
        }
        Ok(Some(directory.join(note.kubernetes.kubeconfig)))
    }
}
