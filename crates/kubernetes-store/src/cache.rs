//! The records as the API server told of them, and which of them somebody has not heard of yet. No I/O.
//!
//! News come in two ways: the watch tells of everything, late; answers to one's own requests tell of one object, at once. So each
//! is taken only where it is later than what is known, and that an object is gone is remembered as the revision it went at.

use crate::objects::NodeObject;
use kube::api::ObjectMeta;
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{Change, DamagedRecord, Listing, News, Recorded};
use std::collections::{BTreeMap, BTreeSet};

/// More nodes than a cluster has.
pub(crate) const MAX_NODES: usize = 100_000;
/// Machines of which it is remembered that their record went, until the next listing. Beyond that everything is told anew.
const MAX_GONE: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Cache {
    records: BTreeMap<EkDigest, Known>,
    damaged: BTreeMap<String, DamagedRecord>,
    gone: BTreeMap<EkDigest, u64>,
    untold: BTreeSet<EkDigest>,
    /// The next news is everything.
    all: bool,
    /// A listing is complete.
    listed: bool,
}

/// A record, and what else its object carries.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) recorded: Recorded,
    pub(crate) metadata: ObjectMeta,
}

/// There are more objects than a cluster has nodes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Cache {
    /// Whether there was a complete listing.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    /// The next news is everything.
    pub(crate) fn doubt(&mut self) {
        self.all = true;
    }

    /// The record, and what its object carries.
    pub(crate) fn get(&self, ek: &EkDigest) -> Option<&Known> {
        self.records.get(ek)
    }

    /// An object as the watch, or an answer, has it. Whether that is news.
    pub(crate) fn apply(&mut self, object: NodeObject) -> Result<bool, TooMany> {
        match object {
            NodeObject::Record(recorded, metadata) => self.apply_record(*recorded, *metadata),
            NodeObject::Damaged(damaged) => {
                // Its revision does not count: whatever it was, it is not a record now.
                if let Some(ek) = damaged.named() {
                    self.records.remove(&ek);
                }
                self.all = true;
                self.damaged.insert(damaged.file.clone(), *damaged);
                self.bounded().map(|()| true)
            }
        }
    }

    fn apply_record(&mut self, recorded: Recorded, metadata: ObjectMeta) -> Result<bool, TooMany> {
        let (ek, revision) = (recorded.ek_sha256, recorded.revision());
        let known = self.records.get(&ek).map(|known| known.recorded.revision());
        let gone = self.gone.get(&ek).copied();
        // Whoever wrote it must hear of it all the same: what it took over may be what is gone by now.
        self.untold.insert(ek);
        if known.is_some_and(|known| known >= revision) || gone.is_some_and(|gone| gone >= revision) {
            return Ok(false);
        }
        self.gone.remove(&ek);
        if self.damaged.remove(&ek.to_string()).is_some() {
            self.all = true;
        }
        self.records.insert(ek, Known { recorded, metadata });
        self.bounded().map(|()| true)
    }

    fn bounded(&self) -> Result<(), TooMany> {
        if self.records.len() + self.damaged.len() > MAX_NODES { Err(TooMany) } else { Ok(()) }
    }

    /// An object is gone, as of this revision.
    pub(crate) fn delete(&mut self, name: &str, revision: u64) {
        if self.damaged.remove(name).is_some() {
            self.all = true;
        }
        let Some(ek) = EkDigest::from_hex(name) else { return };
        if self.records.get(&ek).is_some_and(|known| known.recorded.revision() > revision) {
            return;
        }
        self.records.remove(&ek);
        self.untold.insert(ek);
        self.gone.insert(ek, revision);
        if self.gone.len() > MAX_GONE {
            self.gone.clear();
            self.all = true;
        }
    }

    /// Everything there is, as a listing has it that began when `begun` was the newest revision known. Machines that it does not
    /// have and of which something later than `begun` was learnt stay: whether they are gone has to be asked.
    pub(crate) fn replace(&mut self, objects: Vec<NodeObject>, begun: u64) -> Result<Vec<EkDigest>, TooMany> {
        let mut listed = BTreeSet::new();
        self.damaged.clear();
        for object in objects {
            if let NodeObject::Record(recorded, _) = &object {
                listed.insert(recorded.ek_sha256);
            }
            self.apply(object)?;
        }
        self.records.retain(|ek, known| listed.contains(ek) || known.recorded.revision() > begun);
        self.gone.retain(|_, revision| *revision > begun);
        (self.all, self.listed) = (true, true);
        Ok(self.records.keys().filter(|ek| !listed.contains(*ek)).copied().collect())
    }

    /// The highest revision that is known.
    pub(crate) fn newest(&self) -> u64 {
        let records = self.records.values().map(|known| known.recorded.revision());
        records.chain(self.gone.values().copied()).max().unwrap_or(0)
    }

    /// Whether somebody has not heard of something.
    pub(crate) fn has_news(&self) -> bool {
        self.all || !self.untold.is_empty()
    }

    /// What has not been told yet.
    pub(crate) fn news(&mut self) -> News {
        let untold = std::mem::take(&mut self.untold);
        if std::mem::take(&mut self.all) {
            let records = self.records.values().map(|known| known.recorded.clone()).collect();
            return News::All(Listing { records, damaged: self.damaged.values().cloned().collect() });
        }
        if untold.is_empty() {
            return News::None;
        }
        let change = |ek: EkDigest| match self.records.get(&ek) {
            Some(known) => Change::Recorded(Box::new(known.recorded.clone())),
            None => Change::Gone(ek),
        };
        News::Changes(untold.into_iter().map(change).collect())
    }
}
