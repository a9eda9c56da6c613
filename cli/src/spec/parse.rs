//! Reads arguments by the table.

use std::ffi::{OsStr, OsString};

use lexopt::Arg::{Long, Short, Value};

use super::table::COMMANDS;
use super::{Arguments, Command, Flag, help};
use crate::error::CommandError;
use crate::output::Format;

/// No command is longer.
const MAX_TYPED: usize = 40;

/// What the user asks for.
pub(crate) enum Parsed {
    /// Text to print.
    Help(String),
    /// No command: the text says which there are.
    Nothing(String),
    /// A command to run.
    Command(&'static Command, Arguments),
}

/// Reads everything behind the program's name. A failure comes with the format it shall be shown in.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Parsed, (Format, Box<CommandError>)> {
    read(arguments).map_err(|failure| (wanted_format(arguments), Box::new(failure)))
}

fn read(arguments: &[OsString]) -> Result<Parsed, CommandError> {
    let (arguments, before) = read_before(arguments)?;
    let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    if words.is_empty() && before.format == Format::Human {
        return Ok(Parsed::Nothing(help::overview()));
    }
    if words.is_empty() {
        return Err(CommandError::usage("no command is given").fix("see `latchkey --help`"));
    }
    if let Some(asked) = asked_for_help(&words)? {
        return Ok(Parsed::Help(asked));
    }
    let command = find(&words)?;
    let rest = arguments.get(command.path.len()..).unwrap_or_default();
    match read_command(command, before, rest)? {
        Some(arguments) => check(command, &arguments).map(|()| Parsed::Command(command, arguments)),
        None => Ok(Parsed::Help(help::command(command))),
    }
}

/// Reads the flags of every command that stand before the command; returns what stands behind them.
fn read_before(mut arguments: &[OsString]) -> Result<(&[OsString], Arguments), CommandError> {
    let mut before = Arguments::default();
    let chosen = |value: &OsStr| {
        let wrong = || CommandError::usage("--output is `human` or `json`").fix("see `latchkey --help`");
        format(value).ok_or_else(wrong)
    };
    loop {
        match arguments {
            [flag, rest @ ..] if flag == "--quiet" || flag == "-q" => {
                before.quiet = true;
                arguments = rest;
            }
            [flag, value, rest @ ..] if flag == "--output" => {
                before.format = chosen(value)?;
                arguments = rest;
            }
            [flag] if flag == "--output" => return chosen(OsStr::new("")).map(|_| (arguments, before)),
            [flag, rest @ ..] if flag.as_encoded_bytes().starts_with(b"--output=") => {
                let value = flag.to_str().and_then(|flag| flag.strip_prefix("--output=")).unwrap_or_default();
                before.format = chosen(OsStr::new(value))?;
                arguments = rest;
            }
            rest => return Ok((rest, before)),
        }
    }
}

/// `latchkey --help`, `latchkey help [COMMAND]`, `latchkey COMMANDS --help`, `latchkey --version` and the ways in which it is typed.
fn asked_for_help(words: &[&OsStr]) -> Result<Option<String>, CommandError> {
    Ok(match words.first().and_then(|word| word.to_str()) {
        Some("--help" | "-h") => Some(help::overview()),
        Some("--version" | "-V" | "-v" | "version") => Some(format!("latchkey {}\n", env!("CARGO_PKG_VERSION"))),
        Some("help") => {
            let rest = words.get(1..).unwrap_or_default();
            let family = if rest.is_empty() { Some(help::overview()) } else { of_family(rest) };
            match (find(rest), family) {
                (Ok(command), _) => Some(help::command(command)),
                (Err(_), Some(family)) => Some(family),
                (Err(unknown), None) => return Err(unknown),
            }
        }
        _ if words.get(1).is_some_and(|word| matches!(word.to_str(), Some("--help" | "-h"))) => of_family(words),
        _ => None,
    })
}

/// Help about all commands that begin with this word, if there are several.
fn of_family(words: &[&OsStr]) -> Option<String> {
    let first = words.first()?;
    let family: Vec<_> = family(first).collect();
    match family.as_slice() {
        [] => None,
        // `init` is a command itself, whatever else begins so.
        commands if commands.iter().any(|command| command.path.len() == 1) => None,
        commands => Some(help::family(&first.to_string_lossy(), commands)),
    }
}

fn family(first: &OsStr) -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(move |command| command.path.first().is_some_and(|name| first == OsStr::new(name)))
}

fn find(words: &[&OsStr]) -> Result<&'static Command, CommandError> {
    let named = |command: &&Command| {
        command.path.len() <= words.len()
            && command.path.iter().zip(words).all(|(name, word)| *word == OsStr::new(name))
    };
    COMMANDS.iter().find(named).ok_or_else(|| unknown(words))
}

