//! What does not work at this edge, in sentences for people at the centre.

use std::collections::{BTreeMap, BTreeSet};

/// The most sentences that are told.
const MOST: usize = 32;
/// The longest sentence, in characters.
const LONGEST: usize = 1000;
/// What is over sooner is not told, in milliseconds: an API server that restarts, for one.
const LASTING: u64 = 5000;

/// What a problem is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Nodes cannot be followed.
    Nodes,
    /// The keys of sealed-secrets cannot be followed, or none of them is good.
    Keys,
    /// Sealed secrets cannot be followed, or are not opened.
    Sealed,
    /// What is deployed cannot be followed.
    Deployed,
    /// What is wanted cannot be followed, or cannot be made.
    Wanted,
    /// What is wanted cannot be applied or deleted.
    Applies,
}

/// All problems, and since when, in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Problems(BTreeMap<(Source, String), u64>);

impl Problems {
    /// What is wrong of one source now; nothing, where it works.
    pub fn set(&mut self, source: Source, sentences: impl IntoIterator<Item = String>, now: u64) {
        let now_wrong: BTreeSet<String> = sentences.into_iter().map(|sentence| short(&sentence)).take(MOST).collect();
        self.0.retain(|(of, sentence), _| *of != source || now_wrong.contains(sentence));
        for sentence in now_wrong {
            self.0.entry((source, sentence)).or_insert(now);
        }
    }

    /// What is told now, and when more may be without anything happening.
    pub fn told(&self, now: u64) -> (Vec<String>, Option<u64>) {
        let told =
            self.0.iter().filter(|(_, since)| **since + LASTING <= now).map(|((_, sentence), _)| sentence.clone());
        let later = self.0.values().map(|since| since + LASTING).filter(|at| *at > now).min();
        (told.take(MOST).collect(), later)
    }
}

fn short(sentence: &str) -> String {
    latchkey_reason::printable(sentence).take(LONGEST).collect()
}
