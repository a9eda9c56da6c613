//! The objects of one definition: those that are missing are made, with their status.

use std::collections::BTreeMap;

use latchkey_kubernetes::Sha256;
use serde::de::IgnoredAny;

use super::super::create::page;
use super::super::manifest::{Backup, Definition, Version};
use super::super::object::{Head, Key, Object, list};
use super::owners::Owners;
use super::refused::{Refused, is_refusal, refusal};
use super::{BATCH, RestoreReport, RestoreRow};
use crate::error::CommandError;
use crate::output::Output;
use crate::stock::{Kubectl, Scope, StockCode};

/// How much is sent at once, beside how many.
const BATCH_BYTES: usize = 4 << 20;

/// An object of the cluster, as it is now.
struct There {
    uid: String,
    content: Sha256,
    status: bool,
    owners: bool,
    leaving: bool,
}

/// Statuses that are still to be written, and whose they are.
type Statuses = Vec<(String, Object)>;

/// The objects of one definition.
pub(super) struct Job<'a> {
    pub(super) kubectl: &'a Kubectl,
    pub(super) backup: &'a Backup,
    pub(super) definition: &'a Definition,
    pub(super) version: &'a Version,
    /// Whether objects are made that are missing.
    pub(super) makes: bool,
    pub(super) output: &'a Output,
}

impl Job<'_> {
    pub(super) async fn run(
        &self,
        row: &mut RestoreRow,
        owners: &mut Owners,
        report: &mut RestoreReport,
    ) -> Result<(), CommandError> {
        let there = self.there().await?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut statuses = Statuses::new();
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
                    statuses.extend(object.only_status()?.map(|status| (self.shown(&head), status)));
                }
                if !there.owners && !head.metadata.owner_references.is_empty() {
                    owners.waiting.push((object.only_name()?, head));
                }
                continue;
            }
            if !self.makes {
                report.removed_since.push(self.shown(&head));
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
        statuses: &mut Statuses,
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
                statuses.extend(object.only_status()?.map(|status| (what, status)));
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
        statuses: &mut Statuses,
        row: &mut RestoreRow,
        refused: &mut Vec<Refused>,
    ) -> Result<(), CommandError> {
        for some in statuses.chunks(BATCH) {
            let objects: Vec<Object> = some.iter().map(|(_, status)| status.clone()).collect();
            match self.kubectl.replace_all::<IgnoredAny>(&list(&objects)?, "status").await {
                Ok(written) => row.status_written += written.len() as u64,
                Err(error) if is_refusal(&error) => {
                    for (of, one) in some {
                        let document = list(std::slice::from_ref(one))?;
                        match self.kubectl.replace_all::<IgnoredAny>(&document, "status").await {
                            Ok(_) => row.status_written += 1,
                            Err(error) => refused.push(refusal(format!("status of {of}"), error)?),
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
