//! The program as the agent calls it: first boots, later boots, hostile mirrors, changed disks.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod node;

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use latchkey_kubernetes::Sha256;
use latchkey_test_support::mirror::{Answer, Mirror, answers, never_ends, stalls_after};
use node::{KUBELET, Node, PROGRAM, failed, given, good, list, said, succeeded};

#[test]
fn components_come_once_and_later_boots_need_no_mirror() {
    for role in ["control-plane", "worker"] {
        let (mut node, list) = Node::member(role);
        node.holds(role);
        node.reboot();
        assert!(!node.link().exists());
        let output = node.verify(&list, role);
        succeeded(&output);
        assert!(!said(&output).contains("getting"), "{}", said(&output));
        node.holds(role);
    }
}

type Harm = fn(&Path);

/// What can become of a file while the machine is off.
fn damages() -> [(&'static str, Harm); 5] {
    [
        ("gone", |path| fs::remove_file(path).unwrap()),
        ("changed", |path| {
            let mut content = fs::read(path).unwrap();
            let middle = content.len() / 2;
            content[middle] ^= 1;
            fs::write(path, content).unwrap();
        }),
        ("cut short", |path| {
            let content = fs::read(path).unwrap();
            fs::write(path, &content[..content.len() / 2]).unwrap();
        }),
        ("a link", |path| {
            let elsewhere = path.with_file_name("elsewhere");
            fs::write(&elsewhere, "#!/bin/sh").unwrap();
            fs::set_permissions(&elsewhere, Permissions::from_mode(0o755)).unwrap();
            fs::remove_file(path).unwrap();
            symlink(elsewhere, path).unwrap();
        }),
        ("a directory", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir_all(path.join("x")).unwrap();
        }),
    ]
}

#[test]
fn what_changed_on_the_disk_is_got_again_before_it_is_found() {
    let (shape, _) = Node::member("worker");
    let count = shape.files().into_iter().filter(|path| !path.ends_with("lock")).count();
    for (damage, harm) in damages() {
        for at in 0..count {
            let mut node = Node::new();
            let mirror = Mirror::new(good(20));
            let list = list(&mirror.address);
            succeeded(&node.fetch(&list, "worker"));
            let files: Vec<_> = node.files().into_iter().filter(|path| !path.ends_with("lock")).collect();
            let path = &files[at];
            harm(path);
            node.reboot();
            let output = node.verify(&list, "worker");
            if path.ends_with("list.json") {
                let code = if damage == "a directory" { "component-store-unusable" } else { "component-list-changed" };
                failed(&output, code);
                assert!(!node.link().exists(), "{damage}");
                // A ticket has the list.
                succeeded(&node.fetch(&list, "worker"));
            } else {
                assert!(output.status.success(), "{damage}: {}: {}", path.display(), said(&output));
            }
            node.holds("worker");
        }
    }
}

#[test]
fn what_changed_and_cannot_be_got_again_is_not_found() {
    for name in ["kubelet-1.34.4", "cni-1.8.0"] {
        let (mut node, list) = Node::member("worker");
        let path = node.files().into_iter().find(|path| path.ends_with(name)).unwrap();
        fs::write(path, "another kubelet").unwrap();
        node.reboot();
        failed(&node.verify(&list, "worker"), "component-unreachable");
        assert!(!node.link().exists());
    }
}

#[test]
fn a_program_that_nobody_named_is_removed() {
    let (mut node, list) = Node::member("worker");
    let planted = node.link().canonicalize().unwrap().join("conntrack");
    fs::write(&planted, "#!/bin/sh").unwrap();
    node.reboot();
    succeeded(&node.verify(&list, "worker"));
    assert!(!planted.exists());
    node.holds("worker");
}

#[test]
fn nothing_that_a_hostile_mirror_gives_can_be_executed() {
    let lie = || answers("200 OK", "Content-Length: 7\r\n", b"#!/bad\n");
    let stalls = || stalls_after(30_000, KUBELET);
    for (name, answer, code) in [
        ("lies", &lie as &dyn Fn() -> Answer, "component-hash-differs"),
        ("stalls", &stalls, "component-too-slow"),
        ("sends without end", &never_ends, "component-too-large"),
        ("has nothing", &|| answers("404 Not Found", "Content-Length: 0\r\n", b""), "component-missing"),
        ("is broken", &|| answers("500 Oh", "Content-Length: 0\r\n", b""), "component-answer-refused"),
    ] {
        let node = Node::new();
        let mirror = Mirror::new(good(1).into_iter().chain([answer()]).collect());
        failed(&node.fetch(&list(&mirror.address), "worker"), code);
        assert!(!node.link().exists(), "{name}");
        let home = node.disk.path().join(Sha256::of(list(&mirror.address).as_bytes()).to_string());
        assert!(!home.join("programs/kubelet").exists(), "{name}");
        let ours = |path: &PathBuf| path.to_string_lossy().contains("kubeadm");
        assert!(node.executable().iter().all(ours), "{name}: {:?}", node.executable());
    }
}

