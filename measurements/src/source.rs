//! Event logs as they come: the kernel's binary file, or inside recorded evidence.

use latchkey_attestation::{PcrValues, RecordedEvidence, Refusal};

use crate::error::LogError;
use crate::log::{EventLog, MAX_SIZE};

/// A log's bytes, and the quoted PCRs that came with it.
#[derive(Debug, Clone)]
pub struct Source {
    log: Vec<u8>,
    quoted: Option<PcrValues>,
}

impl Source {
    /// The log in a file: recorded evidence if it is a JSON object, else a binary log.
    ///
    /// # Errors
    /// [`SourceError`]: malformed evidence, or evidence without a log. Binary logs are read by [`Self::log`].
    pub fn read(file: Vec<u8>) -> Result<Self, SourceError> {
        // A binary log begins with PCR 0 to 23: no white space followed by a brace.
        if !file.trim_ascii_start().starts_with(b"{") {
            return Ok(Self { log: file, quoted: None });
        }
        let evidence = RecordedEvidence::from_json(&file).map_err(SourceError::Evidence)?;
        let log = evidence.unverified_event_log().ok_or(SourceError::NoLog)?;
        Ok(Self { log: log.to_vec(), quoted: Some(evidence.pcrs().clone()) })
    }

    /// The log.
    ///
    /// # Errors
    /// [`SourceError::Log`].
    pub fn log(&self) -> Result<EventLog<'_>, SourceError> {
        EventLog::parse(&self.log).map_err(SourceError::Log)
    }

    /// The log's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.log
    }

    /// PCR values that came with the log as quoted. Their signature is not checked here.
    pub fn quoted(&self) -> Option<&PcrValues> {
        self.quoted.as_ref()
    }

    /// Bytes of the largest file that can hold a log.
    pub const LIMIT: usize = MAX_SIZE;
}

/// Why a file has no event log to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It is a malformed log.
    #[error(transparent)]
    Log(LogError),
    /// It is malformed evidence.
    #[error(transparent)]
    Evidence(Refusal),
    /// It is evidence without a log.
    #[error("the evidence has no event log: the node's kernel gave none")]
    NoLog,
}
