//! What the processor of a SEV-SNP guest says of it: by configfs-tsm (Linux 6.7 and newer), else by the guest driver's own device.

mod sev_guest;
mod tsm;

use std::error::Error;

use latchkey_attestation::parse::SnpEvidence;
use latchkey_channel::SnpReports;

use sev_guest::{SevGuest, SevGuestError};
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

impl SnpReports for KernelReports {
    fn report(&self, report_data: &[u8; 64]) -> Result<SnpEvidence, Box<dyn Error + Send + Sync>> {
        Ok(self.ask(report_data)?)
    }
}

impl KernelReports {
    fn ask(&self, report_data: &[u8; 64]) -> Result<SnpEvidence, ReportError> {
        let tsm = match self.tsm.report(report_data) {
            Err(none @ TsmError::None { .. }) => none,
            asked => return asked.map_err(ReportError::Tsm),
        };
        self.device.report(report_data).map_err(|error| match error {
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
        let error = reports.ask(&[1; 64]).unwrap_err().to_string();
        assert!(error.contains("/report") && error.contains("/sev-guest: "), "{error}");
        assert!(error.contains("reports need a SEV-SNP guest"), "{error}");
    }

    #[test]
    fn a_device_that_is_no_guest_driver_s_gives_no_report() {
        let directory = tempfile::tempdir().unwrap();
        let device = directory.path().join("sev-guest");
        fs::write(&device, "").unwrap();
        let reports =
            KernelReports { tsm: Tsm::at(directory.path().join("none/report")), device: SevGuest::at(device) };
        let error = reports.ask(&[1; 64]).unwrap_err();
        assert!(matches!(error, ReportError::Device(SevGuestError::Refused { .. })), "{error}");
    }
}
