//! The children of a search, put together from what the service tells. No I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use latchkey_factory_plus::Uuid;
use serde_json::Value;

use super::Children;

/// The children of a search, and what its reader was not told yet.
#[derive(Debug)]
pub(crate) struct Assembly {
    most: usize,
    most_bytes: usize,
    /// With the bytes of each as JSON.
    children: BTreeMap<Uuid, (Arc<Value>, usize)>,
    bytes: usize,
    complete: bool,
    /// The children that the reader has.
    told: BTreeSet<Uuid>,
    /// Those of which it has something else than there is. Each of them is in `children` or in `told`: both are bounded.
    untold: BTreeSet<Uuid>,
}

/// What changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A child came or changed.
    Set(Uuid, Arc<Value>),
    /// A child is gone.
    Gone(Uuid),
}

/// A service has more children than a client wants.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooMuch {
    #[error("more than {0} children")]
    Children(usize),
    #[error("children of more than {0} bytes together")]
    Bytes(usize),
}

impl Assembly {
    pub(crate) fn new(most: usize, most_bytes: usize) -> Self {
        Self {
            most,
            most_bytes,
            children: BTreeMap::new(),
            bytes: 0,
            complete: false,
            told: BTreeSet::new(),
            untold: BTreeSet::new(),
        }
    }

    /// All children there are now, however many were heard of before.
    pub(crate) fn replace(&mut self, all: BTreeMap<Uuid, Value>) -> Result<(), TooMuch> {
        if all.len() > self.most {
            return Err(TooMuch::Children(self.most));
        }
        if all.values().map(weight).sum::<usize>() > self.most_bytes {
            return Err(TooMuch::Bytes(self.most_bytes));
        }
        let gone: Vec<Uuid> = self.children.keys().filter(|child| !all.contains_key(child)).copied().collect();
        for child in gone {
            self.gone(child);
        }
        // The old ones of what changed must not count beside the new ones.
        for (child, body) in all {
            self.put(child, body);
        }
        self.complete = true;
        Ok(())
    }

    /// One child, as it is now.
    pub(crate) fn set(&mut self, child: Uuid, body: Value) -> Result<(), TooMuch> {
        let old = self.children.get(&child).map(|(_, weight)| *weight);
        if old.is_none() && self.children.len() >= self.most {
            return Err(TooMuch::Children(self.most));
        }
        if self.bytes - old.unwrap_or(0) + weight(&body) > self.most_bytes {
            return Err(TooMuch::Bytes(self.most_bytes));
        }
        self.put(child, body);
        Ok(())
    }

    fn put(&mut self, child: Uuid, body: Value) {
        let weight = weight(&body);
        match self.children.get(&child) {
            Some((same, _)) if **same == body => return,
            Some((_, old)) => self.bytes -= old,
            None => {}
        }
        self.bytes += weight;
        self.children.insert(child, (Arc::new(body), weight));
        self.untold.insert(child);
    }

    /// A child is gone.
    pub(crate) fn gone(&mut self, child: Uuid) {
        let Some((_, weight)) = self.children.remove(&child) else { return };
        self.bytes -= weight;
        if self.told.contains(&child) {
            self.untold.insert(child);
        } else {
            self.untold.remove(&child);
        }
    }

    /// Whether all children were heard once.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// All children, once they are known.
    pub(crate) fn children(&self) -> Option<Children> {
        self.complete.then(|| self.children.iter().map(|(child, (body, _))| (*child, Arc::clone(body))).collect())
    }

    /// All children for the reader, who is told only changes from now on.
    pub(crate) fn begin(&mut self) -> Option<Children> {
        let children = self.children()?;
        self.told = children.keys().copied().collect();
        self.untold.clear();
        Some(children)
    }

    /// The next change that the reader does not know.
    pub(crate) fn next(&mut self) -> Option<Change> {
        let child = self.untold.pop_first()?;
        if let Some((body, _)) = self.children.get(&child) {
            self.told.insert(child);
            Some(Change::Set(child, Arc::clone(body)))
        } else {
            self.told.remove(&child);
            Some(Change::Gone(child))
        }
    }
}

