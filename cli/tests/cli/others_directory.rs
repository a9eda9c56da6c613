//! Root in a cluster's directory that belongs to a service's user, who puts there what he likes.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;

use crate::support::command::Ran;
use crate::support::node::{Behaviour, FakeNode};
use crate::support::operator::Operator;
use crate::support::plant::error_code;
use crate::support::stand_in::StandIn;

fn founded() -> (Operator, FakeNode) {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    (operator, node)
}

fn node(operator: &Operator, arguments: &[&str]) -> Ran {
    operator.run(&[&["node"], arguments, &["--cluster", "plant", "--output", "json"]].concat())
}

/// What a service's user puts in root's way: here another name of a file of root's, which was given to him once.
#[test]
fn in_a_directory_of_the_services_root_gives_nothing_away_and_leaves_nothing_of_its_own() {
    const SERVICE: u32 = 4711;
    if !rustix::process::geteuid().is_root() {
        latchkey_test_support::skip("only root can give directories away");
        return;
    }
    let (operator, _) = founded();
    let owner = |name: &str| fs::metadata(operator.path(name)).unwrap().uid();
    let give = |name: &str| chown(operator.path(name), Some(SERVICE), Some(SERVICE)).unwrap();
    for name in ["plant", "plant/nodes", "plant/denied", "plant/enrolment.json"] {
        give(name);
    }
    fs::set_permissions(operator.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(operator.path("victim"), "root's").unwrap();
    fs::remove_file(operator.path("plant/.lock")).unwrap();
    fs::hard_link(operator.path("victim"), operator.path("plant/.lock")).unwrap();
    let admit = || node(&operator, &["admit", &"ab".repeat(32), "--name", "edge-9"]);
    assert_eq!(error_code(&admit().failed(1)), "directory-unusable");
    assert_eq!(owner("victim"), 0);
    fs::remove_file(operator.path("plant/.lock")).unwrap();
    admit().succeeded();
    assert_eq!((owner("plant/.lock"), owner("plant/enrolment.json")), (SERVICE, SERVICE));
    // Whether it stays shut out cannot be said: then it stays on record.
    chown(operator.path("plant/denied"), Some(0), Some(0)).unwrap();
    fs::set_permissions(operator.path("plant/denied"), fs::Permissions::from_mode(0o711)).unwrap();
    node(&operator, &["remove", "edge-1"]).failed(1);
    assert_eq!(fs::read_dir(operator.path("plant/nodes")).unwrap().count(), 1);
}

/// What a kubeconfig names, kubectl runs as whoever runs the command.
#[test]
fn a_directory_of_the_services_has_root_run_nothing_of_its_users() {
    const SERVICE: u32 = 4711;
    if !rustix::process::geteuid().is_root() {
        latchkey_test_support::skip("only root can give directories away");
        return;
    }
    let (operator, first) = founded();
    fs::set_permissions(operator.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    let (note, kubeconfig) = (operator.path("plant/store.json"), operator.path("plant/x.conf"));
    let write = |owner: u32, mode: u32| {
        move |path: &Path, text: &str| {
            let _ = fs::remove_file(path);
            fs::write(path, text).unwrap();
            chown(path, Some(owner), Some(owner)).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    let named = r#"{"version": 1, "kubernetes": {"kubeconfig": "x.conf"}}"#;
    let good = r#"{"users": [{"name": "me", "user": {"token": "mine"}}]}"#;
    let hostile = r#"{"clusters": [{"name": "c", "cluster": {"server": "https://c"}}], "users": [{"name": "me", "user": {"exec": {"command": "/tmp/theirs"}}}]}"#;
    // In the place of kubectl, which shows a kubeconfig as JSON, and runs what it names once an API server is asked. The service's user
    // puts another one there as soon as it was looked at.
    let script = format!(
        "#!/bin/sh\ncd \"${{0%/*}}\" || exit 1\necho \"$*\" >>calls\nwhile [ \"$1\" != --kubeconfig ]; do shift; done\n\
         case \"$(tail -n 1 calls)\" in\n'config view '*) cat \"$2\"; echo '{hostile}' >plant/x.conf ;;\n\
         'version '*) cat \"$2\" >read; exit 1 ;;\n*) exit 1 ;;\nesac\n"
    );
    write(0, 0o700)(&operator.path("kubectl"), &script);
    chown(operator.path("plant"), Some(SERVICE), Some(SERVICE)).unwrap();
    let calls = || fs::read_to_string(operator.path("calls")).unwrap_or_default();
    let program = ["--kubectl-program", "./kubectl", "--cluster", "plant", "--output", "json"];
    let refused = |why: &str| {
        for command in [
            &["node", "list"] as &[&str],
            &["node", "deny", &"ab".repeat(32)],
            &["status"],
            &["upgrade", "store"],
            &["credentials", "join-service", "--out", "new.conf"],
        ] {
            let ran = operator.run(&[command, &program].concat()).failed(2);
            assert_eq!(error_code(&ran), "store-untrusted", "{command:?}: {ran:?}");
            assert!(ran.out.contains(why), "{why}: {}", ran.out);
            assert!(ran.json()["error"]["fix"].as_str().unwrap().contains("--kubeconfig"), "{}", ran.out);
        }
    };
    // The credentials that `latchkey init` left there: merged, they would have root's next kubectl run his program.
    write(SERVICE, 0o600)(&operator.path("plant/admin.conf"), hostile);
    write(0, 0o600)(&operator.path("daily"), good);
    for merging in [&["--merge-kubeconfig", "daily"] as &[&str], &["--api-server", "127.0.0.1"]] {
        let more = ["--resume", "--kubectl-program", "./kubectl", "--output", "json"];
        let ran = operator.init(&first, &[merging, &more].concat()).failed(2);
        assert_eq!(error_code(&ran), "store-untrusted", "{merging:?}: {ran:?}");
        assert_eq!(fs::read_to_string(operator.path("daily")).unwrap(), good);
    }
    // The note.
    write(0, 0o600)(&kubeconfig, good);
    write(SERVICE, 0o644)(&note, named);
    refused("belongs to the user 4711");
    write(0, 0o666)(&note, named);
    refused("others may write it");
    fs::remove_file(&note).unwrap();
    write(0, 0o644)(&operator.path("elsewhere.json"), named);
    symlink(operator.path("elsewhere.json"), &note).unwrap();
    refused("it is a link");
    fs::remove_file(&note).unwrap();
    write(0, 0o644)(&note, named);
    // The kubeconfig.
    write(SERVICE, 0o600)(&kubeconfig, good);
    refused("belongs to the user 4711");
    fs::remove_file(&kubeconfig).unwrap();
    write(0, 0o600)(&operator.path("elsewhere.conf"), good);
    symlink(operator.path("elsewhere.conf"), &kubeconfig).unwrap();
    refused("it is a link");
    fs::remove_file(&kubeconfig).unwrap();
    assert_eq!(calls(), "", "nothing is run before it is known whose word it is");
    // A file of root's that was given another name there.
    write(0, 0o600)(&kubeconfig, hostile);
    refused("`exec` in it names a program");
    // What else leads to programs, or to files that may be others' by then.
    let in_it = |of: &str, named: &str, field: &str| {
        format!(r#"{{"{of}": [{{"name": "me", "{named}": {{"{field}": "x"}}}}]}}"#)
    };
    for (field, text) in ["auth-provider", "client-certificate", "client-key", "tokenFile"]
        .map(|field| (field, in_it("users", "user", field)))
        .into_iter()
        .chain([("certificate-authority", in_it("clusters", "cluster", "certificate-authority"))])
    {
        write(0, 0o600)(&kubeconfig, &text);
        let ran = operator.run(&[&["node", "list"] as &[&str], &program].concat()).failed(2);
        assert_eq!(error_code(&ran), "store-untrusted", "{field}: {ran:?}");
        assert!(ran.out.contains(&format!("`{field}` in it")), "{}", ran.out);
    }
    assert!(calls().lines().all(|call| call.starts_with("config view ")), "{}", calls());
    // What was looked at is what is used.
    write(0, 0o600)(&kubeconfig, good);
    operator.run(&[&["node", "list"] as &[&str], &program].concat()).failed(1);
    assert_eq!(fs::read_to_string(operator.path("read")).unwrap(), good);
    assert_eq!(fs::read_to_string(&kubeconfig).unwrap().trim_end(), hostile);
}

/// Nobody is waited for who would write into a pipe.
#[test]
fn pipes_in_the_place_of_a_clusters_files_hold_nobody() {
    let (operator, first) = founded();
    for name in ["store.json", "init.json", "init.lock"] {
        let path = operator.path("plant").join(name);
        let _ = fs::remove_file(&path);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        // Nobody has it open; and somebody, so that it can be opened for writing.
        for is_open in [false, true] {
            let options = &mut fs::OpenOptions::new();
            let reader = is_open.then(|| options.read(true).write(true).open(&path).unwrap());
            let code = match name {
                "store.json" => error_code(&node(&operator, &["list"]).failed(2)),
                _ => error_code(&operator.init(&first, &["--output", "json"])),
            };
            assert_eq!(code, if name == "init.lock" { "directory-lock" } else { "file-unreadable" });
            drop(reader);
        }
        fs::remove_file(&path).unwrap();
    }
}

/// The lock of `latchkey init` is opened as root: a link there would make or hold a file wherever it leads.
#[test]
fn an_init_follows_no_link_that_has_the_name_of_its_lock() {
    let (operator, first) = Operator::with_node();
    fs::create_dir(operator.path("plant")).unwrap();
    symlink(operator.path("elsewhere"), operator.path("plant/init.lock")).unwrap();
    assert_eq!(error_code(&operator.init(&first, &["--output", "json"]).failed(1)), "directory-lock");
    assert!(!operator.path("elsewhere").exists());
}

/// The join service has to read them, and its user decides what lies there.
#[test]
fn an_init_by_root_in_a_directory_of_the_services_makes_files_of_the_services() {
    const SERVICE: u32 = 4711;
    if !rustix::process::geteuid().is_root() {
        latchkey_test_support::skip("only root can give directories away");
        return;
    }
    let (operator, first) = Operator::with_node();
    fs::create_dir(operator.path("plant")).unwrap();
    chown(operator.path("plant"), Some(SERVICE), Some(SERVICE)).unwrap();
    fs::set_permissions(operator.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    operator.init(&first, &[]).succeeded();
    let mut of_root = BTreeSet::new();
    for entry in fs::read_dir(operator.path("plant")).unwrap() {
        let entry = entry.unwrap();
        if entry.metadata().unwrap().uid() != SERVICE {
            of_root.insert(entry.file_name().into_string().unwrap());
        }
    }
    // Its lock, and the operator's own credentials.
    assert_eq!(of_root, BTreeSet::from(["admin.conf", "init.lock"].map(str::to_owned)));
    // As releases before this one left it.
    chown(operator.path("plant/init.json"), Some(0), Some(0)).unwrap();
    operator.init(&first, &["--resume"]).succeeded();
}

/// A cluster that an init keeps in an API server, with stand-ins for that, kubectl and helm.
struct InApiServer {
    operator: Operator,
    first: FakeNode,
    stand_in: StandIn,
}

impl InApiServer {
    /// Its directory is there, and the join service's credentials, which a real API server would give.
    fn new() -> Self {
        let (operator, first) = Operator::with_node();
        let config = r#"{"users": [{"name": "me", "user": {"token": "mine"}}]}"#;
        first.behave(Behaviour { admin_config: Some(config.into()), ..Behaviour::default() });
        fs::create_dir(operator.path("plant")).unwrap();
        fs::write(operator.path("plant/join-service.kubeconfig"), "").unwrap();
        let stand_in = StandIn::empty(&operator.path("plant"));
        Self { operator, first, stand_in }
    }

    fn init(&self, more: &[&str]) -> Ran {
        let [kubectl, helm] = ["kubectl", "helm"].map(|name| self.stand_in.path(name).display().to_string());
        let programs = ["--kubectl-program", &kubectl, "--helm-program", &helm, "--output", "json"];
        let store = ["--store", "kubernetes", "--control-plane-endpoint", "api.plant.example"];
        self.operator.init(&self.first, &[&programs[..], &store, more].concat())
    }

    fn list(&self) -> Ran {
        let kubectl = self.stand_in.path("kubectl").display().to_string();
        node(&self.operator, &["list", "--kubectl-program", &kubectl])
    }
}

/// `store.json` is root's word: were it the directory's owner's, root would not take it for where the cluster is kept.
#[test]
fn a_cluster_that_root_founded_in_a_directory_of_the_services_is_roots_to_command() {
    const SERVICE: u32 = 4711;
    if !rustix::process::geteuid().is_root() {
        latchkey_test_support::skip("only root can give directories away");
        return;
    }
    let cluster = InApiServer::new();
    let give = |name: &str| chown(cluster.operator.path(name), Some(SERVICE), Some(SERVICE)).unwrap();
    give("plant");
    fs::set_permissions(cluster.operator.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    cluster.init(&[]).succeeded();
    cluster.list().succeeded();
    // As releases before this one left it.
    give("plant/store.json");
    assert_eq!(error_code(&cluster.list().failed(2)), "store-untrusted");
    cluster.init(&["--resume"]).succeeded();
    cluster.list().succeeded();
    assert_eq!(fs::metadata(cluster.operator.path("plant/store.json")).unwrap().uid(), 0);
    // What another program says of where the cluster is kept stays.
    let note = || fs::read_to_string(cluster.operator.path("plant/store.json")).unwrap();
    fs::write(cluster.operator.path("plant/store.json"), note().replace("\"version\": 1", "\"version\": 9")).unwrap();
    cluster.init(&["--resume"]).succeeded();
    assert!(note().contains("\"version\": 9"), "{}", note());
}

/// helm works as cluster administrator: nothing that it reads lies where another user writes.
#[test]
fn helm_reads_the_chart_that_the_command_carries_and_nothing_of_the_directory() {
    let cluster = InApiServer::new();
    cluster.init(&[]).succeeded();
    let seen = fs::read_to_string(cluster.stand_in.path("seen")).unwrap();
    assert!(seen.contains("cluster.json") && !seen.contains("chart"), "{seen}");
    let unpacked = cluster.stand_in.path("unpacked");
    fs::create_dir(&unpacked).unwrap();
    let mut tar = std::process::Command::new("tar");
    let tar = tar.arg("-xzf").arg(cluster.stand_in.path("given")).arg("-C").arg(&unpacked);
    assert!(latchkey_test_support::output(tar).unwrap().status.success());
    let carried = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/latchkey"));
    let mut compare = std::process::Command::new("diff");
    let compare = compare.args(["-r"]).arg(carried).arg(unpacked.join("latchkey"));
    let compared = latchkey_test_support::output(compare).unwrap();
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
}
