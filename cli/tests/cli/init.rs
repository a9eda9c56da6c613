//! `latchkey init` and `latchkey recover` against a fake node: what must work, and everything on the way that breaks.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use std::os::unix::fs::PermissionsExt;

use crate::support::command::{finish, latchkey_fed};
use crate::support::node::{ADMIN_CONFIG, Behaviour, FakeNode, Happened, Stage};
use crate::support::operator::Operator;
use latchkey_kubernetes::ComponentList;
use latchkey_test_support::{until, wait};
use serde_json::Value;

fn cluster(operator: &Operator, directory: &str) -> Value {
    serde_json::from_slice(&std::fs::read(operator.path(directory).join("cluster.json")).unwrap()).unwrap()
}

fn error_code(ran: &support::command::Ran) -> String {
    ran.json()["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn a_fresh_node_becomes_the_first_of_a_cluster() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { away: 1, ..Behaviour::default() });
    let ran = operator.init(&node, &["--output", "json", "--kubernetes", "1.35", "--store", "directory"]).succeeded();
    assert!(ran.err.contains("no machine joins this Kubernetes cluster"), "{}", ran.err);
    let result = ran.json();
    let id = node.state().cluster.unwrap().to_string();
    assert_eq!(result["cluster_id"], id);
    assert_eq!(cluster(&operator, "plant")["cluster_id"], id);
    assert_eq!(node.state().settings.as_ref().unwrap().kubernetes_version, "1.35");
    let config = operator.path("plant/admin.conf");
    assert_eq!(std::fs::read(&config).unwrap(), ADMIN_CONFIG);
    assert_eq!(std::fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o600);
    let status = operator.run(&["status", "--cluster", "plant", "--output", "json"]).succeeded().json();
    assert_eq!(status["nodes"][0]["reported"]["outcome"]["kind"], "succeeded");
    assert_eq!(status["nodes"][0]["disks"][0]["state"], "confirmed");
}

#[test]
fn a_node_is_told_what_it_gets_for_itself_if_its_image_has_no_kubernetes() {
    for (words, mirror) in [
        (&["--kubernetes", "1.34"][..], None),
        (&["--kubernetes", "1.34", "--components", "http://mirror.example/k8s/"], Some("http://mirror.example/k8s")),
    ] {
        let (operator, node) = Operator::with_node();
        operator.init(&node, &[words, &["--store", "directory"]].concat()).succeeded();
        let settings = node.state().settings.clone().unwrap();
        let list = ComponentList::parse(&settings.component_list).unwrap();
        assert_eq!(list.release().version().to_string(), "1.34.4");
        assert_eq!(list.mirror(), mirror);
    }
    let (operator, node) = Operator::with_node();
    for (words, code) in [
        (&["--components", "http://mirror.example"][..], "usage"),
        (&["--kubernetes", "1.34", "--components", "/srv/parts"], "usage"),
        (&["--kubernetes", "1.2", "--components", "http://mirror.example"], "kubernetes-version-too-old"),
    ] {
        let words = [words, &["--output", "json"]].concat();
        let ran = operator.init(&node, &words);
        assert_eq!(error_code(&ran), code, "{words:?}");
    }
    // One that only an image carries.
    operator.init(&node, &["--kubernetes", "1.99", "--store", "directory"]).succeeded();
    assert!(node.state().settings.as_ref().unwrap().component_list.is_empty());
}

#[test]
fn the_join_service_finds_everything_it_reads() {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    let directory = latchkey_cluster_store::ClusterStore::open(operator.path("plant")).unwrap();
    let policy = directory.policy().unwrap();
    directory.references(&policy).unwrap();
    directory.enrolment().unwrap();
    let file = directory.cluster().unwrap().unwrap();
    assert!(node.state().control_plane_files.is_none(), "nobody may need them");
    let (_, secret, salt) = node.state().keys.take().unwrap();
    assert_eq!(file.measurement_salt, salt);
    assert_eq!(file.cluster_id, latchkey_keys::ClusterId::derive(&secret, &salt).unwrap());
    let record = directory.record(&node.ek()).unwrap().unwrap();
    assert_eq!(record.name.as_str(), "edge-1");
    // Without them its kubelet would get no serving certificate.
    assert_eq!(record.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["192.0.2.7", "fd00::7"]);
}

#[test]
fn services_inside_are_asked_for_as_a_whole_and_before_the_node_is_touched() {
    let (operator, node) = Operator::with_node();
    let key = operator.path("identity.key");
    std::fs::write(&key, "no key").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    for (arguments, told) in [
        (&["--services", "inside", "--join-service-key", "identity.key"][..], "--store kubernetes"),
        (&["--services", "inside", "--store", "kubernetes"], "--join-service-key"),
        (&["--services", "inside", "--store", "kubernetes", "--join-service-key", "identity.key"], "P-256"),
        (&["--join-service-key", "identity.key", "--store", "kubernetes"], "--services inside"),
        (&["--services", "everywhere"], "`inside` or `outside`"),
    ] {
        let ran = operator.init(&node, &[arguments, &["--output", "json"]].concat()).failed(2);
        assert!(ran.json()["error"].to_string().contains(told), "{arguments:?}: {}", ran.json());
    }
    assert_eq!(node.state().secrets, 0);
    assert_eq!(node.state().inits, 0);
    operator.init(&node, &["--services", "outside"]).succeeded();
    assert!(node.state().settings.as_ref().unwrap().service_files.is_empty(), "they are nobody's but the operator's");
}

#[test]
fn a_secret_from_standard_input_is_as_good_as_one_from_a_file() {
    let (operator, node) = Operator::with_node();
    let secret = operator.init_secret();
    let address = node.address();
    let ran = latchkey_fed(
        operator.directory(),
        &[
            "init",
            &address,
            "--name",
            "plant",
            "--master-secret",
            "master.json",
            "--policy",
            "policy.json",
            "--reference",
            "demo.json",
            "--cluster",
            "plant",
            "--init-secret",
            "-",
        ],
        &secret,
    );
    ran.succeeded();
}

#[test]
fn who_reaches_the_api_server_elsewhere_says_where_nodes_do() {
    let (operator, node) = Operator::with_node();
    let elsewhere = |address: &str, store: &str| {
        operator.init(&node, &["--api-server", address, "--store", store, "--output", "json"]).failed(2).json()["error"]
            .to_string()
    };
    assert!(elsewhere("127.0.0.1:20001", "kubernetes").contains("--control-plane-endpoint"));
    assert!(elsewhere("127.0.0.1:x", "directory").contains("--api-server"));
    let balanced = operator.init(&node, &["--api-balancer", "--output", "json"]).failed(2).json()["error"].to_string();
    assert!(balanced.contains("--store kubernetes"), "{balanced}");
    assert!(!operator.path("plant").exists());
}

#[test]
fn a_wrong_init_secret_is_refused_by_the_node_and_the_right_one_still_works() {
    let (operator, node) = Operator::with_node();
    operator.run(&["init-secret", "--out", "wrong.secret"]).succeeded();
    let ran = operator.init(&node, &["--init-secret", "wrong.secret", "--output", "json"]).failed(4);
    assert_eq!(error_code(&ran), "wrong-init-secret");
    assert!(!operator.path("plant/cluster.json").exists());
    operator.init(&node, &[]).succeeded();
}

#[test]
fn too_many_tries_say_how_long_to_wait() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { tries: Some(0), ..Behaviour::default() });
    let ran = operator.init(&node, &["--output", "json"]).failed(4);
    assert_eq!(error_code(&ran), "too-many-tries");
    assert!(ran.json()["error"]["because"][0].as_str().unwrap().contains("10 s"));
}

