//! Event logs of confidential machines (CCEL), replayed to the registers that their quotes have.
//!
//! The log is in the form of a TPM's, with a measurement register's index in the place of a PCR's (UEFI 2.10, section 38;
//! ACPI 6.5, table "CCEL"). Of Intel TDX, digests are SHA-384, and register 0 is MRTD, 1 to 4 are RTMR0 to RTMR3.
//!
//! Nothing in the form itself tells such a log from that of a TPM with a SHA-384 bank alone, so the caller says which one it
//! reads: [`CcLog::parse`] or [`EventLog::parse`]. [`CcLog::is_one`] knows those whose header says it: edk2 and Google's
//! firmware write register 1 there, and a TPM's log has PCR 0. A header for register 0 is taken as a TPM's unless the caller
//! says otherwise. Which kind a log is decides nothing by itself: read as the wrong one, it does not replay to what is quoted.

use std::collections::BTreeMap;

use crate::bank::Bank;
use crate::error::{LogError, LogErrorKind};
use crate::event::Event;
use crate::log::{EventLog, Registers};
pub use crate::mr::Mr;
use crate::replay;
use crate::report::{EventData, EventReport, Report, RtmrReport};

/// The log of a confidential machine: well-formed, and every event that extends a register has its digest. It was written
/// by whatever booted, and says something about a machine only after [`Rtmrs::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CcLog<'a>(EventLog<'a>);

impl<'a> CcLog<'a> {
    /// Whether a log says itself that it is one, as TDX firmware's do: a header for register 1, and SHA-384 alone. The header
    /// of a TPM's log is for PCR 0.
    pub fn is_one(log: &[u8]) -> bool {
        matches!(EventLog::parse(log), Err(LogError { kind: LogErrorKind::ConfidentialMachine, .. }))
    }

    /// Reads a log of at most [`MAX_SIZE`](crate::log::MAX_SIZE) bytes, such as Linux's
    /// `/sys/firmware/acpi/tables/data/CCEL`, which is the firmware's whole area: zeros only, or `0xff` only, may follow the
    /// last event.
    ///
    /// # Errors
    /// A [`LogError`] with the byte at which the first wrong thing begins: what [`EventLog::parse`] refuses, other banks than
    /// SHA-384 alone, a register that does not exist, an event that extends MRTD or has no digest.
    pub fn parse(log: &'a [u8]) -> Result<Self, LogError> {
        let log = EventLog::parse_of(log, Registers::Mrs)?;
        for event in log.events() {
            if let (Some(mr), None) = (event.extends_mr(), event.digest(Bank::Sha384)) {
                return Err(LogError { offset: event.offset, kind: LogErrorKind::DigestMissing(mr) });
            }
        }
        Ok(Self(log))
    }

    /// The events in order; the first is the header.
    pub fn events(&self) -> &[Event<'a>] {
        self.0.events()
    }

    /// Bytes of padding after the last event.
    pub fn padding(&self) -> usize {
        self.0.padding()
    }

    /// The RTMRs of a machine that was extended with these events, from zeros on.
    pub fn replay(&self) -> Rtmrs {
        let zeros = |_: &Mr| vec![0; Rtmrs::SIZE];
        let registers = replay::extended(&self.0, Bank::Sha384, Event::extends_mr, zeros);
        Rtmrs(Mr::RTMRS.map(|mr| {
            // The replay has SHA-384 digests, which have this size.
            registers.get(&mr).and_then(|value| value.as_slice().try_into().ok()).unwrap_or([0; Rtmrs::SIZE])
        }))
    }

    /// For people: events in words, and all four RTMRs.
    pub fn report(&self) -> Report {
        let replayed = self.replay();
        let rtmr = |(mr, value): (Mr, &[u8; Rtmrs::SIZE])| {
            (mr, RtmrReport { value: hex::encode(value), pcrs: mr.pcrs().iter().collect() })
        };
        Report {
            format: "ccel",
            banks: vec![Bank::Sha384.to_string()],
            incomplete_banks: vec![],
            startup_locality: None,
            padding: self.padding(),
            events: self.events().iter().map(EventReport::of).collect(),
            pcrs: BTreeMap::new(),
            rtmrs: Mr::RTMRS.into_iter().zip(replayed.values()).map(rtmr).collect(),
        }
    }

    /// As [`Self::report`], with the data of the events.
    pub fn report_with_data(&self) -> Report {
        let mut report = self.report();
        for (event, logged) in report.events.iter_mut().zip(self.events()) {
            event.bytes = Some(EventData(logged.data.to_vec()));
        }
        report
    }
}

/// RTMR0 to RTMR3, 48 bytes each, as a TDX quote has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rtmrs([[u8; Self::SIZE]; 4]);

impl Rtmrs {
    /// Bytes of a register.
    pub const SIZE: usize = 48;

    /// The values, RTMR0 first.
    pub fn values(&self) -> &[[u8; Self::SIZE]; 4] {
        &self.0
    }

    /// Holds what a log replays to against the RTMRs of a quote whose signature was verified. `which` are those that must be
    /// the same: an operating system may extend RTMR2 and RTMR3 later and log it elsewhere.
    ///
    /// # Errors
    /// [`RtmrMismatch`], of the first that differs: the log is of another boot, or was altered. It then says nothing.
    pub fn check(&self, quoted: &[[u8; Self::SIZE]; 4], which: RtmrSet) -> Result<(), RtmrMismatch> {
        let registers = Mr::RTMRS.into_iter().zip(self.0.iter().zip(quoted));
        let mut differing = registers.filter(|(mr, (replayed, quoted))| which.has(*mr) && replayed != quoted);
        match differing.next() {
            None => Ok(()),
            Some((mr, (replayed, quoted))) => {
                Err(RtmrMismatch { mr, replayed: hex::encode(replayed), quoted: hex::encode(quoted) })
            }
        }
    }
}

/// RTMRs to hold against a quote: at least one of them, and nothing else, so that a check of them can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtmrSet([bool; 4]);

impl RtmrSet {
    /// All four.
    pub const ALL: Self = Self([true; 4]);

    /// These; `None` of no register, and with MRTD, which is in no log.
    pub fn new(which: &[Mr]) -> Option<Self> {
        let all_are = !which.is_empty() && which.iter().all(|mr| Mr::RTMRS.contains(mr));
        all_are.then(|| Self(Mr::RTMRS.map(|mr| which.contains(&mr))))
    }

    fn has(self, mr: Mr) -> bool {
        Mr::RTMRS.into_iter().zip(self.0).any(|(register, has)| has && register == mr)
    }
}

/// A log that does not belong to a quote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the event log does not replay to the quoted registers: {mr} ({}) replays to {replayed}, quoted is {quoted}; the log is of \
     another boot or was altered",
    .mr.describe()
)]
pub struct RtmrMismatch {
    /// The register.
    pub mr: Mr,
    /// What the log replays to, lower-case hexadecimal.
    pub replayed: String,
    /// What was quoted, lower-case hexadecimal.
    pub quoted: String,
}
