//! The event log's outer form: a header, events, padding.

mod bytes;
mod header;
mod locality;

use crate::bank::{AlgorithmId, Bank};
use crate::error::{LogError, LogErrorKind};
use crate::event::{Event, EventType, Register};
use crate::mr::Mr;
use bytes::Bytes;

pub use header::SpecId;
pub(crate) use locality::find as startup_locality;

/// An event log, well-formed and nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLog<'a> {
    format: Format,
    algorithms: Vec<AlgorithmId>,
    incomplete: Vec<AlgorithmId>,
    events: Vec<Event<'a>>,
    startup_locality: Option<u8>,
    padding: usize,
}

/// The two formats of event logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// `TCG_PCR_EVENT2` with a digest for each bank (PFP 1.05, section 10.2).
    CryptoAgile(SpecId),
    /// `TCG_PCClientPCREvent`, SHA-1 only (PFP 1.05, section 10.2).
    Sha1,
}

/// Which registers a log is about. The form is the same, and a TPM with a SHA-384 bank alone has such logs, too: whoever
/// reads a log says which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registers {
    /// A TPM's PCRs.
    Pcrs,
    /// A confidential machine's measurement registers.
    Mrs,
}

impl<'a> EventLog<'a> {
    /// Reads a TPM's log of at most [`MAX_SIZE`] bytes.
    ///
    /// What follows the last event must be padding: zeros only, or `0xff` only, as in an ACPI log area that was not filled.
    ///
    /// # Errors
    /// A [`LogError`] with the byte at which the first wrong thing begins.
    pub fn parse(log: &'a [u8]) -> Result<Self, LogError> {
        Self::parse_of(log, Registers::Pcrs)
    }

    /// Reads a log of this kind.
    pub(crate) fn parse_of(log: &'a [u8], registers: Registers) -> Result<Self, LogError> {
        if log.len() > MAX_SIZE {
            return Err(LogError { offset: 0, kind: LogErrorKind::TooLarge { size: log.len(), limit: MAX_SIZE } });
        }
        let padding_from = padding_from(log);
        let mut bytes = Bytes::new(log);
        if padding_from == 0 {
            return Err(bytes.error(LogErrorKind::Empty));
        }
        let first = sha1_event(&mut bytes, 0)?;
        // What begins so is another file, rather than a log with an odd event.
        if let Some(Register::Unknown(index)) = first.register {
            return Err(LogError { offset: 0, kind: LogErrorKind::PcrUnknown(index) });
        }
        let format = header::format(&first, registers)?;
        let algorithms = match &format {
            Format::CryptoAgile(spec) => spec.algorithms.clone(),
            Format::Sha1 => vec![Bank::Sha1.algorithm()],
        };
        // The header is about no register that a confidential machine has: firmware writes 0 or 1 there.
        let mut events = vec![match registers {
            Registers::Pcrs => first,
            Registers::Mrs => Event { register: None, ..first },
        }];
        while bytes.offset() < padding_from {
            if events.len() == MAX_EVENTS {
                return Err(bytes.error(LogErrorKind::TooManyEvents { limit: MAX_EVENTS }));
            }
            let index = events.len();
            events.push(match format {
                Format::CryptoAgile(_) => agile_event(&mut bytes, index, &algorithms, registers)?,
                Format::Sha1 => sha1_event(&mut bytes, index)?,
            });
        }
        let startup_locality = match registers {
            Registers::Pcrs => locality::find(&events)?,
            Registers::Mrs => None,
        };
        let lacks = |event: &Event<'_>, bank: &AlgorithmId| event.digests.iter().all(|(other, _)| other != bank);
        let extending = || events.iter().filter(|event| event.extends_any());
        let is_incomplete = |bank: &&AlgorithmId| extending().any(|event| lacks(event, bank));
        let incomplete = algorithms.iter().filter(is_incomplete).copied().collect();
        Ok(Self { format, algorithms, incomplete, events, startup_locality, padding: log.len() - bytes.offset() })
    }

    /// Which format it has.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The banks, in the log's order; some may be unknown here.
    pub fn algorithms(&self) -> &[AlgorithmId] {
        &self.algorithms
    }

    /// The banks that can be replayed.
    pub fn banks(&self) -> impl Iterator<Item = Bank> {
        let complete = self.algorithms.iter().filter(|algorithm| !self.incomplete.contains(algorithm));
        complete.filter_map(|algorithm| algorithm.bank())
    }

    /// The banks that the header lists and not every event that extends a register has a digest of: what their registers
    /// have, this log does not tell. Firmware of some machines lists banks that it does not use.
    pub fn incomplete(&self) -> &[AlgorithmId] {
        &self.incomplete
    }

    /// The events in order; the first of a crypto-agile log is its header.
    pub fn events(&self) -> &[Event<'a>] {
        &self.events
    }

    /// The locality that PCR 0 begins with, where the log tells: 4 where an H-CRTM measured, else that of `TPM2_Startup`.
    pub fn startup_locality(&self) -> Option<u8> {
        self.startup_locality
    }

    /// Bytes of padding after the last event.
    pub fn padding(&self) -> usize {
        self.padding
    }
}

