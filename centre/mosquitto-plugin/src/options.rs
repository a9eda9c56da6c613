//! `plugin_opt_latchkey_…` of mosquitto.conf.

use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// What the broker's administrator said.
pub(crate) struct Options {
    /// Where the auth service listens.
    pub(crate) socket: PathBuf,
    /// Of a question.
    pub(crate) deadline: Duration,
    /// Between two looks at a principal's rights.
    pub(crate) refresh: Duration,
    /// How long rights count that cannot be looked at again.
    pub(crate) stale: Duration,
}

/// Why the broker must not start.
#[derive(Debug, Error)]
pub(crate) enum OptionsError {
    /// No socket.
    #[error("say where the auth service listens: plugin_opt_latchkey_socket /path/of/its/socket")]
    NoSocket,
    /// Not a path from the root.
    #[error("plugin_opt_latchkey_socket must be a path that begins with '/'")]
    Relative,
    /// Of an option that there is none of.
    #[error(
        "there is no plugin_opt_{0}; those of this plugin are latchkey_socket, latchkey_deadline_ms, latchkey_refresh_seconds and latchkey_stale_seconds"
    )]
    Unknown(String),
    /// A number outside of its limits.
    #[error("plugin_opt_{0} must be a number from {1} to {2}")]
    Number(&'static str, u64, u64),
}

impl Options {
    /// Reads pairs of names (without `plugin_opt_`) and values.
    pub(crate) fn read<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self, OptionsError> {
        let mut socket = None;
        let mut options = Self {
            socket: PathBuf::new(),
            deadline: Duration::from_secs(2),
            refresh: Duration::from_secs(30),
            stale: Duration::from_mins(5),
        };
        for (name, value) in pairs {
            match name {
                "latchkey_socket" => socket = Some(PathBuf::from(value)),
                "latchkey_deadline_ms" => {
                    options.deadline = Duration::from_millis(number("latchkey_deadline_ms", value, 10, 10_000)?);
                }
                "latchkey_refresh_seconds" => {
                    options.refresh = Duration::from_secs(number("latchkey_refresh_seconds", value, 1, 3600)?);
                }
                "latchkey_stale_seconds" => {
                    options.stale = Duration::from_secs(number("latchkey_stale_seconds", value, 1, 86_400)?);
                }
                _ => return Err(OptionsError::Unknown(name.chars().take(64).collect())),
            }
        }
        options.socket = socket.ok_or(OptionsError::NoSocket)?;
        if options.socket.is_absolute() { Ok(options) } else { Err(OptionsError::Relative) }
    }
}

fn number(name: &'static str, value: &str, least: u64, most: u64) -> Result<u64, OptionsError> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or(OptionsError::Number(name, least, most))
}
