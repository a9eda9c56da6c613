//! What the operator's rules make of a request.

use super::refusal::Refusal;
use super::state::Now;
use latchkey_cluster_store::{
    Decided, Disk, DiskState, Enrolment, MAX_DISKS, MAX_RETIRED, NewDisk, NodeRecord, Role, RoleRule,
};
use latchkey_keys::Uuid;
use latchkey_kubelet_certificates::{Holder, Reserved};
use std::sync::Arc;

/// What the operator says of machines, and what is no machine's.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Who is let in as what.
    pub enrolment: Arc<Enrolment>,
    /// Names and addresses that mean the API server, or a service.
    pub reserved: Reserved,
    /// Whether a machine may get a name or a disk that its record does not have: not while services of the release before may run
    /// beside this one, and neither sees what the other gives.
    pub gives: bool,
}

/// Of a cluster whose API server nobody has described, and where nobody gives by other means.
impl From<Enrolment> for Rules {
    fn from(enrolment: Enrolment) -> Self {
        Self { enrolment: Arc::new(enrolment), reserved: Reserved::default(), gives: true }
    }
}

/// What a node is to who reserves names.
pub(super) fn holder(role: Role) -> Holder {
    match role {
        Role::ControlPlane => Holder::ControlPlane,
        Role::Worker => Holder::Worker,
    }
}

/// Pinned rule, then record, then default; a request for more than that is refused.
pub(super) fn role(decided: Decided<'_>, known: Option<&NodeRecord>, wished: Option<Role>) -> Result<Role, Refusal> {
    let pinned = decided.pinned.and_then(|rule| rule.role.role());
    let role = pinned.or(known.map(|record| record.role)).or(decided.default.role.role());
    let role = role.ok_or_else(|| not_let_in(decided.default.role))?;
    if wished == Some(Role::ControlPlane) && role != Role::ControlPlane { Err(Refusal::RoleDenied) } else { Ok(role) }
}

/// Why a rule without a role lets nobody in.
pub(super) fn not_let_in(rule: RoleRule) -> Refusal {
    if rule == RoleRule::Hold { Refusal::Held } else { Refusal::NotEnrolled }
}

/// The record's disks with this one: as it is, if it is there, else pending and with an epoch of its own.
pub(super) fn disks_with(
    record: &NodeRecord,
    uuid: Uuid,
    rule: NewDisk,
    key_version: u32,
    now: Now,
) -> Result<Vec<Disk>, Refusal> {
    let mut disks = record.disks.clone();
    if record.retired.contains(&uuid) {
        return Err(Refusal::DiskRetired);
    }
    if record.disk(uuid).is_some() {
        return Ok(disks);
    }
    if rule == NewDisk::Refuse {
        return Err(Refusal::NewDiskRefused);
    }
    // Retiring all of them later must not break the other bound.
    if disks.len() >= MAX_DISKS || record.retired.len() + disks.len() > MAX_RETIRED {
        return Err(Refusal::TooManyDisks);
    }
    let epoch = record.epoch().checked_add(1).ok_or(Refusal::TooManyDisks)?;
    disks.push(Disk { uuid, epoch, state: DiskState::Pending, key_version, issued_at: now.unix });
    Ok(disks)
}
