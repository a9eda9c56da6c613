//! Which manifests are applied when, and which objects are deleted.
//!
//! A manifest is applied when it is another than the last one, when its object is not there, and when somebody changed what is
//! wanted of the object. The API server writes nothing where an apply changes nothing.

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::object::{Have, Name};
use super::plan::Plan;

/// The pause after the first failure, in milliseconds; it doubles to the longest.
const FIRST_PAUSE: u64 = 1000;
/// The longest pause.
const LONGEST_PAUSE: u64 = 60_000;
/// The pause before an object is applied again that somebody else changes: two who want different things are slow about it.
const DISPUTED_PAUSE: u64 = 5000;

/// Something to do in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Apply this manifest.
    Apply(Name, Value),
    /// Delete the object of this uid.
    Delete(Name, String),
}

/// What was applied, and what failed.
#[derive(Clone, Debug, Default)]
pub struct Applies(BTreeMap<Name, Apply>);

#[derive(Clone, Debug, Default)]
struct Apply {
    applied: Option<Applied>,
    /// What is wrong with it.
    problem: Option<String>,
    failures: u32,
    /// Not before, in milliseconds.
    not_before: u64,
}

/// What was applied last.
#[derive(Clone, Debug)]
struct Applied {
    /// SHA-256 of the manifest.
    hash: [u8; 32],
    /// What it came to.
    uid: String,
    generation: i64,
    /// When, in milliseconds.
    at: u64,
}

impl Step {
    /// The object.
    pub fn name(&self) -> &Name {
        match self {
            Self::Apply(name, _) | Self::Delete(name, _) => name,
        }
    }
}

impl Applies {
    /// What is to be done now, and when there may be more without anything happening. Sources come before releases.
    pub fn steps(&mut self, plan: &Plan, have: &BTreeMap<Name, Have>, now: u64) -> (Vec<Step>, Option<u64>) {
        self.0.retain(|name, _| plan.wanted.contains_key(name) || have.contains_key(name));
        let mut due: Vec<(u64, Step)> = Vec::new();
        for (name, manifest) in &plan.wanted {
            if let Some(at) = self.due(name, manifest, have.get(name)) {
                due.push((at, Step::Apply(name.clone(), manifest.clone())));
            }
        }
        for (name, have) in have {
            if !have.is_going && plan.is_surplus(name, have) {
                due.push((self.not_before(name), Step::Delete(name.clone(), have.uid.clone())));
            }
        }
        let later = due.iter().map(|(at, _)| *at).filter(|at| *at > now).min();
        (due.into_iter().filter(|(at, _)| *at <= now).map(|(_, step)| step).collect(), later)
    }

    fn not_before(&self, name: &Name) -> u64 {
        self.0.get(name).map_or(0, |apply| apply.not_before)
    }

    /// When a manifest is to be applied, if it is.
    fn due(&self, name: &Name, manifest: &Value, have: Option<&Have>) -> Option<u64> {
        if have.is_some_and(|have| have.is_going) {
            return None;
        }
        let at = match self.0.get(name).and_then(|apply| apply.applied.as_ref()) {
            Some(applied) if applied.hash == hash_of(manifest) => {
                let same = |have: &Have| have.uid == applied.uid && have.generation <= applied.generation;
                if have.is_some_and(same) {
                    return None;
                }
                // Somebody changed or deleted it, or the watch has not told yet.
                applied.at + DISPUTED_PAUSE
            }
            _ => 0,
        };
        Some(at.max(self.not_before(name)))
    }

    /// The manifest was applied, and this is the object since.
    pub fn applied(&mut self, name: &Name, manifest: &Value, have: &Have, now: u64) {
        let applied = Applied { hash: hash_of(manifest), uid: have.uid.clone(), generation: have.generation, at: now };
        self.0.insert(name.clone(), Apply { applied: Some(applied), ..Apply::default() });
    }

    /// The object was deleted, or is gone.
    pub fn deleted(&mut self, name: &Name, now: u64) {
        // Until the watch has told.
        self.0.insert(name.clone(), Apply { not_before: now + FIRST_PAUSE, ..Apply::default() });
    }

    /// The step was not done. It is done again after a pause.
    pub fn failed(&mut self, name: &Name, why: String, now: u64) {
        let apply = self.0.entry(name.clone()).or_default();
        let pause = FIRST_PAUSE.checked_shl(apply.failures).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
        apply.failures = (apply.failures + 1).min(16);
        (apply.problem, apply.not_before) = (Some(why), now + pause);
    }

    /// What is wrong, for people.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.0.values().filter_map(|apply| apply.problem.clone())
    }
}

fn hash_of(manifest: &Value) -> [u8; 32] {
    let mut hash = [0; 32];
    // Of a SHA-256, which has that length.
    hash.copy_from_slice(digest(&SHA256, manifest.to_string().as_bytes()).as_ref());
    hash
}
