//! What can be wrong with the command line.

use std::io;

use latchkey_reason::reason_codes;

/// The measured configuration is not acceptable. `Display` says what was found; the remedy is the code's, and for a value
/// its expected form is in the sentence.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// `/proc/cmdline` cannot be read.
    #[error("/proc/cmdline cannot be read: {source}")]
    Unreadable {
        /// Why.
        source: io::Error,
    },
    /// The command line is longer than any kernel allows.
    #[error("the kernel command line is longer than 16 KiB")]
    TooLong,
    /// A `latchkey.` word is quoted, has no value, or is not printable ASCII.
    #[error("the word {word:?} of the kernel command line is not KEY=VALUE in plain ASCII")]
    Form {
        /// The word, as far as it can be shown.
        word: String,
    },
    /// A key we do not know.
    #[error("the kernel command line has the unknown key {key}")]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A key that is there twice.
    #[error("the kernel command line has {key} twice")]
    Duplicate {
        /// The key.
        key: String,
    },
    /// A value that is not of its key's form.
    #[error("{key} is {value:?}; expected is {expected}")]
    Value {
        /// The key.
        key: String,
        /// What was given.
        value: String,
        /// What is expected.
        expected: &'static str,
    },
    /// A key that is required.
    #[error("the kernel command line does not have {key}")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A key that means nothing without another.
    #[error("{key} means nothing without {needs}")]
    MissingCompanion {
        /// The key.
        key: &'static str,
        /// The other.
        needs: &'static str,
    },
}

reason_codes! {
    /// Why a node's configuration is refused.
    pub enum ConfigCode {
        /// The kernel command line cannot be read.
        Unreadable = "config-unreadable": "mount /proc first";
        /// It is longer than any kernel allows.
        TooLong = "config-too-long": "shorten the kernel command line";
        /// One of its `latchkey.` words is not KEY=VALUE in plain ASCII.
        Malformed = "config-malformed": "write the word as KEY=VALUE, without quotes and spaces";
        /// A `latchkey.` key that this release does not have.
        UnknownKey = "config-unknown-key": "correct the key or remove it";
        /// A key is there twice.
        DuplicateKey = "config-duplicate-key": "remove one of the two";
        /// A value is not of its key's form.
        InvalidValue = "config-invalid-value": "give the value the form that the sentence names";
        /// A key that is required is not there.
        MissingKey = "config-missing-key": "add the key to the image's command line";
        /// Two keys contradict each other.
        Contradiction = "config-contradiction": "add the key that it needs, or remove this one";
    }
}

impl ConfigError {
    /// The stable reason code.
    pub fn code(&self) -> ConfigCode {
        match self {
            Self::Unreadable { .. } => ConfigCode::Unreadable,
            Self::TooLong => ConfigCode::TooLong,
            Self::Form { .. } => ConfigCode::Malformed,
            Self::UnknownKey { .. } => ConfigCode::UnknownKey,
            Self::Duplicate { .. } => ConfigCode::DuplicateKey,
            Self::Value { .. } => ConfigCode::InvalidValue,
            Self::Missing { .. } => ConfigCode::MissingKey,
            Self::MissingCompanion { .. } => ConfigCode::Contradiction,
        }
    }
}

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_reason::reasons::<ConfigCode>()
}
