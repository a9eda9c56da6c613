//! What is told of a machine that is let in.

use latchkey_reason::reason_codes;

reason_codes! {
    /// What is told of a machine that is let in all the same.
    pub enum Warning {
        /// Its firmware is not the one on its record.
        FirmwareChanged = "firmware-changed":
            "the firmware of this machine is not the one on its record: if the change is yours, say so with `latchkey policy accept-firmware`; if not, deny the machine";
        /// The counters of its TPM are lower than on its record.
        CountersWentBack = "tpm-counters-went-back":
            "if nobody cleared the TPM in the firmware set-up, an older state of it was brought back: find out who did that";
    }
}
