//! What a test executable says as it goes, read from its output line by line.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How the tests of one executable are getting on.
#[derive(Debug)]
pub struct Progress {
    /// Tests that have said that they take long, and since when they run.
    long: BTreeMap<String, Instant>,
    /// When a test ended last, or the executable began.
    last: Instant,
    /// How many passed.
    pub passed: usize,
    /// Names of those that failed.
    pub failed: Vec<String>,
    /// How many are run by recipes only.
    pub ignored: usize,
    /// What could not be tried.
    pub skipped: Vec<String>,
}

/// The harness says so after this time.
const SAID_AFTER: Duration = Duration::from_mins(1);

impl Progress {
    /// Of an executable that begins now.
    pub fn from(now: Instant) -> Self {
        Self { long: BTreeMap::new(), last: now, passed: 0, failed: Vec::new(), ignored: 0, skipped: Vec::new() }
    }

    /// Reads a line.
    pub fn read(&mut self, line: &str, now: Instant) {
        if let Some(at) = line.find("SKIPPED at ") {
            self.skipped.push(line[at..].to_owned());
        }
        let Some(test) = line.strip_prefix("test ") else { return };
        if let Some(name) = test.strip_suffix(" has been running for over 60 seconds") {
            self.long.insert(name.to_owned(), now.checked_sub(SAID_AFTER).unwrap_or(now));
        } else if let Some((name, ended)) = test.split_once(" ... ") {
            // What a test prints past the harness stands before its end, or the name's line goes on with it.
            self.ended(name.trim_end_matches(" - should panic"), ended.trim(), now);
        }
    }

    fn ended(&mut self, name: &str, how: &str, now: Instant) {
        match how {
            how if how.starts_with("ignored") => self.ignored += 1,
            how if how.ends_with("ok") => self.passed += 1,
            how if how.ends_with("FAILED") => self.failed.push(name.to_owned()),
            _ => return,
        }
        self.long.remove(name);
        self.last = now;
    }

    /// A test that runs for longer than `longest`, or, where tests run one at a time and say nothing of themselves, that none
    /// has ended for so long.
    pub fn hangs(&self, longest: Duration, now: Instant) -> Option<String> {
        let late = |since: &Instant| now.saturating_duration_since(*since) > longest;
        let named = self.long.iter().find(|(_, since)| late(since)).map(|(name, _)| name.clone());
        named
            .or_else(|| late(&self.last).then(|| self.runs_long().unwrap_or("a test that names itself not").to_owned()))
    }

    /// The test that has run for longest, of those that take long.
    pub fn runs_long(&self) -> Option<&str> {
        self.long.iter().min_by_key(|(_, since)| **since).map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_mins(10);

    #[test]
    fn results_are_counted() {
        let now = Instant::now();
        let mut progress = Progress::from(now);
        for line in [
            "running 5 tests",
            "test a::one ... ok",
            "test a::two ... FAILED",
            "test three - should panic ... ok",
            "test four ... ignored, takes long",
            "SKIPPED at a.rs:1:2: no tool",
            "test five ... SKIPPED at b.rs:1:2: no other tool",
            "test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out",
        ] {
            progress.read(line, now);
        }
        assert_eq!((progress.passed, progress.ignored), (2, 1));
        assert_eq!(progress.failed, ["a::two"]);
        assert_eq!(progress.skipped, ["SKIPPED at a.rs:1:2: no tool", "SKIPPED at b.rs:1:2: no other tool"]);
    }

    #[test]
    fn a_test_that_runs_too_long_is_named_although_others_end() {
        let start = Instant::now();
        let at = |minutes| start + Duration::from_mins(minutes);
        let mut progress = Progress::from(start);
        progress.read("test slow has been running for over 60 seconds", at(1));
        progress.read("test quick ... ok", at(9));
        assert_eq!(progress.hangs(LONGEST, at(10)), None);
        assert_eq!(progress.hangs(LONGEST, at(11)), Some("slow".to_owned()));
        progress.read("test slow ... ok", at(11));
        assert_eq!(progress.hangs(LONGEST, at(12)), None);
    }

    #[test]
    fn silence_is_a_test_that_hangs() {
        let start = Instant::now();
        let progress = Progress::from(start);
        assert_eq!(progress.hangs(LONGEST, start + LONGEST), None);
        assert!(progress.hangs(LONGEST, start + LONGEST + Duration::from_secs(1)).is_some());
    }
}
