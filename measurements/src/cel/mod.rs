//! The TCG Canonical Event Log in JSON: what systemd measures after the firmware (`/run/log/systemd/tpm2-measure.log`),
//! and logs of firmware or IMA that were written in this form (`systemd-pcrlock cel`, `tpm2-tss`).
//!
//! **Nothing is decided by a canonical log.** It explains registers, as every log does; joins neither send nor read one, and
//! only `latchkey measure log` shows it.
//!
//! 1. [`CelLog::parse`] reads a log: total, bounded, strict. What comes out is well-formed and nothing more.
//! 2. [`CelLog::replay`] extends the records as a TPM would. systemd's log goes on where the firmware's ended:
//!    [`CelLog::replay_after`].
//! 3. [`CelLog::report`] says in words what was measured, in the form of an event log's [`Report`].
//!
//! Specification: TCG Canonical Event Log Format 1.0 revision 0.41, section 5 (JSON), with what systemd's
//! "TPM2 PCR Measurements Made by systemd" says of its own records: they have no numbers, and are a JSON text sequence
//! (RFC 7464) where TCG has an array.

mod content;
mod difference;
mod error;
mod explain;
mod record;
mod split;

use std::collections::BTreeMap;

use crate::bank::{AlgorithmId, Bank};
use crate::event::{Event, Register as LogRegister};
use crate::log;
use crate::replay::Replay;
use crate::report::{EventReport, Report};

pub use content::{Content, SystemdEvent};
pub use difference::explain_differences;
pub use error::{CelError, CelErrorKind};

/// A canonical event log, well-formed and nothing more: nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CelLog {
    form: Form,
    algorithms: Vec<AlgorithmId>,
    records: Vec<Record>,
    startup_locality: Option<u8>,
}

/// How the records are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A JSON text sequence (RFC 7464), as systemd writes it.
    Sequence,
    /// A JSON array, as TCG has it.
    Array,
}

/// One record: what a register was extended with, and what the extender says that it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Position in the log, from 0.
    pub index: usize,
    /// Byte at which it begins.
    pub offset: usize,
    /// The number the log gives it, if any.
    pub number: Option<u64>,
    /// What was extended.
    pub register: Register,
    /// At least one, of banks that a TPM can have.
    pub digests: Vec<(AlgorithmId, Vec<u8>)>,
    /// What was measured.
    pub content: Content,
}

/// What a record extends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Register {
    /// A PCR, 0 to 23.
    Pcr(u8),
    /// An NV index of the type that is extended as PCRs are: what systemd calls an `NvPCR`.
    Nv(u32),
}

impl CelLog {
    /// Largest log that is read: systemd's has a few KiB, IMA's grows with every file.
    pub const MAX_SIZE: usize = log::MAX_SIZE;

    /// Whether `file` begins as a canonical event log does, and as neither a binary log nor evidence.
    pub fn is_one(file: &[u8]) -> bool {
        split::form(file).is_some()
    }

    /// Reads a log of at most [`Self::MAX_SIZE`] bytes.
    ///
    /// # Errors
    /// A [`CelError`] with the record and the byte at which the wrong thing is.
    pub fn parse(file: &[u8]) -> Result<Self, CelError> {
        let (form, texts) = split::split(file)?;
        let (mut records, mut last) = (Vec::new(), None);
        for (index, (offset, text)) in texts.into_iter().enumerate() {
            let record = record::parse(index, offset, text)?;
            if let (Some(last), Some(number)) = (last, record.number)
                && number <= last
            {
                return Err(CelError { record: index, offset, kind: CelErrorKind::NumberOrder { last, number } });
            }
            last = record.number.or(last);
            records.push(record);
        }
        let mut algorithms: Vec<AlgorithmId> = Vec::new();
        for (algorithm, _) in records.iter().flat_map(|record| &record.digests) {
            if !algorithms.contains(algorithm) {
                algorithms.push(*algorithm);
            }
        }
        let startup_locality = startup_locality(&records)?;
        Ok(Self { form, algorithms, records, startup_locality })
    }

    /// How the records are put together.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The banks that any record has, in the order in which they first come.
    pub fn algorithms(&self) -> &[AlgorithmId] {
        &self.algorithms
    }

    /// The banks that can be replayed.
    pub fn banks(&self) -> impl Iterator<Item = Bank> {
        self.algorithms.iter().filter_map(|algorithm| algorithm.bank())
    }

    /// The records in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Replays the log by itself in `bank`, PCRs beginning as after a reset; `None` when no record has digests of it.
    ///
    /// A PCR that some record extends without a digest of `bank` is left out: its value cannot be known.
    pub fn replay(&self, bank: Bank) -> Option<Replay> {
        self.replay_from(bank, BTreeMap::new())
    }