/// `TCG_PCClientPCREvent`: PCR, type, one SHA-1 digest, size, data.
fn sha1_event<'a>(bytes: &mut Bytes<'a>, index: usize) -> Result<Event<'a>, LogError> {
    let offset = bytes.offset();
    let (register, kind) = register_and_type(bytes, Registers::Pcrs)?;
    let digest = bytes.take(Bank::Sha1.digest_size(), "a digest")?;
    let data = event_data(bytes)?;
    Ok(Event { index, offset, register, kind, digests: vec![(Bank::Sha1.algorithm(), digest)], data })
}

/// `TCG_PCR_EVENT2`, or `CC_EVENT` (UEFI 2.10, section 38.2): register, type, `TPML_DIGEST_VALUES`, size, data.
fn agile_event<'a>(
    bytes: &mut Bytes<'a>,
    index: usize,
    algorithms: &[AlgorithmId],
    registers: Registers,
) -> Result<Event<'a>, LogError> {
    let offset = bytes.offset();
    let (register, kind) = register_and_type(bytes, registers)?;
    let digests = digests(bytes, algorithms)?;
    let data = event_data(bytes)?;
    Ok(Event { index, offset, register, kind, digests, data })
}

/// PFP 1.05, section 10.2: an event has a digest for each bank that the header lists. Real firmware leaves some out; the
/// kernel reads that, too (`__calc_tpm2_event_size`).
fn digests<'a>(bytes: &mut Bytes<'a>, algorithms: &[AlgorithmId]) -> Result<Vec<(AlgorithmId, &'a [u8])>, LogError> {
    let at = bytes.offset();
    let count = bytes.u32("the number of digests")?;
    let Some(count) = usize::try_from(count).ok().filter(|count| *count <= algorithms.len()) else {
        let kind = LogErrorKind::DigestCount { expected: algorithms.len(), got: count };
        return Err(LogError { offset: at, kind });
    };
    let mut digests = Vec::with_capacity(count);
    for _ in 0..count {
        let offset = bytes.offset();
        let algorithm = AlgorithmId(bytes.u16("a digest's algorithm")?);
        let listed = algorithms.contains(&algorithm).then(|| algorithm.digest_size()).flatten();
        let size = listed.ok_or(LogError { offset, kind: LogErrorKind::DigestUnlisted(algorithm) })?;
        if digests.iter().any(|(earlier, _)| *earlier == algorithm) {
            return Err(LogError { offset, kind: LogErrorKind::DigestTwice(algorithm) });
        }
        digests.push((algorithm, bytes.take(size, "a digest")?));
    }
    Ok(digests)
}

fn register_and_type(bytes: &mut Bytes<'_>, registers: Registers) -> Result<(Option<Register>, EventType), LogError> {
    let offset = bytes.offset();
    let index = bytes.u32("a register's index")?;
    let kind = EventType(bytes.u32("an event type")?);
    if index == NO_PCR && kind == EventType::NO_ACTION {
        return Ok((None, kind));
    }
    let register = match (registers, u8::try_from(index), Mr::of_index(index)) {
        (Registers::Pcrs, Ok(pcr @ ..PCR_COUNT), _) => Register::Pcr(pcr),
        (Registers::Pcrs, _, _) => Register::Unknown(index),
        (Registers::Mrs, _, Some(Mr::Mrtd)) if kind != EventType::NO_ACTION => {
            return Err(LogError { offset, kind: LogErrorKind::MrtdExtended });
        }
        (Registers::Mrs, _, Some(mr)) => Register::Mr(mr),
        (Registers::Mrs, _, None) => return Err(LogError { offset, kind: LogErrorKind::MrUnknown(index) }),
    };
    Ok((Some(register), kind))
}

fn event_data<'a>(bytes: &mut Bytes<'a>) -> Result<&'a [u8], LogError> {
    let offset = bytes.offset();
    let size = bytes.u32("an event's size")?;
    match usize::try_from(size) {
        Ok(length) if size <= MAX_EVENT => bytes.take(length, "an event's data"),
        _ => Err(LogError { offset, kind: LogErrorKind::EventTooLarge { size, limit: MAX_EVENT } }),
    }
}

/// Where the run of equal `0x00` or `0xff` bytes at the log's end begins. An event's own last bytes may be part of that
/// run, so an event is read whenever it begins before.
fn padding_from(log: &[u8]) -> usize {
    match log.last() {
        Some(&fill @ (0x00 | 0xff)) => log.iter().rposition(|&byte| byte != fill).map_or(0, |last| last + 1),
        _ => log.len(),
    }
}

/// Real logs have 20 to 60 KiB, and firmware reserves 64 KiB to 1 MiB.
pub const MAX_SIZE: usize = 4 * 1024 * 1024;
/// The largest events are `dbx` with its thousands of hashes, and GPTs: tens of KiB.
const MAX_EVENT: u32 = 1024 * 1024;
/// Boot loaders that log every command write a few hundred.
const MAX_EVENTS: usize = 16 * 1024;
/// PC Client Platform TPM Profile 1.05, section 4.6: "a minimum of 24 PCRs".
const PCR_COUNT: u8 = 24;
/// PFP 1.05, section 10.4: informational events that belong to no PCR.
const NO_PCR: u32 = u32::MAX;