#[test]
fn a_connection_lost_after_the_keys_were_taken_is_taken_up_again() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { cut_init: true, ..Behaviour::default() });
    operator.init(&node, &[]).succeeded();
    assert_eq!(node.state().inits, 1, "the keys were sent once");
    assert_eq!(cluster(&operator, "plant")["cluster_id"], node.state().cluster.unwrap().to_string());
}

#[test]
fn a_connection_lost_during_the_bootstrap_loses_nothing() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { cut_attach: true, ..Behaviour::default() });
    let ran = operator.init(&node, &[]).succeeded();
    assert_eq!(ran.err.matches("certificates").count(), 1, "what was told is not told again:\n{}", ran.err);
    assert_eq!(std::fs::read(operator.path("plant/admin.conf")).unwrap(), ADMIN_CONFIG);
}

#[test]
fn a_node_that_restarts_with_the_keys_gets_them_again_for_its_new_disk_and_the_same_cluster() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { restart_during_init: true, ..Behaviour::default() });
    operator.init(&node, &[]).succeeded();
    assert_eq!(node.state().inits, 2);
}

#[test]
fn a_command_that_was_stopped_is_resumed_for_the_same_cluster() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { hold_init: true, ..Behaviour::default() });
    stop_after(&operator, &node, Happened::KeysTaken);
    let before = node.state().cluster.unwrap();
    // The node refuses a second offer; whoever made the first one goes on with it.
    let ran = operator.init(&node, &["--resume"]).succeeded();
    assert!(ran.err.contains("resuming"), "{}", ran.err);
    assert_eq!(cluster(&operator, "plant")["cluster_id"], before.to_string());
}

