//! Who named what first: a name or a disk is one machine's. No I/O.
//!
//! A record claims its name and its disks by being there, and of several records that claim one thing it is that of the one whose claim
//! came first *in etcd's order*, as long as that stands. Each service finds that order out for itself, by the listings and the watch of
//! all records, and by nothing else: answers to its own requests come at any time, and are not part of the order.
//!
//! # The rules
//!
//! 1. A record is created *provisional* ([`PROVISIONAL`]): what it claims counts, and nothing is released by it. Whoever created it
//!    waits until the watch tells of this very object. What others wrote before is known by then. If nobody claimed the same before,
//!    the record stands; otherwise it is deleted, and its machine is refused.
//! 2. A record that stands already and is to claim more says so first beside what it is ([`RESERVES`]), waits as above, and is changed
//!    then.
//! 3. Whatever a service writes into a record later takes the first mark away, and the second unless it is what reserves; it is written
//!    only where every claim of the record as it was is the first one.
//!    By a provisional record nothing is released without such a write, but where its claims were the first ones at the very moment of
//!    its creation ([`Naming::is_sure`]).
//! 4. Of a provisional record with a claim that is not the first one no service tells. If one came later it is *lost*, and every
//!    service deletes it.
//!
//! # Why one thing is never released to two machines
//!
//! Let A and B be records that claim one thing, and each be released while both stand. Their claims are at two revisions of etcd, say
//! a < b. B was released by a service whose watch had told of b. A watch tells of all records in the order of revisions, and a listing
//! has all of them as of one revision (`limit` and `continue` do not change that), so this service had A before it had b: B's claim was
//! not the first one there, and B was not released. That A was released needs nothing of B: at a there was no claim of B. How many
//! services there are, and which of them writes what, does not come up.
//!
//! *Where A was removed since*, or lost to a third one, B is the first one from then on. A service that has not heard of that may delete
//! B as lost: so B's service, or whichever the machine asks, writes it again before anything is released by it. That and the deletion name
//! the same state, and one of them fails. Nobody deletes a record of rule 3's exception: at its creation nobody had claimed the same,
//! whoever hears of it, and who does so later is later. A listing does not say that of what is new in it.
//!
//! *A listing in between* (at the start, after a 410, each ten seconds) says of what is new in it only that it came since the one
//! before. There a record by which something was released ([`Mark::Released`]) was before one that is provisional, by rule 3; and of two
//! provisional ones that were written once ([`Mark::Once`]) the revision is that of their creation, so the order is etcd's again. Of
//! others it is unclear ([`Standing::Unclear`]): somebody wrote them by hand meanwhile, or one stands, and it may be that no service
//! wrote it. Nothing is released by them and none is deleted until one of them is gone.
//!
//! *A record that no service wrote* (by hand, by a command, of a release before) stands from its beginning, and claims in its order as
//! any other; by it, too, something is released only where its claims are the first ones.
//!
//! *A crash before the record is created* leaves nothing. *Between that and giving it back* it leaves a provisional record that is lost
//! by the same rules for every other service, and for the one that starts next: each of them deletes it. *A crash between giving it
//! back and answering* is none: nothing was released. *A record whose watch is not heard of in time* (a frozen API server) stays, and
//! is provisional: its machine's next call finds it, through whichever service, and goes on by rule 3.
//!
//! *What is deleted* is the object that was looked at, by uid and revision, in the very state that was seen to be lost; one that was
//! written since stays.
//!
//! *A damaged record* keeps its places. What its bytes do not say any more only services remember that knew it before: by that nothing is
//! first and nothing later, but unclear.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use crate::objects::NodeObject;
use kube::api::ObjectMeta;
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{MAX_DISKS, MAX_RETIRED, NodeName, NodeRecord};
use latchkey_keys::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The annotation of a record that was created and not written since.
pub(crate) const PROVISIONAL: &str = "latchkey.dev/provisional";
/// The annotation with what a record is to claim beside what it does: JSON, a list of [`Claimed`].
pub(crate) const RESERVES: &str = "latchkey.dev/reserves";
/// The longest such list, in bytes: a name, and as many disks as a record may have.
const MAX_RESERVES: usize = 512 + 64 * (MAX_DISKS + MAX_RETIRED);

/// What one machine has, and no other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Claimed {
    Name(NodeName),
    Disk(Uuid),
}

