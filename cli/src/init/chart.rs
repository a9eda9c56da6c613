//! Our chart, which this command carries: the bytes of `charts/latchkey`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cluster_dir::ClusterDir;
use crate::error::CommandError;
use crate::files::{self, Readers};

macro_rules! chart {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../charts/latchkey/", $name)))),*]
    };
}

const FILES: [(&str, &str); 15] = chart![
    "Chart.yaml",
    "values.yaml",
    "values.schema.json",
    "templates/NOTES.txt",
    "templates/_helpers.tpl",
    "templates/approvals.yaml",
    "templates/definitions.yaml",
    "templates/documents.yaml",
    "templates/events.yaml",
    "templates/joining.yaml",
    "templates/lease.yaml",
    "templates/pods.yaml",
    "templates/policies.yaml",
    "templates/records.yaml",
    "templates/tokens.yaml",
];

/// The chart in a directory, for as long as helm needs it.
pub(super) struct ChartDir(PathBuf);

impl ChartDir {
    /// Writes it anew: what is left of an earlier run may be of another release.
    pub(super) fn write(cluster: &ClusterDir, name: &str) -> Result<Self, CommandError> {
        let at = cluster.path(name);
        // Not as the directory's owner: root's earlier runs made it.
        if at.exists() {
            fs::remove_dir_all(&at).map_err(|error| files::unwritable(&at, &error))?;
        }
        let directory = Self(at);
        cluster.as_owner(|| {
            files::make_directory(&directory.0.join("templates"))?;
            FILES.iter().try_for_each(|(name, text)| {
                files::write_new(&directory.0.join(name), text.as_bytes(), Readers::Anyone)
            })
        })?;
        Ok(directory)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ChartDir {
    fn drop(&mut self) {
        // What stays is written anew by the next run.
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_command_carries_every_file_of_the_chart() {
        let chart = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/latchkey"));
        let mut there = BTreeSet::new();
        for directory in ["", "templates/"] {
            for entry in fs::read_dir(chart.join(directory)).unwrap() {
                let entry = entry.unwrap();
                if entry.path().is_file() {
                    there.insert(format!("{directory}{}", entry.file_name().to_str().unwrap()));
                }
            }
        }
        assert_eq!(FILES.iter().map(|(name, _)| (*name).to_owned()).collect::<BTreeSet<_>>(), there);
    }
}
