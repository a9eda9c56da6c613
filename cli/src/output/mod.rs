//! The only module that prints.
//!
//! | | standard output | standard error |
//! |---|---|---|
//! | human | the result | progress, errors |
//! | JSON | one document: the result, or, on one line, `{"error": …}` | progress, one JSON object per line |
//! | `--quiet` | the result | errors only |
//!
//! A command that goes on after its result, `latchkey centre up`, writes JSON as a sequence: each line of standard output is one
//! object, and the last one says how it ended.
//!
//! Colours and moving lines appear only where standard error, or output, is a terminal, and not if `NO_COLOR` is set.

mod live;
mod report;
mod style;
mod table;

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
pub(crate) use crate::printable::printable;
use live::Live;
use report::{ErrorReport, Progress, document, document_line, line};
pub(crate) use report::{Report, Verdict};
pub(crate) use style::{Style, Tone};
pub(crate) use table::{Table, pairs};

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Human,
    Json,
}

/// Where everything goes. Clones print to the same place.
#[derive(Clone)]
pub(crate) struct Output {
    format: Format,
    quiet: bool,
    style: Style,
    result_style: Style,
    live: Arc<Mutex<Live>>,
}

impl Output {
    pub(crate) fn new(format: Format, quiet: bool) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        let human = format == Format::Human;
        let terminal = human && io::stderr().is_terminal();
        Self {
            format,
            quiet,
            style: Style { coloured: terminal && !plain },
            result_style: Style { coloured: human && io::stdout().is_terminal() && !plain },
            live: Arc::new(Mutex::new(Live::new(terminal && !plain && !quiet))),
        }
    }

    /// One line of progress: a word that says what happened, and what one may want to know of it. Further lines of `text`
    /// are indented.
    pub(crate) fn say(&self, tone: Tone, word: &str, text: &str) {
        match self.format {
            _ if self.quiet => {}
            Format::Json => event(&Progress::said(word, text)),
            Format::Human => {
                // What it tells may be a machine's word.
                let mut lines = text.lines().map(printable);
                let first = lines.next().unwrap_or_default();
                let mut printed = format!("{}  {first}\n", self.style.paint(tone, &format!("{word:<WORD$}")));
                for line in lines {
                    // Writing to a string cannot fail.
                    let _ = writeln!(printed, "{:WORD$}  {line}", "");
                }
                self.live().print(&printed);
            }
        }
    }

    /// A line of progress that the node reports.
    pub(crate) fn node_step(&self, elapsed: Duration, step: &str, detail: &str) {
        let (step, detail) = (printable(step), printable(detail));
        match self.format {
            _ if self.quiet => {}
            Format::Json => {
                let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
                event(&Progress::step(&step, &detail, elapsed_ms));
            }
            Format::Human => {
                let time = self.style.paint(Tone::Faint, &format!("{:>8.1} s", elapsed.as_secs_f64()));
                self.live().print(&format!("{time}   {step:<14}  {detail}\n"));
            }
        }
    }

    /// What is being waited for. On a terminal it moves until something else is said; elsewhere it is a line, once.
    pub(crate) fn waiting(&self, text: &str) {
        let text = &printable(text);
        match self.format {
            _ if self.quiet => {}
            Format::Json => {
                if self.live().is_new(text) {
                    event(&Progress::said("waiting", text));
                }
            }
            Format::Human => Live::wait(&self.live, text, self.style, WORD),
        }
    }

    /// The same, and how far it has come, which only a moving line shows.
    pub(crate) fn waiting_with(&self, text: &str, how_far: &str) {
        if self.live().moves() { self.waiting(&format!("{text}  {how_far}")) } else { self.waiting(text) }
    }

    /// Prints what a command found or did, and says how the run ends: as the report says, or, where that is well, as printing
    /// it did.
    pub(crate) fn report(&self, report: &impl Report) -> Result<Exit, CommandError> {
        let printed = match self.format {
            Format::Json => self.text(&document(report)?)?,
            Format::Human => self.text(&report.text(self.result_style))?,
        };
        Ok(match report.exit() {
            Exit::Done => printed,
            verdict => verdict,
        })
    }

    /// The same for one result of several: as JSON it is one line.
    pub(crate) fn report_line(&self, report: &impl Report) -> Result<Exit, CommandError> {
        match self.format {
            Format::Json => self.text(&document_line(report)?),
            Format::Human => self.text(&report.text(self.result_style)),
        }
    }

    /// Prints text as it is to standard output.
    ///
    /// A result that is not printed is a failure: what stood in it may stand nowhere else. A reader that went away (`| head`)
    /// chose so, and learns of it by the exit code alone.
    pub(crate) fn text(&self, text: &str) -> Result<Exit, CommandError> {
        self.bytes(text.as_bytes())
    }

    /// The same for a result that is no text.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<Exit, CommandError> {
        self.live().clear();
        match print(bytes) {
            Ok(()) => Ok(Exit::Done),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::NobodyReads),
            Err(error) => Err(CommandError::local(
                CommandCode::OutputUnwritable,
                "the result cannot be written to standard output",
            )
            .because(error.to_string())),
        }
    }

    /// Text to standard error for somebody who did not ask for it.
    pub(crate) fn explain(&self, text: &str) {
        self.live().print(text);
    }

    /// Prints a failure, and says how the run ends.
    pub(crate) fn failed(&self, failure: &CommandError) -> Exit {
        self.live().clear();
        let document = || match document_line(&ErrorReport::of(failure)) {
            Ok(text) => print(text.as_bytes()),
            Err(error) => Err(io::Error::other(error.what)),
        };
        // A document that has no room on standard output becomes text on standard error; one that nobody reads does not.
        let said = self.format == Format::Json
            && document().map_or_else(|error| error.kind() == io::ErrorKind::BrokenPipe, |()| true);
        if !said {
            let mut text = format!("{} {}\n", self.style.paint(Tone::Bad, "error:"), failure.what);
            for cause in &failure.because {
                let _ = writeln!(text, "{} {cause}", self.style.paint(Tone::Strong, "because:"));
            }
            let _ = writeln!(text, "{} {}", self.style.paint(Tone::Good, "fix:"), failure.remedy());
            self.live().print(&text);
        }
        failure.exit
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes text to standard output and waits until the kernel has it: what is left in a buffer when the program ends would be
/// lost in silence.
fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush())
}

/// One line for a program that follows the progress.
fn event(progress: &Progress<'_>) {
    // Progress that nobody can read is no reason to stop.
    let _ = writeln!(io::stderr().lock(), "{}", line(progress));
}

/// Room for the first word of a line.
const WORD: usize = 10;