impl Claimed {
    /// Everything that this record claims.
    pub(crate) fn by(record: &NodeRecord) -> impl Iterator<Item = Self> {
        [Self::Name(record.name.clone())].into_iter().chain(record.uuids().map(Self::Disk))
    }
}

/// What an object among the records claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    object: String,
    uid: String,
    revision: u64,
    of: BTreeMap<Claimed, Mark>,
    mark: Mark,
    /// What it says may be not all.
    damaged: bool,
}

impl Claims {
    pub(crate) fn of(object: &NodeObject) -> Self {
        match object {
            NodeObject::Record(record, metadata, mark) => {
                // Its revision is not that of the reservation, if anything else was written.
                let mut of: BTreeMap<_, _> = reserved(metadata).into_iter().map(|it| (it, Mark::Again)).collect();
                of.extend(Claimed::by(record).map(|claimed| (claimed, *mark)));
                let (object, uid) = (record.ek_sha256.to_string(), metadata.uid.clone().unwrap_or_default());
                Self { object, uid, revision: record.revision(), of, mark: *mark, damaged: false }
            }
            // Whatever it was, it is not a record now, and what it names is nobody else's.
            NodeObject::Damaged(record, uid) => {
                let names = record.names.iter().cloned().map(Claimed::Name);
                let of =
                    names.chain(record.disks.iter().copied().map(Claimed::Disk)).map(|claimed| (claimed, Mark::Stands));
                let (object, of) = (record.file.clone(), of.collect());
                Self { object, uid: uid.clone(), revision: 0, of, mark: Mark::Stands, damaged: true }
            }
        }
    }
}

/// What is known of how a record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Something was released by it: its claims were the first ones when it was.
    Released,
    /// Nothing says that its claims may be another's: it was written since they were found to be the first ones, or is of somebody who
    /// did not look.
    Stands,
    /// It is provisional, and its revision is that of its creation.
    Once,
    /// It is provisional, and somebody wrote it by hand since.
    Again,
}

impl Mark {
    /// By the object's metadata, and whether it has a status: that is written of objects alone by which something was released.
    pub(crate) fn of(metadata: &ObjectMeta, has_status: bool) -> Self {
        let writers = metadata.managed_fields.as_deref().unwrap_or_default();
        match (is_provisional(metadata), writers) {
            _ if has_status => Self::Released,
            (false, _) => Self::Stands,
            (true, [one]) if one.subresource.is_none() => Self::Once,
            (true, _) => Self::Again,
        }
    }

    fn stands(self) -> bool {
        matches!(self, Self::Released | Self::Stands)
    }
}

pub(crate) fn is_provisional(metadata: &ObjectMeta) -> bool {
    metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(PROVISIONAL))
}

/// What cannot be read reserves nothing: whoever wrote it does not find it, and is refused.
fn reserved(metadata: &ObjectMeta) -> BTreeSet<Claimed> {
    let text = metadata.annotations.as_ref().and_then(|annotations| annotations.get(RESERVES));
    let text = text.filter(|text| text.len() <= MAX_RESERVES);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// How a claim stands among those of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It was not told of.
    Unheard,
    /// Nobody was before it.
    First,
    /// Another one was.
    Later(Claimed),
    /// It came with another one in one listing, and which of them was before is not known.
    Unclear,
}

/// One claim among those of one thing.
#[derive(Clone, Debug)]
struct Place {
    object: String,
    /// When it came: counted, and all of a listing at once.
    at: u64,
    /// The object's revision then.
    revision: u64,
    mark: Mark,
    /// The object is damaged, and does not say any more that it claims this: who did not know it before does not know of the claim.
    remembered: bool,
}

impl Place {
    fn is_before(&self, other: &Self) -> bool {
        !self.remembered && self.at < other.at
            || !self.remembered
                && self.at == other.at
                && match (self.mark, other.mark) {
                    (Mark::Released, mark) => !mark.stands(),
                    (Mark::Once, Mark::Once) => self.revision < other.revision,
                    _ => false,
                }
    }
}

/// All claims, as listings and the watch told of them.
#[derive(Debug, Default)]
pub(crate) struct Naming {
    objects: BTreeMap<String, Claims>,
    /// The uids of objects all of whose claims were the first ones when the watch told of their creation.
    first: BTreeMap<String, String>,
    places: BTreeMap<Claimed, Vec<Place>>,
    at: u64,
}

