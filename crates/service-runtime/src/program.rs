//! A service as a program: arguments, exit codes, open files.

use crate::log::{self, LogFormat};
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code for wrong arguments or an unusable configuration; everything else that fails is 1.
const UNUSABLE: u8 = 2;
/// Exit code when nobody reads standard output any more: 128 + SIGPIPE.
const READER_GONE: u8 = 128 + 13;

/// Files that a service has open beside its connections: listeners, admin pages, what it reads, its way to other services.
const OTHER_FILES: u64 = 128;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// `--config FILE`, perhaps with `--log text|json`: run.
    Serve(PathBuf, LogFormat),
    /// `--config FILE` with one of the program's flags, named without its dashes: do that with the configuration.
    With(PathBuf, &'static str),
    /// One of the program's options with a value, named without its dashes: do that, without a configuration.
    Do(&'static str, PathBuf),
    /// `--version`
    Version,
    /// `--help`
    Help,
}

/// Parses everything behind the program's name. `flags` go with `--config`, `options` take a file each.
///
/// # Errors
/// A sentence that says what is wrong with the arguments.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    flags: &[&'static str],
    options: &[&'static str],
) -> Result<Command, String> {
    use lexopt::Arg::Long;
    let mut parser = lexopt::Parser::from_args(arguments);
    let (mut config, mut flag, mut option, mut log) = (None, None, None, None);
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        let Long(name) = argument else { return Err(argument.unexpected().to_string()) };
        let known = |list: &[&'static str]| list.iter().copied().find(|known| *known == name);
        match (name, known(flags), known(options)) {
            ("version", ..) => return Ok(Command::Version),
            ("help", ..) => return Ok(Command::Help),
            ("config", ..) => once(&mut config, value(&mut parser)?, "--config")?,
            ("log", ..) => once(&mut log, format(&mut parser)?, "--log")?,
            (_, Some(found), _) => once(&mut flag, found, "a flag")?,
            (_, _, Some(found)) => once(&mut option, (found, value(&mut parser)?), "an option")?,
            _ => return Err(argument.unexpected().to_string()),
        }
    }
    if log.is_some() && (flag.is_some() || option.is_some()) {
        return Err("--log goes with --config FILE alone: nothing else writes a log".to_owned());
    }
    match (config, flag, option) {
        (Some(file), None, None) => Ok(Command::Serve(file, log.unwrap_or_default())),
        (Some(file), Some(flag), None) => Ok(Command::With(file, flag)),
        (None, None, Some((option, file))) => Ok(Command::Do(option, file)),
        (_, _, Some((option, _))) => Err(format!("--{option} goes with no other option")),
        (None, _, None) => Err("--config FILE is missing; --help says more".to_owned()),
    }
}

fn value(parser: &mut lexopt::Parser) -> Result<PathBuf, String> {
    parser.value().map(PathBuf::from).map_err(|error| error.to_string())
}

fn format(parser: &mut lexopt::Parser) -> Result<LogFormat, String> {
    let name = parser.value().map_err(|error| error.to_string())?;
    name.to_str().and_then(LogFormat::parse).ok_or_else(|| "--log is text or json".to_owned())
}

fn once<T>(place: &mut Option<T>, value: T, what: &str) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{what} may be given once")),
    }
}

/// Why the program ends otherwise than asked.
#[derive(Debug, thiserror::Error)]
#[error("{}", sentence.as_deref().unwrap_or("nobody listens"))]
pub struct ProgramError {
    code: u8,
    /// `None` when there is nobody to say it to.
    sentence: Option<String>,
}

impl ProgramError {
    /// Wrong arguments or an unusable configuration: exit code 2.
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub fn unusable(why: impl ToString) -> Self {
        Self { code: UNUSABLE, sentence: Some(why.to_string()) }
    }

    /// Failed while running: exit code 1.
    pub fn running(error: impl Error) -> Self {
        Self { code: 1, sentence: Some(error.to_string()) }
    }
}

/// The exit code of an outcome; a failure is said on stderr.
pub fn exit(program: &str, outcome: Result<(), ProgramError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(ProgramError { code, sentence }) => {
            if let Some(sentence) = sentence {
                // Without stderr there is nobody to tell; the exit code remains.
                drop(writeln!(io::stderr(), "{program}: {sentence}"));
            }
            ExitCode::from(code)
        }
    }
}

/// Writes to stdout.
///
/// # Errors
/// When stdout is full. When nobody reads it any more (`| head`), an error that says nothing, with the exit code by which a
/// shell tells of SIGPIPE.
pub fn print(text: &str) -> Result<(), ProgramError> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => ProgramError { code: READER_GONE, sentence: None },
        _ => ProgramError { code: 1, sentence: Some(format!("cannot write to standard output: {error}")) },
    })
}

/// Secrets must not end up in a core dump, nor be read by a debugger of the same user.
///
/// # Errors
/// When the kernel refuses.
fn forbid_dumps() -> Result<(), ProgramError> {
    let behavior = rustix::process::DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(behavior).map_err(ProgramError::running)
}

/// Serves with a log, until asked to stop: what `work` does, which says itself when it is ready.
///
/// # Errors
/// Those of `work`, or dumps cannot be forbidden.
pub fn serve(format: LogFormat, work: impl FnOnce() -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    forbid_dumps()?;
    log::to_stderr(format);
    work()?;
    tracing::info!("Stopped");
    Ok(())
}

/// Lets the process have `connections` open and what it needs besides: a login shell and systemd allow 1024 files.
///
/// # Errors
/// When the system does not allow as many.
pub fn allow_open_files(connections: u32) -> Result<(), ProgramError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = u64::from(connections) + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = maximum.filter(|maximum| *maximum < needed) {
        return Err(ProgramError::unusable(format!(
            "`limits.connections` is {connections}, which needs {needed} open files, and the system allows {maximum}: \
             lower it, or raise LimitNOFILE"
        )));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).map_err(ProgramError::running)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Command, String> {
        parse(arguments.iter().map(OsString::from), &["check"], &["new-key"])
    }

    #[test]
    fn every_form_is_understood() {
        assert_eq!(parsed(&["--config", "c.json"]), Ok(Command::Serve("c.json".into(), LogFormat::Text)));
        assert_eq!(parsed(&["--log=json", "--config=c"]), Ok(Command::Serve("c".into(), LogFormat::Json)));
        assert_eq!(parsed(&["--check", "--config=c.json"]), Ok(Command::With("c.json".into(), "check")));
        assert_eq!(parsed(&["--new-key", "k"]), Ok(Command::Do("new-key", "k".into())));
        assert_eq!(parsed(&["--version"]), Ok(Command::Version));
        assert_eq!(parsed(&["--help"]), Ok(Command::Help));
    }

    #[test]
    fn anything_else_is_refused() {
        for arguments in [
            &[][..],
            &["--config"],
            &["--check"],
            &["c.json"],
            &["--config=a", "--config=b"],
            &["--config=a", "--check", "--check"],
            &["--config=a", "--new-key=k"],
            &["--check", "--new-key=k"],
            &["--new-key"],
            &["--config=a", "--log=xml"],
            &["--config=a", "--log=json", "--log=json"],
            &["--config=a", "--check", "--log=json"],
            &["--debug"],
        ] {
            assert!(parsed(arguments).is_err(), "{arguments:?}");
        }
    }
}