    /// Replays the log after `earlier`, the firmware's log of the same boot, in its bank.
    pub fn replay_after(&self, earlier: &Replay) -> Option<Replay> {
        let pcrs = earlier.iter().map(|(pcr, value)| (pcr, value.to_vec())).collect();
        self.replay_from(earlier.bank(), pcrs)
    }

    fn replay_from(&self, bank: Bank, mut pcrs: BTreeMap<u8, Vec<u8>>) -> Option<Replay> {
        if !self.algorithms.contains(&bank.algorithm()) {
            return None;
        }
        let unknown: Vec<u8> =
            self.extending().filter(|(_, record)| record.digest(bank).is_none()).map(|(pcr, _)| pcr).collect();
        for (pcr, record) in self.extending() {
            let Some(digest) = record.digest(bank) else { continue };
            let value = pcrs.entry(pcr).or_insert_with(|| Replay::first_value(self.startup_locality, bank, pcr));
            *value = bank.digest(&[value, digest]);
        }
        pcrs.retain(|pcr, _| !unknown.contains(pcr));
        Some(Replay::of_values(bank, pcrs))
    }

    /// The records that extend a PCR.
    fn extending(&self) -> impl Iterator<Item = (u8, &Record)> {
        self.records.iter().filter_map(|record| Some((record.extends()?, record)))
    }

    /// Everything about the log.
    pub fn report(&self) -> Report {
        let replays: Vec<Replay> = self.banks().filter_map(|bank| self.replay(bank)).collect();
        self.report_with(&replays)
    }

    /// The same with PCRs as they are after the firmware's log of the same boot too.
    pub fn report_after(&self, earlier: &[Replay]) -> Report {
        let replays: Vec<Replay> = earlier.iter().filter_map(|earlier| self.replay_after(earlier)).collect();
        self.report_with(&replays)
    }

    fn report_with(&self, replays: &[Replay]) -> Report {
        let pcrs = |replay: &Replay| replay.iter().map(|(pcr, value)| (pcr, hex::encode(value))).collect();
        Report {
            format: match self.form {
                Form::Sequence => "cel-json-seq",
                Form::Array => "cel-json",
            },
            banks: self.algorithms.iter().map(ToString::to_string).collect(),
            incomplete_banks: Vec::new(),
            startup_locality: self.startup_locality,
            padding: 0,
            events: self.records.iter().map(Record::report).collect(),
            pcrs: replays.iter().map(|replay| (replay.bank().to_string(), pcrs(replay))).collect(),
            rtmrs: BTreeMap::new(),
        }
    }
}

impl Record {
    /// The digest that `bank` was extended with.
    pub fn digest(&self, bank: Bank) -> Option<&[u8]> {
        self.digests.iter().find(|(algorithm, _)| *algorithm == bank.algorithm()).map(|(_, digest)| digest.as_slice())
    }

    /// The PCR this record extends; what only informs extends none.
    pub fn extends(&self) -> Option<u8> {
        match self.register {
            Register::Pcr(pcr) if !self.content.only_informs() => Some(pcr),
            _ => None,
        }
    }

    /// As an event of a binary log, when it is one.
    fn event(&self) -> Option<Event<'_>> {
        let (Register::Pcr(pcr), Content::PcClient { kind, data }) = (self.register, &self.content) else {
            return None;
        };
        let digests = self.digests.iter().map(|(algorithm, digest)| (*algorithm, digest.as_slice())).collect();
        let register = Some(LogRegister::Pcr(pcr));
        Some(Event { index: self.index, offset: self.offset, register, kind: *kind, digests, data })
    }

    fn report(&self) -> EventReport {
        EventReport {
            index: self.index,
            offset: self.offset,
            pcr: match self.register {
                Register::Pcr(pcr) => Some(pcr),
                Register::Nv(_) => None,
            },
            mr: None,
            kind: self.content.kind(),
            digests: self.digests.iter().map(|(bank, digest)| (bank.to_string(), hex::encode(digest))).collect(),
            size: self.content.size(),
            description: explain::describe(self),
            bytes: None,
            data: explain::data(self).as_str(),
        }
    }
}

/// As in a binary log: an H-CRTM, or a `StartupLocality` event before PCR 0 is extended.
fn startup_locality(records: &[Record]) -> Result<Option<u8>, CelError> {
    let events: Vec<_> = records.iter().filter_map(Record::event).collect();
    log::startup_locality(&events).map_err(|error| {
        let record = records.iter().find(|record| record.offset == error.offset).map_or(0, |record| record.index);
        CelError { record, offset: error.offset, kind: CelErrorKind::Locality(error.kind) }
    })
}
