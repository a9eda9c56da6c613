//! The end of an init.

use serde_json::{Value, json};

use super::Job;
use super::drive::{AdminConfig, Ending};
use super::journal::Journal;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Tone, pairs};

pub(super) fn done(job: &Job, ending: &Ending, output: &Output) -> Result<Exit, CommandError> {
    let (config, config_json) = match &ending.admin_config {
        AdminConfig::Written(path) => (path.display().to_string(), json!(path.display().to_string())),
        AdminConfig::None => ("none: the cluster step made none".to_owned(), Value::Null),
        AdminConfig::NotFetched => {
            let text = "the node had finished before its credentials were fetched; they are on the node";
            output.say(Tone::Warning, "warning", text);
            ("on the node".to_owned(), Value::Null)
        }
    };
    let cluster = ending.cluster_id;
    let text = pairs(&[
        ("cluster", output.paint(Tone::Good, &job.name)),
        ("cluster id", cluster.to_string()),
        ("first node", ending.node_name.clone()),
        ("TPM", ending.ek.to_string()),
        ("disk", ending.disk.to_string()),
        ("credentials", config),
        ("took", format!("{:.1} s", ending.took.as_secs_f64())),
    ]);
    let json = json!({
        "cluster": job.name, "cluster_id": cluster, "node": ending.node_name, "ek_sha256": ending.ek,
        "disk_uuid": ending.disk, "admin_config": config_json,
        "seconds": (ending.took.as_secs_f64() * 10.0).round() / 10.0,
    });
    output.result(&json, &format!("\n{text}"))
}

/// The directory's cluster was finished by an earlier run.
pub(super) fn done_before(job: &Job, journal: &Journal, resume: bool, output: &Output) -> Result<Exit, CommandError> {
    let (directory, id) = (job.directory.shown(), journal.cluster_id);
    if !resume {
        let what = format!("{directory} holds the cluster {}, which is initialised", job.name);
        let failure = CommandError::local(CommandCode::ClusterExists, what).because(format!("its id is {id}"));
        return Err(failure.fix("use another directory for another cluster"));
    }
    let text = pairs(&[("cluster", job.name.clone()), ("cluster id", id.to_string())]);
    output.result(&json!({"cluster": job.name, "cluster_id": id, "resumed": false}), &text)
}
