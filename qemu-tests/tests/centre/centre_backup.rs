//! A centre is copied while it runs, and is the same on an empty machine.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use latchkey_centre_site::{Program, Service};
use latchkey_factory_plus::uuids::application;
use latchkey_qemu_tests::centre::Centre;
use latchkey_test_support::until;
use serde_json::{Value, json};

/// An account of an edge, and the password that it made for itself.
const FLUX: (&str, &str) = ("op1flux/Nord", "the-edges-own");

fn centre(running: &Centre, arguments: &[&OsStr]) -> Output {
    let mut latchkey = Command::new(running.programs().join("latchkey"));
    latchkey.arg("centre").args(arguments).args(["--output", "json"]).output().unwrap()
}

/// Invites a machine, as an operator does beside the enrol service.
fn invite(running: &Centre, name: &str) {
    let mut latchkey = Command::new(running.programs().join("latchkey"));
    latchkey.args(["cluster", "invite", name, "--directory"]).arg(running.layout.registrations());
    let done = latchkey.arg("--to").arg(running.run.file(name)).output().unwrap();
    assert!(done.status.success(), "{}", words(&done));
}

/// What an operator said to the enrol service: each file, and what stands in it.
fn said(running: &Centre) -> Vec<(String, Vec<u8>)> {
    let root = running.layout.registrations();
    let files = fs::read_dir(root.join("invitations")).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.chain([root.join("registration.json")]).collect();
    files.sort();
    files.into_iter().map(|path| (path.display().to_string(), fs::read(&path).unwrap())).collect()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

fn head(running: &Centre, user: (&str, &str), name: &str) -> String {
    let to = running.run.file(name);
    let cloned = running.git_clone(user, "git/cluster/Nord", &to).unwrap();
    assert!(cloned.status.success());
    let head = Command::new("git").arg("-C").arg(&to).args(["rev-parse", "HEAD"]).output().unwrap();
    String::from_utf8(head.stdout).unwrap()
}

/// The number of an account's newest key at the KDC.
fn newest_key(running: &Centre, name: &str) -> u64 {
    let said = running.kadmin_local(&format!("getprinc {name}")).unwrap();
    let numbers =
        said.lines().filter_map(|line| line.strip_prefix("Key: vno ")?.split([',', ' ']).next()?.parse().ok());
    numbers.max().unwrap_or_else(|| panic!("no key of {name}: {said}"))
}

fn bearer(running: &Centre, program: Program) -> String {
    let token = running.ask(running.admin(), "POST", program, "token").unwrap();
    format!("authorization: Bearer {}", token.json()["token"].as_str().unwrap())
}

/// What a service answers to whoever has this token.
fn with_bearer(running: &Centre, program: Program, bearer: &str) -> u16 {
    running.curl(&["--header", bearer, &running.url(program, "ping")]).unwrap().status
}

fn note(number: usize) -> Value {
    json!({ "name": format!("note {number}") })
}

/// Writes the name of the cluster again and again until it is told to end: how often it was acknowledged.
fn goes_on_writing(running: &Centre, cluster: &str, ends: &AtomicBool, acknowledged: impl Fn(usize)) -> usize {
    let path = Centre::entry(application::INFO, cluster);
    let mut number = 0;
    while !ends.load(Relaxed) {
        let done = running.send(running.admin(), "PUT", Program::ConfigDb, &path, &note(number + 1)).unwrap();
        assert!((200..300).contains(&done.status), "{done:?}");
        number += 1;
        acknowledged(number);
    }
    number
}

/// A copy is made while somebody writes: how many writes were acknowledged before it began, and in the end.
fn copied_among_writes(running: &Centre, cluster: &str, copy: impl FnOnce() -> Output) -> (usize, usize) {
    let (ends, acknowledged) = (AtomicBool::new(false), std::sync::atomic::AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let writer =
            scope.spawn(|| goes_on_writing(running, cluster, &ends, |number| acknowledged.store(number, Relaxed)));
        until("writes to go on", || (acknowledged.load(Relaxed) > 2).then_some(()));
        let before = acknowledged.load(Relaxed);
        let done = copy();
        let copied = acknowledged.load(Relaxed);
        ends.store(true, Relaxed);
        let all = writer.join().unwrap();
        assert!(done.status.success(), "{}", words(&done));
        // The first of them may have begun before the copy did.
        assert!(copied >= before + 2, "no write began and ended while the copy was made: {before}, {copied}");
        (before, all)
    })
}

/// What was acknowledged before the copy began is in it, and nothing that never was.
fn has_what_was_written(running: &Centre, cluster: &str, (before, all): (usize, usize)) {
    let path = Centre::entry(application::INFO, cluster);
    let kept = running.ask(running.admin(), "GET", Program::ConfigDb, &path).unwrap().json();
    assert!((before..=all).any(|number| kept == note(number)), "{kept}, of {before} to {all}");
}

