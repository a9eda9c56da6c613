//! The records as the API server told of them, and which of them somebody has not heard of yet. No I/O.
//!
//! A listing is the truth, whatever its revisions: where etcd was restored they go backwards. Between two listings news come in two
//! ways: the watch tells of everything, late; answers to one's own requests tell of one object, at once. An answer is the truth unless
//! something was learnt of its machine since it was asked for; of what may have crossed on the way the higher revision is the later. But
//! whose a name or a disk is, listings and the watch say alone ([`crate::naming`]): an answer counts once they have told of what it claims.

use crate::naming::{Claims, Naming, RESERVES};
use crate::objects::NodeObject;
use kube::api::ObjectMeta;
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{Change, DamagedRecord, Listing, News, Recorded};
use std::collections::{BTreeMap, BTreeSet};

/// More nodes than a cluster has.
pub(crate) const MAX_NODES: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct Cache {
    naming: Naming,
    machines: BTreeMap<EkDigest, Machine>,
    damaged: BTreeMap<String, DamagedRecord>,
    untold: BTreeSet<EkDigest>,
    /// The next news is everything.
    all: bool,
    /// A listing is complete.
    listed: bool,
    /// Counts what is asked and what is learnt.
    moment: u64,
}

/// What was learnt of a machine last, by the last listing or since.
#[derive(Clone, Debug)]
struct Machine {
    /// `None`: its record is gone since the last listing.
    known: Option<Known>,
    revision: u64,
    learnt: Moment,
}

/// A record, and what else its object carries.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) recorded: Recorded,
    pub(crate) metadata: ObjectMeta,
}

/// Before a request is made: what is learnt later may be later than its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