#[test]
fn a_result_that_was_not_written_down_is_told_again() {
    let (operator, node) = Operator::with_node();
    let (records, elsewhere) = (operator.path("plant/nodes"), operator.path("elsewhere"));
    let harm = {
        let (records, elsewhere) = (records.clone(), elsewhere.clone());
        move || {
            std::fs::rename(&records, &elsewhere).unwrap();
            std::fs::write(&records, "").unwrap();
        }
    };
    node.behave(Behaviour { before_the_end: Some(Box::new(harm)), ..Behaviour::default() });
    operator.init(&node, &[]).failed(1);
    assert!(!node.state().heard, "the node takes it that its result was heard");
    std::fs::remove_file(&records).unwrap();
    std::fs::rename(&elsewhere, &records).unwrap();
    // The credentials of the first run are in their place.
    operator.init(&node, &[]).succeeded();
    until("the node to know that its result was heard", || node.state().heard.then_some(()));
    assert_eq!(std::fs::read(operator.path("plant/admin.conf")).unwrap(), ADMIN_CONFIG);
    let status = operator.run(&["status", "--cluster", "plant", "--output", "json"]).succeeded().json();
    assert_eq!(status["nodes"][0]["reported"]["outcome"]["kind"], "succeeded");
}

#[test]
fn a_later_run_asks_for_the_same_and_what_it_asks_otherwise_is_refused() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { hold_init: true, ..Behaviour::default() });
    let flags =
        ["--kubernetes", "1.35", "--cert-san", "api.plant.example", "--service-cidr", "10.32.0.0/16", "--untainted"];
    let in_a_directory = [&flags[..], &["--store", "directory"]].concat();
    let mut first = operator.init_started(&node, &in_a_directory);
    node.wait_for(Happened::KeysTaken);
    first.kill().unwrap();
    wait("an init that was killed", &mut first);
    for (flag, value) in [("--kubernetes", "1.34"), ("--cert-san", "other.example"), ("--service-cidr", "10.40.0.0/16")]
    {
        let ran = operator.init(&node, &["--resume", flag, value, "--output", "json"]).failed(2);
        assert!(ran.json()["error"]["message"].as_str().unwrap().starts_with(flag), "{ran:?}");
    }
    operator.init(&node, &["--resume"]).succeeded();
    let journal: Value = serde_json::from_slice(&std::fs::read(operator.path("plant/init.json")).unwrap()).unwrap();
    assert_eq!(journal["asked"]["service_cidr"], "10.32.0.0/16");
    assert_eq!(journal["asked"]["cert_sans"][0], "api.plant.example");
    assert_eq!(journal["asked"]["untainted"], true);
    assert!(node.state().settings.as_ref().unwrap().untainted);
}

#[test]
fn what_nodes_could_not_be_told_is_refused_before_there_is_a_cluster() {
    let (operator, node) = Operator::with_node();
    for (flag, value) in [("--cert-san", "*.plant.example"), ("--control-plane-endpoint", "localhost:6443")] {
        let flags = ["--kubernetes", "1.35", "--store", "kubernetes", flag, value, "--output", "json"];
        let ran = operator.init(&node, &flags).failed(2);
        assert!(ran.json()["error"]["message"].as_str().unwrap().contains("nodes cannot be told"), "{ran:?}");
    }
    assert_eq!(node.state().secrets, 0);
    assert!(!operator.path("plant").exists());
}

