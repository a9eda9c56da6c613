//! What is said instead of a witness.

use crate::code::KerberosCode;
use std::fmt;
use thiserror::Error;

/// A detail that MIT's libraries report is not longer.
const MAX_DETAIL: usize = 300;

/// Why something was not done: a code with its remedy, and what was said about it.
///
/// The detail may name principals and files. It is for logs, not for whoever sent the request.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct Denied {
    code: KerberosCode,
    detail: String,
}

impl Denied {
    /// With a detail from elsewhere: it is cut, and made printable, so that it cannot forge lines.
    pub fn new(code: KerberosCode, detail: impl fmt::Display) -> Self {
        Self { code, detail: latchkey_reason::printable(&detail.to_string()).take(MAX_DETAIL).collect() }
    }

    /// Why, as a closed enum; its remedy says what to do.
    pub fn code(&self) -> KerberosCode {
        self.code
    }

    /// What was said about it, one printable line.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// As [`KerberosCode::is_outage`]: answer 503 rather than 401.
    pub fn is_outage(&self) -> bool {
        self.code.is_outage()
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detail.is_empty() { write!(f, "{}", self.code) } else { write!(f, "{}: {}", self.code, self.detail) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_one_short_line() {
        let denied = Denied::new(KerberosCode::Failed, format!("a\nb\x1b[1m{}", "ä".repeat(1000)));
        assert!(denied.detail().starts_with("a b\u{fffd}[1mää"));
        assert_eq!(denied.detail().chars().count(), MAX_DETAIL);
        assert!(denied.to_string().starts_with("kerberos-failed: "));
    }
}
