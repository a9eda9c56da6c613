//! Help, from the table.

use std::fmt::Write as _;

use super::table::COMMANDS;
use super::{Command, Flag, Need};
use crate::exit::Exit;

/// Flags that every command takes.
pub(super) const GLOBAL: &[Flag] = &[
    Flag {
        long: "output",
        value: Some("human|json"),
        need: Need::AtMostOnce,
        text: "how to print; with json, standard output is one JSON document,\nof the result or of the error",
    },
    Flag { long: "quiet", value: None, need: Need::AtMostOnce, text: "print the result and errors only" },
    Flag { long: "help", value: None, need: Need::AtMostOnce, text: "print this" },
];

/// No line is longer, in characters.
const WIDTH: usize = 88;

/// `latchkey --help`.
pub(super) fn overview() -> String {
    let mut text = String::from(
        "latchkey: starts clusters of attested machines, and looks after them\n\nUsage: latchkey COMMAND [ARGUMENTS]\n\n",
    );
    let width = COMMANDS.iter().map(|command| command.name().len()).max().unwrap_or(0);
    for command in COMMANDS {
        row(&mut text, &command.name(), command.summary, width);
    }
    text.push_str("\nEach command explains itself: latchkey COMMAND --help\n");
    text.push_str(
        "Where a file is read, - is standard input. --output json and --quiet may stand before\nthe command.\n\n",
    );
    exit_codes(&mut text);
    text.push_str("\nColours and moving lines appear on a terminal only, and not if NO_COLOR is set.\n");
    text
}

/// `latchkey image --help`, where several commands begin so.
pub(super) fn family(first: &str, commands: &[&Command]) -> String {
    let mut text = format!("Usage: latchkey {first} COMMAND [ARGUMENTS]\n\n");
    let width = commands.iter().map(|command| command.name().len()).max().unwrap_or(0);
    for command in commands {
        row(&mut text, &command.name(), command.summary, width);
    }
    text.push_str("\nEach command explains itself: latchkey COMMAND --help\n\n");
    exit_codes(&mut text);
    text
}

/// `latchkey COMMAND --help`.
pub(super) fn command(command: &Command) -> String {
    let title = wrapped(&format!("latchkey {}: {}", command.name(), command.summary), WIDTH).join("\n");
    let mut text = format!("{title}\n\n{}\n\n", usage(command));
    if !command.about.is_empty() {
        let _ = writeln!(text, "{}\n", command.about.trim());
    }
    let operands = command.operands.iter().map(|operand| (operand.name.to_owned(), operand.text.to_owned()));
    let flags = command.flags.iter().chain(GLOBAL).map(|flag| (label(flag), described(flag)));
    let rows: Vec<(String, String)> = operands.chain(flags).collect();
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0).min(28);
    for (label, described) in rows {
        row(&mut text, &label, &described, width);
    }
    if !command.examples.is_empty() {
        text.push_str("\nExamples:\n");
        for example in command.examples {
            let _ = writeln!(text, "  {example}");
        }
    }
    text.push('\n');
    exit_codes(&mut text);
    text
}

pub(super) fn usage(command: &Command) -> String {
    let mut text = format!("Usage: latchkey {}", command.name());
    for operand in command.operands {
        let _ = if operand.required { write!(text, " {}", operand.name) } else { write!(text, " [{}]", operand.name) };
    }
    let required = command.flags.iter().filter(|flag| flag.need.required());
    let required = required.map(|flag| format!("{}{}", label(flag), if flag.need.repeats() { "…" } else { "" }));
    let others = !command.flags.iter().all(|flag| flag.need.required());
    for word in required.chain(others.then(|| "[FLAGS]".to_owned())) {
        let line = text.lines().last().map_or(0, |line| line.chars().count());
        text.push_str(if line + word.chars().count() > WIDTH { "\n           " } else { " " });
        text.push_str(&word);
    }
    text
}

pub(super) fn label(flag: &Flag) -> String {
    match flag.value {
        Some(value) => format!("--{} {value}", flag.long),
        None => format!("--{}", flag.long),
    }
}

pub(super) fn described(flag: &Flag) -> String {
    let note = match flag.need {
        Need::AtLeastOnce => " (required; may be repeated)",
        Need::Once => " (required)",
        Need::AnyNumber => " (may be repeated)",
        Need::AtMostOnce => "",
    };
    format!("{}{note}", flag.text)
}

fn row(text: &mut String, label: &str, described: &str, width: usize) {
    let mut lines = wrapped(described, WIDTH - width - 4).into_iter();
    let first = lines.next().unwrap_or_default();
    if label.len() <= width {
        let _ = writeln!(text, "  {label:width$}  {first}");
    } else {
        let _ = writeln!(text, "  {label}\n  {:width$}  {first}", "");
    }
    for line in lines {
        let _ = writeln!(text, "  {:width$}  {line}", "");
    }
}

fn exit_codes(text: &mut String) {
    text.push_str("Exit codes:\n");
    for (code, meaning) in Exit::ALL {
        row(text, &(code as u8).to_string(), meaning, 3);
    }
}

/// The words of `text` in lines of at most `width` characters, as far as its words allow.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_any_help_is_longer_than_its_width() {
        let helps = COMMANDS.iter().map(self::command).chain([overview()]);
        let long: Vec<String> = helps
            .flat_map(|help| help.lines().map(str::to_owned).collect::<Vec<_>>())
            .filter(|line| line.chars().count() > WIDTH)
            .collect();
        assert!(long.is_empty(), "{long:#?}");
    }

    #[test]
    fn words_are_wrapped_and_a_word_that_is_too_long_has_a_line_of_its_own() {
        assert_eq!(wrapped("a bc\ndef gh", 6), ["a bc", "def gh"]);
        assert_eq!(wrapped("a abcdefgh b", 4), ["a", "abcdefgh", "b"]);
    }
}
