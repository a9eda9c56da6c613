//! Stock git against the server: what clients do, and what they must not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::Ordering::SeqCst;

use crate::rig::{ADMIN, FLUX, MANAGER, NORD, Rig, SOUTH, commit, fail, git, git_command, is_sound, noise, succeed};
use latchkey_git_server::backend::Limits;
use latchkey_git_server::git::GitLimits;
use latchkey_test_support::{finish, until};
use serde_json::json;

#[test]
fn an_empty_repository_is_cloned_pushed_to_and_fetched_from() {
    let rig = Rig::new();
    let copy = rig.working_copy("one");
    assert_eq!(succeed(git(&copy, &["branch", "--show-current"])), "main", "an empty repository's first branch");
    succeed(git(&copy, &["push", "origin", "main"]));
    let second = commit(&copy, "second", b"2");
    // By its name, and by the account that Flux has there.
    succeed(git(rig.directory.path(), &["clone", &rig.named(FLUX, "git/cluster/Nord.git"), "two"]));
    assert_eq!(fs::read(rig.path("two/README.md")).unwrap(), b"one");
    succeed(git(&copy, &["push"]));
    succeed(git(&rig.path("two"), &["pull"]));
    assert_eq!(succeed(git(&rig.path("two"), &["rev-parse", "HEAD"])), second);
    assert!(rig.front.seen().version_2.load(SeqCst), "git's newest protocol reaches git");
    is_sound(&rig.stored(NORD));
}

#[test]
fn a_shallow_clone_has_one_commit_and_can_be_deepened() {
    let rig = Rig::new();
    let copy = rig.working_copy("one");
    for number in 0..5 {
        commit(&copy, &format!("file{number}"), b"x");
    }
    succeed(git(&copy, &["push", "origin", "main"]));
    let url = rig.url(FLUX, NORD);
    succeed(git(rig.directory.path(), &["clone", "--depth=1", "--single-branch", "--branch=main", &url, "shallow"]));
    let count = || succeed(git(&rig.path("shallow"), &["rev-list", "--count", "HEAD"]));
    assert_eq!(count(), "1");
    succeed(git(&rig.path("shallow"), &["fetch", "--unshallow"]));
    assert_eq!(count(), "6");
}

#[test]
fn thirty_megabytes_are_pushed_and_cloned() {
    let rig = Rig::new();
    let copy = rig.working_copy("one");
    let content = noise(30 << 20);
    commit(&copy, "large", &content);
    succeed(git(&copy, &["push", "origin", "main"]));
    is_sound(&rig.stored(NORD));
    succeed(git(rig.directory.path(), &["clone", &rig.url(FLUX, NORD), "two"]));
    assert!(fs::read(rig.path("two/large")).unwrap() == content);
}

#[test]
fn many_wants_are_sent_packed_and_understood() {
    let rig = Rig::new();
    let copy = rig.working_copy("one");
    for number in 0..60 {
        commit(&copy, "file", number.to_string().as_bytes());
        succeed(git(&copy, &["branch", &format!("branch{number}")]));
    }
    succeed(git(&copy, &["push", "--all", "origin"]));
    succeed(git(rig.directory.path(), &["clone", &rig.url(FLUX, NORD), "two"]));
    assert!(rig.front.seen().gzip.load(SeqCst), "git packs a request of more than 1024 bytes");
}

