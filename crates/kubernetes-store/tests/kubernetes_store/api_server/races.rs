//! Two services at once.

use crate::api_server::Cluster;
use crate::api_server::cluster::{ek, put, record, told};
use latchkey_cluster_store::{NodeRecord, PutError, PutRefusal, RecordStore as _, Recorded, Role};
use latchkey_kubernetes_store::KubernetesStore;
use latchkey_test_support::until;
use std::sync::Barrier;

const ROUNDS: u64 = 100;

type Outcome = Result<Recorded, PutError>;

/// Both put at the same moment.
fn at_once(stores: [&KubernetesStore; 2], records: [&NodeRecord; 2]) -> [Outcome; 2] {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|which| {
            let (store, record, barrier) = (stores[which], records[which], &barrier);
            scope.spawn(move || {
                barrier.wait();
                put(store, record, None)
            })
        });
        threads.map(|thread| thread.join().unwrap())
    })
}

/// Who won, and what the other was told.
fn one_won(outcomes: [Outcome; 2]) -> PutRefusal {
    let told: Vec<_> = outcomes
        .into_iter()
        .filter_map(|outcome| match outcome {
            Ok(_) => None,
            Err(PutError::Refused(refusal)) => Some(refusal),
            Err(PutError::Store(error)) => panic!("{error}"),
        })
        .collect();
    assert_eq!(told.len(), 1, "one wins, and one does not: {told:?}");
    told[0]
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn two_services_at_once_never_give_one_name_one_disk_or_one_machine_twice() {
    let cluster = Cluster::start();
    let (one, other) = (cluster.store(), cluster.store());
    for round in 1..=ROUNDS {
        let (first, second) = (3 * round, 3 * round + 1);
        let name = format!("name-{round}");
        let records = [record(first, &name, 2 * first), record(second, &name, 2 * second)];
        assert_eq!(one_won(at_once([&one, &other], [&records[0], &records[1]])), PutRefusal::NameTaken);
    }
    for round in 1..=ROUNDS {
        let (first, second, disk) = (10_000 + 3 * round, 10_001 + 3 * round, 1_000_000 + round);
        let records = [record(first, &format!("d1-{round}"), disk), record(second, &format!("d2-{round}"), disk)];
        assert_eq!(one_won(at_once([&one, &other], [&records[0], &records[1]])), PutRefusal::DiskTaken);
    }
    for round in 1..=ROUNDS {
        let (machine, disk) = (20_000 + round, 2_000_000 + 2 * round);
        // The same machine at two services: there is one record.
        let records =
            [record(machine, &format!("m1-{round}"), disk), record(machine, &format!("m2-{round}"), disk + 1)];
        assert_eq!(one_won(at_once([&one, &other], [&records[0], &records[1]])), PutRefusal::Overtaken);
    }
    assert_eq!(cluster.count("attestednodes"), usize::try_from(3 * ROUNDS).unwrap());
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn two_services_at_once_never_give_one_name_to_two_machines_that_are_on_record() {
    let cluster = Cluster::start();
    let stores = [cluster.store(), cluster.store()];
    for round in 1..=20 {
        let machines = [0, 1].map(|which| {
            let number = 2 * round + which;
            let before = put(&stores[0], &record(number, &format!("former-{number}"), number), None).unwrap();
            until("it to be heard of", || told(&stores[1], &ek(number)));
            before
        });
        let barrier = Barrier::new(2);
        let outcomes = std::thread::scope(|scope| {
            let threads = [0, 1].map(|which| {
                let (store, before, barrier) = (&stores[which], &machines[which], &barrier);
                let next = NodeRecord { name: format!("n-{round}").parse().unwrap(), ..before.clone().into_inner() };
                scope.spawn(move || {
                    barrier.wait();
                    put(store, &next, Some(before))
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(won, 1, "{outcomes:?}");
        assert_eq!(one_won(outcomes), PutRefusal::NameTaken);
    }
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn of_five_hundred_machines_that_come_at_once_nobody_is_lost() {
    const MACHINES: u64 = 500;
    let cluster = Cluster::start();
    let stores = [cluster.store(), cluster.store()];
    std::thread::scope(|scope| {
        for thread in 0..48 {
            let store = &stores[usize::from(thread % 2 == 1)];
            scope.spawn(move || {
                for number in (1..=MACHINES).filter(|number| number % 48 == thread) {
                    put(store, &record(number, &format!("n-{number}"), number), None).unwrap();
                }
            });
        }
    });
    assert_eq!(cluster.count("attestednodes"), usize::try_from(MACHINES).unwrap());
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn whoever_was_overtaken_hears_of_it_before_deciding_anew() {
    let cluster = Cluster::start();
    let (one, other) = (cluster.store(), cluster.store());
    let first = put(&one, &record(1, "a", 1), None).unwrap();
    // The other has not looked since; what it decided on is that there is no such machine.
    assert!(matches!(put(&other, &record(1, "b", 2), None), Err(PutError::Refused(PutRefusal::Overtaken))));
    assert_eq!(told(&other, &ek(1)), Some(first.clone()));
    let next = NodeRecord { first_joined_at: 7, ..first.clone().into_inner() };
    let second = put(&other, &next, told(&other, &ek(1)).as_ref()).unwrap();
    assert!(second.revision() > first.revision());
    assert!(matches!(put(&one, &next, Some(&first)), Err(PutError::Refused(PutRefusal::Overtaken))));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn one_control_plane_joins_at_a_time_whichever_service_lets_it_in() {
    let cluster = Cluster::start();
    let (one, other) = (cluster.store(), cluster.store());
    let joining = |number: u64| NodeRecord {
        role: Role::ControlPlane,
        joining_since: Some(1_800_000_000 + number),
        ..record(number, &format!("cp-{number}"), number)
    };
    let mut records = [joining(1), joining(2)];
    for round in 0..20 {
        let outcomes = at_once([&one, &other], [&records[0], &records[1]]);
        let winner = usize::from(outcomes[0].is_err());
        assert_eq!(one_won(outcomes), PutRefusal::LeaseHeld, "round {round}");
        // It reports; then both ask anew, as machines that are not on record yet.
        let store = [&one, &other][winner];
        let before = told(store, &records[winner].ek_sha256).unwrap();
        let reported = NodeRecord { joining_since: None, ..before.clone().into_inner() };
        put(store, &reported, Some(&before)).unwrap();
        let number = 10 + 2 * round;
        records = [joining(number), joining(number + 1)];
    }
    drop((one.turn(), other.turn()));
}
