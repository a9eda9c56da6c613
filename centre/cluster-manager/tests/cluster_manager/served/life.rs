//! A cluster from its configuration to its end.

use latchkey_factory_plus::cluster::{RegisteredBy, RegisteredImage, Registration, Status};
use latchkey_factory_plus::manager::{Cluster, NameAnswer, Phase};
use latchkey_factory_plus::uuids::application;
use latchkey_factory_plus_client::CallError;
use latchkey_test_support::{block_on, until};
use serde_json::json;

use crate::served::rig::{ADMIN, NOBODY, Rig};

#[test]
fn a_configuration_becomes_a_cluster_and_its_deletion_ends_it() {
    let mut rig = Rig::new();
    let cluster = rig.configure("Nord");
    let view = rig.until_phase(cluster, Phase::Ready);
    assert_eq!((view.name.as_str(), view.group.as_str(), view.ready), ("Nord", "ACME-Nord", true));
    assert_eq!((view.error.is_none(), view.bootstrapped, view.chart), (true, false, rig.local.cluster_chart));

    let files = rig.cloned(cluster).unwrap();
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = ["edge-cluster.yaml", "flux-system.yaml", "helm-charts.yaml", "secrets.yaml", "self-link.yaml"];
    let expected = expected.map(|name| format!("edo/cluster/{name}"));
    let expected = expected.iter().map(String::as_str);
    assert_eq!(names, ["README.md"].into_iter().chain(expected).chain(["edo/secrets/README.md"]).collect::<Vec<_>>());
    assert!(files["edo/cluster/self-link.yaml"].contains(&format!("/uuid/{cluster}")));
    assert_eq!(rig.entry(application::SPARKPLUG_ADDRESS, cluster), Some(json!({"group_id": "ACME-Nord"})));
    let principals = ["flux", "krbkeys", "sync", "monitor"].map(|role| format!("op1{role}/Nord@EXAMPLE.ORG"));
    let accounts = principals.clone().map(|principal| rig.identity(&principal).unwrap());
    let roles = [rig.local.edge_flux, rig.local.edge_krbkeys, rig.local.edge_sync, rig.local.edge_monitor];
    for (role, account) in roles.into_iter().zip(accounts) {
        assert_eq!(rig.members(role), [account]);
    }
    assert_eq!(rig.left_in_work(), 0);

    // A changed value is rolled out (§11.9); what is the same makes no commit, also after a restart.
    let mut changed = rig.configuration("Nord");
    changed["values"] = json!({"replicas": 3});
    rig.write(cluster, &changed);
    // A cluster that is rolled out stays ready: nothing in its view tells.
    until("the roll-out", || rig.cloned(cluster)?["edo/cluster/edge-cluster.yaml"].contains("replicas").then_some(()));
    rig.start_manager();
    rig.until_phase(cluster, Phase::Ready);
    assert_eq!(rig.commits(cluster), 2);

    rig.delete(cluster);
    rig.until_phase(cluster, Phase::Deleted);
    assert!(principals.iter().all(|principal| rig.identity(principal).is_none()));
    assert!(roles.into_iter().all(|role| rig.members(role).is_empty()));
    assert_eq!(rig.entry(application::SPARKPLUG_ADDRESS, cluster), None);
    assert_eq!(*rig.principals.asked.lock().unwrap(), ["disable Nord"]);
    // Names are held for the day the configuration comes back.
    let twin = rig.configure("NORD");
    rig.until("the refusal", |all| all.get(&twin)?.error.as_ref().filter(|error| !error.retried).map(drop));
    rig.delete(twin);

    rig.write(cluster, &changed);
    rig.until_phase(cluster, Phase::Ready);
    let again = principals.clone().map(|principal| rig.identity(&principal).unwrap());
    assert_eq!(again, accounts, "a deployed edge keeps its accounts");
    let enabled = principals.map(|principal| format!("enable {principal}"));
    assert_eq!(rig.principals.asked.lock().unwrap()[1..], enabled);

    let manager = rig.service(ADMIN);
    let path = format!("v1/cluster/{cluster}/decommission");
    let refused = block_on(manager.post_only(&path, &json!({}))).unwrap_err();
    assert!(matches!(refused, CallError::Conflict { .. }), "{refused}");
    rig.delete(cluster);
    rig.until_phase(cluster, Phase::Deleted);
    let forbidden = block_on(rig.service(NOBODY).post_only(&path, &json!({}))).unwrap_err();
    assert!(matches!(forbidden, CallError::Forbidden { .. }), "{forbidden}");
    rig.decommission(cluster);
    assert_eq!(rig.principals.asked.lock().unwrap().last().unwrap(), "delete Nord");
    assert_eq!(rig.entry(application::EDGE_CLUSTER_SETUP_STATUS, cluster), None);
    assert_eq!(rig.cloned(cluster), None);
}

