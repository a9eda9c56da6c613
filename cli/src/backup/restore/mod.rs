//! Bringing back what a backup has and the cluster has not: definitions first, then objects, their status, and whose they are.
//!
//! What is there is never overwritten. A restore that was interrupted is run again: what was made is there, and a status or
//! owners that were not written yet are still missing, which is how they are found.

mod objects;
mod owners;
mod refused;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use latchkey_cluster_store::objects::GROUP;
use serde::Serialize;

use super::create::{DefinitionObject, cluster, page};
use super::manifest::{Backup, Definition};
use super::object::{Head, Object};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table, Tone, printable};
use crate::stock::{Kubectl, Scope};
use objects::Job;
use owners::Owners;
use refused::{Refused, refusal};

/// How much is sent at once.
const BATCH: usize = 100;
/// How long a definition may take until its objects can be made.
const ESTABLISHED: Duration = Duration::from_mins(2);
const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// What the user said that is to be restored.
pub(super) struct Wanted {
    /// Another cluster's backup, too.
    pub(super) any_cluster: bool,
    /// Records of machines, too, that were removed since.
    pub(super) machines: bool,
}

/// What a restore did.
#[derive(Debug, Serialize)]
pub(super) struct RestoreReport {
    definitions: Vec<RestoreRow>,
    /// Objects whose owner is gone: without it they would be removed at once.
    owners_gone: Vec<String>,
    /// Objects that are there with another content.
    differing: Vec<String>,
    /// Objects that are there, and are being removed.
    being_removed: Vec<String>,
    /// Latchkey's own objects that are missing, and were not made: machines that were removed since.
    removed_since: Vec<String>,
    /// What the API server did not take.
    refused: Vec<Refused>,
}

#[derive(Debug, Serialize)]
struct RestoreRow {
    name: String,
    /// Whether the definition was made.
    made: bool,
    objects_made: u64,
    objects_there: u64,
    /// They were being removed when the backup was made.
    objects_leaving: u64,
    status_written: u64,
}

/// Restores a backup into its cluster.
pub(super) async fn restore(
    kubectl: &Kubectl,
    backup: &Backup,
    wanted: Wanted,
    output: &Output,
) -> Result<RestoreReport, CommandError> {
    if !wanted.any_cluster && cluster(kubectl).await? != backup.manifest.cluster {
        let what = format!("{} is of another cluster", backup.directory().display());
        return Err(CommandError::new(Exit::Usage, CommandCode::BackupOfAnotherCluster, what));
    }
    check_namespaces(kubectl, backup).await?;
    let mut report = RestoreReport {
        definitions: Vec::new(),
        owners_gone: Vec::new(),
        differing: Vec::new(),
        being_removed: Vec::new(),
        removed_since: Vec::new(),
        refused: Vec::new(),
    };
    let Definitions { made, refused } = definitions(kubectl, backup, &mut report.refused, output).await?;
    let mut owners = Owners::default();
    for definition in &backup.manifest.definitions {
        let made = made.contains(&definition.name);
        let mut row = RestoreRow {
            name: definition.name.clone(),
            made,
            objects_made: 0,
            objects_there: 0,
            objects_leaving: 0,
            status_written: 0,
        };
        if let Some(version) = definition.restored().filter(|_| !refused.contains(&definition.name)) {
            let makes = made || wanted.machines || !is_ours(definition);
            let job = Job { kubectl, backup, definition, version, makes, output };
            job.run(&mut row, &mut owners, &mut report).await?;
        }
        report.definitions.push(row);
    }
    report.owners_gone = owners.write(kubectl, &mut report.refused).await?;
    Ok(report)
}

/// Definitions that were missing, by name.
struct Definitions {
    made: BTreeSet<String>,
    refused: BTreeSet<String>,
}

