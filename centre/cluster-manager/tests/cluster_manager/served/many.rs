//! Many clusters at once, and clients that get in each other's way.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use latchkey_factory_plus::manager::Phase;
use latchkey_test_support::until;
use serde_json::json;

use crate::served::rig::Rig;

/// So many at once. `cargo bench` of the whole measures the goal; this shows that nothing waits for another.
const CLUSTERS: usize = 20;

#[test]
fn many_clusters_are_set_up_side_by_side() {
    let rig = Rig::new();
    let objects: Vec<_> = (0..CLUSTERS).map(|_| rig.object()).collect();
    let start = Instant::now();
    for (number, cluster) in objects.iter().enumerate() {
        rig.write(*cluster, &rig.configuration(&format!("C{number}")));
    }
    rig.until("all", |all| (all.values().filter(|view| view.ready).count() == CLUSTERS).then_some(()));
    let all = start.elapsed();
    let start = Instant::now();
    rig.ready("One");
    println!("{CLUSTERS} clusters in {all:?}; one in {:?}", start.elapsed());
    assert_eq!(rig.members(rig.local.edge_flux).len(), CLUSTERS + 1);
}

/// Does both at the same time, as two clients do.
fn at_once(one: impl FnOnce() + Send, other: impl FnOnce() + Send) {
    let start = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            one();
        });
        start.wait();
        other();
    });
}

#[test]
fn of_two_who_put_one_name_at_once_one_gets_it_and_the_other_hears_who_has_it() {
    let rig = Rig::new();
    for round in 0..8_usize {
        let (one, other) = (rig.object(), rig.object());
        let names = [format!("Press_{round}"), format!("PRESS_{round}")];
        at_once(|| rig.write(one, &rig.configuration(&names[0])), || rig.write(other, &rig.configuration(&names[1])));
        let (ready, refused) = rig.until("one to be ready and one refused", |all| {
            let (one, other) = (all.get(&one)?.clone(), all.get(&other)?.clone());
            match (one.phase, other.phase) {
                (Phase::Ready, Phase::Refused) => Some((one, other)),
                (Phase::Refused, Phase::Ready) => Some((other, one)),
                _ => None,
            }
        });
        let error = refused.error.unwrap();
        let owner = if ready.name == names[0] { one } else { other };
        assert!(error.message.contains(&owner.to_string()) && !error.retried && !error.fix.is_empty(), "{error:?}");
        assert!(!refused.ready && ready.error.is_none());
        let account = |name: &str| rig.identity(&format!("op1flux/{name}@EXAMPLE.ORG"));
        assert!(account(&ready.name).is_some() && account(&refused.name).is_none());
        for role in [rig.local.edge_flux, rig.local.edge_krbkeys, rig.local.edge_sync, rig.local.edge_monitor] {
            assert_eq!(rig.members(role).len(), round + 1);
        }
    }
}

#[test]
fn a_cluster_that_is_deleted_and_made_again_at_once_ends_ready_with_the_accounts_it_had() {
    let rig = Rig::new();
    let cluster = rig.ready("Nord");
    let principals = ["flux", "krbkeys", "sync", "monitor"].map(|role| format!("op1{role}/Nord@EXAMPLE.ORG"));
    let accounts = principals.clone().map(|principal| rig.identity(&principal).unwrap());
    let roles = [rig.local.edge_flux, rig.local.edge_krbkeys, rig.local.edge_sync, rig.local.edge_monitor];
    let mut configuration = rig.configuration("Nord");
    for round in 0..12 {
        configuration["values"] = json!({ "round": round });
        let disabled = disablings(&rig);
        match round % 3 {
            // Whichever comes first: it is there in the end.
            0 => at_once(|| rig.delete_if_there(cluster), || rig.write(cluster, &configuration)),
            1 => {
                rig.delete_if_there(cluster);
                let deleting = |phase| matches!(phase, Phase::Deleting | Phase::Deleted);
                rig.until("the deletion", |all| deleting(all.get(&cluster)?.phase).then_some(()));
            }
            _ => {
                rig.delete_if_there(cluster);
                until("the KDC to be asked", || (disablings(&rig) > disabled).then_some(()));
            }
        }
        rig.write(cluster, &configuration);
        if round % 4 != 3 {
            continue; // the next one comes while this one is at work
        }
        let rolled_out = format!("round: {round}");
        let file = "edo/cluster/edge-cluster.yaml";
        until("the roll-out", || rig.cloned(cluster)?.get(file)?.contains(&rolled_out).then_some(()));
        let view = rig.until_phase(cluster, Phase::Ready);
        assert!(view.ready && view.error.is_none(), "{view:?}");
        assert_eq!(principals.clone().map(|principal| rig.identity(&principal).unwrap()), accounts);
        for (role, account) in roles.iter().zip(accounts) {
            assert_eq!(rig.members(*role), [account]);
        }
    }
    assert_eq!(rig.left_in_work(), 0);
    assert!(disablings(&rig) >= 4, "deletions were begun");
    // Whoever was disabled for a deletion is enabled again.
    let asked = rig.principals.asked.lock().unwrap().clone();
    let last = asked.iter().rposition(|asked| asked == "disable Nord").unwrap();
    let enabled = |principal: &String| asked[last..].contains(&format!("enable {principal}"));
    assert!(principals.iter().all(enabled), "{asked:?}");
}

/// How often the KDC was asked to disable a cluster's principals.
fn disablings(rig: &Rig) -> usize {
    rig.principals.asked.lock().unwrap().iter().filter(|asked| asked.starts_with("disable ")).count()
}
