//! Which registers a policy holds against manifests.

use serde::Deserialize;

use super::{Policy, empty, malformed};
use crate::parse::PcrSet;
use crate::refusal::Refusal;

/// A policy's `pcrs`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PcrRules {
    pub(super) enforce: PcrSet,
    pub(super) warn: PcrSet,
}

impl PcrRules {
    /// The same rules, if they can be followed.
    pub(super) fn checked(self) -> Result<Self, Refusal> {
        let Self { enforce, warn } = self;
        if enforce.is_empty() {
            return Err(empty("`pcrs.enforce` lists no PCR"));
        }
        let both = enforce.intersection(warn);
        if !both.is_empty() {
            return Err(malformed(format!("PCRs {both} are both enforced and warned about")));
        }
        if enforce.union(warn).contains(Policy::LOCK_PCR) {
            return Err(malformed("PCR 15 is the lock's: `lock` rules it, `pcrs` must not"));
        }
        let resettable = enforce.union(warn).intersection(resettable());
        if !resettable.is_empty() {
            return Err(malformed(format!(
                "PCRs {resettable} may be reset by anybody (debugging, applications): they prove nothing"
            )));
        }
        Ok(self)
    }
}

/// PCRs that any program may reset at any time: *TCG PC Client Platform TPM Profile*, section 4.6.2 (PCR attributes), which
/// gives 16 (debug) and 23 (application support) to every locality.
pub(crate) fn resettable() -> PcrSet {
    PcrSet::of(&[16, 23]).unwrap_or(PcrSet::EMPTY)
}
