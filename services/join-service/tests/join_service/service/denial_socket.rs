//! Root's word at the service's own socket: in force at once, whatever is heard of the store, and heard of nobody else.

use super::rig::{Machine, Rig, Service};
use latchkey_cluster_store::{DenialAsk, DenialOutcome, DenialRefusal, DenialRequest, MAX_DENIAL_LINE};
use latchkey_keys::ClusterId;
use latchkey_test_support::until;
use rustix::process::{Gid, Signal, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";

fn told(service: &Service, machine: &Machine) -> Option<String> {
    service.rejoin(machine, DISK).err().map(|refused| refused.code())
}

fn of_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_machine_that_root_denies_at_the_socket_gets_nothing_until_the_store_lists_it_or_root_takes_it_back() {
    let (node, other) = (Machine::new(), Machine::new());
    let mut rig = Rig::new(&[&node, &other]);
    let socket = rig.with_denial_socket();
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    // Nothing is heard of the store.
    fs::rename(rig.path("cluster/denied"), rig.path("cluster/away")).unwrap();
    service.next_line(&["Configuration cannot be used", "denials"]);
    assert_eq!(socket.ask(DenialAsk::Deny(node.ek())), DenialOutcome::Denied);
    assert_eq!(told(&service, &node).as_deref(), Some("machine-denied"));
    service.next_line(&["audit", "Denial at the socket", "denied", &node.ek().to_string()]);
    assert_eq!((service.metric("denied"), service.metric("denied_here")), (1, 1));
    let (status, page) = service.page("/healthz");
    assert!(
        status.contains("200") && page.contains(&format!("{} is denied at this service alone", node.ek())),
        "{page}"
    );
    service.join(&other, "0b0b0b0b-0000-4000-8000-000000000001", "worker-2").unwrap();
    // The store is heard again, and does not have it.
    fs::rename(rig.path("cluster/away"), rig.path("cluster/denied")).unwrap();
    service.signal(Signal::HUP);
    until("the denials to be read", || (!service.page("/healthz").1.contains("denials is stale")).then_some(()));
    assert_eq!(told(&service, &node).as_deref(), Some("machine-denied"), "a listing without it");

    assert_eq!(socket.ask(DenialAsk::Allow(node.ek())), DenialOutcome::Allowed { was_denied: true });
    assert_eq!(told(&service, &node), None);
    assert_eq!(socket.ask(DenialAsk::Allow(node.ek())), DenialOutcome::Allowed { was_denied: false });

    // What the store lists is the store's from then on.
    socket.ask(DenialAsk::Deny(node.ek()));
    rig.directory.deny(&node.ek(), "stolen").unwrap();
    until("the store to list it", || (service.metric("denied_here") == 0).then_some(()));
    assert_eq!((service.metric("denied"), told(&service, &node).as_deref()), (1, Some("machine-denied")));
    assert!(rig.directory.allow(&node.ek()).unwrap());
    until("the store's word", || told(&service, &node).is_none().then_some(()));
    rig.directory.deny(&node.ek(), "stolen").unwrap();
    until("the store to list it again", || (service.metric("denied") == 1).then_some(()));
    assert_eq!(socket.ask(DenialAsk::Allow(node.ek())), DenialOutcome::Allowed { was_denied: false });
    assert_eq!(told(&service, &node).as_deref(), Some("machine-denied"), "the socket takes back what it gave");
}

#[test]
fn what_is_of_another_cluster_or_no_request_is_refused_and_whoever_says_nothing_stops_nobody() {
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    let socket = rig.with_denial_socket();
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let silent = socket.connect();
    let foreign: ClusterId = "cd".repeat(32).parse().unwrap();
    let deny = DenialAsk::Deny(node.ek());
    assert_eq!(socket.say(&DenialRequest::new(foreign, deny).line()), Some(DenialRefusal::OtherCluster.into()));
    service.next_line(&["audit", "denial-of-another-cluster"]);
    let line = String::from_utf8(DenialRequest::new(rig.cluster.cluster_id, deny).line()).unwrap();
    let newer = line.replace("\"version\":1", "\"version\":2");
    for wrong in [newer.as_bytes(), b"\n".as_slice(), &[b' '; 2 * MAX_DENIAL_LINE][..]] {
        assert_eq!(socket.say(wrong), Some(DenialRefusal::Malformed.into()));
    }
    assert_eq!(told(&service, &node), None);
    assert_eq!(socket.say(line.as_bytes()), Some(DenialOutcome::Denied));
    drop(silent);
}

/// Modes of files keep others out; where somebody changed them, the service asks the kernel who speaks.
#[test]
fn nobody_but_root_is_heard_also_where_the_socket_stands_open() {
    if !geteuid().is_root() {
        latchkey_test_support::skip("only root can be somebody else");
        return;
    }
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    let socket = rig.with_denial_socket();
    let mut service = rig.start();
    let path = rig.path("run/denials.sock");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&path), mode(&rig.path("run"))), (0o600, 0o700));
    of_mode(rig.files.path(), 0o755);
    of_mode(&rig.path("run"), 0o755);
    of_mode(&path, 0o666);
    let heard = std::thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            // Of this thread alone.
            set_thread_groups(&[]).unwrap();
            let (user, group) = (Uid::from_raw(4711), Gid::from_raw(4711));
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
            socket.say(&DenialRequest::new(rig.cluster.cluster_id, DenialAsk::Deny(node.ek())).line())
        });
        stranger.join().unwrap()
    });
    assert_eq!(heard, None);
    service.next_line(&["user 4711 is neither root nor this service's"]);
    assert_eq!(service.metric("denied"), 0);
    assert_eq!(socket.ask(DenialAsk::Deny(node.ek())), DenialOutcome::Denied);
}

