//! `latchkey manual`: manual pages, from the table.

use std::fmt::Write as _;

use serde::Serialize;

use super::help::{GLOBAL, described, label, usage};
use super::table::COMMANDS;
use super::{Arguments, Command, Flag, Need, Operand};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::output::{Output, Report, Style};

pub(super) const MANUAL: Command = Command {
    path: &["manual"],
    operands: &[
        Operand { name: "COMMAND", required: false, text: "the command that the page is about [latchkey itself]" },
        Operand { name: "WORD", required: false, text: "its second word, if it has two" },
    ],
    flags: &[Flag {
        long: "man-dir",
        value: Some("DIR"),
        need: Need::AtMostOnce,
        text: "write all pages into this directory instead, which is made if it is missing",
    }],
    summary: "prints a manual page",
    about: "The page is in the form of man(7). With --man-dir all of them are written as files:\nlatchkey.1, and latchkey-COMMAND.1 for each command; those that are there are replaced.",
    examples: &["latchkey manual measure log | man -l -", "latchkey manual --man-dir /usr/local/share/man/man1"],
    run,
};

fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let named: Vec<&str> = (0..2)
        .filter(|&at| arguments.operand(at).is_some())
        .map(|at| arguments.operand_text(at))
        .collect::<Result<_, _>>()?;
    if let Some(directory) = arguments.path("man-dir") {
        if !named.is_empty() {
            return Err(CommandError::usage("--man-dir writes all pages: name no command with it"));
        }
        std::fs::create_dir_all(directory).map_err(|error| files::unwritable(directory, &error))?;
        let pages = COMMANDS.iter().map(|command| (file_name(&command.name()), page(command)));
        let mut files = Vec::new();
        for (name, text) in pages.chain([(file_name(""), overview())]) {
            files::replace(&directory.join(&name), text.as_bytes(), Readers::Anyone)?;
            files.push(name);
        }
        return output.report(&PagesReport { directory: directory.display().to_string(), files });
    }
    let page = if named.is_empty() { overview() } else { page(find(&named)?) };
    output.report(&PageReport { page })
}

/// All pages were written.
#[derive(Serialize)]
struct PagesReport {
    directory: String,
    files: Vec<String>,
}

impl Report for PagesReport {
    fn text(&self, _: Style) -> String {
        format!("{} pages written to {}\n", self.files.len(), self.directory)
    }
}

/// One page.
#[derive(Serialize)]
struct PageReport {
    page: String,
}

impl Report for PageReport {
    fn text(&self, _: Style) -> String {
        self.page.clone()
    }
}

fn find(named: &[&str]) -> Result<&'static Command, CommandError> {
    COMMANDS.iter().find(|command| command.path == named).ok_or_else(|| {
        CommandError::usage(format!("there is no command `{}`", named.join(" "))).fix("see `latchkey --help`")
    })
}

/// `measure log` → `latchkey-measure-log.1`.
fn file_name(command: &str) -> String {
    format!("{}.1", title(command))
}

fn title(command: &str) -> String {
    if command.is_empty() { "latchkey".to_owned() } else { format!("latchkey-{}", command.replace(' ', "-")) }
}

/// The page about one command.
fn page(command: &Command) -> String {
    let mut text = heading(&command.name(), command.summary);
    let _ = write!(text, ".SH SYNOPSIS\n.nf\n{}.fi\n", lines(usage(command).trim_start_matches("Usage: ")));
    if !command.about.is_empty() {
        let _ = write!(text, ".SH DESCRIPTION\n.nf\n{}.fi\n", lines(command.about.trim()));
    }
    text.push_str(".SH OPTIONS\n");
    for operand in command.operands {
        tagged(&mut text, operand.name, operand.text);
    }
    for flag in command.flags.iter().chain(GLOBAL) {
        tagged(&mut text, &label(flag), &described(flag));
    }
    if !command.examples.is_empty() {
        let _ = write!(text, ".SH EXAMPLES\n.nf\n{}.fi\n", lines(&command.examples.join("\n")));
    }
    exit_status(&mut text);
    text.push_str(".SH SEE ALSO\n.BR latchkey (1)\n");
    text
}

/// The page about all of them.
fn overview() -> String {
    let mut text = heading("", "starts clusters of attested machines, and looks after them");
    text.push_str(".SH SYNOPSIS\n.B latchkey\nCOMMAND [ARGUMENTS]\n.SH COMMANDS\n");
    for command in COMMANDS {
        tagged(&mut text, &command.name(), command.summary);
    }
    text.push_str(".SH OPTIONS\nEvery command takes these, and they may stand before it.\n");
    for flag in GLOBAL {
        tagged(&mut text, &label(flag), &described(flag));
    }
    exit_status(&mut text);
    text.push_str(".SH SEE ALSO\n");
    let pages: Vec<String> =
        COMMANDS.iter().map(|command| format!(".BR {} (1)", escaped(&title(&command.name())))).collect();
    let _ = writeln!(text, "{}", pages.join(" ,\n"));
    text
}

fn heading(command: &str, summary: &str) -> String {
    let (title, version) = (title(command), env!("CARGO_PKG_VERSION"));
    format!(
        ".TH {} 1 \"\" \"latchkey {version}\" \"Latchkey\"\n.SH NAME\n{} \\- {}\n",
        escaped(&title.to_uppercase()),
        escaped(&title),
        escaped(summary)
    )
}

fn tagged(text: &mut String, tag: &str, about: &str) {
    let _ = write!(text, ".TP\n\\fB{}\\fR\n{}", escaped(tag), lines(about));
}

fn exit_status(text: &mut String) {
    text.push_str(".SH EXIT STATUS\n");
    for (code, meaning) in Exit::ALL {
        tagged(text, &(code as u8).to_string(), meaning);
    }
}

/// Each line escaped, and none taken for a request.
fn lines(text: &str) -> String {
    let mut page = String::new();
    for line in text.lines() {
        page.push_str(&escaped(line));
        page.push('\n');
    }
    page
}

/// Text as groff and mandoc print it unchanged (`groff_char(7)`; `groff(7)`, "Escape sequences").
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    if text.starts_with(['.', '\'']) {
        escaped.push_str("\\&");
    }
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\e"),
            '-' => escaped.push_str("\\-"),
            '\'' => escaped.push_str("\\(aq"),
            '`' => escaped.push_str("\\(ga"),
            '^' => escaped.push_str("\\(ha"),
            '~' => escaped.push_str("\\(ti"),
            c if c.is_ascii() => escaped.push(c),
            c => {
                let _ = write!(escaped, "\\[u{:04X}]", u32::from(c));
            }
        }
    }
    escaped
}
