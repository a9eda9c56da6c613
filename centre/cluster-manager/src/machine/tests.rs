//! What people see of a machine, and its bounds.

use std::collections::BTreeSet;

use latchkey_factory_plus::Role;
use serde_json::{Value, json};

use super::simulation::{cluster, names, site};
use super::*;

const MOMENT: Moment = Moment { now: 1_000, random: [9; RANDOM_BYTES] };

fn configuration(name: &str) -> Value {
    json!({"chart": "aaaaaaaa-0000-4000-8000-000000000000", "name": name, "namespace": "fplus-edge"})
}

fn tell(machine: &mut Machine, event: Event) -> Vec<Order> {
    machine.handle(&MOMENT, event, &site(), &names())
}

fn recorded(orders: &[Order]) -> &SetupStatus {
    match orders {
        [Order { effect: Effect::Record(status), .. }] => status,
        other => panic!("{other:?}"),
    }
}

/// The error that a new cluster with this entry shows.
fn refused(entry: Value) -> Trouble {
    let mut machine = Machine::new(cluster(0), None, 0);
    let orders = tell(&mut machine, Event::Configuration(Some(entry)));
    let status = recorded(&orders);
    assert!(!status.ready && status.flux.is_none() && status.phase == Phase::Refused);
    status.error.clone().unwrap()
}

#[test]
fn a_refused_configuration_says_why_and_how_to_mend_it() {
    let cases = [
        (configuration("example"), "EXAMPLE.ORG"),
        (configuration("GIT"), "the host git.example.org"),
        (configuration("kdc"), "the host kdc.example.org"),
        (configuration("anna"), "ending in /Anna"),
        (configuration("admin"), "means something to YAML or to the KDC"),
        (configuration("123"), "begins with a letter"),
        (json!({"chart": "x", "name": "A", "namespace": "n"}), "written as 36 characters"),
        (json!([]), "the configuration cannot be read"),
        (json!("x".repeat(MAX_CONFIGURATION)), "bytes"),
    ];
    for (entry, message) in cases {
        let error = refused(entry);
        assert!(error.message.contains(message), "{:?} lacks {message:?}", error.message);
        assert!(!error.fix.is_empty() && !error.retried);
    }
    for namespace in ["", "A", "a/b", "kube-system", "a.b", "$(x)"] {
        let mut entry = configuration("North");
        entry["namespace"] = namespace.into();
        assert!(refused(entry).message.contains("cannot be deployed to"), "{namespace}");
    }
    let mut extra = configuration("North");
    extra["colour"] = json!(1);
    assert!(refused(extra).message.contains("unknown field `colour`"));
}

/// A machine whose cluster is set up.
fn ready() -> Machine {
    let uuid = "dddddddd-0000-4000-8000-00000000000";
    let account = |last: u8| json!({"uuid": format!("{uuid}{last}"), "done": true});
    let stored = json!({
        "spec": configuration("North"), "ready": true, "phase": "ready", "since": 1, "updated": 1, "generation": 1,
        "flux": account(1), "krbkeys": account(2), "sync": account(3), "monitor": account(4), "self_link": "x",
        "rendered": "00",
    });
    Machine::new(cluster(0), Some(&stored), 0)
}

#[test]
fn a_cluster_that_is_set_up_costs_nothing_at_the_next_start() {
    assert_eq!(tell(&mut ready(), Event::Configuration(Some(configuration("North")))), []);
}

#[test]
fn a_running_cluster_is_untouched_by_another_name_or_namespace() {
    let mut moved = configuration("North");
    moved["namespace"] = "elsewhere".into();
    for (entry, message) in
        [(configuration("South"), "cannot be renamed to South"), (moved, "cannot be moved to elsewhere")]
    {
        let mut machine = ready();
        let orders = tell(&mut machine, Event::Configuration(Some(entry)));
        let status = recorded(&orders);
        assert!(status.ready && status.phase == Phase::Ready);
        assert!(status.error.as_ref().unwrap().message.contains(message));
        assert_eq!(tell(&mut machine, Event::Answer { id: orders[0].id, answer: Answer::Done }), []);
        // Written back, the error goes.
        let orders = tell(&mut machine, Event::Configuration(Some(configuration("North"))));
        assert_eq!(recorded(&orders).error, None);
    }
}

#[test]
fn a_failure_is_recorded_and_tried_again_later_and_later() {
    let mut machine = Machine::new(cluster(0), None, 0);
    let mut orders = tell(&mut machine, Event::Configuration(Some(configuration("North"))));
    let done = |machine: &mut Machine, id| tell(machine, Event::Answer { id, answer: Answer::Done });
    orders = done(&mut machine, orders[0].id);
    let mut waits = vec![];
    for attempt in 1..=12 {
        assert!(matches!(orders[0].effect, Effect::PutSparkplugAddress { .. }));
        let answer = Answer::Refused { status: 403, detail: "no\nright".into() };
        orders = tell(&mut machine, Event::Answer { id: orders[0].id, answer });
        let status = recorded(&orders);
        let error = status.error.as_ref().unwrap();
        assert_eq!(status.attempt, attempt);
        assert!(error.message.contains("the configuration database answered 403: no right"), "{}", error.message);
        assert!(error.fix.contains("lacks a right") && error.retried);
        orders = done(&mut machine, orders[0].id);
        let Effect::SetTimer { after_ms } = orders[0].effect else { panic!("{orders:?}") };
        waits.push(after_ms);
        // A timer of before changes nothing.
        assert_eq!(tell(&mut machine, Event::Timer { id: orders[0].id - 1 }), []);
        orders = tell(&mut machine, Event::Timer { id: orders[0].id });
    }
    // The step is done at last: nobody is told of its failures any more.
    done(&mut machine, orders[0].id);
    let status = machine.status().unwrap();
    assert_eq!((status.attempt, &status.error), (0, &None));
    for (doublings, wait) in waits.iter().enumerate() {
        let bound = (FIRST_MS << doublings).min(CEILING_MS);
        assert!((bound / 2..=bound).contains(wait), "wait {doublings} of {waits:?}");
    }
}

