//! Bringing back what a backup has and the cluster has not: definitions first, then objects, their status, and whose they are.
//!
//! What is there is never overwritten. A restore that was interrupted is run again: what was made is there, and a status or
//! owners that were not written yet are still missing, which is how they are found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use latchkey_kubernetes::Sha256;
use serde::Serialize;
use serde::de::IgnoredAny;

use super::create::{DefinitionObject, cluster, page};
use super::manifest::{Backup, Definition, Version};
use super::object::{Head, Key, Object, Owner, list};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table, Tone, printable};
use crate::stock::{Kubectl, Scope, StockCode, StockError};

/// How much is sent at once.
const BATCH: usize = 100;
const BATCH_BYTES: usize = 4 << 20;
/// How long a definition may take until its objects can be made.
const ESTABLISHED: Duration = Duration::from_mins(2);
const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

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
    /// What the API server did not take.
    refused: Vec<Refused>,
}

/// What the API server did not take, and what it said.
#[derive(Debug, Serialize)]
pub(super) struct Refused {
    pub(super) what: String,
    pub(super) because: String,
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

/// An object of the cluster, as it is now.
struct There {
    uid: String,
    content: Sha256,
    status: bool,
    owners: bool,
    leaving: bool,
}

/// Whose objects are, by the uids of the backup.
#[derive(Default)]
struct Owners {
    /// The uid of the backup to that of the cluster.
    now: BTreeMap<String, String>,
    /// Objects whose owners have to be written.
    waiting: Vec<(Object, Head)>,
}

/// Restores a backup into its cluster, or into another if `any_cluster`.
pub(super) async fn restore(
    kubectl: &Kubectl,
    backup: &Backup,
    any_cluster: bool,
    output: &Output,
) -> Result<RestoreReport, CommandError> {
    if !any_cluster && cluster(kubectl).await? != backup.manifest.cluster {
        let what = format!("{} is of another cluster", backup.directory().display());
        return Err(CommandError::new(Exit::Usage, CommandCode::BackupOfAnotherCluster, what));
    }
    check_namespaces(kubectl, backup).await?;
    let mut report = RestoreReport {
        definitions: Vec::new(),
        owners_gone: Vec::new(),
        differing: Vec::new(),
        being_removed: Vec::new(),
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
            let job = Job { kubectl, backup, definition, version, output };
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

/// The objects of one definition.
struct Job<'a> {
    kubectl: &'a Kubectl,
    backup: &'a Backup,
    definition: &'a Definition,
    version: &'a Version,
    output: &'a Output,
}

impl Job<'_> {
    async fn run(
        &self,
        row: &mut RestoreRow,
        owners: &mut Owners,
        report: &mut RestoreReport,
    ) -> Result<(), CommandError> {
        let there = self.there().await?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut statuses = Vec::new();
        for line in self.backup.objects(self.definition, self.version)? {
            let line = line?;
            let (head, object) = (Object::head(&line)?, Object::parse(&line)?);
            if head.metadata.deletion_timestamp.is_some() {
                row.objects_leaving += 1;
                continue;
            }
            if let Some(there) = there.get(&head.key()) {
                if there.leaving {
                    report.being_removed.push(self.shown(&head));
                    continue;
                }
                row.objects_there += 1;
                owners.now.insert(head.metadata.uid.clone(), there.uid.clone());
                if there.content != object.content()? {
                    report.differing.push(self.shown(&head));
                    continue;
                }
                // What an interrupted restore had not written yet.
                if self.version.status && !there.status {
                    statuses.extend(object.only_status()?);
                }
                if !there.owners && !head.metadata.owner_references.is_empty() {
                    owners.waiting.push((object.only_name()?, head));
                }
                continue;
            }
            bytes += line.len();
            batch.push((head, object));
            if batch.len() >= BATCH || bytes >= BATCH_BYTES {
                self.make(&mut batch, row, owners, &mut statuses, &mut report.refused).await?;
                bytes = 0;
            }
            if statuses.len() >= BATCH {
                self.write_statuses(&mut statuses, row, &mut report.refused).await?;
            }
        }
        self.make(&mut batch, row, owners, &mut statuses, &mut report.refused).await?;
        self.write_statuses(&mut statuses, row, &mut report.refused).await
    }

    /// Makes objects, and keeps what is still to be written of them.
    async fn make(
        &self,
        batch: &mut Vec<(Head, Object)>,
        row: &mut RestoreRow,
        owners: &mut Owners,
        statuses: &mut Vec<Object>,
        refused: &mut Vec<Refused>,
    ) -> Result<(), CommandError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.output.waiting_with(&format!("objects of {}", self.definition.name), &format!("{}", row.objects_made));
        let with_status = !self.version.status;
        let new = batch.iter().map(|(_, object)| object.to_create(with_status)).collect::<Result<Vec<_>, _>>()?;
        let made = match self.kubectl.create_all::<Head>(&list(&new)?).await {
            Ok(made) => made,
            // Which of them it is, kubectl does not say for programs; some may be made.
            Err(error) if is_refusal(&error) => self.make_each(batch, &new, refused).await?,
            Err(error) => return Err(error.into()),
        };
        let uids: BTreeMap<Key, String> = made.into_iter().map(|head| (head.key(), head.metadata.uid)).collect();
        for (head, object) in batch.drain(..) {
            let what = self.shown(&head);
            let Some(uid) = uids.get(&head.key()) else {
                if refused.iter().any(|one| one.what == what) {
                    continue;
                }
                let what = format!("kubectl does not say that it made {what}");
                return Err(CommandError::local(StockCode::Malformed, what));
            };
            row.objects_made += 1;
            owners.now.insert(head.metadata.uid.clone(), uid.clone());
            if self.version.status {
                statuses.extend(object.only_status()?);
            }
            if !head.metadata.owner_references.is_empty() {
                owners.waiting.push((object.only_name()?, head));
            }
        }
        self.write_statuses(statuses, row, refused).await
    }