fn unknown(words: &[&OsStr]) -> CommandError {
    let first = words.first().copied().unwrap_or_default();
    let family: Vec<String> = family(first).map(Command::name).collect();
    let second = words.get(1).filter(|word| !word.as_encoded_bytes().starts_with(b"-"));
    if let (true, None) = (!family.is_empty(), second) {
        let what = format!("`{}` needs another word: {}", first.display(), family.join(", "));
        return CommandError::usage(what).fix(format!("see `latchkey {} --help`", first.display()));
    }
    let named: Vec<_> = [first].into_iter().chain(second.copied()).map(OsStr::to_string_lossy).collect();
    let (said, candidates) = if family.is_empty() {
        (first.to_string_lossy().into_owned(), COMMANDS.iter().map(Command::name).collect())
    } else {
        (named.join(" "), family)
    };
    let nearest = nearest(&named.join(" "), &candidates).or_else(|| nearest(&said, &candidates));
    let fix =
        nearest.map_or_else(|| "see `latchkey --help`".to_owned(), |name| format!("do you mean `latchkey {name}`?"));
    CommandError::usage(format!("there is no command `{said}`")).fix(fix)
}

/// The candidate that is as good as what was typed: at most one letter in three is another.
fn nearest<'a>(typed: &str, candidates: &'a [String]) -> Option<&'a str> {
    let letters = typed.chars().take(MAX_TYPED).collect::<Vec<_>>();
    let far = |name: &&String| distance(&letters, &name.chars().collect::<Vec<_>>());
    let best = candidates.iter().min_by_key(far)?;
    (far(&best) * 3 <= letters.len()).then_some(best)
}

/// How many letters to add, leave out or change (Levenshtein's distance).
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (number, letter) in one.iter().enumerate() {
        let mut next = vec![number + 1];
        for ((above, left_above), wanted) in row.iter().skip(1).zip(&row).zip(other) {
            let left = next.last().copied().unwrap_or(number);
            next.push((left + 1).min(above + 1).min(left_above + usize::from(letter != wanted)));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// `None` if help is asked for.
fn read_command(
    command: &'static Command,
    before: Arguments,
    rest: &[OsString],
) -> Result<Option<Arguments>, CommandError> {
    let mut arguments = before;
    let mut parser = lexopt::Parser::from_args(rest.iter());
    let wrong = |error: lexopt::Error| with_help(command, error.to_string());
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Long("help") | Short('h') => return Ok(None),
            Long("quiet") | Short('q') => arguments.quiet = true,
            Long("output") => {
                let value = parser.value().map_err(wrong)?;
                arguments.format =
                    format(&value).ok_or_else(|| with_help(command, "--output is `human` or `json`".to_owned()))?;
            }
            Long(name) => {
                let flag = command.flags.iter().find(|flag| flag.long == name);
                let flag = flag.ok_or_else(|| unknown_flag(command, name))?;
                let value = match flag.value {
                    Some(_) => parser.value().map_err(wrong)?,
                    None => OsString::new(),
                };
                keep(command, flag, value, &mut arguments)?;
            }
            Value(operand) if arguments.operands.len() < command.operands.len() => arguments.operands.push(operand),
            other => return Err(wrong(other.unexpected())),
        }
    }
    Ok(Some(arguments))
}

fn unknown_flag(command: &Command, name: &str) -> CommandError {
    let global = help::GLOBAL.iter().chain(command.flags).map(|flag| flag.long.to_owned());
    let failure = with_help(command, format!("there is no flag --{name} here"));
    match nearest(name, &global.collect::<Vec<_>>()) {
        Some(flag) => failure.fix(format!("do you mean --{flag}?")),
        None => failure,
    }
}

fn keep(
    command: &Command,
    flag: &'static Flag,
    value: OsString,
    arguments: &mut Arguments,
) -> Result<(), CommandError> {
    let values = arguments.flags.entry(flag.long).or_default();
    if !values.is_empty() && !flag.need.repeats() {
        return Err(with_help(command, format!("--{} may be given once", flag.long)));
    }
    values.push(value);
    Ok(())
}

fn check(command: &Command, arguments: &Arguments) -> Result<(), CommandError> {
    let missing = command.operands.iter().skip(arguments.operands.len()).find(|operand| operand.required);
    if let Some(operand) = missing {
        return Err(with_help(command, format!("{} is missing: {}", operand.name, in_one_line(operand.text))));
    }
    let missing = command.flags.iter().find(|flag| flag.need.required() && !arguments.has(flag.long));
    match missing {
        Some(Flag { long, value, text, .. }) => {
            let (value, text) = (value.unwrap_or_default(), in_one_line(text));
            Err(with_help(command, format!("--{long} {value} is missing: {text}")))
        }
        None => Ok(()),
    }
}

/// Texts of the table are broken into lines for its help.
fn in_one_line(text: &str) -> String {
    text.replace('\n', " ")
}

fn with_help(command: &Command, what: String) -> CommandError {
    CommandError::usage(what).fix(format!("see `latchkey {} --help`", command.name()))
}

fn format(value: &OsStr) -> Option<Format> {
    match value.to_str()? {
        "human" => Some(Format::Human),
        "json" => Some(Format::Json),
        _ => None,
    }
}

/// The format for saying that the arguments are wrong: what they ask for, as far as that can be seen.
fn wanted_format(arguments: &[OsString]) -> Format {
    let json = arguments.iter().any(|word| word == "--output=json")
        || arguments.iter().zip(arguments.iter().skip(1)).any(|(flag, value)| flag == "--output" && value == "json");
    if json { Format::Json } else { Format::Human }
}
