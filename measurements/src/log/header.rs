//! The first event: which format the log has, and which banks.

use super::bytes::Bytes;
use super::{Format, Registers};
use crate::bank::{AlgorithmId, Bank};
use crate::error::{LogError, LogErrorKind};
use crate::event::{Event, EventType};

/// `TCG_EfiSpecIDEvent` (PFP 1.05, section 10.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecId {
    /// 0 is a client, 1 a server.
    pub platform_class: u32,
    /// Version of the specification: major, minor, errata.
    pub version: [u8; 3],
    /// The banks, in the log's order.
    pub algorithms: Vec<AlgorithmId>,
}

/// Which format the log has, by its first event.
pub(super) fn format(first: &Event<'_>, registers: Registers) -> Result<Format, LogError> {
    let format = format_of_any(first)?;
    let error = |kind| LogError { offset: first.offset, kind };
    let Format::CryptoAgile(spec) = &format else {
        return match registers {
            Registers::Pcrs => Ok(format),
            Registers::Mrs => Err(error(LogErrorKind::NoConfidentialMachine)),
        };
    };
    let sha384_alone = spec.algorithms == [Bank::Sha384.algorithm()];
    match (registers, first.pcr()) {
        (Registers::Pcrs, Some(0)) => Ok(format),
        (Registers::Pcrs, Some(1)) if sha384_alone => Err(error(LogErrorKind::ConfidentialMachine)),
        (Registers::Mrs, Some(0 | 1)) if sha384_alone => Ok(format),
        (Registers::Mrs, Some(0 | 1)) => Err(error(LogErrorKind::NoConfidentialMachine)),
        (_, other) => Err(error(LogErrorKind::HeaderPcr(other.map_or(u32::MAX, u32::from)))),
    }
}

fn format_of_any(first: &Event<'_>) -> Result<Format, LogError> {
    let error = |kind| LogError { offset: first.offset, kind };
    if first.kind != EventType::NO_ACTION || !first.data.starts_with(b"Spec ID Event") {
        return Ok(Format::Sha1);
    }
    match first.data.split_at_checked(AGILE.len()) {
        Some((signature, rest)) if signature == AGILE => {
            let spec = spec_id(&mut Bytes::at(rest, first.offset + SHA1_EVENT + AGILE.len()));
            if first.digests.iter().any(|(_, digest)| digest.iter().any(|&byte| byte != 0)) {
                return Err(error(LogErrorKind::HeaderDigest));
            }
            spec.map(Format::CryptoAgile)
        }
        Some((signature, _)) if SHA1_ONLY.iter().any(|known| signature == *known) => Ok(Format::Sha1),
        _ => Err(error(LogErrorKind::SpecIdUnknown)),
    }
}

fn spec_id(bytes: &mut Bytes<'_>) -> Result<SpecId, LogError> {
    let what = "the header";
    let at = bytes.offset();
    let platform_class = bytes.u32(what)?;
    let (minor, major, errata, uintn) = (bytes.u8(what)?, bytes.u8(what)?, bytes.u8(what)?, bytes.u8(what)?);
    let kind = match (platform_class, major, uintn) {
        (2.., _, _) => Some(LogErrorKind::PlatformClass(platform_class)),
        (_, ..=1 | 3.., _) => Some(LogErrorKind::SpecVersion { major, minor }),
        (_, _, 0 | 3..) => Some(LogErrorKind::UintnSize(uintn)),
        _ => None,
    };
    if let Some(kind) = kind {
        return Err(LogError { offset: at, kind });
    }
    let algorithms = algorithms(bytes)?;
    let vendor = bytes.u8(what)?;
    bytes.take(usize::from(vendor), "the header's vendor information")?;
    match bytes.remaining() {
        0 => Ok(SpecId { platform_class, version: [major, minor, errata], algorithms }),
        trailing => Err(bytes.error(LogErrorKind::SpecIdTrailing(trailing))),
    }
}

fn algorithms(bytes: &mut Bytes<'_>) -> Result<Vec<AlgorithmId>, LogError> {
    let at = bytes.offset();
    let count = bytes.u32("the number of banks")?;
    if count == 0 || count > MAX_ALGORITHMS {
        return Err(LogError { offset: at, kind: LogErrorKind::AlgorithmCount(count) });
    }
    let mut algorithms = Vec::new();
    for _ in 0..count {
        let offset = bytes.offset();
        let algorithm = AlgorithmId(bytes.u16("a bank")?);
        let size = bytes.u16("a bank's digest size")?;
        if algorithms.contains(&algorithm) {
            return Err(LogError { offset, kind: LogErrorKind::AlgorithmTwice(algorithm) });
        }
        if algorithm.digest_size() != Some(usize::from(size)) {
            return Err(LogError { offset, kind: LogErrorKind::DigestSize { algorithm, size } });
        }
        algorithms.push(algorithm);
    }
    Ok(algorithms)
}

/// PFP 1.05, section 10.4: signature "Spec ID Event03", a NUL at its end.
const AGILE: &[u8; 16] = b"Spec ID Event03\0";
/// Of the TPM 1.2 specifications for BIOS and EFI.
const SHA1_ONLY: [&[u8; 16]; 2] = [b"Spec ID Event00\0", b"Spec ID Event02\0"];
/// PCR, type, SHA-1 digest and size come before an event's data.
const SHA1_EVENT: usize = 4 + 4 + 20 + 4;
/// TPMs have up to five banks.
const MAX_ALGORITHMS: u32 = 8;
