//! What holds whenever the manager is at rest.

use latchkey_factory_plus::cluster::Configuration;
use latchkey_factory_plus::{Role, Uuid, uuids};
use serde::Deserialize as _;

use super::Process;
use super::world::{World, accounts, is_of};
use crate::machine::{Phase, SetupStatus};
use crate::manifests::{self, fixture};

pub(super) fn hold(process: &Process) {
    let world = &process.world;
    assert_eq!(world.orphans(), [], "account objects, grants or identities without a status");
    let mut identities: Vec<_> = world.identities.values().collect();
    identities.dedup();
    assert_eq!(identities.len(), world.identities.len(), "a principal of two accounts");
    for cluster in world.configurations.keys().chain(world.statuses.keys()) {
        let status = world.status(*cluster).expect("a configuration that nothing is said of");
        let shown = process.fleet.machine(*cluster).and_then(|machine| machine.status());
        assert_eq!(shown.map(|shown| shown.phase), Some(status.phase), "shown and stored");
        let wanted = world.configurations.get(cluster).map(|entry| Configuration::deserialize(entry).unwrap());
        match (wanted, &status) {
            (None, status) => ended(world, *cluster, status),
            (Some(wanted), status) if status.error.is_none() => set_up(world, *cluster, &wanted, status),
            (Some(wanted), status) => refused(world, *cluster, &wanted, status),
        }
    }
}

/// All is there, once.
fn set_up(world: &World, cluster: Uuid, wanted: &Configuration, status: &SetupStatus) {
    let site = super::site();
    assert!(status.ready && status.phase == Phase::Ready && status.spec.as_ref() == Some(wanted), "{status:?}");
    for role in Role::ALL {
        let account = status.account(role).unwrap();
        assert!(account.done);
        assert_eq!(world.objects.get(&account.uuid), Some(&uuids::class::EDGE_SERVICE));
        assert_eq!(world.identities[&account.uuid], role.upn(&wanted.name, &site.realm));
        assert!(world.members.contains(&(site.classes.of(role), account.uuid)));
        let held: Vec<_> = world.grants.iter().filter(|grant| grant.principal == account.uuid).collect();
        assert!(held.iter().all(|grant| grant.target == cluster), "a grant beyond the own cluster: {held:?}");
        assert_eq!(held.len(), usize::from(matches!(role, Role::Flux | Role::Sync)));
        let enabled = world.principals.get(&role.upn(&wanted.name, &site.realm));
        assert_ne!(enabled, Some(&false), "a cluster that is set up has a disabled principal");
    }
    assert_eq!(world.addresses[&cluster].group_id, format!("ACME-{}", wanted.name));
    assert_eq!(world.addresses[&status.monitor.unwrap().uuid].node_id.as_deref(), Some("Monitor"));
    assert_eq!(world.repositories[&cluster], format!("cluster/{}", wanted.name));
    assert!(world.members.contains(&(site.classes.cluster, cluster)));
    let made = manifests::repository(cluster, wanted, &site.repositories, &fixture::templates()).unwrap();
    assert_eq!(world.files[&cluster], made.files);
    assert_eq!(status.self_link.as_ref(), Some(&made.self_link));
}

/// What ran, runs on as it was; where nothing ran, nothing was made.
fn refused(world: &World, cluster: Uuid, wanted: &Configuration, status: &SetupStatus) {
    assert!(!status.error.as_ref().unwrap().retried, "{:?}", status.error);
    match &status.spec {
        Some(spec) if status.ready => set_up_but_for_the_error(world, cluster, spec, status),
        Some(_) if status.phase == Phase::Deleted => ended(world, cluster, status),
        // Refused before it was ready: what was made is known, and waits for a configuration that can be carried out.
        Some(_) => {}
        None => {
            assert_eq!((status.phase, status.ready), (Phase::Refused, false));
            assert!(
                !world.addresses.contains_key(&cluster) && !world.repositories.contains_key(&cluster),
                "{wanted:?}"
            );
        }
    }
}

fn set_up_but_for_the_error(world: &World, cluster: Uuid, spec: &Configuration, status: &SetupStatus) {
    set_up(world, cluster, spec, &SetupStatus { error: None, ..status.clone() });
}

/// No right is left, the UUIDs are.
fn ended(world: &World, cluster: Uuid, status: &SetupStatus) {
    assert_eq!(status.phase, Phase::Deleted);
    assert!(!status.ready && status.disabled);
    let uuids: Vec<Uuid> = accounts(status).into_iter().map(|(uuid, _)| uuid).collect();
    assert_eq!(uuids.len(), 4);
    assert!(world.grants.iter().all(|grant| !uuids.contains(&grant.principal)));
    assert!(world.members.iter().all(|(_, object)| !uuids.contains(object) && *object != cluster));
    assert!(uuids.iter().all(|uuid| !world.identities.contains_key(uuid) && !world.addresses.contains_key(uuid)));
    assert!(!world.repositories.contains_key(&cluster) && !world.addresses.contains_key(&cluster));
    assert_ne!(world.links.get(&cluster), Some(&true), "a deleted cluster has a live link");
    let name = &status.spec.as_ref().unwrap().name;
    let of_cluster = world.principals.iter().filter(|(principal, _)| is_of(principal, name));
    of_cluster.for_each(|(principal, enabled)| assert!(!enabled, "{principal} is enabled"));
}

/// After everything was decommissioned.
pub(super) fn nothing_is_left(process: &Process) {
    let world = &process.world;
    assert!(world.statuses.is_empty(), "{:?}", world.statuses);
    assert!(world.objects.is_empty() && world.infos.is_empty() && world.addresses.is_empty());
    assert!(world.repositories.is_empty() && world.files.is_empty() && world.edge_statuses.is_empty());
    assert!(world.members.is_empty() && world.identities.is_empty() && world.grants.is_empty());
    assert!(world.principals.is_empty() && world.links.is_empty(), "{:?} {:?}", world.principals, world.links);
    assert_eq!(process.fleet.machines().count(), 0);
    assert_eq!(*process.fleet.names(), super::names());
}
