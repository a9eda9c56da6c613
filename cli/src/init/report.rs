//! The end of an init.

use latchkey_attestation::EkDigest;
use latchkey_keys::{ClusterId, Uuid};
use serde::Serialize;

use super::drive::{AdminConfig, Ending};
use super::job::Job;
use super::journal::Journal;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Tone, pairs};

/// A cluster has its first node.
#[derive(Serialize)]
struct InitReport<'a> {
    cluster: &'a str,
    cluster_id: ClusterId,
    node: &'a str,
    ek_sha256: EkDigest,
    disk_uuid: Uuid,
    /// The file with the cluster's credentials, if this command has them.
    admin_config: Option<String>,
    /// To a tenth.
    seconds: f64,
    #[serde(skip)]
    credentials: &'a AdminConfig,
}

impl Report for InitReport<'_> {
    fn text(&self, style: Style) -> String {
        let credentials = match self.credentials {
            AdminConfig::Written(path) => path.display().to_string(),
            AdminConfig::None => "none: the cluster step made none".to_owned(),
            AdminConfig::NotFetched => "on the node".to_owned(),
        };
        let text = pairs(&[
            ("cluster", style.paint(Tone::Good, self.cluster)),
            ("cluster id", self.cluster_id.to_string()),
            ("first node", self.node.to_owned()),
            ("TPM", self.ek_sha256.to_string()),
            ("disk", self.disk_uuid.to_string()),
            ("credentials", credentials),
            ("took", format!("{:.1} s", self.seconds)),
        ]);
        format!("\n{text}")
    }
}

pub(super) fn done(job: &Job, ending: &Ending, output: &Output) -> Result<Exit, CommandError> {
    let admin_config = match &ending.admin_config {
        AdminConfig::Written(path) => Some(path.display().to_string()),
        AdminConfig::None => None,
        AdminConfig::NotFetched => {
            let text = "the node had finished before its credentials were fetched; `latchkey credentials admin` makes others, \
                        where control-plane.json is in the directory";
            output.say(Tone::Warning, "warning", text);
            None
        }
    };
    output.report(&InitReport {
        cluster: &job.name,
        cluster_id: ending.cluster_id,
        node: &ending.node_name,
        ek_sha256: ending.ek,
        disk_uuid: ending.disk,
        admin_config,
        seconds: (ending.took.as_secs_f64() * 10.0).round() / 10.0,
        credentials: &ending.admin_config,
    })
}

/// A cluster that an earlier run finished.
#[derive(Serialize)]
struct DoneBeforeReport<'a> {
    cluster: &'a str,
    cluster_id: ClusterId,
    resumed: bool,
}

impl Report for DoneBeforeReport<'_> {
    fn text(&self, _: Style) -> String {
        pairs(&[("cluster", self.cluster.to_owned()), ("cluster id", self.cluster_id.to_string())])
    }
}

/// The directory's cluster was finished by an earlier run.
pub(super) fn done_before(job: &Job, journal: &Journal, resume: bool, output: &Output) -> Result<Exit, CommandError> {
    let (directory, id) = (job.directory.shown(), journal.cluster_id);
    if !resume {
        let what = format!("{directory} holds the cluster {}, which is initialised", job.name);
        let failure = CommandError::local(CommandCode::ClusterExists, what).because(format!("its id is {id}"));
        return Err(failure.fix("use another directory for another cluster"));
    }
    output.report(&DoneBeforeReport { cluster: &job.name, cluster_id: id, resumed: false })
}

/// The cluster of an earlier run was moved into its API server.
pub(super) fn founded(job: &Job, journal: &Journal, output: &Output) -> Result<Exit, CommandError> {
    output.report(&DoneBeforeReport { cluster: &job.name, cluster_id: journal.cluster_id, resumed: true })
}