    /// The same one by one: what was made, now or with the others before.
    async fn make_each(
        &self,
        batch: &[(Head, Object)],
        new: &[Object],
        refused: &mut Vec<Refused>,
    ) -> Result<Vec<Head>, CommandError> {
        let mut made = Vec::new();
        for ((head, _), object) in batch.iter().zip(new) {
            match self.kubectl.create::<Head>(object.text()?.as_bytes()).await {
                Ok(head) => made.push(head),
                Err(error) if error.is(StockCode::ObjectExists) => {
                    let scope = head.metadata.namespace.as_deref().map_or(Scope::Cluster, Scope::Namespace);
                    made.extend(self.kubectl.get::<Head>(&self.resource(), scope, &head.metadata.name).await?);
                }
                Err(error) => refused.push(refusal(self.shown(head), error)?),
            }
        }
        Ok(made)
    }

    async fn write_statuses(
        &self,
        statuses: &mut Vec<Object>,
        row: &mut RestoreRow,
        refused: &mut Vec<Refused>,
    ) -> Result<(), CommandError> {
        for some in statuses.chunks(BATCH) {
            match self.kubectl.replace_all::<IgnoredAny>(&list(some)?, "status").await {
                Ok(written) => row.status_written += written.len() as u64,
                Err(error) if is_refusal(&error) => {
                    for one in some {
                        let document = list(std::slice::from_ref(one))?;
                        match self.kubectl.replace_all::<IgnoredAny>(&document, "status").await {
                            Ok(_) => row.status_written += 1,
                            Err(error) => {
                                let what = format!("status of {}", self.shown(&Object::head(&one.text()?)?));
                                refused.push(refusal(what, error)?);
                            }
                        }
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        statuses.clear();
        Ok(())
    }

    /// Name, version and group, as kubectl takes them.
    fn resource(&self) -> String {
        let (plural, group) = self.definition.name.split_once('.').unwrap_or_default();
        format!("{plural}.{}.{group}", self.version.name)
    }

    /// What the cluster has of this kind.
    async fn there(&self) -> Result<BTreeMap<Key, There>, CommandError> {
        let (plural, group) = self.definition.name.split_once('.').unwrap_or_default();
        let path = format!("/apis/{group}/{}/{plural}", self.version.name);
        let mut there = BTreeMap::new();
        let mut next = None;
        loop {
            let page = page(self.kubectl, &path, next.as_deref(), None).await?;
            for item in &page.items {
                let (head, object) = (Object::head(item.get())?, Object::parse(item.get())?);
                let one = There {
                    content: object.content()?,
                    status: object.status().is_some(),
                    owners: !head.metadata.owner_references.is_empty(),
                    leaving: head.metadata.deletion_timestamp.is_some(),
                    uid: head.metadata.uid.clone(),
                };
                there.insert(head.key(), one);
            }
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return Ok(there);
            }
        }
    }

    fn shown(&self, head: &Head) -> String {
        let name = &head.metadata.name;
        match &head.metadata.namespace {
            Some(namespace) => format!("{} {namespace}/{name}", self.definition.name),
            None => format!("{} {name}", self.definition.name),
        }
    }
}

impl Owners {
    /// Writes whose objects are, by the uids that the owners have now; those whose owners are gone.
    async fn write(self, kubectl: &Kubectl, refused: &mut Vec<Refused>) -> Result<Vec<String>, CommandError> {
        let mut known: BTreeMap<String, bool> = BTreeMap::new();
        let (mut gone, mut documents) = (Vec::new(), Vec::new());
        for (object, head) in self.waiting {
            let mut owners: Vec<Owner> = Vec::new();
            for owner in head.metadata.owner_references {
                if let Some(uid) = self.now.get(&owner.uid) {
                    owners.push(Owner { uid: uid.clone(), ..owner });
                    continue;
                }
                let there = match known.get(&owner.uid) {
                    Some(there) => *there,
                    None => is_there(kubectl, &owner, head.metadata.namespace.as_deref()).await?,
                };
                known.insert(owner.uid.clone(), there);
                if there {
                    owners.push(owner);
                } else {
                    gone.push(format!("{} (was of {} {})", head.metadata.name, owner.kind, owner.name));
                }
            }
            if !owners.is_empty() {
                documents.push((head.metadata.name, object.only_owners(&owners)?));
            }
        }
        for some in documents.chunks(BATCH) {
            let all: Vec<Object> = some.iter().map(|(_, object)| object.clone()).collect();
            match kubectl.apply(&list(&all)?, false).await {
                Ok(()) => {}
                Err(error) if is_refusal(&error) => {
                    for (name, object) in some {
                        if let Err(error) = kubectl.apply(&list(std::slice::from_ref(object))?, false).await {
                            refused.push(refusal(format!("owners of {name}"), error)?);
                        }
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(gone)
    }
}

/// Whether it is what was sent that was not taken, so that others may be.
fn is_refusal(error: &StockError) -> bool {
    let codes = [
        StockCode::Invalid,
        StockCode::Forbidden,
        StockCode::ObjectExists,
        StockCode::ObjectMissing,
        StockCode::Conflict,
        // An admission webhook, in its own words.
        StockCode::Failed,
    ];
    codes.contains(&error.code())
}

fn refusal(what: String, error: StockError) -> Result<Refused, CommandError> {
    if !is_refusal(&error) {
        return Err(error.into());
    }
    let because = error.said().lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Ok(Refused { what, because: printable(because) })
}

/// Whether an owner that is in no backup is still the same.
async fn is_there(kubectl: &Kubectl, owner: &Owner, namespace: Option<&str>) -> Result<bool, CommandError> {
    let resource = match owner.api_version.split_once('/') {
        Some((group, version)) => format!("{}.{version}.{group}", owner.kind),
        None => owner.kind.clone(),
    };
    let scope = namespace.map_or(Scope::Cluster, Scope::Namespace);
    match kubectl.get::<Head>(&resource, scope, &owner.name).await {
        Ok(there) => Ok(there.is_some_and(|there| there.metadata.uid == owner.uid)),
        // A kind that the cluster does not know any more has no objects.
        Err(error) if error.said().contains("the server doesn't have a resource type") => Ok(false),
        Err(error) => Err(error.into()),
    }
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