#[test]
fn pushes_at_once_all_arrive_and_one_of_a_branch_wins() {
    let rig = Rig::new();
    let first = rig.working_copy("first");
    succeed(git(&first, &["push", "origin", "main"]));
    let copies: Vec<_> = (0..6).map(|number| rig.path(&format!("copy{number}"))).collect();
    for (number, copy) in copies.iter().enumerate() {
        succeed(git(rig.directory.path(), &["clone", &rig.url(MANAGER, NORD), copy.to_str().unwrap()]));
        commit(copy, "mine", number.to_string().as_bytes());
    }
    let push = |refspec: &dyn Fn(usize) -> String| {
        let started = copies.iter().enumerate().map(|(number, copy)| {
            let mut command = git_command(copy, &["push", "origin", &refspec(number)]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        });
        let started: Vec<_> = started.collect();
        started.into_iter().map(|child| finish("git push", child)).filter(|output| output.status.success()).count()
    };
    assert_eq!(push(&|number| format!("main:own{number}")), 6);
    assert_eq!(push(&|_| "main:main".to_owned()), 1);
    is_sound(&rig.stored(NORD));
    let (_, branches) = rig.page("GET", FLUX, &format!("/v1/status/{NORD}"));
    assert_eq!(branches.as_object().unwrap().len(), 7);
}

#[test]
fn a_push_that_breaks_off_leaves_a_sound_repository() {
    let rig = Rig::new();
    let copy = rig.working_copy("one");
    let before = succeed(git(&copy, &["rev-parse", "HEAD"]));
    succeed(git(&copy, &["push", "origin", "main"]));
    let after = commit(&copy, "large", &noise(8 << 20));
    let branches = || rig.page("GET", FLUX, &format!("/v1/status/{NORD}")).1;
    rig.front.seen().cut_after.store(3 << 20, SeqCst);
    fail(git(&copy, &["push"]));
    rig.front.seen().cut_after.store(0, SeqCst);
    until("the end of the push", || (branches() == json!({"main": before})).then_some(()));
    // What the push left is cleared away when its last process is gone.
    until("the objects", || {
        let objects = fs::read_dir(rig.stored(NORD).join("objects")).unwrap();
        objects.flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with("tmp_")).then_some(())
    });
    is_sound(&rig.stored(NORD));
    succeed(git(&copy, &["push"]));
    assert_eq!(branches(), json!({"main": after}));
}

#[test]
fn a_pack_above_the_limit_is_refused_and_said_so() {
    let rig = Rig::with(GitLimits { pack: 1 << 20, ..GitLimits::default() }, Limits::default());
    let copy = rig.working_copy("one");
    commit(&copy, "large", &noise(3 << 19));
    let said = fail(git(&copy, &["push", "origin", "main"]));
    assert!(said.contains("maximum allowed size"), "{said}");
    commit(&copy, "larger", &noise(4 << 20));
    fail(git(&copy, &["push", "origin", "main"]));
    assert_eq!(rig.page("GET", FLUX, &format!("/v1/status/{NORD}")), (200, json!({})));
    is_sound(&rig.stored(NORD));
}

#[test]
fn a_full_repository_takes_no_pushes_and_is_still_read() {
    let rig = Rig::with(GitLimits::default(), Limits { repository: 1 << 20, ..Limits::default() });
    let copy = rig.working_copy("one");
    commit(&copy, "large", &noise(2 << 20));
    succeed(git(&copy, &["push", "origin", "main"]));
    commit(&copy, "more", b"more");
    fail(git(&copy, &["push", "origin", "main"]));
    assert_eq!(*rig.front.seen().refused.lock().unwrap(), [413]);
    succeed(git(rig.directory.path(), &["clone", &rig.url(FLUX, NORD), "two"]));
}

#[test]
fn damaged_objects_are_not_taken() {
    let rig = Rig::new();
    let copy = rig.working_copy("one");
    // A tree with a file named `.git`, which a clone would write over its own repository.
    let blob = succeed(git(&copy, &["hash-object", "-w", "README.md"]));
    fs::write(rig.path("tree"), format!("100644 blob {blob}\t.git\n")).unwrap();
    let mut mktree = git_command(&copy, &["mktree"]);
    let tree = mktree.stdin(fs::File::open(rig.path("tree")).unwrap()).output().unwrap();
    let tree = succeed(tree);
    let bad = succeed(git(&copy, &["commit-tree", &tree, "-m", "bad"]));
    let said = fail(git(&copy, &["push", "origin", &format!("{bad}:refs/heads/bad")]));
    assert!(said.contains("hasDotgit"), "{said}");
    assert_eq!(rig.page("GET", FLUX, &format!("/v1/status/{NORD}")), (200, json!({})));
}

