//! What the operator says of a machine that is let in, as a rule for its TPM; and what became of one that was removed.

use latchkey_cluster_store::{Enrolment, NodeName, NotDenied, PinnedRule, Role, RoleRule};

/// A field that is `None` leaves the rule, or the record, as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admission {
    /// Its role, if the operator says one.
    pub(crate) role: Option<Role>,
    /// Its name, if the operator says one.
    pub(crate) name: Option<NodeName>,
    /// The role that it has on record.
    pub(crate) on_record: Option<Role>,
}

impl Admission {
    /// Gives the TPM, which is not shut out, its rule; the rule as it is written. A role that is not said is that of the rule before, if
    /// that let it in, or the one on record; a new machine is a worker.
    pub(crate) fn write_into(&self, rules: &mut Enrolment, of: &NotDenied) -> PinnedRule {
        let before = rules.of(&of.ek()).pinned.and_then(|rule| rule.role.role());
        let role = match self.role.or(before).or(self.on_record) {
            Some(Role::ControlPlane) => RoleRule::ControlPlane,
            Some(Role::Worker) | None => RoleRule::Worker,
        };
        rules.admit(of.ek(), role, self.name.clone())
    }
}

/// A machine was removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removed {
    /// Whether it stays shut out.
    pub(crate) denied: bool,
}