/// About as many bytes as a value has as JSON without spaces; no less than a small part of what it takes in memory.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(list) => 2 + list.iter().map(|value| weight(value) + 1).sum::<usize>(),
        Value::Object(map) => 2 + map.iter().map(|(key, value)| key.len() + 4 + weight(value)).sum::<usize>(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn child(number: u8) -> Uuid {
        Uuid::from_bytes([number; 16])
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// The service tells everything, as after a new connection.
        Replace(BTreeMap<u8, u8>),
        Set(u8, u8),
        Gone(u8),
        /// The reader takes so many changes.
        Read(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            1 => prop::collection::btree_map(0..8_u8, 0..3_u8, 0..8).prop_map(Step::Replace),
            4 => (0..8_u8, 0..3_u8).prop_map(|(child, body)| Step::Set(child, body)),
            2 => (0..8_u8).prop_map(Step::Gone),
            3 => (0..4_u8).prop_map(Step::Read),
        ]
    }

    proptest! {
        /// The model is two maps: what the service has, and what the reader made of what it was told.
        #[test]
        fn a_reader_ends_with_what_the_service_has_and_is_told_only_differences(
            first in prop::collection::btree_map(0..8_u8, 0..3_u8, 0..8),
            steps in prop::collection::vec(step(), 0..60),
        ) {
            let mut assembly = Assembly::new(8, 10_000);
            let bodies = |map: &BTreeMap<u8, u8>| map.iter().map(|(c, b)| (child(*c), json!(b))).collect::<BTreeMap<_, _>>();
            let mut service = bodies(&first);
            prop_assert_eq!(assembly.begin(), None);
            assembly.replace(service.clone()).unwrap();
            let begun = assembly.begin().unwrap();
            let mut reader: BTreeMap<Uuid, Value> = begun.into_iter().map(|(c, b)| (c, (*b).clone())).collect();
            prop_assert_eq!(&reader, &service);
            for step in steps {
                let mut reads = 0;
                match step {
                    Step::Replace(all) => {
                        service = bodies(&all);
                        assembly.replace(service.clone()).unwrap();
                    }
                    Step::Set(c, b) => {
                        service.insert(child(c), json!(b));
                        assembly.set(child(c), json!(b)).unwrap();
                    }
                    Step::Gone(c) => {
                        service.remove(&child(c));
                        assembly.gone(child(c));
                    }
                    Step::Read(count) => reads = count,
                }
                for _ in 0..reads {
                    take(&mut assembly, &mut reader)?;
                }
                prop_assert!(assembly.untold.len() <= 16);
                prop_assert_eq!(assembly.bytes, service.values().map(weight).sum::<usize>());
            }
            while take(&mut assembly, &mut reader)? {}
            prop_assert_eq!(reader, service);
        }
    }

    /// Takes one change; a child that is gone was there.
    fn take(assembly: &mut Assembly, reader: &mut BTreeMap<Uuid, Value>) -> Result<bool, TestCaseError> {
        match assembly.next() {
            Some(Change::Set(child, body)) => drop(reader.insert(child, (*body).clone())),
            Some(Change::Gone(child)) => prop_assert!(reader.remove(&child).is_some()),
            None => return Ok(false),
        }
        Ok(true)
    }

    #[test]
    fn a_new_connection_tells_a_reader_nothing_that_it_knows() {
        let mut assembly = Assembly::new(8, 1000);
        let all = BTreeMap::from([(child(1), json!("a")), (child(2), json!("b"))]);
        assembly.replace(all.clone()).unwrap();
        assembly.begin().unwrap();
        assembly.replace(all).unwrap();
        assert_eq!(assembly.next(), None);
        assembly.replace(BTreeMap::from([(child(1), json!("c"))])).unwrap();
        assert_eq!(assembly.next(), Some(Change::Set(child(1), Arc::new(json!("c")))));
        assert_eq!((assembly.next(), assembly.next()), (Some(Change::Gone(child(2))), None));
    }

    #[test]
    fn children_are_bounded_in_number_and_size_whoever_reads() {
        let mut assembly = Assembly::new(3, 100);
        for number in 0..3 {
            assembly.set(child(number), json!(null)).unwrap();
        }
        assert_eq!(assembly.set(child(3), json!(null)), Err(TooMuch::Children(3)));
        assert_eq!(assembly.set(child(0), json!("a".repeat(100))), Err(TooMuch::Bytes(100)));
        let many = (0..4).map(|number| (child(number), json!(0))).collect();
        assert_eq!(assembly.replace(many), Err(TooMuch::Children(3)));
        // Nobody reads, and children come and go for ever.
        for number in 0..=255 {
            assembly.gone(child(0));
            assembly.set(child(0), json!(number)).unwrap();
            assembly.gone(child(1));
        }
        assert_eq!(assembly.untold.len(), 2);
    }
}
