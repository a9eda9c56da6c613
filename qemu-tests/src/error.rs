//! What can go wrong around a test, as opposed to in what it tests.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why the harness could not do its work.
pub enum HarnessError {
    /// A file or directory could not be used.
    Io {
        /// What was tried, with the path.
        what: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A tool is not on this machine.
    MissingTool {
        /// The command or file.
        tool: String,
        /// The Debian package that brings it.
        package: String,
    },
    /// A tool failed.
    Command {
        /// The command line.
        command: String,
        /// What it printed.
        output: String,
    },
    /// Something did not happen in time.
    Deadline {
        /// Who was waited for.
        name: String,
        /// What was waited for.
        event: String,
        /// How long.
        after: Duration,
        /// The last lines it printed.
        tail: String,
    },
    /// A process ended, or a kernel panicked, while something was waited for.
    Ended {
        /// Who ended.
        name: String,
        /// What was waited for.
        event: String,
        /// The last lines it printed.
        tail: String,
    },
    /// The machine or the project is not as expected.
    Unusable(String),
    /// No initramfs could be built.
    Initramfs(latchkey_initramfs::InitramfsError),
    /// No boot image could be built.
    Uki(latchkey_image::UkiError),
    /// No OS image could be built.
    Image(latchkey_image::ImageError),
    /// No disk could be laid out.
    Disk(latchkey_image::gpt::GptError),
}

impl fmt::Display for HarnessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, source } => write!(f, "{what}: {source}"),
            Self::MissingTool { tool, package } => {
                write!(f, "{tool} is missing: ./dev doctor, or apt-get install {package}")
            }
            Self::Command { command, output } => write!(f, "{command} failed:\n{output}"),
            Self::Deadline { name, event, after, tail } => {
                write!(f, "{name}: no {event} after {after:?}; its last lines:\n{tail}")
            }
            Self::Ended { name, event, tail } => {
                write!(f, "{name} ended before {event}; its last lines:\n{tail}")
            }
            Self::Unusable(what) => f.write_str(what),
            Self::Initramfs(error) => write!(f, "initramfs: {error}"),
            Self::Uki(error) => write!(f, "unified kernel image: {error}"),
            Self::Image(error) => write!(f, "OS image: {error}"),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

/// Tests unwrap, and are read by people: the sentence and the console's lines, not the fields.
impl fmt::Debug for HarnessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for HarnessError {}

impl From<latchkey_test_programs::BuildError> for HarnessError {
    fn from(error: latchkey_test_programs::BuildError) -> Self {
        Self::Unusable(error.to_string())
    }
}

impl From<latchkey_initramfs::InitramfsError> for HarnessError {
    fn from(error: latchkey_initramfs::InitramfsError) -> Self {
        Self::Initramfs(error)
    }
}

impl From<latchkey_image::UkiError> for HarnessError {
    fn from(error: latchkey_image::UkiError) -> Self {
        Self::Uki(error)
    }
}

impl From<latchkey_image::ImageError> for HarnessError {
    fn from(error: latchkey_image::ImageError) -> Self {
        Self::Image(error)
    }
}

impl From<latchkey_image::gpt::GptError> for HarnessError {
    fn from(error: latchkey_image::gpt::GptError) -> Self {
        Self::Disk(error)
    }
}

/// For `map_err`: `read(path).map_err(io_error("read", path))`.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HarnessError {
    let path: PathBuf = path.into();
    move |source| HarnessError::Io { what: format!("{action} {}", path.display()), source }
}