#[test]
fn a_node_that_restarted_after_its_lock_is_given_its_disk_key_again() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { hold_attach: true, ..Behaviour::default() });
    stop_after(&operator, &node, Happened::Attached);
    node.restart(Stage::Existing);
    let ran = operator.init(&node, &["--resume"]).succeeded();
    assert!(ran.err.contains("before its credentials were fetched"), "{}", ran.err);
}

#[test]
fn a_bootstrap_that_never_finished_begins_anew_in_the_same_cluster() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { hold_attach: true, ..Behaviour::default() });
    stop_after(&operator, &node, Happened::Attached);
    let before = node.state().cluster.unwrap();
    node.restart(Stage::Existing);
    node.behave(Behaviour { bootstrap_unfinished: true, ..Behaviour::default() });
    operator.init(&node, &[]).succeeded();
    assert_eq!(node.state().cluster.unwrap(), before);
    assert_eq!(cluster(&operator, "plant")["cluster_id"], before.to_string());
    assert_eq!(node.state().inits, 2);
}

#[test]
fn of_two_inits_at_once_one_wins_and_the_other_is_told() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { hold_init: true, ..Behaviour::default() });
    let first = operator.init_started(&node, &[]);
    node.wait_for(Happened::KeysTaken);
    let second = operator.init(&node, &["--cluster", "other", "--output", "json"]).failed(4);
    assert!(second.json()["error"]["because"][0].as_str().unwrap().contains("another offer"), "{second:?}");
    assert!(!operator.path("other/cluster.json").exists());
    finish(first).succeeded();
}

#[test]
fn a_node_that_somebody_else_just_locked_is_refused_as_taken() {
    let (operator, node) = Operator::with_node();
    node.set_pcr(15, [0x15; 32]);
    let ran = operator.init(&node, &["--output", "json"]).failed(4);
    assert_eq!(error_code(&ran), "already-activating");
    assert_eq!(node.state().inits, 0);
}

#[test]
fn a_node_that_somebody_else_bootstraps_is_refused_as_taken() {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &["--cluster", "theirs"]).succeeded();
    let ran = operator.init(&node, &["--output", "json"]).failed(4);
    assert_eq!(error_code(&ran), "already-activating");
    assert_eq!(node.state().inits, 1);
}

#[test]
fn one_directory_is_never_worked_on_twice_at_once() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { hold_init: true, ..Behaviour::default() });
    let mut first = operator.init_started(&node, &[]);
    node.wait_for(Happened::KeysTaken);
    let second = operator.init(&node, &["--output", "json"]).failed(1);
    assert_eq!(error_code(&second), "directory-busy");
    first.kill().unwrap();
    wait("an init that was killed", &mut first);
}

#[test]
fn a_failed_init_says_why_and_can_be_tried_again() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { fail_init: Some(("format-failed", "the disk is too small")), ..Behaviour::default() });
    let ran = operator.init(&node, &["--output", "json"]).failed(4);
    assert_eq!(error_code(&ran), "format-failed");
    operator.init(&node, &[]).succeeded();
}

#[test]
fn a_failed_bootstrap_says_why_shows_the_log_and_begins_anew_in_the_same_cluster() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { fail_bootstrap: Some(("step-failed", "exit status 1")), ..Behaviour::default() });
    let ran = operator.init(&node, &[]).failed(4);
    assert!(ran.err.contains("port 6443 is in use"), "{}", ran.err);
    let before = cluster(&operator, "plant");
    let status = operator.run(&["status", "--cluster", "plant"]).succeeded();
    assert!(status.out.contains("failed: step-failed"), "{}", status.out);
    node.restart(Stage::Fresh);
    node.state().disk = latchkey_keys::Uuid::random().unwrap();
    operator.init(&node, &[]).succeeded();
    assert_eq!(cluster(&operator, "plant"), before);
    let status = operator.run(&["status", "--cluster", "plant", "--output", "json"]).succeeded().json();
    assert_eq!(status["nodes"][0]["retired"].as_array().unwrap().len(), 1, "the first disk is remembered");
}

#[test]
fn a_disk_of_somebody_else_is_left_alone() {
    let (operator, node) = Operator::with_node();
    node.restart(Stage::Existing);
    let ran = operator.init(&node, &["--output", "json"]).failed(4);
    assert_eq!(error_code(&ran), "disk-in-use");
    assert_eq!(node.state().inits, 0);
}

