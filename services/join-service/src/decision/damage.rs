//! Record files that cannot be used, and records that contradict each other: each costs what it names.

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{DamagedRecord, NodeName};
use latchkey_keys::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// All of them, by the file's name.
#[derive(Clone, Debug, Default)]
pub struct Damage {
    files: BTreeMap<String, DamagedRecord>,
    /// Names that two good records claim: nobody gets them until one of the records is gone.
    contested_names: BTreeSet<NodeName>,
    contested_disks: BTreeSet<Uuid>,
}

impl Damage {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    pub fn insert(&mut self, record: DamagedRecord) {
        self.files.insert(record.file.clone(), record);
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether all is well.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &DamagedRecord> {
        self.files.values()
    }

    /// Whether a file that cannot be used names this TPM.
    pub(super) fn names_ek(&self, ek: &EkDigest) -> bool {
        self.iter().any(|record| record.eks.contains(ek))
    }

    /// Whether this name is nobody's to have: `own` says that it is on the asker's own record.
    pub(super) fn takes_name(&self, name: &NodeName, own: bool) -> bool {
        self.contested_names.contains(name) || (!own && self.iter().any(|record| record.names.contains(name)))
    }

    /// The same of a disk.
    pub(super) fn takes_disk(&self, disk: &Uuid, own: bool) -> bool {
        self.contested_disks.contains(disk) || (!own && self.iter().any(|record| record.disks.contains(disk)))
    }

    /// Two good records claim this name.
    pub(super) fn contest_name(&mut self, name: &NodeName, owners: [EkDigest; 2]) {
        self.contested_names.insert(name.clone());
        self.contradict(owners, &format!("the name {name}"));
    }

    /// Two good records claim this disk.
    pub(super) fn contest_disk(&mut self, disk: Uuid, owners: [EkDigest; 2]) {
        self.contested_disks.insert(disk);
        self.contradict(owners, &format!("the disk {disk}"));
    }

    fn contradict(&mut self, [one, other]: [EkDigest; 2], what: &str) {
        for (ek, other) in [(one, other), (other, one)] {
            let why = format!("{what} is also in {other}.json");
            // Nothing of a good record is blocked but what it shares.
            let file = format!("{ek}.json");
            self.files.entry(file.clone()).or_insert(DamagedRecord { file, why, ..DamagedRecord::default() });
        }
    }

    /// What a file named when it could still be read, it goes on to name: `known` knows the records of before.
    pub(super) fn inherit(&mut self, before: &Self, known: impl Fn(&EkDigest) -> Option<(NodeName, Vec<Uuid>)>) {
        for (file, record) in &mut self.files {
            if let Some(old) = before.files.get(file) {
                record.eks.extend(&old.eks);
                record.names.extend(old.names.iter().cloned());
                record.disks.extend(&old.disks);
            }
            // Only the file that is named after the machine was its record.
            if let Some((name, disks)) = record.named().and_then(|ek| known(&ek)) {
                record.names.insert(name);
                record.disks.extend(disks);
            }
        }
    }
}
