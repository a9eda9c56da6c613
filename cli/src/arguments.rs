//! Arguments as read, and how commands ask for them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::error::CommandError;
use crate::output::Format;

/// The arguments of one command. Which there can be, the table has checked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) flags: BTreeMap<&'static str, Vec<OsString>>,
    pub(crate) operands: Vec<OsString>,
    pub(crate) format: Format,
    pub(crate) quiet: bool,
}

impl Arguments {
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn quiet(&self) -> bool {
        self.quiet
    }

    /// Whether the flag stands there.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.contains_key(flag)
    }

    pub(crate) fn operand(&self, index: usize) -> Option<&OsStr> {
        self.operands.get(index).map(OsString::as_os_str)
    }

    /// An operand that the table requires, as text.
    pub(crate) fn operand_text(&self, index: usize) -> Result<&str, CommandError> {
        let operand = self.operand(index).ok_or_else(|| CommandError::usage("an argument is missing"))?;
        operand.to_str().ok_or_else(|| CommandError::usage(format!("{} is not UTF-8", operand.display())))
    }

    pub(crate) fn path(&self, flag: &str) -> Option<&Path> {
        self.flags.get(flag)?.first().map(Path::new)
    }

    /// A path that the command cannot do without.
    pub(crate) fn required_path(&self, flag: &str) -> Result<&Path, CommandError> {
        self.path(flag).ok_or_else(|| missing(flag))
    }

    pub(crate) fn paths(&self, flag: &str) -> Vec<PathBuf> {
        self.flags.get(flag).into_iter().flatten().map(PathBuf::from).collect()
    }

    pub(crate) fn texts(&self, flag: &str) -> Result<Vec<&str>, CommandError> {
        let values = self.flags.get(flag).into_iter().flatten();
        let text = |value: &'_ OsString| -> Result<(), CommandError> {
            value.to_str().map(drop).ok_or_else(|| CommandError::usage(format!("--{flag}: not UTF-8")))
        };
        values.map(|value| text(value).map(|()| value.to_str().unwrap_or_default())).collect()
    }

    pub(crate) fn text(&self, flag: &str) -> Result<Option<&str>, CommandError> {
        Ok(self.texts(flag)?.into_iter().next())
    }

    pub(crate) fn required_text(&self, flag: &str) -> Result<&str, CommandError> {
        self.text(flag)?.ok_or_else(|| missing(flag))
    }

    /// A value with a form of its own.
    pub(crate) fn value<T: FromStr<Err: Display>>(&self, flag: &str) -> Result<Option<T>, CommandError> {
        let parse = |text: &str| text.parse().map_err(|error| CommandError::usage(format!("--{flag} {text}: {error}")));
        self.text(flag)?.map(parse).transpose()
    }

    /// `--timeout`: seconds, or with a unit `90s`, `5m`, `1h`.
    pub(crate) fn timeout(&self, default: Duration) -> Result<Duration, CommandError> {
        self.duration("timeout", default)
    }

    /// The same under another name.
    pub(crate) fn duration(&self, flag: &str, default: Duration) -> Result<Duration, CommandError> {
        let Some(text) = self.text(flag)? else { return Ok(default) };
        duration(text).ok_or_else(|| {
            CommandError::usage(format!("--{flag} {text}: expected 1 second to 24 hours, such as 90, 90s, 5m or 1h"))
        })
    }
}

fn missing(flag: &str) -> CommandError {
    CommandError::usage(format!("--{flag} is missing"))
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(['s', 'm', 'h']);
    let unit = match text.get(digits.len()..)? {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    let seconds = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten()?;
    let seconds = seconds.checked_mul(unit)?;
    (1..=86_400).contains(&seconds).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_bounds() {
        for (text, seconds) in [("90", Some(90)), ("90s", Some(90)), ("5m", Some(300)), ("24h", Some(86_400))] {
            assert_eq!(duration(text), seconds.map(Duration::from_secs), "{text}");
        }
        for text in ["", "0", "s", "-1", "+1", "1d", "1.5h", "25h", "1ms", "1 m", "99999999999999999999h"] {
            assert_eq!(duration(text), None, "{text:?}");
        }
    }
}
