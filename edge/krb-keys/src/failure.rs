//! Why something is not done.

use latchkey_kerberos::{Denied, KerberosCode};

/// Why something is not done, for whoever reads the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The same again may succeed, without anybody's doing.
    #[error("{0}")]
    Again(String),
    /// Somebody has to do something; the text says what.
    #[error("{0}")]
    Refused(String),
}

impl Failure {
    /// The failure in the words of what was attempted.
    #[must_use]
    pub fn about(self, what: &str) -> Self {
        match self {
            Self::Again(why) => Self::Again(format!("{what}: {why}")),
            Self::Refused(why) => Self::Refused(format!("{what}: {why}")),
        }
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        let text = format!("{denied}; {}", denied.code().remedy());
        // What a container was made or configured with does not change while it runs.
        let lasting = [KerberosCode::HelperMissing, KerberosCode::LibraryMissing, KerberosCode::ConfigurationBad]
            .contains(&denied.code());
        if denied.is_outage() && !lasting { Self::Again(text) } else { Self::Refused(text) }
    }
}
