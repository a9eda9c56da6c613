//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
latchkey-key-service --config FILE [--check]

Derives data keys from a master secret for callers that its configuration names,
over gRPC with mutual TLS 1.3.

  --config FILE   the configuration, JSON; key-service.example.json shows every field
  --check         read and check everything the service needs, say what it would
                  do, and exit without listening
  --version       print the version
  --help          print this

Exit codes: 0 stopped as asked, or checked and good; 1 failed while running;
2 wrong arguments, or a configuration that cannot be used.
SIGTERM and SIGINT stop it; running calls are finished first.
";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Serve(PathBuf),
    Check(PathBuf),
    Version,
    Help,
}

/// Parses everything behind the program's name; an error is a sentence.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    use lexopt::Arg::Long;
    let mut parser = lexopt::Parser::from_args(arguments);
    let (mut config, mut check) = (None, false);
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Long("config") => {
                let file = parser.value().map_err(|error| error.to_string())?;
                if config.replace(PathBuf::from(file)).is_some() {
                    return Err("--config may be given once".to_owned());
                }
            }
            Long("check") => check = true,
            Long("version") => return Ok(Command::Version),
            Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected().to_string()),
        }
    }
    match (config, check) {
        (Some(file), true) => Ok(Command::Check(file)),
        (Some(file), false) => Ok(Command::Serve(file)),
        (None, _) => Err("--config FILE is missing; --help says more".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Command, String> {
        parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn every_form_is_understood() {
        assert_eq!(parsed(&["--config", "c.json"]), Ok(Command::Serve("c.json".into())));
        assert_eq!(parsed(&["--check", "--config=c.json"]), Ok(Command::Check("c.json".into())));
        assert_eq!(parsed(&["--version"]), Ok(Command::Version));
        assert_eq!(parsed(&["--help"]), Ok(Command::Help));
    }

    #[test]
    fn anything_else_is_refused() {
        for arguments in
            [&[][..], &["--config"], &["--check"], &["c.json"], &["--config=a", "--config=b"], &["--debug"]]
        {
            assert!(parsed(arguments).is_err(), "{arguments:?}");
        }
    }
}
