//! The service killed between any two effects: one cluster all the same.

use super::admissions::enrolled;
use super::machine::Machine;
use super::rig::{Rig, rule};
use latchkey_factory_plus::cluster::Configuration;
use latchkey_factory_plus::manager::Phase;
use latchkey_factory_plus::uuids::{application, class};
use latchkey_factory_plus_client::Precondition;
use latchkey_test_support::block_on;
use std::collections::BTreeSet;

/// Kills the service at every moment that the centre or the disk tells of, and asks again each time.
#[test]
fn a_service_that_is_killed_anywhere_takes_up_one_cluster() {
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    rig.rules(&rule(10));
    let db = rig.centre.db();
    let objects = || block_on(db.members(class::EDGE_CLUSTER)).unwrap().unwrap().into_iter().collect::<BTreeSet<_>>();
    let entries = |app| block_on(db.entries(app)).unwrap().unwrap_or_default().len();
    let records = || std::fs::metadata(rig.store.records_path()).map_or(0, |file| file.len());
    let empty = records();
    let moments: [(&str, &dyn Fn() -> bool); 4] = [
        ("the record", &|| records() > empty),
        ("the object", &|| !objects().is_empty()),
        ("the registration", &|| entries(application::EDGE_CLUSTER_REGISTRATION) > 0),
        ("the configuration", &|| entries(application::EDGE_CLUSTER_CONFIGURATION) > 0),
    ];
    for (what, reached) in moments {
        let service = rig.start();
        let peer = *service;
        let asking = machine.clone();
        let call = std::thread::spawn(move || drop(peer.enrol(&asking, None)));
        while !reached() && !call.is_finished() {
            std::thread::yield_now();
        }
        service.kill();
        call.join().unwrap();
        assert!(objects().len() <= 1, "after {what}");
    }
    // Who is there first has changed something already.
    let (app, cluster) = (application::EDGE_CLUSTER_CONFIGURATION, *objects().first().unwrap());
    let mut changed = block_on(db.entry::<Configuration>(app, cluster)).unwrap().unwrap().0;
    changed.values.insert("by".into(), "somebody".into());
    block_on(db.put_entry(app, cluster, &changed, &Precondition::None)).unwrap();
    let service = rig.start();
    let got = enrolled(service.enrol(&machine, None).unwrap());
    assert_eq!(block_on(db.entry::<Configuration>(app, cluster)).unwrap().unwrap().0, changed);
    assert_eq!(objects().into_iter().map(|object| object.to_string()).collect::<Vec<_>>(), [got.cluster_uuid.as_str()]);
    assert_eq!(entries(application::EDGE_CLUSTER_CONFIGURATION), 1);
    assert_eq!(entries(application::EDGE_CLUSTER_REGISTRATION), 1);
    assert_eq!(got.name, "Line_1");
}

#[test]
fn a_cluster_that_was_deleted_does_not_come_back_by_itself() {
    let machine = Machine::new(1);
    let rig = Rig::new(&[&machine]);
    rig.rules(&rule(10));
    let service = rig.start();
    let got = enrolled(service.enrol(&machine, None).unwrap());
    rig.centre.delete(got.cluster_uuid.parse().unwrap());
    assert_eq!(service.enrol(&machine, None).unwrap_err().code(), "enrol-cluster-deleted");
}

#[test]
fn the_name_of_a_cluster_that_was_decommissioned_is_used_again() {
    let (first, second) = (Machine::new(1), Machine::new(2));
    let rig = Rig::new(&[&first, &second]);
    let service = rig.start();
    let old = enrolled(service.enrol(&first, Some(&rig.invite("Press_4"))).unwrap());
    let cluster = old.cluster_uuid.parse().unwrap();
    let again = rig.invite("press_4");
    // Neither while it is set up, nor while its principals wait for the day that its configuration comes back.
    assert_eq!(service.enrol(&second, Some(&again)).unwrap_err().code(), "enrol-name-taken");
    rig.centre.delete(cluster);
    rig.centre.until_phase(cluster, Phase::Deleted);
    assert_eq!(service.enrol(&second, Some(&again)).unwrap_err().code(), "enrol-name-taken");
    rig.centre.decommission(cluster);
    let new = enrolled(service.enrol(&second, Some(&again)).unwrap());
    assert_eq!(new.name, "press_4");
    assert_ne!(new.cluster_uuid, old.cluster_uuid);

    // Whoever had the name before does not come back for it, also after a restart.
    service.kill();
    let service = rig.start();
    assert_eq!(service.enrol(&first, None).unwrap_err().code(), "enrol-cluster-deleted");
    assert_eq!(enrolled(service.enrol(&second, None).unwrap()).cluster_uuid, new.cluster_uuid);
}
