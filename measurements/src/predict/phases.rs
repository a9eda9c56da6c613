//! systemd's boot phases (`systemd-pcrphase`): each one's name is extended into PCR 11 when it begins.

use std::fmt;

use latchkey_attestation::Digest;
use serde::Serialize;

use super::{extended, sha256};

/// A boot phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The initramfs begins.
    EnterInitrd,
    /// The initramfs is about to hand over.
    LeaveInitrd,
    /// The operating system's basics are up.
    Sysinit,
    /// The operating system is up.
    Ready,
    /// It is going down.
    Shutdown,
    /// It is about to end.
    Final,
}

/// All phases, in their order (`systemd-pcrphase.service(8)`).
pub const PHASES: [Phase; 6] =
    [Phase::EnterInitrd, Phase::LeaveInitrd, Phase::Sysinit, Phase::Ready, Phase::Shutdown, Phase::Final];

impl Phase {
    /// The word that is measured.
    pub const fn word(self) -> &'static str {
        match self {
            Self::EnterInitrd => "enter-initrd",
            Self::LeaveInitrd => "leave-initrd",
            Self::Sysinit => "sysinit",
            Self::Ready => "ready",
            Self::Shutdown => "shutdown",
            Self::Final => "final",
        }
    }

    /// This phase and all before it, as `systemd-measure --phase=` wants them: `enter-initrd:leave-initrd`.
    pub fn path(self) -> String {
        let until = PHASES.iter().take_while(|phase| **phase <= self).map(|phase| phase.word());
        until.collect::<Vec<_>>().join(":")
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The PCR after each phase.
pub(super) fn after(mut value: Digest) -> Vec<(Phase, Digest)> {
    let extend = |phase: Phase| {
        value = extended(value, sha256::sha256(&[phase.word().as_bytes()]));
        (phase, value)
    };
    PHASES.into_iter().map(extend).collect()
}
