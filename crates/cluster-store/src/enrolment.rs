//! `enrolment.json`: which TPM gets which role and name.
//!
//! ```json
//! {
//!   "version": 1,
//!   "pinned": [{"ek_sha256": "<64 hex digits>", "role": "control-plane", "name": "cp-1"}],
//!   "default": {"role": "hold", "name": "as-requested", "on_new_disk": "admit"}
//! }
//! ```
//!
//! `role` is `control-plane`, `worker`, `hold` (the machine waits for `latchkey node admit`) or `refuse`.

use crate::cluster::{VERSION, check_version};
use crate::error::ContentError;
use crate::name::NodeName;
use crate::record::Role;
use latchkey_attestation::EkDigest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Who is let in as what. There is no default for the default rule: a file must say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrolment {
    /// Schema: 1.
    pub version: u64,
    /// Rules for single TPMs.
    pub pinned: Vec<PinnedRule>,
    /// The rule for all others.
    pub default: DefaultRule,
}

/// The rule for one TPM. It counts more than what was recorded earlier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedRule {
    /// The TPM.
    pub ek_sha256: EkDigest,
    /// Its role, `hold` or `refuse`.
    pub role: RoleRule,
    /// Its name; absent: as on record, or by the default rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<NodeName>,
}

/// The rule for TPMs without one of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultRule {
    /// Role of a TPM that joins for the first time, `hold` or `refuse`. A known one keeps its role.
    pub role: RoleRule,
    /// Where its name comes from. A known one keeps its name.
    pub name: NameRule,
    /// What a known TPM with a new disk gets, pinned ones included.
    pub on_new_disk: NewDisk,
}

/// A role, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoleRule {
    /// [`Role::ControlPlane`].
    ControlPlane,
    /// [`Role::Worker`].
    Worker,
    /// Not let in before the operator says so: [`Enrolment::admit`].
    Hold,
    /// Not let in.
    Refuse,
}

impl RoleRule {
    /// The role, `None` for hold and refuse.
    pub const fn role(self) -> Option<Role> {
        match self {
            Self::ControlPlane => Some(Role::ControlPlane),
            Self::Worker => Some(Role::Worker),
            Self::Hold | Self::Refuse => None,
        }
    }
}

/// Where a new node's name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameRule {
    /// The node's request, if no other node has it.
    AsRequested,
    /// `node-` and the first 12 hex digits of the EK digest.
    FromEk,
}

/// What a known TPM with a new disk gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NewDisk {
    /// A key, and a higher epoch.
    Admit,
    /// Nothing, until the operator removes the record.
    Refuse,
}

/// What the rules say about one TPM.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// The pinned rule, if there is one.
    pub pinned: Option<&'a PinnedRule>,
    /// The default rule.
    pub default: DefaultRule,
}

impl Enrolment {
    /// Rules that admit every attested machine as a worker under the name it asks for, and these TPMs as control planes.
    pub fn workers_and(control_planes: impl IntoIterator<Item = EkDigest>) -> Self {
        let pin = |ek_sha256| PinnedRule { ek_sha256, role: RoleRule::ControlPlane, name: None };
        let default = DefaultRule { role: RoleRule::Worker, name: NameRule::AsRequested, on_new_disk: NewDisk::Admit };
        Self { version: VERSION, pinned: control_planes.into_iter().map(pin).collect(), default }
    }

    /// Rules that admit nobody before the operator says so: what fits a policy that trusts a vendor, who certified machines of
    /// others, too.
    pub fn hold_all() -> Self {
        let default = DefaultRule { role: RoleRule::Hold, name: NameRule::AsRequested, on_new_disk: NewDisk::Admit };
        Self { version: VERSION, pinned: Vec::new(), default }
    }

    /// Gives one TPM a rule of its own, in the place of an earlier one, whose name it keeps if no other is given. The rule as it is now.
    pub fn admit(&mut self, ek: EkDigest, role: RoleRule, name: Option<NodeName>) -> PinnedRule {
        let before = self.pinned.iter().position(|rule| rule.ek_sha256 == ek).map(|at| self.pinned.remove(at));
        let name = name.or(before.and_then(|rule| rule.name));
        let admitted = PinnedRule { ek_sha256: ek, role, name };
        self.pinned.push(admitted.clone());
        admitted
    }

    /// Takes the rule of one TPM away; whether there was one.
    pub fn forget(&mut self, ek: &EkDigest) -> bool {
        let before = self.pinned.len();
        self.pinned.retain(|rule| rule.ek_sha256 != *ek);
        self.pinned.len() != before
    }

    /// Reads the file's JSON.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(json: &[u8]) -> Result<Self, ContentError> {
        check_version(json)?;
        let rules: Self = serde_json::from_slice(json).map_err(ContentError::Syntax)?;
        rules.check()?;
        Ok(rules)
    }

    /// The rules for this TPM.
    pub fn of(&self, ek: &EkDigest) -> Decided<'_> {
        Decided { pinned: self.pinned.iter().find(|rule| rule.ek_sha256 == *ek), default: self.default }
    }

    pub(crate) fn check(&self) -> Result<(), ContentError> {
        if self.version != VERSION {
            return Err(ContentError::Version { got: self.version, known: VERSION });
        }
        let eks: BTreeSet<_> = self.pinned.iter().map(|rule| rule.ek_sha256).collect();
        let names: Vec<_> = self.pinned.iter().filter_map(|rule| rule.name.as_ref()).collect();
        let distinct: BTreeSet<_> = names.iter().collect();
        if eks.len() != self.pinned.len() {
            return Err(ContentError::Rule("`pinned` has two rules for one TPM; join them into one".to_owned()));
        }
        if distinct.len() != names.len() {
            return Err(ContentError::Rule("`pinned` gives one name to two TPMs".to_owned()));
        }
        Ok(())
    }
}
