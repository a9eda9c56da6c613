//! The reason codes of the life machine, and codes in recorded events: their text, and nothing but codes that this release
//! knows.

use latchkey_reason::{ReasonCode, reason_codes};
use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

reason_codes! {
    /// Why a boot is refused without a failure.
    pub enum NodeCode {
        /// The first bootstrap failed as often as it may.
        AttemptsExhausted = "bootstrap-attempts-exhausted":
            "fix the cause of the failures, then wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk)";
        /// The join service has a higher epoch on record than the disk.
        OldCopy = "disk-is-an-old-copy": "attach the current disk";
        /// The disk waits for a join ticket, and nobody can be asked for one.
        NoJoinService = "no-join-service":
            "name a join service and its key in the image (`latchkey.join_service`, `latchkey.join_service_key`)";
        /// PCR 15 does not read as it must after the lock.
        LockNotClean = "lock-not-clean": "mask every user of PCR 15 in the image and reboot";
    }
}

const UNKNOWN: &str = "a reason code that this release does not have";

/// For `#[serde(with)]`.
pub(super) fn serialize<C: ReasonCode, S: Serializer>(code: &C, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.reason().code)
}

/// For `#[serde(with)]`.
pub(super) fn deserialize<'de, C: ReasonCode, D: Deserializer<'de>>(deserializer: D) -> Result<C, D::Error> {
    let text = String::deserialize(deserializer)?;
    C::parse(&text).ok_or_else(|| D::Error::custom(UNKNOWN))
}

/// The same for a code of any enum.
pub(super) mod any {
    use latchkey_reason::Reason;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    /// For `#[serde(with)]`.
    pub(in crate::lifecycle) fn serialize<S: Serializer>(reason: &Reason, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(reason.code)
    }

    /// For `#[serde(with)]`.
    pub(in crate::lifecycle) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Reason, D::Error> {
        let text = String::deserialize(deserializer)?;
        crate::known_codes().find(|reason| reason.code == text).ok_or_else(|| D::Error::custom(super::UNKNOWN))
    }
}