#[test]
fn a_socket_that_others_could_replace_or_that_is_in_use_keeps_the_service_from_starting() {
    let mut rig = Rig::new(&[&Machine::new()]);
    let socket = rig.with_denial_socket();
    let path = rig.path("run/denials.sock");
    let refuses = |rig: &Rig, words: &str| {
        let ended = latchkey_test_support::output(&mut rig.command()).unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(2) && said.contains("denial_socket") && said.contains(words), "{said}");
    };
    of_mode(&rig.path("run"), 0o750);
    refuses(&rig, "nobody else may enter");
    of_mode(&rig.path("run"), 0o700);
    if geteuid().is_root() {
        let belongs_to = |user: u32| std::os::unix::fs::chown(rig.path("run"), Some(user), None).unwrap();
        belongs_to(4711);
        refuses(&rig, "a directory of this service's user");
        belongs_to(0);
    }
    fs::write(&path, "kept").unwrap();
    refuses(&rig, "no socket");
    assert_eq!(fs::read(&path).unwrap(), b"kept");
    fs::remove_file(&path).unwrap();
    let service = rig.start();
    refuses(&rig, "another service's");
    // What a service leaves that is killed stands in nobody's way.
    drop(service);
    assert!(path.exists());
    let service = rig.start();
    let ek = Machine::new().ek();
    assert_eq!(socket.ask(DenialAsk::Deny(ek)), DenialOutcome::Denied);
    drop(service);
    assert!(String::from_utf8(rig.check().stdout).unwrap().contains("hear of root's denials on"));
}

/// The command line with a service and a store that is this rig's directory, or elsewhere.
fn latchkey(rig: &Rig, word: &str, machine: &str) -> Output {
    let program = latchkey_test_programs::of_package("latchkey-cli", "latchkey").unwrap();
    let mut command = Command::new(program);
    command.args(["node", word, machine, "--output", "json", "--cluster"]).arg(rig.path("cluster"));
    command.arg("--denial-socket").arg(rig.path("run/denials.sock"));
    command.arg("--kubectl-program").arg(rig.path("kubectl"));
    latchkey_test_support::output(&mut command).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn the_command_line_tells_the_service_and_says_what_it_did_where_the_store_does_not_answer() {
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    let socket = rig.with_denial_socket();
    let service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let ek = node.ek().to_string();

    let denied = latchkey(&rig, "deny", "worker-1");
    assert_eq!((denied.status.code(), &json(&denied)["service"]), (Some(0), &"told".into()));
    assert_eq!(told(&service, &node).as_deref(), Some("machine-denied"));
    let allowed = latchkey(&rig, "allow", "worker-1");
    assert_eq!((allowed.status.code(), &json(&allowed)["service"]), (Some(0), &"told".into()));
    until("the store's word", || told(&service, &node).is_none().then_some(()));
    // What the service alone was told is taken back, too, though the store has nothing.
    socket.ask(DenialAsk::Deny(node.ek()));
    let allowed = latchkey(&rig, "allow", "worker-1");
    assert_eq!((allowed.status.code(), &json(&allowed)["service"]), (Some(0), &"told".into()));
    assert_eq!(told(&service, &node), None);
    assert_eq!(json(&latchkey(&rig, "allow", "worker-1"))["error"]["code"], "not-denied");
    // A mistake in what was typed is that, and nobody had to be told.
    let wrong = latchkey(&rig, "deny", "nobody");
    assert!(wrong.status.code() == Some(2) && !json(&wrong).to_string().contains("nobody was told"), "{wrong:?}");

    // Of an API server that nobody reaches.
    let store = rig.path("cluster/store.json");
    fs::write(&store, r#"{"version": 1, "kubernetes": {"kubeconfig": "admin.conf"}}"#).unwrap();
    fs::write(rig.path("cluster/admin.conf"), "").unwrap();
    fs::write(rig.path("kubectl"), STAND_IN_KUBECTL).unwrap();
    of_mode(&rig.path("kubectl"), 0o700);
    let failed = |ran: Output, words: &str| {
        assert_eq!(ran.status.code(), Some(5), "{ran:?}");
        let error = &json(&ran)["error"];
        assert_eq!(error["code"], "api-server-unreachable");
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    failed(latchkey(&rig, "deny", "worker-1"), "nobody was told: without the store");
    assert_eq!(told(&service, &node), None);
    failed(latchkey(&rig, "deny", &ek), "was told, and gives the machine nothing from now on");
    assert_eq!(told(&service, &node).as_deref(), Some("machine-denied"));
    service.stop();
    failed(latchkey(&rig, "deny", &ek), "nobody knows of the denial");

    // The store is there, and the service is not: it was named, so that is no success.
    fs::remove_file(&store).unwrap();
    let denied = latchkey(&rig, "deny", &ek);
    assert_eq!((denied.status.code(), &json(&denied)["service"]), (Some(1), &"not-told".into()));
    assert!(rig.directory.denials().unwrap().has(&node.ek()));
    assert!(String::from_utf8_lossy(&denied.stderr).contains("was not told"), "{denied:?}");
    // Nor is it one that a machine was removed, which stays denied.
    let removed = latchkey(&rig, "remove", "worker-1");
    assert_eq!((removed.status.code(), &json(&removed)["service"]), (Some(1), &"not-told".into()));
    drop(socket);
}

/// In the place of kubectl: knows its own version, and reaches nobody.
const STAND_IN_KUBECTL: &str = r#"#!/bin/sh
case "$*" in
*--client*) echo '{"clientVersion": {"gitVersion": "v1.34.4"}}' ;;
*) echo "The connection to the server 192.0.2.1:6443 was refused" >&2; exit 1 ;;
esac
"#;
