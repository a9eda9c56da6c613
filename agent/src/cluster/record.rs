//! How far an earlier run came: one file in kubeadm's directory.
//!
//! It lies beside what it speaks of, so whatever takes one away (a new disk, a memory file system) takes the other.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Member, StepCode, StepError, files};

const NAME: &str = "latchkey.json";
const MAX_BYTES: usize = 16 * 1024;

/// What `kubeadm init` and `kubeadm join` leave in their directory.
const TRACES: [&str; 5] = ["admin.conf", "super-admin.conf", "kubelet.conf", "bootstrap-kubelet.conf", "pki/ca.key"];

/// What an earlier run left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// A run that did not reach its end: to be reset.
    Unfinished,
    /// The very work that is to be done, done.
    Finished,
}

#[derive(Serialize, Deserialize, PartialEq, Eq, Clone, Debug)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u8,
    cluster_id: String,
    node_name: String,
    work: String,
    finished: bool,
}

/// The file.
pub(super) struct Record {
    directory: PathBuf,
    content: Content,
}

impl Record {
    /// `work` is kubeadm's verb.
    pub(super) fn new(directory: &Path, member: &Member, work: &str) -> Self {
        let (cluster_id, node_name) = (member.cluster_id.clone(), member.node_name.clone());
        let content = Content { version: 1, cluster_id, node_name, work: work.into(), finished: false };
        Self { directory: directory.into(), content }
    }

    /// Looks. Refuses to touch what no unfinished run of ours explains.
    pub(super) fn found(&self) -> Result<Found, StepError> {
        let path = self.directory.join(NAME);
        if !path.exists() {
            return match TRACES.iter().map(|trace| self.directory.join(trace)).find(|trace| trace.exists()) {
                None => Ok(Found::Nothing),
                Some(trace) => Err(foreign(&format!("{} was not made by this agent", trace.display()))),
            };
        }
        let bytes = files::read(&path, MAX_BYTES)?;
        let old: Content = serde_json::from_slice(bytes.expose())
            .map_err(|e| foreign(&format!("{} is malformed: {e}", path.display())))?;
        if !old.finished {
            return Ok(Found::Unfinished);
        }
        if old == (Content { finished: true, ..self.content.clone() }) {
            return Ok(Found::Finished);
        }
        Err(foreign(&format!("{} speaks of node {:?} of another cluster or name", path.display(), old.node_name)))
    }

    /// From here on the directory's content is ours to reset.
    pub(super) fn begin(&self) -> Result<(), StepError> {
        self.write(false)
    }

    /// From here on it is a member's.
    pub(super) fn finish(&self) -> Result<(), StepError> {
        self.write(true)
    }

    fn write(&self, finished: bool) -> Result<(), StepError> {
        let content = Content { finished, ..self.content.clone() };
        let text = serde_json::to_vec(&content).map_err(|e| StepError::new(StepCode::Input, e.to_string()))?;
        files::write(&self.directory.join(NAME), &text)
    }
}

fn foreign(what: &str) -> StepError {
    StepError::new(StepCode::FilesForeign, format!("{what}; nothing was touched"))
}
