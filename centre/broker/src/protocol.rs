//! What the Mosquitto plugin asks over a Unix socket: one line of JSON for each question, and one for each answer.

use crate::grant::Grants;
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;
use zeroize::Zeroizing;

/// The longest question: a name and a password, with escapes.
pub const MAX_QUESTION: usize = 16 * 1024;
/// The longest answer: all topics of a client.
pub const MAX_ANSWER: usize = 256 * 1024;
/// No name and no password is longer.
pub const MAX_FIELD: usize = 1024;

/// A question.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
#[allow(missing_debug_implementations)] // it holds passwords
pub enum Question {
    /// Whether a client may connect.
    Connect {
        /// The principal, or a name in the service's realm.
        username: String,
        /// Its password.
        password: Password,
        /// Where it connects from, for limits.
        #[serde(default)]
        address: String,
    },
    /// What a principal may do now.
    Refresh {
        /// As the answer to `connect` had it.
        principal: String,
    },
}

/// A text that wipes itself.
#[derive(Deserialize)]
#[serde(from = "String")]
#[allow(missing_debug_implementations)] // it is a password
pub struct Password(pub Zeroizing<String>);

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl Serialize for Password {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Answer {
    /// Yes.
    Allowed {
        /// Who it is, in full.
        principal: String,
        /// What it may do.
        topics: Grants,
    },
    /// No.
    Refused {
        /// A reason code, for the broker's log.
        code: String,
        /// Whether the question was not judged: what was allowed before stays so for a while.
        outage: bool,
    },
}

/// Why a line is no question or answer.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a line that is none of the protocol's, or too long")]
pub struct LineError;

impl Question {
    /// As a line, which wipes itself.
    ///
    /// # Errors
    /// A field is too long.
    pub fn line(&self) -> Result<Zeroizing<Vec<u8>>, LineError> {
        let fits = match self {
            Self::Connect { username, password, address } => {
                username.len() <= MAX_FIELD && password.0.len() <= MAX_FIELD && address.len() <= MAX_FIELD
            }
            Self::Refresh { principal } => principal.len() <= MAX_FIELD,
        };
        // Room for all, so that no password stays in a block that was outgrown.
        let mut line = Zeroizing::new(Vec::with_capacity(MAX_QUESTION));
        serde_json::to_writer(&mut *line, self).map_err(|_| LineError)?;
        line.push(b'\n');
        if fits && line.len() <= MAX_QUESTION { Ok(line) } else { Err(LineError) }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// It is no question.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        if line.len() > MAX_QUESTION {
            return Err(LineError);
        }
        // The error would repeat what was sent.
        serde_json::from_slice(line).map_err(|_| LineError)
    }
}

impl Answer {
    /// As a line.
    ///
    /// # Errors
    /// There are too many topics.
    pub fn line(&self) -> Result<Vec<u8>, LineError> {
        let mut line = serde_json::to_vec(self).map_err(|_| LineError)?;
        line.push(b'\n');
        if line.len() <= MAX_ANSWER { Ok(line) } else { Err(LineError) }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// It is no answer.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        if line.len() > MAX_ANSWER {
            return Err(LineError);
        }
        serde_json::from_slice(line).map_err(|_| LineError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_lines() {
        let password = Password(Zeroizing::new("sec\"ret\n".to_owned()));
        let question = Question::Connect { username: "op1flux/Test".into(), password, address: "127.0.0.1".into() };
        let line = question.line().unwrap();
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        assert!(
            matches!(Question::parse(&line), Ok(Question::Connect { password, .. }) if *password.0 == "sec\"ret\n")
        );
        let text = br#"{"allowed":{"principal":"a@R","topics":[{"filter":"a/#","access":"rs"}]}}"#;
        let answer = Answer::parse(text).unwrap();
        assert_eq!(Answer::parse(&answer.line().unwrap()), Ok(answer));
    }

    #[test]
    fn other_lines_are_refused() {
        for text in
            [&b"{}"[..], b"{\"allowed\":{}}", b"{\"allowed\":{\"principal\":\"a\",\"topics\":[],\"x\":1}}", b"null"]
        {
            assert_eq!(Answer::parse(text), Err(LineError));
        }
        let long = Question::Refresh { principal: "a".repeat(MAX_FIELD + 1) };
        assert!(long.line().is_err());
        assert!(Question::parse(&vec![b' '; MAX_QUESTION + 1]).is_err());
    }
}
