//! The machines on record, as objects.

use std::cell::RefCell;
use std::time::Duration;

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::objects::{ENROLMENT_MAP, GROUP, NAMESPACE, NODE, PENDING_MAP, node_object};
use latchkey_cluster_store::{Enrolment, NodeRecord, NotDenied, PendingRecord, PinnedRule, Role};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::etcd::Etcd;
use super::objects::Metadata;
use super::{ApiServer, DenialMaps as _, KubernetesNode, Maps as _, malformed, others_first};
use crate::admission::{Admission, Removed};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::stock::{Scope, StockCode};

/// The key of [`ENROLMENT_MAP`] that has the join rules.
const ENROLMENT_FILE: &str = "enrolment.json";
/// How long a node's pods may take to go.
const DRAIN: Duration = Duration::from_mins(5);

/// An object among the records. What it says is read as a record is, or not at all.
#[derive(Deserialize)]
struct NodeObject {
    metadata: Metadata,
    spec: NodeSpec,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NodeSpec {
    Record(Box<NodeRecord>),
    Other(IgnoredAny),
}

/// Any object of which only that it is there counts.
#[derive(Deserialize)]
struct Exists {}

fn rules_in(data: &super::Data) -> Result<Enrolment, CommandError> {
    let text = data.get(ENROLMENT_FILE).map(String::as_bytes).unwrap_or_default();
    Enrolment::parse(text).map_err(|error| malformed(ENROLMENT_MAP, &error))
}

/// There is an object of this name among the records, and no record in it.
fn not_readable(ek: EkDigest) -> CommandError {
    let what = format!(
        "attestednodes/{ek} cannot be read as a record: what must be done before its machine goes is not known"
    );
    let failure = CommandError::new(Exit::Usage, CommandCode::FileMalformed, what);
    failure.fix(
        "correct it with kubectl edit, and run the command again; `latchkey node deny` shuts its machine out meanwhile",
    )
}

pub(super) fn resource((_, plural): (&str, &str)) -> String {
    format!("{plural}.{GROUP}")
}

impl ApiServer {
    /// All records, and what is wrong with those that cannot be read.
    pub(crate) async fn records(&self) -> Result<(Vec<NodeRecord>, Vec<String>), CommandError> {
        let objects: Vec<NodeObject> = self.kubectl().list(&resource(NODE), Scope::Cluster).await?;
        let (mut nodes, mut wrong) = (Vec::new(), Vec::new());
        for NodeObject { metadata, spec } in objects {
            let about = format!("attestednodes/{}", metadata.name);
            match spec {
                NodeSpec::Other(_) => wrong.push(format!("{about} is no record of this release")),
                NodeSpec::Record(record) if record.ek_sha256.to_string() != metadata.name => {
                    wrong.push(format!("{about}: it is of EK {}", record.ek_sha256));
                }
                NodeSpec::Record(record) => match record.check() {
                    Ok(()) => nodes.push(*record),
                    Err(error) => wrong.push(format!("{about}: {error}")),
                },
            }
        }
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((nodes, wrong))
    }

    /// Machines that wait for the operator.
    pub(crate) async fn waiting(&self) -> Result<Vec<PendingRecord>, CommandError> {
        let data = self.data_if_any(PENDING_MAP).await?;
        // Nothing is decided by them: one that cannot be read is written anew when its machine asks again.
        Ok(data.values().filter_map(|text| PendingRecord::parse(text.as_bytes()).ok()).collect())
    }

    pub(crate) async fn let_in(&self, of: &NotDenied, said: &Admission) -> Result<PinnedRule, CommandError> {
        let ek = of.ek();
        let rule = RefCell::new(None);
        self.change_rules(|rules| {
            *rule.borrow_mut() = Some(said.write_into(rules, of));
            true
        })
        .await?;
        let heard = |data: &mut super::Data| Ok(data.remove(&format!("{ek}.json")).is_some());
        self.change(PENDING_MAP, heard).await?;
        rule.into_inner().ok_or_else(|| others_first(ENROLMENT_MAP))
    }

