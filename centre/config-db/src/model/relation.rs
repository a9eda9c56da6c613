//! Pairs of objects, found from both sides.

use std::collections::{BTreeSet, HashMap};

use latchkey_factory_plus::Uuid;

/// What is directly below what: members below classes, or subclasses below classes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Relation {
    below: HashMap<Uuid, BTreeSet<Uuid>>,
    above: HashMap<Uuid, BTreeSet<Uuid>>,
}

impl Relation {
    /// Adds or removes a pair; tells whether it was there before.
    pub(crate) fn set(&mut self, upper: Uuid, lower: Uuid, present: bool) -> bool {
        let before = self.contains(upper, lower);
        if present {
            self.below.entry(upper).or_default().insert(lower);
            self.above.entry(lower).or_default().insert(upper);
        } else {
            take(&mut self.below, upper, lower);
            take(&mut self.above, lower, upper);
        }
        before
    }

    /// Whether a pair is there.
    pub(crate) fn contains(&self, upper: Uuid, lower: Uuid) -> bool {
        self.below.get(&upper).is_some_and(|below| below.contains(&lower))
    }

    /// What is directly below, in order.
    pub(crate) fn below(&self, upper: Uuid) -> impl Iterator<Item = &Uuid> {
        self.below.get(&upper).into_iter().flatten()
    }

    /// What is directly above, in order.
    pub(crate) fn above(&self, lower: Uuid) -> impl Iterator<Item = &Uuid> {
        self.above.get(&lower).into_iter().flatten()
    }

    /// Whether `lower` is below `upper`, over one step or more.
    pub(crate) fn reaches(&self, upper: Uuid, lower: Uuid) -> bool {
        self.contains(upper, lower) || self.all_above(lower).contains(&upper)
    }

    /// What is below, over one step or more.
    pub(crate) fn all_below(&self, upper: Uuid) -> BTreeSet<Uuid> {
        closure(&self.below, upper)
    }

    /// What is above, over one step or more.
    pub(crate) fn all_above(&self, lower: Uuid) -> BTreeSet<Uuid> {
        closure(&self.above, lower)
    }
}

fn take(map: &mut HashMap<Uuid, BTreeSet<Uuid>>, key: Uuid, value: Uuid) {
    if let Some(values) = map.get_mut(&key) {
        values.remove(&value);
        if values.is_empty() {
            map.remove(&key);
        }
    }
}

/// Each object is visited once, so that a circle ends, too.
fn closure(steps: &HashMap<Uuid, BTreeSet<Uuid>>, from: Uuid) -> BTreeSet<Uuid> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for next in steps.get(&at).into_iter().flatten() {
            if found.insert(*next) {
                open.push(*next);
            }
        }
    }
    found
}
