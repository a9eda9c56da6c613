//! A centre is copied while it runs, and is the same on an empty machine.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Output};

use latchkey_centre_site::{Program, Service};
use latchkey_qemu_tests::centre::Centre;

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

fn head(running: &Centre, name: &str) -> String {
    let to = running.run.file(name);
    let cloned = running.git_clone(running.admin(), "git/cluster/Nord", &to).unwrap();
    assert!(cloned.status.success());
    let head = Command::new("git").arg("-C").arg(&to).args(["rev-parse", "HEAD"]).output().unwrap();
    String::from_utf8(head.stdout).unwrap()
}

#[test]
fn a_centre_is_copied_while_it_runs_and_is_the_same_on_an_empty_machine() {
    let mut running = Centre::prepared("centre-backup", false).unwrap();
    let (report, _) = running.start().unwrap();
    invite(&running, "Press_4");
    let mut invited = said(&running);
    assert_eq!(invited.len(), 2, "{invited:?}");
    let made = running.reported(&["new", "Nord"]).unwrap();
    let before = head(&running, "before");
    let (root, file) = (running.layout.root().to_owned(), running.run.file("centre.backup"));

    // Everything goes into a copy, so nobody but the root principal may ask for one, whatever is granted to it.
    let asked = running.ask(running.admin(), "POST", Program::ConfigDb, "backup").unwrap();
    assert_eq!(asked.status, 403);

    let backed_up = centre(&running, &["backup".as_ref(), root.as_ref(), "--to".as_ref(), file.as_ref()]);
    assert!(backed_up.status.success(), "{}", words(&backed_up));
    let again = centre(&running, &["backup".as_ref(), root.as_ref(), "--to".as_ref(), file.as_ref()]);
    assert!(!again.status.success() && words(&again).contains("file-exists"), "{}", words(&again));

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
    assert_eq!(head(&running, "after"), before);
    assert!(running.reported(&["new", "Sued"]).unwrap()["ready"].as_bool().unwrap(), "and it goes on");
}
