//! What a machine or service prints, line by line, and waiting for it.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{HarnessError, io_error};

/// Lines kept in memory; a boot prints a few hundred.
const MAX_LINES: usize = 200_000;
/// A longer line is cut: no console line is that long.
const MAX_LINE: u64 = 64 * 1024;
/// How many lines an error shows.
const TAIL: usize = 30;
/// What a kernel says when it gives up; nothing that is waited for comes after it.
const PANIC: &str = "Kernel panic - not syncing";

/// One line and when it came.
#[derive(Debug, Clone)]
pub struct Line {
    /// Time since the process was started.
    pub at: Duration,
    /// The line without its end and without terminal control sequences.
    pub text: String,
}

/// The output of one process. Clones show the same output.
#[derive(Debug, Clone)]
pub struct Console {
    name: Arc<str>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<Line>,
    ended: bool,
    /// Lines before this one were already waited for.
    seen: usize,
}

impl Console {
    /// Reads `source` on a thread of its own and also writes it to the file `log`.
    pub fn read(name: &str, source: impl Read + Send + 'static, log: &Path) -> Result<Self, HarnessError> {
        let file = std::fs::File::create(log).map_err(io_error("make", log))?;
        let console = Self { name: name.into(), shared: Arc::default() };
        let shared = console.shared.clone();
        std::thread::spawn(move || follow(source, file, &shared));
        Ok(console)
    }

    /// Waits for the next line that contains `pattern`, after the one found last.
    pub fn expect(&self, pattern: &str, within: Duration) -> Result<Line, HarnessError> {
        self.expect_any(&[pattern], within).map(|(_, line)| line)
    }

    /// Waits for the next line that contains one of `patterns`, and says which.
    pub fn expect_any(&self, patterns: &[&str], within: Duration) -> Result<(usize, Line), HarnessError> {
        let event = patterns.join("' or '");
        self.wait(&format!("'{event}'"), within, |line| {
            let found = patterns.iter().position(|pattern| line.text.contains(pattern))?;
            Some((found, line.clone()))
        })
    }

    /// Waits for the next line that `choose` accepts, after the one found last.
    pub fn wait<T>(
        &self,
        event: &str,
        within: Duration,
        choose: impl FnMut(&Line) -> Option<T>,
    ) -> Result<T, HarnessError> {
        let from = self.state().seen;
        let (next, found) = self.scan(from, event, within, choose);
        self.state().seen = next;
        found
    }

    /// Waits for a line that contains all of `parts`, whether it came before or comes yet. For consoles that several look
    /// at: it does not count as waiting for these lines.
    pub fn find(&self, parts: &[&str], within: Duration) -> Result<Line, HarnessError> {
        let event = format!("line with '{}'", parts.join("' and '"));
        let has_all = |line: &Line| parts.iter().all(|part| line.text.contains(part)).then(|| line.clone());
        self.scan(0, &event, within, has_all).1
    }

