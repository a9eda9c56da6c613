//! What the processor of a confidential machine says of it: by configfs-tsm (Linux 6.7 and newer), and of a SEV-SNP guest with an older
//! kernel by the guest driver's own device.

mod sev_guest;
mod tsm;

use std::collections::BTreeSet;
use std::error::Error;

use latchkey_attestation::parse::{ProcessorEvidence, ProcessorKind};
use latchkey_channel::ProcessorReports;

use sev_guest::{SevGuest, SevGuestError};
pub(super) use tsm::ReportCode;
use tsm::{Tsm, TsmError};

/// Asks the kernel for reports, in the way that it offers.
#[derive(Debug, Default)]
pub struct KernelReports {
    tsm: Tsm,
    device: SevGuest,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The kernel offers none by configfs-tsm, and there is no other way for these kinds.
    #[error("{0}: quotes need a TDX guest, and the kernel's module tdx-guest (Linux 6.7 and newer)")]
    NoQuotes(TsmError),
    /// The same of an SVSM's.
    #[error(
        "{0}: the TPM of an SVSM needs a SEV-SNP guest with one, and Linux 6.11 or newer with the module sev-guest"
    )]
    NoSvsm(TsmError),
    /// The kernel offers none.
    #[error("{tsm}; {device}: reports need a SEV-SNP guest and the kernel's module sev-guest")]
    None {
        /// The one way.
        tsm: TsmError,
        /// The other.
        device: SevGuestError,
    },
    /// It offers them, and gave none.
    #[error(transparent)]
    Tsm(TsmError),
    /// It offers them by its device, and gave none.
    #[error(transparent)]
    Device(SevGuestError),
}

impl ProcessorReports for KernelReports {
    fn report(
        &self,
        kinds: &BTreeSet<ProcessorKind>,
        vmpl: u32,
        report_data: &[u8; 64],
    ) -> Result<ProcessorEvidence, Box<dyn Error + Send + Sync>> {
        Ok(self.ask(kinds, vmpl, report_data)?)
    }
}

impl KernelReports {
    fn ask(
        &self,
        kinds: &BTreeSet<ProcessorKind>,
        vmpl: u32,
        report_data: &[u8; 64],
    ) -> Result<ProcessorEvidence, ReportError> {
        let tsm = match self.tsm.report(kinds, vmpl, report_data) {
            Err(none @ TsmError::None { .. }) => none,
            asked => return asked.map_err(ReportError::Tsm),
        };
        if !kinds.contains(&ProcessorKind::Snp) {
            let svsm = kinds.contains(&ProcessorKind::SnpSvsm);
            return Err(if svsm { ReportError::NoSvsm(tsm) } else { ReportError::NoQuotes(tsm) });
        }
        self.device.report(vmpl, report_data).map(ProcessorEvidence::from).map_err(|error| match error {
            device @ SevGuestError::None { .. } => ReportError::None { tsm, device },
            error => ReportError::Device(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_machine_without_reports_says_which_ways_were_tried() {
        let nowhere = tempfile::tempdir().unwrap();
        let at = |name| nowhere.path().join(name);
        let reports = KernelReports { tsm: Tsm::at(at("report")), device: SevGuest::at(at("sev-guest")) };
        let ask = |kind| reports.ask(&[kind].into(), 0, &[1; 64]).unwrap_err().to_string();
        let error = ask(ProcessorKind::Snp);
        assert!(error.contains("/report") && error.contains("/sev-guest: "), "{error}");
        assert!(error.contains("reports need a SEV-SNP guest"), "{error}");
        let error = ask(ProcessorKind::SnpSvsm);
        assert!(error.contains("/report") && error.contains("a SEV-SNP guest with one"), "{error}");
        let error = ask(ProcessorKind::Tdx);
        assert!(error.contains("/report") && error.contains("quotes need a TDX guest"), "{error}");
    }

    #[test]
    fn a_device_that_is_no_guest_driver_s_gives_no_report() {
        let directory = tempfile::tempdir().unwrap();
        let device = directory.path().join("sev-guest");
        fs::write(&device, "").unwrap();
        let reports =
            KernelReports { tsm: Tsm::at(directory.path().join("none/report")), device: SevGuest::at(device) };
        let error = reports.ask(&[ProcessorKind::Snp].into(), 0, &[1; 64]).unwrap_err();
        assert!(matches!(error, ReportError::Device(SevGuestError::Refused { .. })), "{error}");
    }
}
