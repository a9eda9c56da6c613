//! A cluster as people see it.

use latchkey_factory_plus::manager::{Cluster, Phase, Problem};
use latchkey_factory_plus::{Uuid, cluster};
use serde_json::Value;

use super::{Place, State};
use crate::machine::{self, SetupStatus, StatusError};

/// The most characters of a refused configuration's texts that are shown.
const MAX_TEXT: usize = 64;

/// One cluster; nothing where nothing is known of it. `theft`: see [`crate::links::Links::theft`].
pub(super) fn of(state: &State, place: &Place, cluster: Uuid, theft: Option<u64>) -> Option<Cluster> {
    let fleet = state.fleet.as_ref()?;
    let machine = fleet.machine(cluster)?;
    let status = machine.status();
    let wanted = state.configurations.get(&cluster).unwrap_or(&Value::Null);
    let spec = status.and_then(|status| status.spec.as_ref());
    let text = |field: &str| wanted[field].as_str().unwrap_or_default().chars().take(MAX_TEXT).collect::<String>();
    let name = machine.name().map_or_else(|| text("name"), ToString::to_string);
    let edge = state.edges.get(&cluster).map(AsRef::as_ref);
    Some(Cluster {
        group: format!("{}-{name}", place.organisation),
        name,
        namespace: spec.map_or_else(|| text("namespace"), |spec| spec.namespace.clone()),
        chart: spec.map_or_else(|| text("chart").parse().unwrap_or(Uuid::NIL), |spec| spec.chart),
        bare: spec.map_or_else(|| wanted["bare"] == true, |spec| spec.bare),
        phase: status.map_or(Phase::Refused, |status| phase(status.phase)),
        ready: status.is_some_and(|status| status.ready),
        since: status.map_or(0, |status| status.since),
        attempt: status.map_or(0, |status| status.attempt),
        error: problem(status, machine.unreadable()),
        bootstrapped: edge.is_some(),
        hosts: edge.map(|edge| edge.hosts.clone()).unwrap_or_default(),
        heartbeat: edge.and_then(|edge: &cluster::Status| edge.heartbeat),
        errors: edge.map(|edge| edge.errors.clone()).unwrap_or_default(),
        registration: state.registrations.get(&cluster).cloned(),
        sealing: edge.is_some_and(|edge| edge.kubeseal_cert.is_some()) && status.is_some_and(|status| status.ready),
        name_free: fleet.held_until(cluster),
        theft,
    })
}

fn problem(status: Option<&SetupStatus>, unreadable: Option<&StatusError>) -> Option<Problem> {
    if let Some(error) = unreadable {
        let fix = "an administrator mends the entry of \"Edge cluster setup status\"".to_owned();
        return Some(Problem { message: error.to_string(), fix, at: 0, retried: false });
    }
    let machine::Trouble { message, fix, at, retried } = status?.error.clone()?;
    Some(Problem { message, fix, at, retried })
}

const fn phase(phase: machine::Phase) -> Phase {
    match phase {
        machine::Phase::Refused => Phase::Refused,
        machine::Phase::Accounts => Phase::Accounts,
        machine::Phase::Repository => Phase::Repository,
        machine::Phase::Ready => Phase::Ready,
        machine::Phase::Deleting => Phase::Deleting,
        machine::Phase::Deleted => Phase::Deleted,
        machine::Phase::Decommissioning => Phase::Decommissioning,
        machine::Phase::Decommissioned => Phase::Decommissioned,
    }
}