#[test]
fn a_run_that_was_cut_is_continued_where_it_was() {
    let node = Node::new();
    let mirror = Mirror::new(good(1).into_iter().chain([stalls_after(30_000, KUBELET)]).chain(good(3)).collect());
    let list = list(&mirror.address);
    let mut child = node.command(&["fetch", "--role", "worker"]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    let part = node.disk.path().join(Sha256::of(list.as_bytes()).to_string()).join("downloads/.kubelet-1.34.4.part");
    let came = || fs::metadata(&part).is_ok_and(|part| part.len() == 30_000);
    latchkey_test_support::until("a part of the kubelet", || came().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!node.link().exists());
    succeeded(&node.fetch(&list, "worker"));
    node.holds("worker");
    let requests = mirror.requests();
    assert!(requests[2].to_lowercase().contains("range: bytes=30000-"), "{requests:?}");
}

#[test]
fn a_full_disk_is_named() {
    let node = Node::new();
    let mirror = Mirror::new(good(4));
    let mount = r#"mount -t tmpfs -o size=128k none "$1" || exit 77; shift; exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", mount, "sh"]).arg(node.disk.path()).arg(PROGRAM);
    command.args(["fetch", "--role", "worker", "--store"]).arg(node.disk.path()).arg("--link").arg(node.link());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = given(command, &list(&mirror.address));
    if output.status.code() == Some(77) || said(&output).starts_with("unshare: ") {
        latchkey_test_support::skip("a file system of its own needs root and unshare (util-linux)");
        return;
    }
    failed(&output, "component-no-room");
    assert!(!node.link().exists());
}

#[test]
fn a_list_of_another_version_and_what_is_no_list_are_refused_before_anything_is_written() {
    let node = Node::new();
    let list = list("http://127.0.0.1:1");
    let other = given(node.command(&["fetch", "--role", "worker", "--version", "1.33"]), &list);
    failed(&other, "component-list-version-differs");
    for text in ["", "{}", "[]", &" ".repeat(100_000), &list.replacen("1.34.4", "1.34", 1)] {
        failed(&node.fetch(text, "worker"), "component-list-unusable");
    }
    assert!(node.files().is_empty(), "{:?}", node.files());
    let unknown = given(node.command(&["verify", &"0".repeat(64), "--role", "worker"]), "");
    failed(&unknown, "component-list-changed");
    for words in [&["fetch"][..], &["verify", "x", "--role", "worker"], &["fetch", "--role", "first"], &[]] {
        assert_eq!(given(node.command(words), "").status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn the_components_of_an_earlier_list_go_when_a_boot_finds_those_of_the_next_and_not_before() {
    let (node, first) = Node::member("worker");
    let mirror = Mirror::new(good(4));
    let next = list(&mirror.address);
    let is_left = |lists: &[&str]| {
        let mut left: Vec<_> = fs::read_dir(node.disk.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        left.sort();
        let mut wanted: Vec<std::ffi::OsString> =
            lists.iter().map(|list| Sha256::of(list.as_bytes()).to_string().into()).collect();
        wanted.push("lock".into());
        wanted.sort();
        assert_eq!(left, wanted);
    };
    succeeded(&node.fetch(&next, "worker"));
    node.holds("worker");
    is_left(&[&first, &next]);
    // The node noted none of it, or goes back: nothing is lost of either.
    let hash = Sha256::of(first.as_bytes()).to_string();
    succeeded(&given(node.command(&["verify", &hash, "--role", "worker", "--keep-others"]), ""));
    node.holds("worker");
    is_left(&[&first, &next]);
    succeeded(&node.verify(&next, "worker"));
    node.holds("worker");
    is_left(&[&next]);
}

#[test]
fn two_at_once_do_not_work_on_one_store() {
    let (node, list) = Node::member("worker");
    let lock = fs::File::open(node.disk.path().join("lock")).unwrap();
    lock.lock().unwrap();
    failed(&node.verify(&list, "worker"), "component-store-busy");
    drop(lock);
    succeeded(&node.verify(&list, "worker"));
}