#[test]
fn the_name_of_a_cluster_that_was_decommissioned_is_free_again() {
    let mut rig = Rig::new();
    let first = rig.ready("Nord");
    rig.delete(first);
    rig.until_phase(first, Phase::Deleted);
    // Somebody waits for it already; others come later, also after a restart.
    let second = rig.configure("NORD");
    rig.until("the refusal", |all| all.get(&second)?.error.as_ref().filter(|error| !error.retried).map(drop));
    rig.ask_to_decommission(first);
    rig.until("the refusal for what it had", |all| {
        all.get(&second)?.error.as_ref().filter(|error| error.message.contains("decommissioned")).map(drop)
    });
    let view = rig.until_phase(second, Phase::Ready);
    rig.is_gone(first);
    assert_eq!((view.name.as_str(), view.error), ("NORD", None));
    assert!(rig.cloned(second).is_some());
    let account = rig.identity("op1flux/NORD@EXAMPLE.ORG").unwrap();
    assert_eq!((rig.identity("op1flux/Nord@EXAMPLE.ORG"), rig.members(rig.local.edge_flux)), (None, vec![account]));
    rig.delete(second);
    rig.until_phase(second, Phase::Deleted);
    rig.decommission(second);
    rig.start_manager();
    assert_eq!(rig.until_phase(rig.configure("Nord"), Phase::Ready).error, None);
}

#[test]
fn a_decommissioning_whose_objects_are_gone_ends() {
    let rig = Rig::new();
    let cluster = rig.ready("Nord");
    let account = rig.identity("op1sync/Nord@EXAMPLE.ORG").unwrap();
    rig.delete(cluster);
    rig.until_phase(cluster, Phase::Deleted);
    // As after a death between this and the record of the end: what comes first is done once more.
    block_on(rig.db().delete_object(account)).unwrap();
    rig.decommission(cluster);
    assert_eq!(rig.entry(application::EDGE_CLUSTER_SETUP_STATUS, cluster), None);
}

#[test]
fn a_name_that_is_taken_is_refused_with_what_helps() {
    let rig = Rig::new();
    let first = rig.ready("Nord");
    for (name, why) in [("nord", first.to_string()), ("operators", "principal".into()), ("clusters", "host".into())] {
        let other = rig.configure(name);
        let error = rig.until(name, |all| all.get(&other)?.error.clone());
        assert!(error.message.contains(&why) && !error.retried && !error.fix.is_empty(), "{error:?}");
    }
}

#[test]
fn a_changed_set_up_of_the_site_ends_nothing() {
    let rig = Rig::new();
    let cluster = rig.ready("Nord");
    let (app, object) = (application::SERVICE_CONFIG, latchkey_factory_plus::uuids::service::CLUSTER_MANAGER);
    let mut entry = rig.entry(app, object).unwrap();
    entry["repo"]["helm"]["uuid"] = json!(cluster);
    let when = latchkey_factory_plus_client::Precondition::None;
    block_on(rig.db().put_entry(app, object, &entry, &when)).unwrap();
    let helm = format!("/uuid/{cluster}");
    until("the roll-out", || rig.cloned(cluster)?["edo/cluster/helm-charts.yaml"].contains(&helm).then_some(()));
    rig.ready("Sued");
}

#[test]
fn what_a_machine_registered_and_what_its_edge_says_is_shown_with_the_cluster() {
    let mut rig = Rig::new();
    let cluster = rig.ready("Nord");
    let view = rig.until_phase(cluster, Phase::Ready);
    assert_eq!((view.registration, view.errors.len()), (None, 0));
    let record = Registration {
        ek_sha256: "ab".repeat(32),
        image: RegisteredImage {
            manifest: "edge".into(),
            serial: 3,
            name: "edge-node".into(),
            version: "1.2.0".into(),
            machine: "test".into(),
        },
        policy_sha256: "cd".repeat(32),
        by: RegisteredBy::Rule("line".into()),
        at: 1_800_000_000,
    };
    rig.register(cluster, &record);
    let errors = vec!["The deployment Press cannot be applied: no such namespace".to_owned(), "é".repeat(1024)];
    rig.report(cluster, &Status { errors: errors.clone(), ..Status::default() });
    let shown = |rig: &Rig| {
        let shown = |view: &&Cluster| view.registration.is_some() && !view.errors.is_empty();
        rig.until("the record and the problems", |all| all.get(&cluster).filter(shown).cloned())
    };
    let view = shown(&rig);
    assert_eq!((view.registration.as_ref(), view.errors), (Some(&record), errors));
    rig.start_manager();
    assert_eq!(shown(&rig).registration, Some(record));
    rig.report(cluster, &Status::default());
    rig.until("no problems", |all| all[&cluster].errors.is_empty().then_some(()));
}

#[test]
fn whether_a_new_cluster_can_have_a_name_is_told_to_those_who_may_have_one() {
    let rig = Rig::new();
    let asked = |who, name: &str| block_on(rig.service(who).read::<NameAnswer>(&format!("v1/name/{name}")));
    let free = NameAnswer { free: true, reason: None };
    assert_eq!(asked(ADMIN, "Nord").unwrap(), Some(free.clone()));
    let cluster = rig.ready("Nord");
    let taken = |name| {
        let answer = asked(ADMIN, name).unwrap().unwrap();
        assert!(!answer.free, "{name}");
        answer.reason.unwrap()
    };
    // Upper and lower case make no difference; the realm.
    assert!(taken("NORD").contains(&cluster.to_string()));
    assert!(taken("example").contains("realm"));
    assert!(matches!(asked(ADMIN, "%24%28id%29"), Err(CallError::Refused { .. })));
    assert!(matches!(asked(NOBODY, "Sued"), Err(CallError::Forbidden { .. })));

    rig.delete(cluster);
    rig.until_phase(cluster, Phase::Deleted);
    assert!(taken("Nord").contains(&cluster.to_string()), "it is held for the day that its configuration comes back");
    rig.decommission(cluster);
    assert_eq!(asked(ADMIN, "Nord").unwrap(), Some(free));
}
