//! Reports by `/dev/sev-guest` (Linux 5.19 and newer; `Documentation/virt/coco/sev-guest.rst`).

use std::fs::File;
use std::io;
use std::path::PathBuf;

use latchkey_attestation::Refusal;
use latchkey_attestation::parse::{CertificateTable, SnpEvidence, SnpReport};

use super::super::sys::sev_guest_ioctl::{self as ioctl, Failed, VMM_ERROR_TABLE_TOO_LONG};

/// The guest driver's device.
#[derive(Debug)]
pub(super) struct SevGuest {
    device: PathBuf,
}

impl Default for SevGuest {
    fn default() -> Self {
        Self::at("/dev/sev-guest".into())
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum SevGuestError {
    /// There is no such device.
    #[error("{}: {source}", device.display())]
    None {
        /// Which.
        device: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel, the host or the processor refused.
    #[error("{}: {source} (firmware {firmware:#x}, host {host:#x})", device.display())]
    Refused {
        /// Which device.
        device: PathBuf,
        /// What the kernel said.
        source: io::Error,
        /// What the processor's firmware said (AMD 56860, "Status Codes").
        firmware: u32,
        /// What the host said (AMD 56421, "SNP Guest Request").
        host: u32,
    },
    /// The processor's answer is none (AMD 56860, `MSG_REPORT_RSP`).
    #[error("{}: the answer has status {status:#x} and {size} bytes", device.display())]
    Answer {
        /// Which device.
        device: PathBuf,
        /// Zero is success.
        status: u32,
        /// Of the report.
        size: u32,
    },
    /// What the kernel gave is no report.
    #[error(transparent)]
    Unusable(#[from] Refusal),
}

impl SevGuest {
    pub(super) fn at(device: PathBuf) -> Self {
        Self { device }
    }

    /// Asks for a report over these data at this privilege level, and for the certificates that the host has beside it.
    pub(super) fn report(&self, vmpl: u32, report_data: &[u8; 64]) -> Result<SnpEvidence, SevGuestError> {
        let device = File::options().read(true).write(true).open(&self.device);
        let device = device.map_err(|source| match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => {
                SevGuestError::None { device: self.device.clone(), source }
            }
            _ => SevGuestError::Refused { device: self.device.clone(), source, firmware: 0, host: 0 },
        })?;
        let mut table = vec![0; CertificateTable::MAX];
        let answer = match ioctl::extended_report(&device, vmpl, report_data, &mut table) {
            // The host has more than there is room for: the verifier's own certificates have to do.
            Err(Failed { host: VMM_ERROR_TABLE_TOO_LONG, .. }) => {
                table.fill(0);
                ioctl::report(&device, vmpl, report_data)
            }
            answer => answer,
        };
        let answer = answer.map_err(|Failed { source, firmware, host }| SevGuestError::Refused {
            device: self.device.clone(),
            source,
            firmware,
            host,
        })?;
        let table = table.iter().any(|byte| *byte != 0).then_some(table);
        Ok(SnpEvidence::new(self.report_in(&answer[..])?, table)?)
    }

    /// The report in an answer: status, size, 24 reserved bytes, report.
    fn report_in(&self, answer: &[u8]) -> Result<Vec<u8>, SevGuestError> {
        let number = |at: usize| {
            let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(u32::MAX, u32::from_le_bytes)
        };
        let (status, size) = (number(0), number(4));
        let report = answer.get(HEAD..HEAD + SnpReport::SIZE);
        match report {
            Some(report) if status == 0 && usize::try_from(size) == Ok(SnpReport::SIZE) => Ok(report.to_vec()),
            _ => Err(SevGuestError::Answer { device: self.device.clone(), status, size }),
        }
    }
}

/// Bytes before the report.
const HEAD: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_lies_behind_the_head_of_the_answer_and_what_is_none_is_refused() {
        let guest = SevGuest::default();
        let mut answer = vec![0; 4000];
        answer[4..8].copy_from_slice(&1184_u32.to_le_bytes());
        answer[HEAD..HEAD + 1184].fill(7);
        assert_eq!(guest.report_in(&answer).unwrap(), [7; 1184]);
        let short = guest.report_in(&answer[..HEAD + 1183]).unwrap_err();
        assert!(matches!(short, SevGuestError::Answer { .. }));
        for at in [0, 4] {
            let mut wrong = answer.clone();
            wrong[at] ^= 0x16;
            let error = guest.report_in(&wrong).unwrap_err().to_string();
            assert!(error.contains("/dev/sev-guest: the answer has status"), "{error}");
        }
    }
}