#[test]
fn waits_of_clusters_that_fail_together_differ() {
    let waits: BTreeSet<u64> =
        (0..100).map(|random: u64| backoff::wait_ms(5, random.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    assert!(waits.len() > 90, "{waits:?}");
    assert!(backoff::wait_ms(u32::MAX, u64::MAX) <= CEILING_MS);
}

#[test]
fn a_status_that_cannot_be_read_is_never_overwritten() {
    let account = json!({"uuid": cluster(1), "done": true});
    let base = json!({"ready": false, "phase": "ready", "since": 1, "updated": 1, "generation": 1});
    let mut partial = base.clone();
    partial["flux"] = account;
    let mut extra = base;
    extra["colour"] = json!(1);
    for stored in [json!({}), json!(null), json!({"ready": 1}), partial, extra] {
        let mut machine = Machine::new(cluster(0), Some(&stored), 0);
        assert!(machine.unreadable().is_some(), "{stored}");
        for event in
            [Event::Configuration(Some(configuration("North"))), Event::Configuration(None), Event::Decommission]
        {
            assert_eq!(tell(&mut machine, event), []);
        }
        assert_eq!(machine.may_decommission(), Err(DecommissionError::Unreadable));
    }
}

#[test]
fn a_status_that_cannot_be_read_still_holds_its_name() {
    let mut fleet = Fleet::new(site(), names());
    fleet.restore(cluster(0), &json!({"spec": configuration("North"), "colour": 1}));
    fleet.handle(cluster(0), &MOMENT, Event::Configuration(Some(configuration("North"))));
    let told = fleet.handle(cluster(1), &MOMENT, Event::Configuration(Some(configuration("NORTH"))));
    assert!(recorded(&told.orders).error.as_ref().unwrap().message.contains(&cluster(0).to_string()));
}

#[test]
fn only_a_deleted_cluster_is_decommissioned() {
    let mut machine = ready();
    assert_eq!(machine.may_decommission(), Err(DecommissionError::Configured), "not known yet");
    tell(&mut machine, Event::Configuration(Some(configuration("North"))));
    assert_eq!(machine.may_decommission(), Err(DecommissionError::Configured));
    assert_eq!(tell(&mut machine, Event::Decommission), []);
    let orders = tell(&mut machine, Event::Configuration(None));
    assert_eq!(recorded(&orders).phase, Phase::Deleting);
    assert_eq!(machine.may_decommission(), Ok(()));
}

#[test]
fn a_changed_template_rewrites_the_repository_and_an_unchanged_one_does_not() {
    let mut machine = ready();
    tell(&mut machine, Event::Configuration(Some(configuration("North"))));
    let mut writes = 0;
    for _ in 0..2 {
        let mut orders = tell(&mut machine, Event::Refresh);
        while let Some(order) = orders.pop() {
            let answer = match order.effect {
                Effect::ReadTemplates { .. } => Answer::Templates(Box::new(crate::manifests::fixture::templates())),
                Effect::WriteRepository { .. } => {
                    writes += 1;
                    Answer::Done
                }
                _ => Answer::Done,
            };
            orders = tell(&mut machine, Event::Answer { id: order.id, answer });
        }
    }
    assert_eq!((writes, machine.status().unwrap().generation), (1, 2));
}

#[test]
fn bad_templates_are_told_and_the_cluster_runs_on() {
    let mut machine = ready();
    tell(&mut machine, Event::Configuration(Some(configuration("North"))));
    let orders = tell(&mut machine, Event::Refresh);
    let mut templates = crate::manifests::fixture::templates();
    templates.flux = json!([]);
    let orders = tell(&mut machine, Event::Answer { id: orders[0].id, answer: Answer::Templates(Box::new(templates)) });
    let status = recorded(&orders);
    assert!(status.ready);
    assert!(status.error.as_ref().unwrap().message.contains("the Flux template is no object of file names"));
}

#[test]
fn accounts_have_rights_for_their_own_cluster_alone() {
    for role in Role::ALL {
        if let Some(grant) = role.grant(cluster(1), cluster(0)) {
            assert_eq!((grant.principal, grant.target, grant.plural), (cluster(1), cluster(0), false));
        }
    }
    let name = "North".parse().unwrap();
    assert_eq!(Role::KrbKeys.upn(&name, &"EXAMPLE.ORG".parse().unwrap()).as_str(), "op1krbkeys/North@EXAMPLE.ORG");
}

#[test]
fn a_set_up_takes_few_steps() {
    let mut machine = Machine::new(cluster(0), None, 0);
    let mut orders = tell(&mut machine, Event::Configuration(Some(configuration("North"))));
    let (mut steps, mut records) = (0, 0);
    while let Some(order) = orders.pop() {
        steps += 1;
        records += usize::from(matches!(order.effect, Effect::Record(_)));
        let answer = match order.effect {
            Effect::ReadTemplates { .. } => Answer::Templates(Box::new(crate::manifests::fixture::templates())),
            _ => Answer::Done,
        };
        orders = tell(&mut machine, Event::Answer { id: order.id, answer });
    }
    assert!(machine.status().unwrap().ready);
    assert_eq!((steps, records), (27, 3), "each is a round trip, and a record is a durable write");
}
