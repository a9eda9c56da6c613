//! The only place that prints.
//!
//! | | standard output | standard error |
//! |---|---|---|
//! | human | the result | progress, errors |
//! | JSON | one document: the result, or `{"error": …}` | progress, one JSON object per line |
//! | `--quiet` | the result | errors only |
//!
//! Colours and moving lines appear only where standard error, or output, is a terminal, and not if `NO_COLOR` is set.

mod live;
mod style;
mod table;

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
pub(crate) use crate::printable::printable;
use live::Live;
use style::Style;
pub(crate) use style::Tone;
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
            Format::Json => event(&json!({"event": word, "text": text})),
            Format::Human => {
                let mut lines = text.lines();
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
                event(&json!({"event": "step", "step": step, "detail": detail, "elapsed_ms": elapsed_ms}));
            }
            Format::Human => {
                let time = self.style.paint(Tone::Faint, &format!("{:>8.1} s", elapsed.as_secs_f64()));
                self.live().print(&format!("{time}   {step:<14}  {detail}\n"));
            }
        }
    }

    /// What is being waited for. On a terminal it moves until something else is said; elsewhere it is a line, once.
    pub(crate) fn waiting(&self, text: &str) {
        match self.format {
            _ if self.quiet => {}
            Format::Json => {
                if self.live().is_new(text) {
                    event(&json!({"event": "waiting", "text": text}));
                }
            }
            Format::Human => Live::wait(&self.live, text, self.style, WORD),
        }
    }

    /// Prints the result: `json` for programs, `human` for people. Says how the run ends if nothing else is amiss.
    pub(crate) fn result(&self, json: &Value, human: &str) -> Result<Exit, CommandError> {
        match self.format {
            Format::Json => self.text(&document(json)),
            Format::Human => self.text(human),
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

    /// Paints a part of a result.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        self.result_style.paint(tone, text)
    }

    /// Text to standard error for somebody who did not ask for it.
    pub(crate) fn explain(&self, text: &str) {
        self.live().print(text);
    }

    /// Prints a failure, and says how the run ends.
    pub(crate) fn failed(&self, failure: &CommandError) -> Exit {
        self.live().clear();
        let document = || print(document(&json!({"error": failure_json(failure)})).as_bytes());
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
fn event(event: &Value) {
    // Progress that nobody can read is no reason to stop.
    let _ = writeln!(io::stderr().lock(), "{}", versioned(event));
}

/// The document that is a command's whole output for a program.
fn document(value: &Value) -> String {
    format!("{:#}\n", versioned(value))
}

/// With the version of the form of all that is printed for programs. It grows when something that was there is gone or means
/// something else; what is new is no other version.
fn versioned(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("schema".to_owned(), json!(SCHEMA));
    }
    value
}

/// See [`versioned`].
const SCHEMA: u32 = 1;

fn failure_json(failure: &CommandError) -> Value {
    let mut json = json!({
        "code": failure.code.as_str(),
        "message": failure.what,
        "because": failure.because,
        "fix": failure.remedy(),
        "exit_code": failure.exit as u8,
    });
    if let Some(refusal) = &failure.refusal {
        json["refusal"] = json!(refusal);
    }
    json
}

/// Room for the first word of a line.
const WORD: usize = 10;
