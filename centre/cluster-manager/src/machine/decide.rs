//! From what is wanted and what there is to what is to be done.

use latchkey_factory_plus::Uuid;
use serde_json::Value;

use super::checks::check;
use super::plan::{self, Note, Plan, Step};
use super::{NameRefusal, Names, Phase, Refusal, SetupStatus, Site};

/// What the configuration database says of a cluster.
#[derive(Debug, PartialEq)]
pub(super) enum Wanted {
    /// Nobody has told yet.
    Unknown,
    /// There is no configuration.
    Nothing,
    /// There is this one.
    Entry(Value),
}

/// What an operator asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wishes {
    /// The repository's files, anew.
    pub(super) refresh: bool,
    /// The removal of everything.
    pub(super) decommission: bool,
}

/// The plan for a cluster with this status, and why its configuration is refused, if it is.
pub(super) fn decide(
    cluster: Uuid,
    wanted: &Wanted,
    wishes: Wishes,
    status: Option<&SetupStatus>,
    site: &Site,
    names: &Names,
) -> (Plan, Option<Refusal>) {
    if let Some((status, until)) = status.and_then(|status| Some((status, status.held_until(site)?))) {
        return end(wanted, status, until);
    }
    if let Some(status) = status.filter(|status| wishes.decommission || status.decommission) {
        return (removal(cluster, status, site), None);
    }
    let entry = match (wanted, status) {
        (Wanted::Unknown, _) | (Wanted::Nothing, None) => return (Plan::new(), None),
        (Wanted::Nothing, Some(status)) => return (deletion(cluster, status, site), None),
        (Wanted::Entry(entry), _) => entry,
    };
    let wanted = match check(cluster, entry, status, names) {
        Ok(wanted) => wanted,
        Err(refusal) => return (refused(cluster, &refusal, status, site), Some(refusal)),
    };
    let plan = match status.filter(|status| status.ready) {
        None => plan::set_up(cluster, wanted, site, status),
        Some(status) if status.spec.as_ref() != Some(&wanted) || wishes.refresh => plan::roll_out(wanted).into(),
        Some(status) if status.error.is_some() => Plan::from([Step::Note(Note::Settled)]),
        Some(_) => Plan::new(),
    };
    (plan, None)
}

/// What is decommissioned does not come back, not under its own UUID either, before its name is free.
fn end(wanted: &Wanted, status: &SetupStatus, until: u64) -> (Plan, Option<Refusal>) {
    let mut plan = Plan::from(plan::END);
    let (Wanted::Entry(_), Some(spec)) = (wanted, &status.spec) else { return (plan, None) };
    let refusal = Refusal::Name(NameRefusal::Held { name: spec.name.clone(), until });
    if !has_said(&refusal, Some(status)) {
        plan.push_front(Step::Note(Note::Refused(refusal.clone())));
    }
    (plan, Some(refusal))
}

fn removal(cluster: Uuid, status: &SetupStatus, site: &Site) -> Plan {
    if status.has_accounts() { plan::decommission(cluster, site, status) } else { Plan::from([Step::Forget]) }
}

fn deletion(cluster: Uuid, status: &SetupStatus, site: &Site) -> Plan {
    match status.phase {
        _ if !status.has_accounts() => Plan::from([Step::Forget]),
        Phase::Deleted => Plan::new(),
        _ => plan::delete(cluster, site, status),
    }
}

/// Says why, once; a deletion that has begun is finished first.
fn refused(cluster: Uuid, refusal: &Refusal, status: Option<&SetupStatus>, site: &Site) -> Plan {
    let mut plan = match status {
        Some(status) if status.phase == Phase::Deleting => plan::delete(cluster, site, status),
        _ => Plan::new(),
    };
    if !plan.is_empty() || !has_said(refusal, status) {
        plan.push_back(Step::Note(Note::Refused(refusal.clone())));
    }
    plan
}

/// Whether the status has this refusal already.
fn has_said(refusal: &Refusal, status: Option<&SetupStatus>) -> bool {
    let said = status.and_then(|status| status.error.as_ref());
    said.is_some_and(|said| said.message == refusal.to_string())
}