#[test]
fn a_cluster_reads_its_own_repository_and_nothing_else() {
    let rig = Rig::new();
    let copy = rig.working_copy("one");
    succeed(git(&copy, &["push", "origin", "main"]));
    let said = fail(git(&copy, &["push", &rig.url(FLUX, NORD), "main:stolen"]));
    assert!(said.contains("403"), "{said}");
    let said = fail(git(&copy, &["ls-remote", &rig.url(FLUX, SOUTH)]));
    assert!(said.contains("403"), "{said}");
    for name in ["git/cluster/South", "git/cluster/None"] {
        let said = fail(git(&copy, &["ls-remote", &rig.named(FLUX, name)]));
        assert!(said.contains("not found"), "{said}");
    }
    let all = rig.page("GET", FLUX, "/v1/status").1;
    assert_eq!(all.as_object().unwrap().keys().collect::<Vec<_>>(), [&NORD.to_string()]);
    assert!(!rig.stored(SOUTH).exists(), "who has no right makes nothing");
}

#[test]
fn nothing_of_a_repository_is_ever_run() {
    let rig = Rig::new();
    let copy = rig.working_copy("one");
    let (marker, hooks) = (rig.path("marker"), rig.stored(NORD).join("hooks"));
    fs::create_dir_all(&hooks).unwrap();
    for hook in ["pre-receive", "update", "post-receive", "post-update"] {
        let hook = hooks.join(hook);
        fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    }
    succeed(git(&copy, &["push", "origin", "main"]));
    assert!(!marker.exists());
}

#[test]
fn branches_are_told_after_a_push_and_unknown_ones_are_404() {
    let rig = Rig::new();
    let watching = rig.server.watch();
    let copy = rig.working_copy("one");
    let status = format!("/v1/status/{NORD}");
    assert_eq!(rig.page("GET", FLUX, &status), (200, json!({})));
    let head = succeed(git(&copy, &["rev-parse", "HEAD"]));
    succeed(git(&copy, &["push", "origin", "main", "main:feature/x"]));
    assert_eq!(rig.page("GET", FLUX, &status), (200, json!({"main": head, "feature/x": head})));
    assert_eq!(latchkey_test_support::block_on(watching.recv()), Ok(NORD));
    succeed(git(&copy, &["push", "origin", ":feature/x"]));
    assert_eq!(rig.page("GET", FLUX, &status), (200, json!({"main": head})));
    assert_eq!(rig.page("GET", FLUX, &format!("/v1/status/{SOUTH}")).0, 403);
    assert_eq!(rig.page("GET", MANAGER, &format!("/v1/status/{SOUTH}")), (200, json!({})));
    let unknown = "cccccccc-0000-4000-8000-000000000003";
    assert_eq!(rig.page("GET", MANAGER, &format!("/v1/status/{unknown}")).0, 404);
}

#[test]
fn storage_outlives_its_entry_until_it_is_deleted() {
    let rig = Rig::new();
    let copy = rig.working_copy("one");
    succeed(git(&copy, &["push", "origin", "main"]));
    rig.server.change_entry(NORD, None);
    fail(git(&copy, &["fetch"]));
    assert_eq!(rig.page("GET", ADMIN, "/v1/storage"), (200, json!([NORD])));
    rig.server.change_entry(NORD, Some(&json!({"path": "cluster/Nord"})));
    succeed(git(&copy, &["fetch"]));
    let path = format!("/v1/storage/{NORD}");
    for (user, status) in [(MANAGER, 403), (FLUX, 403), (ADMIN, 204), (ADMIN, 404)] {
        assert_eq!(rig.page("DELETE", user, &path).0, status, "{user}");
    }
    assert_eq!(rig.page("GET", ADMIN, "/v1/storage"), (200, json!([])));
    assert_eq!(rig.page("GET", FLUX, &format!("/v1/status/{NORD}")), (200, json!({})));
    succeed(git(&copy, &["push", "origin", "main"]));
}