    /// Shuts a machine out and forgets it, if there is anything of it. One whose record cannot be read stays as it is: what its role
    /// demands before it goes, and which Node it is, nobody can say.
    ///
    /// The denial comes first, so that it gets no key while the rest is done and from then on; then its pods go elsewhere, then its
    /// member of etcd, the Node, and the record. Each step is one that is done already when the command is run again. A control plane goes only if the etcd of another one is there to be asked.
    pub(crate) async fn forget(
        &self,
        ek: EkDigest,
        record: Option<&NodeRecord>,
    ) -> Result<Option<Removed>, CommandError> {
        if record.is_none() {
            if self.kubectl().get::<Exists>(&resource(NODE), Scope::Cluster, &ek.to_string()).await?.is_some() {
                return Err(not_readable(ek));
            }
            if self.rules().await?.of(&ek).pinned.is_none() {
                return Ok(None);
            }
        }
        let control_plane = record.filter(|record| record.role == Role::ControlPlane);
        let etcd = match control_plane {
            Some(record) => Some((self.etcd_beside(record).await?, record)),
            None => None,
        };
        self.shut_out(ek, "removed with `latchkey node remove`").await?;
        let removed = self.remove_all(ek, record, etcd).await;
        removed.map(|()| Some(Removed { denied: true })).map_err(|failure| {
            failure.because("the machine is shut out by now, and not all of it is removed: the same command goes on, `latchkey node allow` takes the denial back")
        })
    }

    /// What is left to do once it is shut out.
    async fn remove_all(
        &self,
        ek: EkDigest,
        record: Option<&NodeRecord>,
        etcd: Option<(Etcd, &NodeRecord)>,
    ) -> Result<(), CommandError> {
        self.change_rules(|rules| rules.forget(&ek)).await?;
        if let Some(record) = record {
            let name = record.name.as_str();
            if let Some(node) = self.kubectl().get::<KubernetesNode>("node", Scope::Cluster, name).await? {
                self.drain(name, node.is_ready(), DRAIN).await?;
            }
            if let Some((etcd, record)) = etcd {
                self.leave_etcd(&etcd, record).await?;
            }
            self.kubectl().delete("node", Scope::Cluster, name).await?;
        }
        self.end_turn(ek).await?;
        // The record last: by it the machine is found when this is done again.
        Ok(self.kubectl().delete(&resource(NODE), Scope::Cluster, &ek.to_string()).await?)
    }

    /// Has a node's pods go elsewhere. What kubectl said of those that do not is kept: it names the pod and its budget.
    pub(crate) async fn drain(&self, name: &str, is_there: bool, allowed: Duration) -> Result<(), CommandError> {
        self.kubectl().drain(name, is_there, allowed).await.map_err(|error| {
            if !error.is(StockCode::Failed) && !error.is(StockCode::Late) {
                return error.into();
            }
            let failure = CommandError::local(CommandCode::NodeNotDrained, "not all of the node's pods went elsewhere");
            let said = CommandError::from(error);
            said.because.iter().fold(failure.because(&said.what), CommandError::because)
        })
    }

    /// Puts a record there, unless the machine has one.
    pub(crate) async fn put_on_record(&self, record: &NodeRecord) -> Result<(), CommandError> {
        let (records, _) = self.records().await?;
        let shares = |other: &&NodeRecord| {
            let disk = other.uuids().any(|uuid| record.uuids().any(|own| own == uuid));
            other.ek_sha256 != record.ek_sha256 && (other.name == record.name || disk)
        };
        if let Some(NodeRecord { ek_sha256, name, .. }) = records.iter().find(shares) {
            let what = format!("{}, or a disk of it, is that of {name}, the machine {ek_sha256}", record.name);
            return Err(CommandError::new(Exit::Failed, CommandCode::MachineOnRecord, what));
        }
        self.create_record(record).await
    }

    /// Makes a record; one that is there already stays.
    pub(super) async fn create_record(&self, record: &NodeRecord) -> Result<(), CommandError> {
        match self.kubectl().create::<Exists>(node_object(record).to_string().as_bytes()).await {
            Ok(_) => Ok(()),
            Err(error) if error.is(StockCode::ObjectExists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn rules(&self) -> Result<Enrolment, CommandError> {
        rules_in(&self.data(ENROLMENT_MAP).await?)
    }

    /// Changes the join rules; `change` says whether it did.
    async fn change_rules(&self, change: impl Fn(&mut Enrolment) -> bool) -> Result<bool, CommandError> {
        let changed = |data: &mut super::Data| {
            let mut rules = rules_in(data)?;
            if !change(&mut rules) {
                return Ok(false);
            }
            let text = serde_json::to_string_pretty(&rules).unwrap_or_default();
            // What the join service would not take is not written.
            Enrolment::parse(text.as_bytes()).map_err(|error| malformed(ENROLMENT_MAP, &error))?;
            data.insert(ENROLMENT_FILE.to_owned(), text);
            Ok(true)
        };
        self.change(ENROLMENT_MAP, changed).await
    }

    /// Where the documents are, for people.
    pub(crate) fn place(&self) -> String {
        format!("the namespace {NAMESPACE} by {}", self.shown())
    }
}
