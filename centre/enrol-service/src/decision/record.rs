//! What was decided: one record for each cluster.

use latchkey_attestation::validate::AdmittedImage;
use latchkey_attestation::{Digest, EkDigest};
use latchkey_cluster_store::registration::InvitationHash;
use latchkey_factory_plus::cluster::{Configuration, RegisteredBy, RegisteredImage, Registration};
use latchkey_factory_plus::{ClusterName, Uuid};
use latchkey_keys::Uuid as Disk;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A cluster that was taken up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Schema: 1.
    pub version: u64,
    /// The cluster, at the centre.
    pub cluster: Uuid,
    /// Its name.
    pub name: ClusterName,
    /// Its namespace.
    pub namespace: String,
    /// Its Helm chart template.
    pub chart: Uuid,
    /// Whether Flux's own manifests stay out of its repository.
    pub bare: bool,
    /// The TPM of its first node.
    pub ek_sha256: EkDigest,
    /// That node's state disk.
    pub disk: Disk,
    /// What the node is locked to: the quoted value of PCR 15.
    pub lock: Digest,
    /// What it ran.
    pub image: Image,
    /// SHA-256 over the policy and the manifests that it was judged by, in hexadecimal.
    pub policy_sha256: String,
    /// By whose word.
    pub by: By,
    /// When: seconds since the Unix epoch.
    pub at: u64,
    /// Whether its configuration was written: if there is none later, somebody deleted the cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub configured: bool,
    /// Whether nothing of the cluster was left at the centre when somebody asked: it was deleted and decommissioned, or nothing was
    /// made. Then its name is free. All else of the record holds on: its machine does not come back with this disk and lock, and
    /// its invitation stays used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

/// An image of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The manifest.
    pub manifest: String,
    /// Its revision.
    pub serial: u64,
    /// The image.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The type of machine.
    pub machine: String,
}

/// By whose word a cluster was taken up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// An invitation.
    Invitation(InvitationHash),
    /// The rule of this name.
    Rule(String),
    /// The operator's word on a machine that waited.
    Operator(Uuid),
}

impl Image {
    /// The image that evidence matched.
    pub fn of(image: &AdmittedImage) -> Self {
        Self {
            manifest: image.manifest.to_string(),
            serial: image.serial,
            name: image.name.clone(),
            version: image.version.to_string(),
            machine: image.machine.clone(),
        }
    }
}

impl Record {
    /// What the cluster manager is asked for.
    pub fn configuration(&self) -> Configuration {
        Configuration {
            chart: self.chart,
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            bare: self.bare,
            values: if self.bare { Configuration::bare_values() } else { serde_json::Map::new() },
        }
    }

    /// What is shown with the cluster.
    pub fn registration(&self) -> Registration {
        let Image { manifest, serial, name, version, machine } = self.image.clone();
        Registration {
            ek_sha256: self.ek_sha256.to_string(),
            image: RegisteredImage { manifest, serial, name, version, machine },
            policy_sha256: self.policy_sha256.clone(),
            by: match &self.by {
                By::Invitation(hash) => RegisteredBy::Invitation(hash.to_string()),
                By::Rule(name) => RegisteredBy::Rule(name.clone()),
                By::Operator(word) => RegisteredBy::Operator(*word),
            },
            at: self.at,
        }
    }
}

/// All records, by the cluster's UUID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records(BTreeMap<Uuid, Record>);

impl Records {
    /// Puts a record in the place of an earlier one of the same cluster.
    pub fn put(&mut self, record: Record) {
        self.0.insert(record.cluster, record);
    }

    /// The record of a cluster.
    pub fn get(&self, cluster: Uuid) -> Option<&Record> {
        self.0.get(&cluster)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.0.values()
    }

    /// Clusters whose names are taken, and that were made: those that may have ended since.
    pub fn made(&self) -> impl Iterator<Item = Uuid> {
        self.iter().filter(|record| record.configured && !record.ended).map(|record| record.cluster)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The cluster that this machine made with this disk.
    pub(super) fn of_machine(&self, ek: &EkDigest, disk: Disk) -> Option<&Record> {
        self.iter().find(|record| record.ek_sha256 == *ek && record.disk == disk)
    }

    pub(super) fn of_lock(&self, lock: &Digest) -> Option<&Record> {
        self.iter().find(|record| record.lock == *lock)
    }

    pub(super) fn has_name(&self, name: &ClusterName) -> bool {
        self.iter().any(|record| !record.ended && record.name.folded() == name.folded())
    }

    pub(super) fn used(&self, by: &By) -> bool {
        self.iter().any(|record| record.by == *by)
    }

    /// Clusters that were taken up by this rule after this second.
    pub(super) fn by_rule_since(&self, rule: &str, since: u64) -> usize {
        let of_rule = |record: &&Record| matches!(&record.by, By::Rule(name) if name == rule) && record.at > since;
        self.iter().filter(of_rule).count()
    }
}
