//! What can be wrong with the command line.

use std::fmt;
use std::io;

/// The measured configuration is not acceptable.
#[derive(Debug)]
pub enum ConfigFault {
    /// `/proc/cmdline` can not be read.
    Unreadable {
        /// Why.
        source: io::Error,
    },
    /// The command line is longer than any kernel allows.
    TooLong,
    /// A `latchkey.` word is quoted, has no value, or is not printable ASCII.
    Form {
        /// The word, as far as it can be shown.
        word: String,
    },
    /// A key we do not know.
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A key that is there twice.
    Duplicate {
        /// The key.
        key: String,
    },
    /// A value that is not of its key's form.
    Value {
        /// The key.
        key: String,
        /// What was given.
        value: String,
        /// What is expected.
        expected: &'static str,
    },
    /// A key that is required.
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A key that means nothing without another.
    MissingCompanion {
        /// The key.
        key: &'static str,
        /// The other.
        needs: &'static str,
    },
}

impl ConfigFault {
    /// The stable reason code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "config-unreadable",
            Self::TooLong => "config-too-long",
            Self::Form { .. } => "config-malformed",
            Self::UnknownKey { .. } => "config-unknown-key",
            Self::Duplicate { .. } => "config-duplicate-key",
            Self::Value { .. } => "config-invalid-value",
            Self::Missing { .. } => "config-missing-key",
            Self::MissingCompanion { .. } => "config-contradiction",
        }
    }
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { source } => {
                write!(f, "/proc/cmdline can not be read ({source}): mount /proc before")
            }
            Self::TooLong => write!(f, "the kernel command line is longer than 16 KiB: shorten it"),
            Self::Form { word } => {
                write!(f, "the word {word:?} of the kernel command line is not KEY=VALUE in plain ASCII: write it so")
            }
            Self::UnknownKey { key } => {
                write!(f, "the kernel command line has the unknown key {key}: correct or remove it")
            }
            Self::Duplicate { key } => write!(f, "the kernel command line has {key} twice: remove one of them"),
            Self::Value { key, value, expected } => write!(f, "{key} is {value:?}: make it {expected}"),
            Self::Missing { key } => write!(f, "the kernel command line does not have {key}: add it"),
            Self::MissingCompanion { key, needs } => {
                write!(f, "{key} means nothing without {needs}: add this or remove that")
            }
        }
    }
}
