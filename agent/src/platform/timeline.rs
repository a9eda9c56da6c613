//! The steps of a boot, each with its time.
//!
//! A step prints `begin`, then `done in 0.123 s` or `failed: CODE: SENTENCE`; at the end [`Timeline::print`] shows them
//! all as a table. Steps may overlap (two flows race in stage 1), so each is a value of its own.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchkey_reason::Reason;

use super::{clock, console};

/// A step as it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, in kebab case.
    pub step: &'static str,
    /// When it began, since the start of the kernel.
    pub begin: Duration,
    /// How it ended and how long it took; `None` while it runs.
    pub end: Option<(Outcome, Duration)>,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It reached its goal.
    Done,
    /// It failed with this reason code.
    Failed(Reason),
    /// It was given up, because another one won or something else failed.
    Stopped,
}

/// All steps of this boot, in the order they began.
#[derive(Debug, Default)]
pub struct Timeline {
    entries: Mutex<Vec<Entry>>,
}

impl Timeline {
    /// Nothing has begun yet.
    pub const fn new() -> Self {
        Self { entries: Mutex::new(Vec::new()) }
    }

    /// Begins a step. It counts as stopped if the value is dropped before it ended.
    pub fn begin(&self, step: &'static str) -> Step<'_> {
        let begin = clock::uptime();
        let mut entries = self.lock();
        let index = entries.len();
        entries.push(Entry { step, begin, end: None });
        drop(entries);
        console::line(step, "begin");
        Step { timeline: self, index, name: step, begin }
    }

    /// A copy of all entries so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    /// Prints the table of all steps.
    pub fn print(&self) {
        for row in table(&self.entries(), clock::uptime()) {
            console::line("timeline", &row);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, index: usize, outcome: Outcome, took: Duration) {
        if let Some(entry) = self.lock().get_mut(index) {
            entry.end.get_or_insert((outcome, took));
        }
    }
}

/// A step that has begun.
#[derive(Debug)]
#[must_use = "a step that is dropped counts as stopped"]
pub struct Step<'a> {
    timeline: &'a Timeline,
    index: usize,
    name: &'static str,
    begin: Duration,
}

impl Step<'_> {
    /// Says something on the way.
    pub fn note(&self, message: impl fmt::Display) {
        console::line(self.name, &message.to_string());
    }

    /// The step reached its goal.
    pub fn done(self) {
        let took = self.took();
        self.timeline.end(self.index, Outcome::Done, took);
        console::line(self.name, &format!("done in {} s", seconds(took)));
    }

    /// The step failed, with its reason and a sentence that says what happened.
    pub fn failed(self, reason: impl Into<Reason>, sentence: impl fmt::Display) {
        let reason = reason.into();
        self.timeline.end(self.index, Outcome::Failed(reason), self.took());
        console::failure(self.name, reason, &sentence.to_string());
    }

    fn took(&self) -> Duration {
        clock::uptime().saturating_sub(self.begin)
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        // Does nothing if the step has ended already.
        self.timeline.end(self.index, Outcome::Stopped, self.took());
    }
}

/// The rows of the table: a heading, what came before us, every step, the total.
fn table(entries: &[Entry], now: Duration) -> Vec<String> {
    let width = entries.iter().map(|entry| entry.step.len()).max().unwrap_or(0).max("before".len());
    let mut rows = vec![format!("{:width$}  {:>9}  {:>9}", "step", "begin s", "took s")];
    let first = entries.first().map_or(now, |entry| entry.begin);
    rows.push(format!("{:width$}  {:>9}  {:>9}  kernel", "before", "0.000", seconds(first)));
    rows.extend(entries.iter().map(|entry| {
        let (took, outcome) = match entry.end {
            Some((Outcome::Done, took)) => (took, String::new()),
            Some((Outcome::Stopped, took)) => (took, "  stopped".to_owned()),
            Some((Outcome::Failed(code), took)) => (took, format!("  failed: {code}")),
            None => (now.saturating_sub(entry.begin), "  running".to_owned()),
        };
        format!("{:width$}  {:>9}  {:>9}{outcome}", entry.step, seconds(entry.begin), seconds(took))
    }));
    rows.push(format!("{:width$}  {:>9}  {:>9}", "total", "", seconds(now)));
    rows
}

/// Seconds with milliseconds, `12.345`; no floating point in the agent.
fn seconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_secs(), time.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::power::PowerCode;

    #[test]
    fn steps_are_remembered_in_order_with_their_outcomes() {
        let timeline = Timeline::new();
        let race = timeline.begin("join");
        timeline.begin("network").done();
        timeline.begin("tpm").failed(PowerCode::Panic, "it broke");
        drop(race);
        let ends: Vec<_> =
            timeline.entries().into_iter().map(|entry| (entry.step, entry.end.map(|(outcome, _)| outcome))).collect();
        assert_eq!(
            ends,
            [
                ("join", Some(Outcome::Stopped)),
                ("network", Some(Outcome::Done)),
                ("tpm", Some(Outcome::Failed(PowerCode::Panic.into())))
            ]
        );
    }

    #[test]
    fn the_table_is_aligned_and_starts_with_the_kernel() {
        let ms = Duration::from_millis;
        let entries = [
            Entry { step: "mounts", begin: ms(1802), end: Some((Outcome::Done, ms(4))) },
            Entry {
                step: "state-disk",
                begin: ms(1806),
                end: Some((Outcome::Failed(PowerCode::Panic.into()), ms(30_000))),
            },
            Entry { step: "join", begin: ms(2000), end: None },
        ];
        assert_eq!(
            table(&entries, ms(31_806)),
            [
                "step          begin s     took s",
                "before          0.000      1.802  kernel",
                "mounts          1.802      0.004",
                "state-disk      1.806     30.000  failed: agent-panic",
                "join            2.000     29.806  running",
                "total                     31.806",
            ]
        );
    }
}