#[test]
fn a_centre_is_copied_while_it_runs_and_is_the_same_on_an_empty_machine() {
    let mut running = Centre::prepared("centre-backup", false).unwrap();
    let (report, _) = running.start().unwrap();
    invite(&running, "Press_4");
    let mut invited = said(&running);
    assert_eq!(invited.len(), 2, "{invited:?}");
    let made = running.reported(&["new", "Nord"]).unwrap();
    let uuid = made["uuid"].as_str().unwrap().to_owned();
    let before = head(&running, running.admin(), "before");
    running.set_password(FLUX.0, FLUX.1).unwrap();
    let key = newest_key(&running, FLUX.0);
    let link = running.reported(&["command", "Nord"]).unwrap()["url"].as_str().unwrap().to_owned();
    assert_eq!(running.curl(&[&link]).unwrap().status, 200);
    let tokens = [Program::ConfigDb, Program::Auth].map(|program| (program, bearer(&running, program)));
    for (program, token) in &tokens {
        assert_eq!(with_bearer(&running, *program, token), 200, "{program:?}");
    }
    let (root, file) = (running.layout.root().to_owned(), running.run.file("centre.backup"));

    // Everything goes into a copy, so nobody but the root principal may ask for one, whatever is granted to it.
    let asked = running.ask(running.admin(), "POST", Program::ConfigDb, "backup").unwrap();
    assert_eq!(asked.status, 403);

    let writes = copied_among_writes(&running, &uuid, || {
        centre(&running, &["backup".as_ref(), root.as_ref(), "--to".as_ref(), file.as_ref()])
    });
    let again = centre(&running, &["backup".as_ref(), root.as_ref(), "--to".as_ref(), file.as_ref()]);
    assert!(!again.status.success() && words(&again).contains("file-exists"), "{}", words(&again));

    // A key that an edge gets after that is newer than the one in the copy.
    running.set_password(FLUX.0, "newer").unwrap();
    assert!(newest_key(&running, FLUX.0) > key);
    running.stop().unwrap();
    let onto = centre(&running, &["restore".as_ref(), file.as_ref(), root.as_ref()]);
    assert!(!onto.status.success() && words(&onto).contains("directory-not-empty"), "{}", words(&onto));
    fs::rename(&root, running.run.file("lost")).unwrap();

    let mut damaged = fs::read(&file).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let other = running.write_secret("damaged.backup", "").unwrap();
    fs::write(&other, damaged).unwrap();
    let refused = centre(&running, &["restore".as_ref(), other.as_ref(), root.as_ref()]);
    assert!(!refused.status.success() && words(&refused).contains("centre-backup-damaged"), "{}", words(&refused));
    assert!(!root.exists(), "what is damaged leaves nothing");

    let restored = centre(&running, &["restore".as_ref(), file.as_ref(), root.as_ref()]);
    assert!(restored.status.success(), "{}", words(&restored));
    let restored: Value = serde_json::from_slice(&restored.stdout).unwrap();
    let flux = running.parameters.upn(FLUX.0).unwrap().to_string();
    let listed = restored["edge_keys"].as_array().unwrap().iter().find(|listed| listed["principal"] == flux);
    assert_eq!(listed.unwrap_or_else(|| panic!("{restored}"))["kvno"], key, "an edge with a higher number is found");
    let (again, _) = running.start().unwrap();
    // What stands in images, and what an operator said to the enrol service.
    assert_eq!(again["enrol_service"], report["enrol_service"]);
    // But not whom he invited: an invitation that was used since would be good again.
    assert_eq!(said(&running), invited.split_off(1));
    assert!(running.layout.registrations().join("records").exists());
    assert!(running.child(Service::Enrol.file_name()).is_ok());
    // The password of before, the cluster, its repository.
    let shown = running.reported(&["show", "Nord"]).unwrap();
    assert_eq!((&shown["uuid"], &shown["ready"]), (&made["uuid"], &true.into()));
    assert_eq!(head(&running, running.admin(), "after"), before);
    has_what_was_written(&running, &uuid, writes);
    // Edges go on with what they had; links and tokens are void.
    assert!(running.kinit(FLUX.0, FLUX.1).unwrap().status.success());
    assert_eq!(head(&running, FLUX, "edge"), before);
    assert_eq!(running.curl(&[&link]).unwrap().status, 404);
    for (program, token) in &tokens {
        assert_eq!(with_bearer(&running, *program, token), 401, "{program:?}");
    }
    assert!(running.reported(&["new", "Sued"]).unwrap()["ready"].as_bool().unwrap(), "and it goes on");
}
