//! Reads arguments by the table.

use std::ffi::{OsStr, OsString};

use lexopt::Arg::{Long, Short, Value};

use super::table::COMMANDS;
use super::{Arguments, Command, Flag, help};
use crate::failure::Failure;
use crate::output::Format;

/// What the user asks for.
pub(crate) enum Parsed {
    /// Text to print.
    Help(String),
    /// A command to run.
    Command(&'static Command, Arguments),
}

/// Reads everything behind the program's name. A failure comes with the format it shall be shown in.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Parsed, (Format, Failure)> {
    read(arguments).map_err(|failure| (wanted_format(arguments), failure))
}

fn read(arguments: &[OsString]) -> Result<Parsed, Failure> {
    let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    if let Some(asked) = asked_for_help(&words) {
        return Ok(Parsed::Help(asked));
    }
    let command = find(&words)?;
    let rest = arguments.get(command.path.len()..).unwrap_or_default();
    match read_command(command, rest)? {
        Some(arguments) => check(command, &arguments).map(|()| Parsed::Command(command, arguments)),
        None => Ok(Parsed::Help(help::command(command))),
    }
}

/// `latchkey`, `latchkey --help`, `latchkey help [COMMAND]`, `latchkey --version`.
fn asked_for_help(words: &[&OsStr]) -> Option<String> {
    let text = |word: &&OsStr| word.to_str().map(str::to_owned);
    match words.first().map_or(Some("--help".to_owned()), text)?.as_str() {
        "--help" | "-h" => Some(help::overview()),
        "--version" | "-V" => Some(format!("latchkey {}\n", env!("CARGO_PKG_VERSION"))),
        "help" => {
            let rest = words.get(1..).unwrap_or_default();
            Some(find(rest).map_or_else(|_| help::overview(), help::command))
        }
        _ => None,
    }
}

fn find(words: &[&OsStr]) -> Result<&'static Command, Failure> {
    let named = |command: &&Command| {
        command.path.len() <= words.len()
            && command.path.iter().zip(words).all(|(name, word)| *word == OsStr::new(name))
    };
    COMMANDS.iter().find(named).ok_or_else(|| unknown(words))
}

fn unknown(words: &[&OsStr]) -> Failure {
    let first = words.first().copied().unwrap_or_default();
    let family: Vec<String> = COMMANDS
        .iter()
        .filter(|command| command.path.first().is_some_and(|name| first == OsStr::new(name)))
        .map(Command::name)
        .collect();
    let failure = Failure::usage(if family.is_empty() {
        format!("there is no command `{}`", first.display())
    } else {
        format!("`{}` needs another word: {}", first.display(), family.join(", "))
    });
    failure.fix("see `latchkey --help`")
}

/// `None` if help is asked for.
fn read_command(command: &'static Command, rest: &[OsString]) -> Result<Option<Arguments>, Failure> {
    let mut arguments = Arguments::default();
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
                let flag = flag.ok_or_else(|| with_help(command, format!("there is no flag --{name} here")))?;
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

fn keep(command: &Command, flag: &'static Flag, value: OsString, arguments: &mut Arguments) -> Result<(), Failure> {
    let values = arguments.flags.entry(flag.long).or_default();
    if !values.is_empty() && !flag.need.repeats() {
        return Err(with_help(command, format!("--{} may be given once", flag.long)));
    }
    values.push(value);
    Ok(())
}

fn check(command: &Command, arguments: &Arguments) -> Result<(), Failure> {
    let missing = command.operands.iter().skip(arguments.operands.len()).find(|operand| operand.required);
    if let Some(operand) = missing {
        return Err(with_help(command, format!("{} is missing: {}", operand.name, operand.text)));
    }
    let missing = command.flags.iter().find(|flag| flag.need.required() && !arguments.has(flag.long));
    match missing {
        Some(Flag { long, value, text, .. }) => {
            Err(with_help(command, format!("--{long} {} is missing: {text}", value.unwrap_or_default())))
        }
        None => Ok(()),
    }
}

fn with_help(command: &Command, what: String) -> Failure {
    Failure::usage(what).fix(format!("see `latchkey {} --help`", command.name()))
}

fn format(value: &OsStr) -> Option<Format> {
    match value.to_str()? {
        "human" => Some(Format::Human),
        "json" => Some(Format::Json),
        _ => None,
    }
}

/// The format for saying that the arguments are wrong: what they ask for, as far as that can be told.
fn wanted_format(arguments: &[OsString]) -> Format {
    let json = arguments.iter().any(|word| word == "--output=json")
        || arguments.iter().zip(arguments.iter().skip(1)).any(|(flag, value)| flag == "--output" && value == "json");
    if json { Format::Json } else { Format::Human }
}