impl Naming {
    /// An object as the watch tells of it. Those whose claims may stand otherwise by that.
    pub(crate) fn heard(&mut self, claims: Claims) -> BTreeSet<String> {
        self.at += 1;
        let mut touched = BTreeSet::new();
        let (object, uid) = (claims.object.clone(), claims.uid.clone());
        let is_new = self.objects.get(&object).is_none_or(|known| known.uid != uid);
        self.place(claims, &mut touched);
        if is_new && self.standing_of_all(&object) == Standing::First {
            self.first.insert(object, uid);
        }
        touched
    }

    /// The watch tells that an object is gone.
    pub(crate) fn gone(&mut self, object: &str) -> BTreeSet<String> {
        let mut touched = BTreeSet::new();
        self.first.remove(object);
        if let Some(known) = self.objects.remove(object) {
            self.give_up(object, known.of.keys(), &mut touched);
        }
        touched
    }

    /// All objects, as a listing of the one who watches has them. Those whose claims may stand otherwise by that.
    pub(crate) fn listed(&mut self, listed: Vec<Claims>) -> BTreeSet<String> {
        self.at += 1;
        let names: BTreeSet<_> = listed.iter().map(|claims| claims.object.as_str()).collect();
        let gone: Vec<_> = self.objects.keys().filter(|known| !names.contains(known.as_str())).cloned().collect();
        let mut touched: BTreeSet<_> = gone.iter().flat_map(|object| self.gone(object)).collect();
        for claims in listed {
            self.place(claims, &mut touched);
        }
        touched
    }

    fn place(&mut self, mut claims: Claims, touched: &mut BTreeSet<String>) {
        let object = claims.object.clone();
        let mut remembered = BTreeSet::new();
        if let Some(known) = self.objects.remove(&object) {
            // Another object of the same name is another claim.
            let is_same = known.uid == claims.uid;
            if claims.damaged && is_same {
                remembered = known.of.keys().filter(|claimed| !claims.of.contains_key(claimed)).cloned().collect();
                claims.of.extend(known.of.clone());
            }
            let gone = known.of.keys().filter(|claimed| !is_same || !claims.of.contains_key(claimed));
            self.give_up(&object, gone, touched);
        }
        for (claimed, mark) in &claims.of {
            let places = self.places.entry(claimed.clone()).or_default();
            let remembered = remembered.contains(claimed);
            let is_other = if let Some(place) = places.iter_mut().find(|place| place.object == object) {
                let before = (place.mark, place.remembered);
                // Which was before is known as it was seen at first, whoever labels a record since.
                if mark.stands() && place.mark != Mark::Released {
                    place.mark = *mark;
                }
                place.remembered = remembered;
                before != (place.mark, place.remembered)
            } else {
                let (object, at, revision) = (object.clone(), self.at, claims.revision);
                places.push(Place { object, at, revision, mark: *mark, remembered });
                true
            };
            if is_other {
                touched.extend(places.iter().map(|place| place.object.clone()));
            }
        }
        self.objects.insert(object, claims);
    }

