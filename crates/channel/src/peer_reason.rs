//! What a refused peer is told.

use latchkey_attestation::refusal::CoarseReason;
use latchkey_reason::reason_codes;
use serde::{Deserialize, Serialize};

reason_codes! {
    /// What a refused peer is told: the kind of check that failed, without values. On the wire the code.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum PeerReason {
        /// What was sent is not of the form it must have.
        EvidenceMalformed = "evidence-malformed":
            "run the same release on both sides; the verifier's log names the field";
        /// The TPM, or its attestation key, is not trusted.
        TpmNotTrusted = "tpm-not-trusted":
            "have this machine's TPM admitted: its EK certificate authority or EK digest belongs in the policy";
        /// The processor, its firmware or its certificate is not trusted.
        TeeNotTrusted = "tee-not-trusted":
            "have this machine's processor admitted: its certificate belongs in the verifier's collateral, its product and firmware in the policy";
        /// The evidence does not verify, or the signature with a pinned key does not.
        EvidenceRejected = "evidence-rejected":
            "reboot and try again; if it stays, something between this node and the verifier alters evidence";
        /// The machine runs what is not admitted.
        MeasurementsRefused = "measurements-refused":
            "boot an admitted image unchanged, command line included; the verifier's log names the component that differs";
        /// The node lock is not as the purpose demands.
        LockRefused = "lock-refused":
            "reboot this machine: it has already joined during this boot, or locked itself to another cluster";
        /// The refusing side cannot judge.
        VerifierUnavailable = "verifier-unavailable":
            "look at the verifier's log: its policy or reference values need its operator";
        /// The key is not pinned.
        KeyNotTrusted = "key-not-trusted":
            "pin this side's key hash at the peer";
        /// The purpose is not served.
        PurposeRefused = "purpose-refused":
            "check the address: the peer does not serve this purpose";
        /// No kind of evidence suits both sides.
        EvidenceKindRefused = "evidence-kind-refused":
            "compare what this side can show with what the peer demands";
        /// The refusing side cannot prove itself at the moment.
        ProofUnavailable = "proof-unavailable":
            "look at the peer's log: it could not prove itself";
        /// A message that does not belong there, or is none.
        ProtocolViolation = "protocol-violation":
            "run the same release on both sides";
    }
}

impl From<CoarseReason> for PeerReason {
    fn from(reason: CoarseReason) -> Self {
        match reason {
            CoarseReason::EvidenceMalformed => Self::EvidenceMalformed,
            CoarseReason::TpmNotTrusted => Self::TpmNotTrusted,
            CoarseReason::TeeNotTrusted => Self::TeeNotTrusted,
            CoarseReason::EvidenceRejected => Self::EvidenceRejected,
            CoarseReason::MeasurementsRefused => Self::MeasurementsRefused,
            CoarseReason::LockRefused => Self::LockRefused,
            CoarseReason::VerifierUnavailable => Self::VerifierUnavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use latchkey_reason::ReasonCode as _;

    use super::*;

    #[test]
    fn the_word_on_the_wire_is_the_code() {
        for &reason in PeerReason::ALL {
            assert_eq!(serde_json::to_string(&reason).unwrap(), format!("\"{reason}\""));
        }
    }

    #[test]
    fn coarse_reasons_keep_their_word_and_their_remedy() {
        use CoarseReason as Coarse;
        for coarse in [
            Coarse::EvidenceMalformed,
            Coarse::TpmNotTrusted,
            Coarse::TeeNotTrusted,
            Coarse::EvidenceRejected,
            Coarse::MeasurementsRefused,
            Coarse::LockRefused,
            Coarse::VerifierUnavailable,
        ] {
            let reason = PeerReason::from(coarse);
            assert_eq!((reason.as_str(), reason.remedy()), (coarse.as_str(), coarse.remedy()));
        }
    }
}