/// Makes the definitions that are missing.
async fn definitions(
    kubectl: &Kubectl,
    backup: &Backup,
    refusals: &mut Vec<Refused>,
    output: &Output,
) -> Result<Definitions, CommandError> {
    let (mut made, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for definition in &backup.manifest.definitions {
        let there: Option<DefinitionObject> = kubectl.get(RESOURCE, Scope::Cluster, &definition.name).await?;
        match there {
            None => {
                let object = Object::parse(&backup.definition(definition)?)?.to_create(false)?;
                match kubectl.create::<Head>(object.text()?.as_bytes()).await {
                    Ok(_) => {
                        output.say(Tone::Good, "made", &format!("definition {}", definition.name));
                        made.insert(definition.name.clone());
                    }
                    Err(error) => {
                        refusals.push(refusal(format!("definition {}", definition.name), error)?);
                        refused.insert(definition.name.clone());
                    }
                }
            }
            Some(there) => fits(definition, &there)?,
        }
    }
    let wait: Vec<String> = made.iter().map(|name| format!("{RESOURCE}/{name}")).collect();
    for some in wait.chunks(BATCH) {
        output.waiting("definitions to be established");
        kubectl.wait("Established", Scope::Cluster, some, ESTABLISHED).await?;
    }
    Ok(Definitions { made, refused })
}

/// Whether its objects are Latchkey's own.
fn is_ours(definition: &Definition) -> bool {
    definition.name.split_once('.').is_some_and(|(_, group)| group == GROUP)
}

/// Whether a definition that is there takes the objects of the backup.
fn fits(definition: &Definition, there: &DefinitionObject) -> Result<(), CommandError> {
    let refuse = |reason: String| {
        let what = format!("the definition {} of the cluster does not take the backup's objects", definition.name);
        Err(CommandError::local(CommandCode::DefinitionDiffers, what).because(reason))
    };
    if there.metadata.deletion_timestamp.is_some() {
        return refuse("it is being removed, with all objects: wait until it is gone".into());
    }
    let Some(version) = definition.restored() else { return Ok(()) };
    if there.spec.versions.iter().any(|one| one.served && one.name == version.name) {
        return Ok(());
    }
    refuse(format!("the objects are of version {}, which it does not serve", version.name))
}

/// That every namespace is there that objects are in.
async fn check_namespaces(kubectl: &Kubectl, backup: &Backup) -> Result<(), CommandError> {
    let mut needed = BTreeSet::new();
    for definition in &backup.manifest.definitions {
        let Some(version) = definition.restored() else { continue };
        for line in backup.objects(definition, version)? {
            needed.extend(Object::head(&line?)?.metadata.namespace);
        }
    }
    let mut next = None;
    loop {
        let page = page(kubectl, "/api/v1/namespaces", next.as_deref(), None).await?;
        for item in &page.items {
            needed.remove(&Object::head(item.get())?.metadata.name);
        }
        next = page.metadata.next.filter(|next| !next.is_empty());
        if next.is_none() {
            break;
        }
    }
    if needed.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = needed.into_iter().take(10).collect();
    let what = format!("the cluster has no namespace {}", names.join(", "));
    Err(CommandError::local(CommandCode::NamespaceMissing, what))
}

impl Report for RestoreReport {
    fn text(&self, _: Style) -> String {
        let mut table = Table::new(&["DEFINITION", "WAS", "OBJECTS MADE", "THERE", "LEFT OUT"]);
        for row in &self.definitions {
            table.row([
                row.name.clone(),
                if row.made { "made" } else { "there" }.to_owned(),
                row.objects_made.to_string(),
                row.objects_there.to_string(),
                row.objects_leaving.to_string(),
            ]);
        }
        let mut text = table.to_string();
        for name in &self.differing {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "not overwritten, and other than in the backup: {}", printable(name));
        }
        for name in &self.being_removed {
            let _ =
                writeln!(text, "there, and being removed: run the command again once it is gone: {}", printable(name));
        }
        for name in &self.removed_since {
            let _ = writeln!(text, "removed since, and left out (--machines restores it): {}", printable(name));
        }
        for Refused { what, because } in &self.refused {
            let _ = writeln!(text, "refused: {}: {}", printable(what), printable(because));
        }
        for name in &self.owners_gone {
            let _ = writeln!(text, "its owner is gone, and was left out: {}", printable(name));
        }
        text
    }

    fn exit(&self) -> Exit {
        let whole = self.differing.is_empty() && self.being_removed.is_empty() && self.refused.is_empty();
        if whole { Exit::Done } else { Exit::Failed }
    }
}