#[test]
fn a_cluster_is_not_continued_on_another_machine() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { hold_init: true, ..Behaviour::default() });
    stop_after(&operator, &node, Happened::KeysTaken);
    let other = FakeNode::start(&operator.init_secret());
    let pins = format!("{},{}", node.ek(), other.ek());
    let mut arguments = vec!["policy", "new", "--manifest", "demo", "--unsigned", "--out", "both.json"];
    for pin in pins.split(',') {
        arguments.extend(["--ek-pin", pin]);
    }
    operator.run(&arguments).succeeded();
    std::fs::rename(operator.path("both.json"), operator.path("policy.json")).unwrap();
    let ran = operator.init(&other, &["--output", "json"]).failed(1);
    assert_eq!(error_code(&ran), "another-machine");
    assert_eq!(other.state().inits, 0);
}

#[test]
fn another_name_or_another_master_secret_is_not_this_cluster() {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    let again = operator.init(&node, &["--output", "json"]).failed(1);
    assert_eq!(error_code(&again), "cluster-exists");
    operator.init(&node, &["--resume"]).succeeded();
    operator.run(&["secret", "new", "other.json"]).succeeded();
    std::fs::rename(operator.path("other.json"), operator.path("master.json")).unwrap();
    let ran = operator.init(&node, &["--resume", "--output", "json"]).failed(2);
    assert_eq!(error_code(&ran), "master-secret-of-another-cluster");
}

#[test]
fn nothing_listens_there_is_its_own_exit_code() {
    let (operator, _node) = Operator::with_node();
    let nobody = latchkey_test_support::Port::reserve();
    let address = nobody.address().to_string();
    let ran = operator.run(&[
        "verify",
        &address,
        "--policy",
        "policy.json",
        "--reference",
        "demo.json",
        "--timeout",
        "8",
        "--output",
        "json",
    ]);
    let ran = ran.failed(5);
    assert_eq!(error_code(&ran), "unreachable");
    assert!(!ran.json()["error"]["fix"].as_str().unwrap().contains("listens nowhere"));
    // A cluster's member never answers again: that is said, and not to check the address.
    let (id, ek) = ("ab".repeat(32), "cd".repeat(32));
    let locked = ["verify", &address, "--policy", "policy.json", "--reference", "demo.json", "--timeout", "8"];
    let ran = operator.run(&[&locked[..], &["--locked", &id, "--ek", &ek, "--output", "json"]].concat()).failed(5);
    assert!(ran.json()["error"]["fix"].as_str().unwrap().contains("a member listens nowhere"), "{ran:?}");
}

#[test]
fn an_impostor_gets_no_key_and_the_difference_that_tells_is_named() {
    let (operator, node) = Operator::with_node();
    node.set_pcr(9, [0x66; 32]);
    node.set_pcr(11, [0x66; 32]);
    let ran = operator.init(&node, &["--output", "json"]).failed(3);
    let error = ran.json()["error"].clone();
    assert_eq!(error["code"], "image-differs");
    assert_eq!(error["refusal"]["difference"]["pcr"], 11);
    assert_eq!(error["refusal"]["difference"]["differing"], serde_json::json!([9, 11]));
    assert_eq!(node.state().inits, 0);
}

#[test]
fn a_disk_is_recovered_with_its_master_secret_and_with_no_other() {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    node.restart(Stage::Existing);
    operator.run(&["secret", "new", "other.json"]).succeeded();
    let wrong = operator.recover(&node, "other.json", &["--output", "json"]).failed(2);
    assert_eq!(error_code(&wrong), "master-secret-of-another-cluster");
    assert_eq!(node.state().recoveries, 0, "no key was sent");
    // Before any node is asked: here nobody answers.
    let nobody = latchkey_test_support::Port::reserve().address().to_string();
    let ask = ["recover", &nobody, "--cluster", "plant", "--master-secret", "other.json", "--timeout", "8"];
    assert_eq!(error_code(&operator.run(&[&ask[..], &["--output", "json"]].concat()).failed(2)), error_code(&wrong));
    // Of this cluster, and of a version that was lost by two rotations of one file: the disk tells.
    std::fs::copy(operator.path("master.json"), operator.path("fork.json")).unwrap();
    operator.run(&["secret", "rotate", "fork.json"]).succeeded();
    let record = operator.path(&format!("plant/nodes/{}.json", node.ek()));
    let kept = std::fs::read(&record).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    json["disks"][0]["key_version"] = 2.into();
    std::fs::write(&record, json.to_string()).unwrap();
    let wrong = operator.recover(&node, "fork.json", &["--output", "json"]).failed(4);
    assert_eq!(error_code(&wrong), "disk-wrong-key");
    assert_eq!(wrong.json()["error"]["fix"], "use the master secret of the cluster that this disk belongs to");
    std::fs::write(&record, kept).unwrap();
    let right = operator.recover(&node, "master.json", &["--output", "json"]).succeeded().json();
    assert_eq!(right["cluster_id"], cluster(&operator, "plant")["cluster_id"]);
}

