//! What a person sees: a line for each job, what runs at the moment, a failure whole and once more at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _, stdout};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::process::Outcome;
use crate::schedule::Event;
use crate::times::Times;

/// Shows a run on standard output.
#[derive(Debug)]
pub struct Report {
    /// Jobs in all.
    jobs: usize,
    /// Whether a terminal shows it, where a last line may be written over.
    terminal: bool,
    /// One job alone: all that it says is shown as it comes.
    follow: bool,
    began: Instant,
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    ended: usize,
    running: BTreeMap<String, String>,
}

impl Report {
    /// Of a run of so many jobs.
    pub fn of(jobs: usize) -> Self {
        let terminal = stdout().is_terminal();
        Self { jobs, terminal, follow: jobs == 1, began: Instant::now(), shown: Mutex::default() }
    }

    /// Shows what happens.
    pub fn event(&self, event: &Event<'_>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Begins(name) => drop(shown.running.insert((*name).to_owned(), String::new())),
            Event::Line(_, line) if self.follow => say(line),
            Event::Line(name, line) => {
                if line.contains("has been running for over") {
                    self.clear();
                    say(&format!("     {name}: {line}"));
                }
                if let Some(running) = shown.running.get_mut(*name) {
                    (*line).clone_into(running);
                }
            }
            Event::Ended(outcome) => {
                shown.ended += 1;
                shown.running.remove(&outcome.name);
                self.clear();
                if !outcome.passed() && !self.follow {
                    say(&format!("\n---- {} ----\n{}", outcome.name, outcome.output));
                }
                say(&self.line(outcome, shown.ended));
                for skipped in &outcome.progress.skipped {
                    say(&format!("     {}: {skipped}", outcome.name));
                }
            }
        }
        self.status(&shown);
    }

    fn line(&self, outcome: &Outcome, ended: usize) -> String {
        let Outcome { name, progress, wall, processor, status, .. } = outcome;
        let word = match status {
            Some(status) if status.success() => "ok  ",
            Some(_) => "FAIL",
            None => "HUNG",
        };
        let jobs = self.jobs;
        let failed =
            if progress.failed.is_empty() { String::new() } else { format!(", {} failed", progress.failed.len()) };
        let (wall, processor) = (wall.as_secs_f64(), processor.as_secs_f64());
        format!(
            "{word} {ended:>3}/{jobs} {wall:7.1} s {processor:7.1} s cpu  {name}: {} passed{failed}",
            progress.passed
        )
    }

    /// The last line of a terminal: what runs.
    fn status(&self, shown: &Shown) {
        if !self.terminal || self.follow || shown.running.is_empty() {
            return;
        }
        let names: Vec<_> = shown.running.keys().map(String::as_str).collect();
        let seconds = self.began.elapsed().as_secs();
        let line = format!(
            "     {}/{} after {}:{:02}: {}",
            shown.ended,
            self.jobs,
            seconds / 60,
            seconds % 60,
            names.join(", ")
        );
        let mut out = stdout().lock();
        // Nobody may be looking any more.
        let _ = write!(out, "\r\x1b[K{}", line.chars().take(100).collect::<String>()).and_then(|()| out.flush());
    }

    fn clear(&self) {
        if self.terminal && !self.follow {
            let _ = write!(stdout(), "\r\x1b[K");
        }
    }
}

fn say(line: &str) {
    // Nobody may be listening any more: the exit status says the same.
    let _ = writeln!(stdout(), "{line}");
}

/// What stands at the end: failures once more, what could not be tried, the longest, those that grew, and the sum.
pub fn end(outcomes: &[Outcome], took: Duration, times: Option<(&Times, &[String])>) -> String {
    let mut text = String::new();
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).collect();
    if outcomes.len() > 1 {
        for outcome in &failed {
            let _ = writeln!(text, "\n---- {} ----\n{}", outcome.name, told(&outcome.output));
        }
    }
    if let Some((times, grown)) = times {
        let _ = writeln!(text, "\nby the clock, of a processor:");
        for line in times.longest_lines() {
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(text, "processor time of all: {} s", times.processor().as_secs());
        for line in grown {
            let _ = writeln!(text, "GREW: {line}");
        }
    }
    for outcome in &failed {
        let what = if outcome.status.is_none() { "hung" } else { "failed" };
        let names = outcome.progress.failed.join(", ");
        let _ = writeln!(text, "{what}: {}: {}", outcome.name, if names.is_empty() { "(see above)" } else { &names });
    }
    let skipped: usize = outcomes.iter().map(|outcome| outcome.progress.skipped.len()).sum();
    if skipped > 0 {
        let _ = writeln!(text, "skipped here: {skipped} (above, with reasons)");
    }
    let passed: usize = outcomes.iter().map(|outcome| outcome.progress.passed).sum();
    let failures: usize = outcomes.iter().map(|outcome| outcome.progress.failed.len()).sum();
    let ignored: usize = outcomes.iter().map(|outcome| outcome.progress.ignored).sum();
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let _ = writeln!(
        text,
        "\ntest result: {word}. {passed} passed; {failures} failed; {ignored} ignored; 0 measured; 0 filtered out; finished in {:.2}s",
        took.as_secs_f64()
    );
    text
}

/// The part of an executable's output that tells what failed: from the harness's list of failures on, or else its last lines.
fn told(output: &str) -> &str {
    const LINES: usize = 60;
    let failures = output.find("\nfailures:\n").map(|at| &output[at + 1..]);
    failures.unwrap_or_else(|| {
        let from = output.rmatch_indices('\n').nth(LINES).map_or(0, |(at, _)| at + 1);
        &output[from..]
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;
    use crate::progress::Progress;

    fn outcome(name: &str, lines: &str, status: Option<i32>) -> Outcome {
        let mut progress = Progress::from(Instant::now());
        lines.lines().for_each(|line| progress.read(line, Instant::now()));
        let status = status.map(|code| ExitStatus::from_raw(code << 8));
        let time = Duration::from_secs(3);
        Outcome { name: name.into(), progress, output: lines.into(), wall: time, processor: time, status }
    }

    #[test]
    fn a_failure_stands_at_the_end_with_what_it_said() {
        let good = outcome("a", "test x ... ok\ntest y ... ignored\n", Some(0));
        let bad = outcome("b", "test z ... FAILED\n\nfailures:\n\n---- z stdout ----\nwhy\n", Some(101));
        let hung = outcome("c", "HANGS: …\n", None);
        let end = end(&[good, bad, hung], Duration::from_secs(9), None);
        assert!(end.contains("---- b ----\nfailures:\n\n---- z stdout ----\nwhy"), "{end}");
        assert!(end.contains("failed: b: z\nhung: c: (see above)\n"), "{end}");
        let last =
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 9.00s\n";
        assert!(end.ends_with(last), "{end}");
    }

    #[test]
    fn a_program_that_broke_off_fails_the_run_although_no_test_did() {
        let end = end(&[outcome("a", "test x ... ok\n", Some(134))], Duration::ZERO, None);
        assert!(
            end.contains("failed: a: (see above)") && end.contains("test result: FAILED. 1 passed; 0 failed"),
            "{end}"
        );
    }
}