    fn give_up<'a>(
        &mut self,
        object: &str,
        claimed: impl Iterator<Item = &'a Claimed>,
        touched: &mut BTreeSet<String>,
    ) {
        for claimed in claimed {
            let Some(places) = self.places.get_mut(claimed) else { continue };
            places.retain(|place| place.object != object);
            touched.extend(places.iter().map(|place| place.object.clone()));
            if places.is_empty() {
                self.places.remove(claimed);
            }
        }
    }

    /// Whether the watch has told of this state of an object, or of a later one. Of a record all of whose claims stand it is enough that
    /// it has told of these.
    pub(crate) fn knows(&self, claims: &Claims) -> bool {
        let stands =
            |known: &Claims| claims.of.iter().all(|(claimed, mark)| mark.stands() && known.of.contains_key(claimed));
        let is_told = |known: &Claims| known.uid == claims.uid && (known.revision >= claims.revision || stands(known));
        claims.damaged || self.objects.get(&claims.object).is_some_and(is_told)
    }

    /// Whether it has told of an object at this revision, or at a later one.
    pub(crate) fn is_at(&self, object: &str, revision: u64) -> bool {
        self.objects.get(object).is_some_and(|known| known.revision >= revision)
    }

    /// How an object's claim of these stands: of the first that is not the first one.
    pub(crate) fn standing<'a>(&self, object: &str, of: impl IntoIterator<Item = &'a Claimed>) -> Standing {
        let mut each = of.into_iter().map(|claimed| self.standing_of(object, claimed));
        each.find(|standing| *standing != Standing::First).unwrap_or(Standing::First)
    }

    /// The same of all that it claims.
    pub(crate) fn standing_of_all(&self, object: &str) -> Standing {
        self.objects.get(object).map_or(Standing::Unheard, |known| self.standing(object, known.of.keys()))
    }

    fn standing_of(&self, object: &str, claimed: &Claimed) -> Standing {
        let places = self.places.get(claimed).map_or(&[][..], Vec::as_slice);
        let Some(own) = places.iter().find(|place| place.object == object) else { return Standing::Unheard };
        let others = || places.iter().filter(|place| place.object != object);
        if others().any(|other| other.is_before(own)) {
            return Standing::Later(claimed.clone());
        }
        if others().any(|other| !own.is_before(other)) { Standing::Unclear } else { Standing::First }
    }

    fn provisional(&self, ek: &EkDigest) -> Option<&Claims> {
        self.objects.get(&ek.to_string()).filter(|known| !known.mark.stands())
    }

    /// Whether this is a provisional record of whose claims not all are the first ones: nobody's. One that came together with a record
    /// that stands, and may be the earlier one, is told: two that contradict each other get nothing.
    pub(crate) fn is_withheld(&self, ek: &EkDigest) -> bool {
        let is_other = |known: &Claims, claimed: &Claimed| match self.standing_of(&known.object, claimed) {
            Standing::First => false,
            Standing::Unclear => !self.is_contradicted(&known.object, claimed),
            Standing::Later(_) | Standing::Unheard => true,
        };
        self.provisional(ek).is_some_and(|known| known.of.keys().any(|claimed| is_other(known, claimed)))
    }

    /// Whether a record that stands claims the same, and came in the same listing.
    fn is_contradicted(&self, object: &str, claimed: &Claimed) -> bool {
        let Some(places) = self.places.get(claimed) else { return false };
        let own = places.iter().find(|place| place.object == object);
        let contradicts = |other: &Place| other.object != object && other.mark.stands();
        own.is_some_and(|own| places.iter().any(|other| other.at == own.at && contradicts(other)))
    }

    /// The records of which that is so.
    pub(crate) fn withheld(&self) -> BTreeSet<EkDigest> {
        self.objects.keys().filter_map(|object| EkDigest::from_hex(object)).filter(|ek| self.is_withheld(ek)).collect()
    }

    /// Those of them of which it is not known whether they came second, each with the objects that name the same.
    pub(crate) fn unclear(&self) -> BTreeMap<EkDigest, BTreeSet<String>> {
        let all = self.withheld().into_iter().filter(|ek| !self.is_lost(ek)).map(|ek| (ek, self.rivals(&ek)));
        all.filter(|(_, rivals)| !rivals.is_empty()).collect()
    }

    /// Whether nobody ever can have seen this record as a lost one, and nobody was before it.
    pub(crate) fn is_sure(&self, ek: &EkDigest) -> bool {
        let object = ek.to_string();
        let stands = |known: &Claims| known.mark.stands() && self.standing_of_all(&object) == Standing::First;
        let is_sure = |known: &Claims| stands(known) || self.first.get(&object) == Some(&known.uid);
        self.objects.get(&object).is_some_and(is_sure)
    }

    /// Whether it is a provisional one, and one of its claims came later.
    pub(crate) fn is_lost(&self, ek: &EkDigest) -> bool {
        let is_later =
            |object: &str, claimed: &Claimed| matches!(self.standing_of(object, claimed), Standing::Later(_));
        self.provisional(ek).is_some_and(|known| known.of.keys().any(|claimed| is_later(&known.object, claimed)))
    }

    /// The same of this very state.
    pub(crate) fn is_lost_at(&self, ek: &EkDigest, revision: u64) -> bool {
        self.objects.get(&ek.to_string()).is_some_and(|known| known.revision == revision) && self.is_lost(ek)
    }

    /// The objects that claim something that this machine's does, where it is not known which was first.
    fn rivals(&self, ek: &EkDigest) -> BTreeSet<String> {
        let object = ek.to_string();
        let of = self.objects.get(&object).into_iter().flat_map(|known| known.of.keys());
        let unclear = of.filter(|claimed| self.standing_of(&object, claimed) == Standing::Unclear);
        let places = unclear.filter_map(|claimed| self.places.get(claimed)).flatten();
        places.map(|place| place.object.clone()).filter(|other| *other != object).collect()
    }
}
