//! The command line.

use std::time::Duration;

use crate::RunnerError;

/// How long one test may take, unless [`MINUTES`] says otherwise.
const LONGEST: Duration = Duration::from_mins(45);
/// The environment's word for it: a whole number of minutes, 1 to 9999.
const MINUTES: &str = "LATCHKEY_TEST_MINUTES";

/// What is printed for `--help`.
pub const HELP: &str = "\
Usage: latchkey-test-runner [SELECTOR...] [FLAGS] [-- FLAGS AND FILTERS OF TEST EXECUTABLES]

A SELECTOR is a crate or one of its test executables, and a module of it if one is meant:
attestation, crates/attestation, machines, machines::life. Without one, all tests run.

  --workspace      build what is selected as all tests are built: no crate with other features
  --all-cases      where a test has more cases than every run needs, all of them
  --fail-grown     fail where an executable takes twice its share of the time in the table
  --write-times    write the table, and CONTRIBUTING.md's, by this run, if all tests pass
  -p, --package P  the same as SELECTOR P
  --help           this text
";

/// What is to be run.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a list of flags")]
pub struct Arguments {
    /// Crates, executables, modules; empty: all.
    pub selectors: Vec<String>,
    /// Whether what is selected is built with the features that all tests have.
    pub workspace: bool,
    /// Whether tests try all their cases.
    pub all_cases: bool,
    /// Whether an executable that grew fails the run.
    pub fail_grown: bool,
    /// Whether the table of times is written anew.
    pub write_times: bool,
    /// Whether only the help is wanted.
    pub help: bool,
    /// What test executables are called with.
    pub tests: Vec<String>,
}

impl Arguments {
    /// Reads them, without the program's name.
    ///
    /// # Errors
    /// [`RunnerError::Usage`].
    pub fn parse(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, RunnerError> {
        use lexopt::prelude::{Long, Short, Value};
        let wrong = |error: lexopt::Error| RunnerError::Usage(format!("{error}; see --help"));
        let mut parser = lexopt::Parser::from_args(arguments);
        let mut read = Self::default();
        loop {
            if let Some(raw) = parser.try_raw_args()
                && raw.peek().is_some_and(|next| next == "--")
            {
                read.tests = raw.skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
                return Ok(read);
            }
            let Some(argument) = parser.next().map_err(wrong)? else { return Ok(read) };
            match argument {
                Value(word) => read.selectors.push(word.to_string_lossy().into_owned()),
                Short('p') | Long("package") => {
                    read.selectors.push(parser.value().map_err(wrong)?.to_string_lossy().into_owned());
                }
                Long("workspace") => read.workspace = true,
                Long("all-cases") => read.all_cases = true,
                Long("fail-grown") => read.fail_grown = true,
                Long("write-times") => read.write_times = true,
                Long("help") | Short('h') => read.help = true,
                other => return Err(wrong(other.unexpected())),
            }
        }
    }

    /// Whether every test is run that runs by itself, as in every run: only then shares of time can be compared.
    pub fn is_everything(&self) -> bool {
        self.selectors.is_empty() && self.tests.is_empty() && !self.all_cases
    }
}

/// How long one test may take.
///
/// # Errors
/// [`RunnerError::Usage`], if the environment says no number of minutes.
pub fn longest() -> Result<Duration, RunnerError> {
    let Ok(said) = std::env::var(MINUTES) else { return Ok(LONGEST) };
    let minutes = said.parse().ok().filter(|minutes| (1..=9999).contains(minutes) && !said.starts_with(['0', '+']));
    let wrong =
        || RunnerError::Usage(format!("{MINUTES} is {said:?}, and not a whole number of minutes from 1 to 9999"));
    minutes.map(Duration::from_mins).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Arguments, RunnerError> {
        Arguments::parse(words.split_whitespace().map(Into::into))
    }

    #[test]
    fn what_follows_two_dashes_is_the_executables() {
        let read = parse("attestation -p tpm --workspace -- --ignored quote --all-cases").unwrap();
        assert_eq!(read.selectors, ["attestation", "tpm"]);
        assert_eq!(read.tests, ["--ignored", "quote", "--all-cases"]);
        assert!(read.workspace && !read.all_cases && !read.is_everything());
    }

    #[test]
    fn nothing_is_everything_and_an_unknown_flag_is_refused() {
        assert!(parse("").unwrap().is_everything() && parse("--fail-grown").unwrap().is_everything());
        assert!(!parse("--all-cases").unwrap().is_everything());
        let refused = parse("--jobs 4").unwrap_err().to_string();
        assert!(refused.contains("--jobs") && refused.contains("--help"), "{refused}");
    }
}