#[test]
fn a_fresh_node_is_not_recovered() {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    node.restart(Stage::Fresh);
    let ran = operator.recover(&node, "master.json", &["--output", "json"]).failed(4);
    assert_eq!(error_code(&ran), "purpose-refused");
}

/// An init that is killed when it has come that far.
fn stop_after(operator: &Operator, node: &FakeNode, what: Happened) {
    let mut init = operator.init_started(node, &[]);
    node.wait_for(what);
    init.kill().unwrap();
    wait("an init that was killed", &mut init);
}

#[test]
fn an_invitation_goes_to_the_node_alone_and_one_that_ended_to_nobody() {
    use latchkey_cluster_store::registration::{InvitationFile, RegistrationStore, Rules};
    let (operator, node) = Operator::with_node();
    std::fs::create_dir(operator.path("enrol")).unwrap();
    let chart = "729fe070-5e67-4bc7-94b5-afd75cb42b03".parse().unwrap();
    RegistrationStore::make(operator.path("enrol")).unwrap().write_rules(&Rules::of(chart, "fplus-edge")).unwrap();
    let invite = |more: &[&str]| {
        let words = [&["cluster", "invite", "Press_4", "--directory", "enrol"][..], more].concat();
        operator.run(&words).succeeded();
    };
    invite(&["--to", "press-4"]);
    let token = InvitationFile::read(&operator.path("press-4")).unwrap().token().unwrap();
    let ran = operator.init(&node, &["--store", "directory", "--invitation", "press-4"]).succeeded();
    assert_eq!(node.state().invitation, token.expose());
    let text = std::fs::read_to_string(operator.path("press-4")).unwrap();
    let text = serde_json::from_str::<Value>(&text).unwrap()["token"].as_str().unwrap().to_owned();
    let journal = std::fs::read_to_string(operator.path("plant/init.json")).unwrap();
    assert!(!ran.out.contains(&text) && !ran.err.contains(&text) && !journal.contains(&text));

    let (operator, node) = Operator::with_node();
    let ended = r#"{"version": 1, "cluster": "Press_4", "expires": 1, "token": "TOKEN"}"#.replace("TOKEN", &text);
    std::fs::write(operator.path("old"), ended).unwrap();
    std::fs::set_permissions(operator.path("old"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let ran = operator.init(&node, &["--invitation", "old"]).failed(2);
    assert!(ran.err.contains("latchkey cluster invite"), "{}", ran.err);
    assert!(!operator.path("plant").exists(), "a command that is wrong makes no directory");
}

#[test]
fn an_init_says_at_once_that_nobody_answers_and_goes_on_trying() {
    let (operator, node) = Operator::with_node();
    let nobody = latchkey_test_support::Port::reserve();
    let (address, ek) = (nobody.address().to_string(), node.ek().to_string());
    let init =
        ["init", &address, "--name", "plant", "--cluster", "plant", "--master-secret", "master.json", "--ek", &ek];
    let files =
        ["--policy", "policy.json", "--reference", "demo.json", "--init-secret", "init.secret", "--timeout", "8"];
    let ran = operator.run(&[&init[..], &files].concat()).failed(5);
    let said = |text: &str| ran.err.find(text).unwrap_or_else(|| panic!("{text}: {}", ran.err));
    assert!(said(&format!("connecting to {address}")) < said("no answer"), "{}", ran.err);
    assert!(said("tried again until it answers") < said("tried for 8 s"), "{}", ran.err);
    assert_eq!(ran.err.matches("tried again until it answers").count(), 1, "{}", ran.err);
}
