//! The reason codes of this crate.

use latchkey_reason::reason_codes;

reason_codes! {
    /// Why a log is not read, an image or guest not predicted, a manifest not signed.
    pub enum MeasurementCode {
        /// A file is no event log.
        EventLogMalformed = "event-log-malformed": "give a TCG event log, or evidence kept by `latchkey verify`";
        /// The evidence has no event log.
        EventLogMissing = "event-log-missing":
            "give evidence that has an event log, or the kernel's binary_bios_measurements";
        /// A file is no image.
        ImageUnusable = "image-unusable":
            "give a raw disk image made by `latchkey image build`, or its unified kernel image";
        /// What the image measures is not known.
        ImageUnpredictable = "image-unpredictable":
            "use a boot stub and a machine type that `latchkey measure image --help` lists";
        /// What the guest's launch digest will be is not known.
        LaunchUnpredictable = "launch-unpredictable":
            "give an OVMF for SEV-SNP, and a processor that `latchkey measure image --help` names";
        /// A signing key cannot be used.
        KeyUnusable = "key-unusable": "give a minisign secret key and, if it is encrypted, its password";
        /// A manifest could not be signed.
        SigningFailed = "signing-failed": "run the command again; if it fails again, report it";
    }
}

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_reason::reasons::<MeasurementCode>()
}