    /// The first line from number `from` on that `choose` accepts, and the number of the first one not looked at.
    fn scan<T>(
        &self,
        from: usize,
        event: &str,
        within: Duration,
        mut choose: impl FnMut(&Line) -> Option<T>,
    ) -> (usize, Result<T, HarnessError>) {
        let deadline = Instant::now() + within;
        let (mut next, mut state) = (from, self.state());
        loop {
            while let Some(line) = state.lines.get(next) {
                next += 1;
                if let Some(chosen) = choose(line) {
                    return (next, Ok(chosen));
                }
                if line.text.contains(PANIC) {
                    return (next, Err(self.ended(&state, event)));
                }
            }
            if state.ended {
                return (next, Err(self.ended(&state, event)));
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return (next, Err(self.deadline(&state, event, within)));
            };
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The lines from number `from` on, as soon as there are any; none when the output has ended. For followers: it does
    /// not count as waiting for these lines.
    pub fn follow(&self, from: usize) -> Vec<Line> {
        let mut state = self.state();
        while state.lines.len() <= from && !state.ended {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.lines.get(from..).unwrap_or_default().to_vec()
    }

    /// Waits until the process has closed its output.
    pub fn wait_end(&self, within: Duration) -> Result<(), HarnessError> {
        let deadline = Instant::now() + within;
        let mut state = self.state();
        while !state.ended {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Err(self.deadline(&state, "end", within));
            };
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// All lines so far, waited for or not.
    pub fn lines(&self) -> Vec<Line> {
        self.state().lines.clone()
    }

    /// Whether a line so far contains `pattern`.
    pub fn contains(&self, pattern: &str) -> bool {
        self.state().lines.iter().any(|line| line.text.contains(pattern))
    }

    /// What follows `prefix` on the first line that has it.
    pub fn value(&self, prefix: &str) -> Option<String> {
        let state = self.state();
        state.lines.iter().find_map(|line| line.text.split_once(prefix).map(|(_, rest)| rest.trim().to_owned()))
    }

    /// All lines so far as one text with times, for messages.
    pub fn text(&self) -> String {
        listing(&self.state().lines)
    }

    fn ended(&self, state: &State, event: &str) -> HarnessError {
        HarnessError::Ended { name: self.name.to_string(), event: event.to_owned(), tail: tail(&state.lines) }
    }

    fn deadline(&self, state: &State, event: &str, within: Duration) -> HarnessError {
        let (name, event) = (self.name.to_string(), event.to_owned());
        HarnessError::Deadline { name, event, after: within, tail: tail(&state.lines) }
    }

    /// The last lines, for an error.
    pub(crate) fn tail(&self) -> String {
        tail(&self.state().lines)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn follow(source: impl Read, mut log: std::fs::File, shared: &Shared) {
    let started = Instant::now();
    let mut source = BufReader::new(source);
    loop {
        let mut bytes = Vec::new();
        let read = source.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
        let at = started.elapsed();
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(read, Ok(1..)) || state.lines.len() >= MAX_LINES {
            state.ended = true;
            drop(state);
            shared.changed.notify_all();
            return;
        }
        let text = plain(&String::from_utf8_lossy(&bytes));
        // A log that cannot be written is missed only after a failure, which then shows the tail itself.
        let _ = writeln!(log, "{:9.3} {text}", at.as_secs_f64());
        state.lines.push(Line { at, text });
        drop(state);
        shared.changed.notify_all();
    }
}

/// Without line ends and terminal control sequences (ESC [ parameters letter), which firmware prints plenty of.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' && characters.next_if_eq(&'[').is_some() {
            let _ = characters.by_ref().find(char::is_ascii_alphabetic);
        } else if !character.is_control() || character == '\t' {
            out.push(character);
        }
    }
    out
}

fn tail(lines: &[Line]) -> String {
    listing(lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default())
}

fn listing(lines: &[Line]) -> String {
    let mut out = String::new();
    for line in lines {
        let _ = writeln!(out, "{:9.3} {}", line.at.as_secs_f64(), line.text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_mins(2);

    fn console(source: impl Read + Send + 'static) -> (Console, crate::run::Run) {
        let run = crate::run::Run::new("console").unwrap();
        (Console::read("test", source, &run.file("console.log")).unwrap(), run)
    }

    #[test]
    fn lines_are_found_in_order_and_each_once() {
        let (console, _run) = console(&b"\x1b[2J\x1b[01;01HBdsDxe: starting\r\nREADY 1\nnoise\nREADY 2\n"[..]);
        assert_eq!(console.expect("BdsDxe", SOON).unwrap().text, "BdsDxe: starting");
        assert_eq!(console.expect("READY", SOON).unwrap().text, "READY 1");
        assert_eq!(console.expect_any(&["DONE", "READY"], SOON).unwrap().1.text, "READY 2");
        assert!(matches!(console.expect("READY", SOON), Err(HarnessError::Ended { .. })));
        assert_eq!(console.value("READY ").unwrap(), "1");
        assert_eq!(console.find(&["2", "READY"], SOON).unwrap().text, "READY 2");
        let error = console.find(&["READY", "3"], SOON).unwrap_err().to_string();
        assert!(error.contains("line with 'READY' and '3'"), "{error}");
    }

    #[test]
    fn a_line_that_comes_later_wakes_the_waiter() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (console, _run) = console(reader);
        let waiter = std::thread::spawn(move || console.expect("late", SOON).map(|line| line.text));
        writer.write_all(b"early\nlate\n").unwrap();
        assert_eq!(waiter.join().unwrap().unwrap(), "late");
    }

    #[test]
    fn silence_ends_at_the_deadline_and_shows_the_last_lines() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (console, _run) = console(reader);
        writer.write_all(b"the last words\n").unwrap();
        console.expect("last", SOON).unwrap();
        let error = console.expect("more", Duration::from_millis(20)).unwrap_err().to_string();
        assert!(error.contains("no 'more' after 20ms") && error.contains("the last words"), "{error}");
    }

    #[test]
    fn a_kernel_panic_is_not_waited_out() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (console, _run) = console(reader);
        writer.write_all(b"[    1.0] Kernel panic - not syncing: Attempted to kill init!\n").unwrap();
        assert!(matches!(console.expect("READY", SOON), Err(HarnessError::Ended { .. })));
    }
}