/// There are more objects than a cluster has nodes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Machine {
    fn recorded(&self) -> Option<&Recorded> {
        self.known.as_ref().map(|known| &known.recorded)
    }
}

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
        self.machines.get(ek)?.known.as_ref()
    }

    /// The machine's record if it is lost, as it was when it was seen to be: an answer may have told of a later state that was found to be
    /// the first one since.
    pub(crate) fn lost(&self, ek: &EkDigest) -> Option<Known> {
        let known = self.get(ek)?;
        (self.naming.is_lost_at(ek, known.recorded.revision())).then(|| known.clone())
    }

    /// The records that reserve something.
    pub(crate) fn reserving(&self) -> BTreeMap<EkDigest, Known> {
        let reserves = |known: &Known| known.metadata.annotations.as_ref().is_some_and(|it| it.contains_key(RESERVES));
        let all = self.machines.iter().filter_map(|(ek, machine)| machine.known.as_ref().map(|known| (ek, known)));
        all.filter(|(_, known)| reserves(known)).map(|(ek, known)| (*ek, known.clone())).collect()
    }

    /// Whose what is.
    pub(crate) fn naming(&self) -> &Naming {
        &self.naming
    }

    /// Before something is asked for.
    pub(crate) fn moment(&mut self) -> Moment {
        self.moment += 1;
        Moment(self.moment)
    }

    /// An object as the watch tells of it. Whether that is news.
    pub(crate) fn heard(&mut self, object: NodeObject) -> Result<bool, TooMany> {
        let touched = self.naming.heard(Claims::of(&object));
        self.touch(&touched);
        self.take(object, None)
    }

    /// Whoever knows these records may have to hear of them anew.
    fn touch(&mut self, objects: &BTreeSet<String>) {
        self.untold.extend(objects.iter().filter_map(|object| EkDigest::from_hex(object)));
    }

    /// An object as the answer to a request has it that was made then; the watch has told of what it claims ([`Naming::knows`]).
    pub(crate) fn answered(&mut self, object: NodeObject, asked: Moment) -> Result<bool, TooMany> {
        self.take(object, Some(asked))
    }

    fn take(&mut self, object: NodeObject, asked: Option<Moment>) -> Result<bool, TooMany> {
        match object {
            NodeObject::Record(recorded, metadata, _) => {
                let (ek, revision) = (recorded.ek_sha256, recorded.revision());
                // Whoever wrote it must hear of it all the same: what it took over may be what is gone by now.
                self.untold.insert(ek);
                let is_later = |known: &Machine| asked.is_some_and(|asked| known.learnt < asked);
                if self.machines.get(&ek).is_some_and(|known| !is_later(known) && known.revision >= revision) {
                    return Ok(false);
                }
                if self.damaged.remove(&ek.to_string()).is_some() {
                    self.all = true;
                }
                self.learn(ek, Some(Known { recorded: *recorded, metadata: *metadata }), revision);
            }
            NodeObject::Damaged(damaged, _) => {
                // Its revision does not count: whatever it was, it is not a record now.
                if let Some(ek) = damaged.named() {
                    self.machines.remove(&ek);
                }
                self.all = true;
                self.damaged.insert(damaged.file.clone(), *damaged);
            }
        }
        self.bounded().map(|()| true)
    }

    fn learn(&mut self, ek: EkDigest, known: Option<Known>, revision: u64) {
        let learnt = self.moment();
        self.machines.insert(ek, Machine { known, revision, learnt });
    }

    fn bounded(&self) -> Result<(), TooMany> {
        if self.machines.len() + self.damaged.len() > MAX_NODES { Err(TooMany) } else { Ok(()) }
    }

    /// The watch tells that an object is gone, as of this revision.
    pub(crate) fn deleted(&mut self, name: &str, revision: u64) {
        if self.damaged.remove(name).is_some() {
            self.all = true;
        }
        let touched = self.naming.gone(name);
        self.touch(&touched);
        let Some(ek) = EkDigest::from_hex(name) else { return };
        if self.machines.get(&ek).is_none_or(|known| known.revision <= revision) {
            self.untold.insert(ek);
            self.learn(ek, None, revision);
        }
    }

    /// The answer to a request that was made then is that there is no such object.
    pub(crate) fn absent(&mut self, ek: EkDigest, asked: Moment) {
        if self.machines.get(&ek).is_none_or(|known| known.learnt < asked) {
            self.untold.insert(ek);
            // Whatever the watch tells of it from now on is another object, or told of its end next.
            self.learn(ek, None, 0);
        }
    }

    /// The same of a listing of the one who watches: it says whose what is, too.
    pub(crate) fn listed(&mut self, objects: Vec<NodeObject>, asked: Moment) -> Result<Vec<EkDigest>, TooMany> {
        let touched = self.naming.listed(objects.iter().map(Claims::of).collect());
        self.touch(&touched);
        self.replace(objects, asked)
    }

    /// Everything there is, as a listing has it that was asked for then. Machines of which something else was learnt since stay as that
    /// is: which of the two is the later has to be asked.
    pub(crate) fn replace(&mut self, objects: Vec<NodeObject>, asked: Moment) -> Result<Vec<EkDigest>, TooMany> {
        let (mut listed, mut damaged) = (BTreeMap::new(), BTreeMap::new());
        let learnt = self.moment();
        for object in objects {
            match object {
                NodeObject::Record(recorded, metadata, _) => {
                    let (ek, revision) = (recorded.ek_sha256, recorded.revision());
                    let known = Some(Known { recorded: *recorded, metadata: *metadata });
                    listed.insert(ek, Machine { known, revision, learnt });
                }
                NodeObject::Damaged(object, _) => drop(damaged.insert(object.file.clone(), *object)),
            }
        }
        let before = std::mem::replace(&mut self.machines, listed);
        let is_new = |ek: &EkDigest| before.get(ek).and_then(Machine::recorded).is_none();
        let is_other =
            |(ek, known): &(EkDigest, Machine)| known.recorded() != self.get(ek).map(|known| &known.recorded);
        let others_are_new = self.machines.keys().any(is_new);
        let others: Vec<(EkDigest, Machine)> = before.into_iter().filter(is_other).collect();
        // The watch has told of most of it.
        self.all |= !self.listed || self.damaged != damaged || others_are_new || !others.is_empty();
        (self.damaged, self.listed) = (damaged, true);
        let crossed: Vec<_> = others.into_iter().filter(|(_, known)| known.learnt > asked).collect();
        let unsure = crossed.iter().map(|(ek, _)| *ek).collect();
        self.machines.extend(crossed);
        self.bounded().map(|()| unsure)
    }

    /// Whether somebody has not heard of something.
    pub(crate) fn has_news(&self) -> bool {
        self.all || !self.untold.is_empty()
    }

    fn told(&self, recorded: &Recorded) -> Recorded {
        let recorded = recorded.clone();
        if self.naming.is_sure(&recorded.ek_sha256) { recorded } else { recorded.unconfirmed() }
    }

    /// What has not been told yet.
    pub(crate) fn news(&mut self) -> News {
        let untold = std::mem::take(&mut self.untold);
        if std::mem::take(&mut self.all) {
            let known = self.machines.iter().filter(|(ek, _)| !self.naming.is_withheld(ek));
            let records = known.filter_map(|(_, machine)| machine.recorded().map(|it| self.told(it))).collect();
            return News::All(Listing { records, damaged: self.damaged.values().cloned().collect() });
        }
        if untold.is_empty() {
            return News::None;
        }
        let change = |ek: EkDigest| match self.get(&ek).filter(|_| !self.naming.is_withheld(&ek)) {
            Some(known) => Change::Recorded(Box::new(self.told(&known.recorded))),
            None => Change::Gone(ek),
        };
        News::Changes(untold.into_iter().map(change).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{node_object, node_of};
    use latchkey_cluster_store::{NodeRecord, Role};

    fn ek(number: u8) -> EkDigest {
        EkDigest::from_hex(&format!("{number:02x}").repeat(32)).unwrap()
    }

    /// The object of a machine's record at a revision; the record says when it was written.
    fn object(number: u8, revision: u64, at: u64) -> NodeObject {
        let uuid = format!("0a0a0a0a-0000-4000-8000-{number:012x}").parse().unwrap();
        let name = format!("n-{number}").parse().unwrap();
        let record = NodeRecord::first(ek(number), name, Role::Worker, uuid, 1, at);
        let metadata = ObjectMeta { resource_version: Some(revision.to_string()), ..ObjectMeta::default() };
        node_of(node_object(&record, metadata))
    }

    fn damaged(number: u8) -> NodeObject {
        NodeObject::Damaged(Box::new(DamagedRecord::of(ek(number).to_string(), "cut".to_owned(), b"")), String::new())
    }

    /// When the known record of a machine was written.
    fn known(cache: &Cache, number: u8) -> Option<u64> {
        cache.get(&ek(number)).map(|known| known.recorded.first_joined_at)
    }

    fn listed(cache: &mut Cache, objects: Vec<NodeObject>) {
        let asked = cache.moment();
        assert_eq!(cache.listed(objects, asked).unwrap(), [], "nothing crossed it");
    }

    fn is_all(news: &News) -> bool {
        matches!(news, News::All(_))
    }

    /// etcd was restored, or its last writes were lost, under a running service.
    #[test]
    fn a_listing_is_the_truth_although_revisions_went_back() {
        let mut cache = Cache::default();
        listed(&mut cache, vec![object(1, 1000, 1), object(2, 1001, 1)]);
        assert!(is_all(&cache.news()));
        // What is at 40 now was written after the restore; the machine 2 is not on record any more.
        listed(&mut cache, vec![object(1, 40, 2), object(3, 41, 2)]);
        assert_eq!((known(&cache, 1), known(&cache, 2), known(&cache, 3)), (Some(2), None, Some(2)));
        match cache.news() {
            News::All(listing) => assert_eq!(listing.records.len(), 2),
            other => panic!("all of it is another: {other:?}"),
        }
        // And so is what is heard and answered from then on.
        assert_eq!(cache.heard(object(1, 42, 3)), Ok(true));
        let asked = cache.moment();
        assert_eq!(cache.answered(object(2, 43, 3), asked), Ok(true));
        assert_eq!((known(&cache, 1), known(&cache, 2)), (Some(3), Some(3)));
    }

    /// Of both histories there may be one of the same revision.
    #[test]
    fn a_listing_is_the_truth_although_the_revision_is_the_same() {
        let mut cache = Cache::default();
        listed(&mut cache, vec![object(1, 7, 1)]);
        drop(cache.news());
        listed(&mut cache, vec![object(1, 7, 2)]);
        assert_eq!(known(&cache, 1), Some(2));
        assert!(is_all(&cache.news()));
    }

    /// After a write was refused because another state stands there (409).
    #[test]
    fn what_is_read_is_the_truth_whatever_its_revision() {
        let mut cache = Cache::default();
        listed(&mut cache, vec![object(1, 1000, 1), object(2, 1000, 1)]);
        let asked = cache.moment();
        assert_eq!(cache.answered(object(1, 40, 2), asked), Ok(true));
        cache.absent(ek(2), asked);
        assert_eq!((known(&cache, 1), known(&cache, 2)), (Some(2), None));
    }

    #[test]
    fn an_answer_that_was_overtaken_on_its_way_is_not_believed() {
        let mut cache = Cache::default();
        listed(&mut cache, vec![object(1, 1, 1), object(2, 1, 1)]);
        let asked = cache.moment();
        // The watch tells of what came after it.
        assert_eq!(cache.heard(object(1, 5, 5)), Ok(true));
        cache.deleted(&ek(2).to_string(), 6);
        assert_eq!(cache.answered(object(1, 4, 4), asked), Ok(false));
        assert_eq!(cache.answered(object(2, 4, 4), asked), Ok(false));
        cache.absent(ek(1), asked);
        assert_eq!((known(&cache, 1), known(&cache, 2)), (Some(5), None));
        // Whoever asked hears of it all the same.
        drop(cache.news());
        assert_eq!(cache.answered(object(2, 4, 4), asked), Ok(false));
        assert!(cache.has_news());
    }

    #[test]
    fn what_was_written_while_a_listing_was_on_its_way_stays_and_is_asked_for() {
        let mut cache = Cache::default();
        listed(&mut cache, vec![object(1, 1, 1), object(2, 1, 1), object(3, 1, 1)]);
        let asked = cache.moment();
        let put = cache.moment();
        assert_eq!(cache.answered(object(1, 5, 5), put), Ok(true));
        cache.absent(ek(2), put);
        assert_eq!(cache.answered(object(4, 6, 6), put), Ok(true));
        assert_eq!(cache.answered(object(3, 7, 7), put), Ok(true));
        let unsure = cache.listed(vec![object(1, 1, 1), object(2, 1, 1), object(3, 7, 7)], asked).unwrap();
        assert_eq!(unsure, [ek(1), ek(2), ek(4)]);
        assert_eq!([1, 2, 3, 4].map(|number| known(&cache, number)), [Some(5), None, Some(7), Some(6)]);
        // And it does not stay for ever: the next listing has it, or it is gone.
        listed(&mut cache, vec![object(1, 1, 1)]);
        assert_eq!([1, 2, 3, 4].map(|number| known(&cache, number)), [Some(1), None, None, None]);
    }

    #[test]
    fn a_listing_that_says_what_is_known_is_no_news() {
        let mut cache = Cache::default();
        let all = || vec![object(1, 1, 1), damaged(2)];
        listed(&mut cache, all());
        assert!(is_all(&cache.news()));
        listed(&mut cache, all());
        assert!(!cache.has_news());
        assert_eq!(cache.heard(object(3, 2, 2)), Ok(true));
        assert!(matches!(cache.news(), News::Changes(changes) if changes.len() == 1));
        listed(&mut cache, vec![object(1, 1, 1), object(3, 2, 2), damaged(2)]);
        assert!(!cache.has_news());
        listed(&mut cache, vec![object(1, 1, 1), object(3, 2, 2)]);
        assert!(is_all(&cache.news()), "a record that could not be used is gone");
    }

    #[test]
    fn a_record_that_cannot_be_used_takes_the_place_of_the_one_that_was_known_until_it_is_mended() {
        let mut cache = Cache::default();
        listed(&mut cache, vec![object(1, 5, 1)]);
        assert_eq!(cache.heard(damaged(1)), Ok(true));
        assert_eq!(known(&cache, 1), None);
        assert!(matches!(cache.news(), News::All(listing) if listing.damaged.len() == 1));
        assert_eq!(cache.heard(object(1, 6, 2)), Ok(true));
        assert!(matches!(cache.news(), News::All(listing) if listing.damaged.is_empty() && listing.records.len() == 1));
    }
}
