//! `latchkey charts` and `latchkey upgrade execute --helm` with stock helm, stock kubectl and a real API server.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::cluster::Cluster;
use crate::support::command::{finish, latchkey, start};
use latchkey_test_support::{Lines, Process, spawn, until};
use serde_json::json;
use tempfile::TempDir;

const NEVER: u64 = 300;

/// Which line begins with this word.
fn line_of(said: &str, word: &str) -> usize {
    said.lines().position(|line| line.starts_with(word)).unwrap_or_else(|| panic!("{word}: {said}"))
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn a_release_that_never_worked_is_deleted_before_it_is_tried_again_and_no_other_is() {
    let cluster = Cluster::start();
    cluster.chart("sample", "1.0.0");
    let good = ("good", "sample", json!({}), 30);
    cluster.charts(&[good.clone(), ("bad", "sample", json!({"stuck": true}), 3), ("last", "sample", json!({}), 30)]);
    let ran = cluster.install(&["--debug", "--output", "json"]).failed(1);
    let error = ran.json()["error"].clone();
    assert_eq!(error["code"], "chart-not-ready", "{error}");
    assert!(error["message"].as_str().unwrap().starts_with("bad: "), "{error}");
    let said: Vec<_> = ran.err.lines().filter(|line| line.contains("[debug]")).collect();
    assert!(!said.is_empty());
    for line in said {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap();
        assert!(text.starts_with("good: ") || text.starts_with("bad: "), "{line}");
    }
    assert_eq!((cluster.history("good"), cluster.history("bad")), (vec!["deployed".into()], vec!["failed".to_owned()]));

    cluster.charts(&[good, ("bad", "sample", json!({"key": "mended"}), 30)]);
    let ran = cluster.install(&[]).succeeded();
    assert!(ran.err.contains("deleted     bad: its installation had failed"), "{}", ran.err);
    assert!(ran.out.contains("good  apps       was there\nbad   apps       installed\n"), "{}", ran.out);
    assert!(line_of(&ran.err, "backup ") < line_of(&ran.err, "deleted "), "{}", ran.err);
    assert_eq!(cluster.backups(), 1);
    assert_eq!((cluster.history("good").len(), cluster.value("bad").as_str()), (1, "mended"));

    // Helm by hand, and after it this command again.
    cluster.helm(&["upgrade", "good", cluster.path("sample").to_str().unwrap(), "--namespace=apps", "--set=key=hand"]);
    assert!(cluster.install(&[]).succeeded().out.contains("good  apps       was there\n"));
    assert_eq!(cluster.value("good"), "hand");
    let listed = cluster.run(&["charts", "list", "--charts", "charts.json"], &["--output", "json"]).succeeded().json();
    let row = |name: &str| listed["charts"].as_array().unwrap().iter().find(|row| row["name"] == name).cloned();
    assert_eq!(row("good").unwrap()["revision"], "2");
    cluster.helm(&["uninstall", "bad", "--namespace=apps", "--keep-history"]);
    let error = cluster.install(&["--output", "json"]).failed(1).json()["error"].clone();
    assert_eq!(error["code"], "release-removed", "{error}");
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn an_upgrade_is_shown_first_has_a_backup_and_rolls_back_what_fails() {
    let cluster = Cluster::start();
    cluster.chart("sample", "1.0.0");
    cluster.charts(&[("one", "sample", json!({"key": "old"}), 30), ("two", "sample", json!({}), 30)]);
    cluster.install(&[]).succeeded();
    let ran = cluster.upgrade(&[]).succeeded();
    assert!(ran.out.contains("is as the file says") && !cluster.path("latchkey-backups").exists(), "{}", ran.out);

    cluster.chart("sample", "1.1.0");
    cluster.charts(&[("one", "sample", json!({"key": "new"}), 30), ("absent", "sample", json!({}), 30)]);
    let shown = cluster.upgrade(&["--dry-run"]).succeeded().out;
    assert!(shown.contains("-  key: old\n+  key: new\n") && shown.contains("one: changed Secret one"), "{shown}");
    assert!(!shown.contains("hidden") && shown.contains("sample-1.0.0  sample-1.1.0"), "{shown}");
    assert_eq!((cluster.history("one").len(), cluster.value("one").as_str()), (1, "old"), "a dry run changes nothing");
    assert!(!cluster.path("latchkey-backups").exists());

    let done = cluster.upgrade(&["--output", "json"]).succeeded().json();
    assert_eq!(cluster.value("one"), "new");
    assert_eq!(cluster.history("two").len(), 1, "what the file does not name is not touched");
    assert_eq!(done["charts"][1]["done"], "absent");
    let backup = done["backup"]["directory"].as_str().unwrap().to_owned();
    latchkey(cluster.directory.path(), &["backup", "check", &backup]).succeeded();

    cluster.charts(&[("one", "sample", json!({"key": "broken", "stuck": true}), 3)]);
    let error = cluster.upgrade(&["--output", "json"]).failed(1).json()["error"].clone();
    assert_eq!(error["code"], "chart-not-ready", "{error}");
    assert!(error["because"].to_string().contains("was rolled back by helm"), "{error}");
    assert_eq!(cluster.value("one"), "new");
    assert_eq!(cluster.history("one").last().unwrap(), "deployed");
    cluster.charts(&[("one", "sample", json!({"key": 7}), 30)]);
    let error = cluster.upgrade(&["--output", "json"]).failed(1).json()["error"].clone();
    assert_eq!(error["code"], "chart-values-invalid", "{error}");
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn an_upgrade_that_is_cut_goes_on_and_two_at_once_are_one() {
    let cluster = Cluster::start();
    cluster.chart("sample", "1.0.0");
    cluster.charts(&[("one", "sample", json!({"key": "old"}), 30)]);
    cluster.install(&[]).succeeded();
    cluster.charts(&[("one", "sample", json!({"key": "stuck", "stuck": true}), NEVER)]);
    let command = ["upgrade", "execute", "--helm", "--charts", "charts.json"];
    let mut first = start(cluster.directory.path(), &cluster.arguments(&command, &["--output", "json"]));
    until("helm to be at it", || (cluster.history("one").last().unwrap() == "pending-upgrade").then_some(()));

    let error = cluster.upgrade(&["--output", "json"]).failed(1).json()["error"].clone();
    let holder = format!("(process {})", first.id());
    assert_eq!(error["code"], "charts-busy", "{error}");
    assert!(error["message"].as_str().unwrap().contains(&holder), "{error}");
    let kubernetes = ["upgrade", "execute", "--kubernetes", "1.35"];
    let error = cluster.run(&kubernetes, &["--output", "json"]).failed(1).json()["error"].clone();
    assert_eq!(error["code"], "charts-busy", "{error}");
    assert!(error["message"].as_str().unwrap().contains(&holder), "{error}");

    // As a power failure would.
    first.kill().unwrap();
    finish(first);
    assert_eq!(cluster.history("one").last().unwrap(), "pending-upgrade");
    until("helm to be gone, too", || (!runs_with(&cluster.kubeconfig)).then_some(()));
    cluster.charts(&[("one", "sample", json!({"key": "new"}), 30)]);
    let ran = cluster.upgrade(&[]).succeeded();
    let (backup, rolled_back) = (line_of(&ran.err, "backup "), line_of(&ran.err, "rolled back "));
    assert!(backup < rolled_back, "a roll-back removes what the upgrade brought: {}", ran.err);
    assert_eq!((cluster.backups(), &*cluster.value("one")), (2, "new"), "one of each run");
    assert_eq!(cluster.history("one"), ["superseded", "pending-upgrade", "superseded", "deployed"].map(str::to_owned));

    // As an operator would (Ctrl-C): helm ends first, and rolls back.
    cluster.charts(&[("one", "sample", json!({"key": "stuck", "stuck": true}), NEVER)]);
    let first = start(cluster.directory.path(), &cluster.arguments(&command, &["--output", "json"]));
    until("helm to be at it", || (cluster.history("one").last().unwrap() == "pending-upgrade").then_some(()));
    let pid = rustix::process::Pid::from_child(&first);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let error = finish(first).failed(1).json()["error"].clone();
    assert_eq!(error["code"], "interrupted", "{error}");
    assert_eq!((cluster.history("one").last().unwrap().as_str(), &*cluster.value("one")), ("deployed", "new"));
    // The lock was given back, and nothing is in work: nobody waits.
    let lease = cluster.kubectl(&["get", "lease", "latchkey-charts", "--namespace=kube-system", "--output=json"]);
    let lease: serde_json::Value = serde_json::from_str(&lease).unwrap();
    assert!(lease["spec"]["holderIdentity"].is_null() && lease["metadata"]["annotations"].is_null(), "{lease}");
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn an_upgrade_deletes_no_release_and_what_helm_forgot_is_nobody_s_to_delete() {
    let cluster = Cluster::start();
    cluster.chart("sample", "1.0.0");
    cluster.charts(&[("one", "sample", json!({"key": "old", "stuck": true}), 1)]);
    cluster.install(&[]).failed(1);
    // As helm has it when pods come up late: it calls it failed, and it may serve.
    let code = |ran: &support::command::Ran| ran.json()["error"]["code"].as_str().unwrap().to_owned();
    for more in [&["--output", "json"][..], &["--output", "json", "--take-over"], &["--output", "json", "--dry-run"]] {
        assert_eq!(code(&cluster.upgrade(more).failed(1)), "release-not-installed", "{more:?}");
        assert_eq!((cluster.history("one"), &*cluster.value("one")), (vec!["failed".to_owned()], "old"));
    }
    // helm keeps ten revisions: which of those before worked it does not know any more.
    let sample = cluster.path("sample").display().to_string();
    let again = ["upgrade", "one", &sample, "--namespace=apps", "--set=stuck=true", "--wait", "--timeout=1s"];
    cluster.helm_fails(&again);
    cluster.kubectl(&["delete", "secret", "sh.helm.release.v1.one.v1", "--namespace=apps"]);
    assert_eq!(cluster.history("one"), ["failed"]);
    for more in [&["--output", "json"][..], &["--output", "json", "--take-over"]] {
        assert_eq!(code(&cluster.install(more).failed(1)), "release-history-cut", "{more:?}");
        assert_eq!(code(&cluster.upgrade(more).failed(1)), "release-history-cut", "{more:?}");
    }
    assert_eq!(
        cluster.kubectl(&["get", "deployment", "one", "--namespace=apps", "--output=name"]).trim(),
        "deployment.apps/one"
    );
    // By the remedy it is one that works.
    cluster.helm(&["upgrade", "one", &sample, "--namespace=apps"]);
    cluster.charts(&[("one", "sample", json!({"key": "new"}), 30)]);
    cluster.upgrade(&[]).succeeded();
    assert_eq!(cluster.value("one"), "new");
}

/// Whether a process has this among its arguments.
fn runs_with(argument: &str) -> bool {
    let commands = fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    commands.into_iter().any(|command| command.split(|byte| *byte == 0).any(|one| one == argument.as_bytes()))
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn who_waits_for_the_lock_can_be_stopped() {
    let cluster = Cluster::start();
    cluster.chart("sample", "1.0.0");
    cluster.charts(&[("one", "sample", json!({}), 30)]);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "latchkey-charts", "namespace": "kube-system"},
        "spec": {"holderIdentity": "eve@elsewhere", "leaseDurationSeconds": 30},
    });
    cluster.apply(&lease);
    let command = ["charts", "install", "--charts", "charts.json"];
    let mut waiting = start(cluster.directory.path(), &cluster.arguments(&command, &[]));
    let lines = Lines::of(waiting.stderr.take().unwrap());
    lines.find("the holder", &mut Vec::new(), |line| line.contains("eve@elsewhere")).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&waiting), rustix::process::Signal::TERM).unwrap();
    let ran = finish(waiting);
    assert!([1, 130].contains(&ran.code), "{ran:?}");
    assert_eq!(cluster.helm(&["list", "--all", "--namespace=apps", "--short"]), "", "nothing was begun");
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn what_can_go_where_is_read_from_nodes_and_metrics() {
    let cluster = Cluster::start();
    let check = |code| cluster.run(&["upgrade", "check"], &["--output", "json"]).failed(code).json();
    let fine = check(0);
    let asked = |report: &serde_json::Value| {
        report["deprecated_apis"].as_array().unwrap().iter().any(|api| api["resource"] == "componentstatuses")
    };
    assert!(fine["next"] == "1.35" && !asked(&fine), "{fine}");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "old"}});
    cluster.apply(&node);
    let status = r#"--patch={"status":{"nodeInfo":{"kubeletVersion":"v1.31.2"}}}"#;
    cluster.kubectl(&["patch", "node", "old", "--subresource=status", "--type=merge", status]);
    cluster.kubectl(&["get", "componentstatuses"]);
    let report = check(1);
    assert_eq!(report["nodes"][0]["state"], "behind", "{report}");
    assert!(asked(&report), "{report}");
    assert_eq!(report["first"], json!(["node old: its kubelet v1.31.2 must be 1.32 or newer"]), "{report}");
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn what_helm_by_hand_left_half_done_is_mended_only_if_the_operator_says_so() {
    let cluster = Cluster::start();
    cluster.chart("sample", "1.0.0");
    let stuck = ["install", "one", "sample", "--namespace=apps", "--create-namespace", "--wait", "--set=stuck=true"];
    let mut by_hand = Command::new(&cluster.helm);
    by_hand.args(stuck).args(["--kubeconfig", &cluster.kubeconfig]).current_dir(cluster.directory.path());
    let by_hand = Process::watch(spawn(by_hand).unwrap()).unwrap();
    until("helm to be at it", || {
        let text = cluster.helm(&["list", "--pending", "--namespace=apps", "--short"]);
        text.contains("one").then_some(())
    });
    cluster.charts(&[("one", "sample", json!({"key": "new"}), 30)]);
    let error = cluster.install(&["--output", "json"]).failed(1).json()["error"].clone();
    assert_eq!(error["code"], "release-busy", "{error}");
    assert!(by_hand.is_running() && cluster.history("one") == ["pending-install"]);
    // That another run was cut says nothing of a release that it did not work on.
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "latchkey-charts", "namespace": "kube-system",
            "annotations": {"latchkey.dev/in-work": "{\"apps/other\": 0, \"apps/one\": 7}"},
        },
        "spec": {"holderIdentity": "eve@elsewhere", "leaseDurationSeconds": 30},
    });
    cluster.apply(&lease);
    let error = cluster.install(&["--output", "json"]).failed(1).json()["error"].clone();
    assert_eq!(error["code"], "release-busy", "{error}");
    assert!(error["fix"].as_str().unwrap().contains("--take-over"), "{error}");
    assert!(by_hand.is_running() && cluster.history("one") == ["pending-install"]);
    drop(by_hand);
    cluster.install(&["--output", "json"]).failed(1);
    let ran = cluster.install(&["--take-over"]).succeeded();
    assert!(ran.err.contains("deleted     one: its installation was begun and not ended"), "{}", ran.err);
    assert_eq!((cluster.history("one").len(), &*cluster.value("one")), (1, "new"));
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn without_a_backup_nothing_is_upgraded() {
    let cluster = Cluster::start();
    cluster.chart("sample", "1.0.0");
    cluster.charts(&[("one", "sample", json!({"key": "old"}), 30)]);
    cluster.install(&[]).succeeded();
    cluster.charts(&[("one", "sample", json!({"key": "new"}), 30)]);

    // A hostile kubectl: stock, but for what it says of definitions.
    let hostile = |words: &str| {
        let path = cluster.path("hostile-kubectl");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *customresourcedefinitions*) {words};; *) exec {} \"$@\";; esac\n",
            cluster.kubectl
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let with = |kubectl: &str| {
        let mut arguments =
            cluster.arguments(&["upgrade", "execute", "--helm", "--charts", "charts.json"], &["--output", "json"]);
        let at = arguments.iter().position(|argument| *argument == "--kubectl-program").unwrap() + 1;
        arguments[at] = kubectl;
        latchkey(cluster.directory.path(), &arguments).failed(1).json()["error"].clone()
    };
    for (words, code) in [
        ("head -c 1000 /dev/urandom", "program-answer-malformed"),
        ("exec yes", "program-answer-too-long"),
        ("echo '{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{}]}'", "program-answer-malformed"),
        ("echo 'error: out of luck' >&2; exit 1", "program-failed"),
    ] {
        let error = with(&hostile(words));
        assert_eq!(error["code"], code, "{words}: {error}");
    }
    // A place for backups that takes no more than this (512 bytes), as a full disk does.
    let mut full = std::process::Command::new("sh");
    let arguments =
        cluster.arguments(&["upgrade", "execute", "--helm", "--charts", "charts.json"], &["--output", "json"]);
    full.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_latchkey")]);
    full.args(arguments).current_dir(cluster.directory.path());
    let output = latchkey_test_support::output(&mut full).unwrap();
    let error: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(error["error"]["code"], "file-unwritable", "{error}");

    assert_eq!((cluster.history("one").len(), cluster.value("one").as_str()), (1, "old"));
    let left = fs::read_dir(cluster.path("latchkey-backups")).unwrap().count();
    assert_eq!(left, 0, "half a backup is removed");
    cluster.upgrade(&[]).succeeded();
    assert_eq!(cluster.value("one"), "new");
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn an_api_server_that_goes_away_in_the_middle_is_named_and_the_next_run_goes_on() {
    let mut cluster = Cluster::start();
    cluster.chart("sample", "1.0.0");
    cluster.charts(&[("one", "sample", json!({"key": "old"}), 30)]);
    cluster.install(&[]).succeeded();
    cluster.charts(&[("one", "sample", json!({"key": "stuck", "stuck": true}), 20)]);
    let command = ["upgrade", "execute", "--helm", "--charts", "charts.json"];
    let first = start(cluster.directory.path(), &cluster.arguments(&command, &["--output", "json"]));
    until("helm to be at it", || (cluster.history("one").last().unwrap() == "pending-upgrade").then_some(()));
    cluster.server.kill_api();
    let ran = finish(first);
    let error = ran.json()["error"].clone();
    let codes = ["upgrade-not-rolled-back", "charts-lock-lost", "api-server-unreachable"];
    assert!(ran.code != 0 && codes.contains(&error["code"].as_str().unwrap()), "{error}");
    cluster.server.start_api();
    cluster.charts(&[("one", "sample", json!({"key": "new"}), 30)]);
    cluster.upgrade(&[]).succeeded();
    assert_eq!(cluster.value("one"), "new");
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn what_is_installed_of_an_archive_is_what_was_hashed_though_the_file_changes_meanwhile() {
    let mut cluster = Cluster::start();
    cluster.chart("sample", "1.0.0");
    cluster.helm(&[
        "package",
        &cluster.path("sample").display().to_string(),
        "--destination",
        cluster.path("").to_str().unwrap(),
    ]);
    let archive = cluster.path("sample-1.0.0.tgz");
    let sha256 = latchkey_kubernetes::Sha256::of(&fs::read(&archive).unwrap()).to_string();
    let chart = json!({"archive": {"file": "sample-1.0.0.tgz", "sha256": sha256}});
    let chart = json!({"name": "one", "namespace": "apps", "chart": chart, "values": {"inline": {"key": "hashed"}}});
    fs::write(cluster.path("charts.json"), json!({"schema": 1, "charts": [chart]}).to_string()).unwrap();
    // Another archive lies there as soon as helm is called.
    let script = format!("#!/bin/sh\necho other > {}\nexec {} \"$@\"\n", archive.display(), cluster.helm);
    fs::write(cluster.path("late"), script).unwrap();
    fs::set_permissions(cluster.path("late"), fs::Permissions::from_mode(0o755)).unwrap();
    let late = cluster.path("late").display().to_string();
    let real = std::mem::replace(&mut cluster.helm, late);
    cluster.install(&[]).succeeded();
    cluster.helm = real;
    assert_eq!((fs::read(&archive).unwrap().as_slice(), cluster.value("one").as_str()), (&b"other\n"[..], "hashed"));
    assert!(cluster.helm(&["list", "--namespace=apps"]).contains("sample-1.0.0"));
    assert_eq!(cluster.install(&["--output", "json"]).failed(2).json()["error"]["code"], "chart-altered");
}

#[test]
fn what_is_missing_or_wrong_is_said_before_anything_is_done() {
    let directory = TempDir::new().unwrap();
    let run = |arguments: &[&str]| {
        let error = latchkey(directory.path(), &[arguments, &["--output", "json"]].concat()).failed(2).json();
        error["error"]["code"].as_str().unwrap().to_owned()
    };
    let install = ["charts", "install", "--charts", "charts.json", "--kubeconfig", "k"];
    fs::write(directory.path().join("k"), "").unwrap();
    assert_eq!(run(&install), "file-unreadable");
    fs::write(directory.path().join("charts.json"), "{").unwrap();
    assert_eq!(run(&install), "charts-file-malformed");
    fs::write(directory.path().join("charts.json"), r#"{"schema": 1, "charts": []}"#).unwrap();
    let old = directory.path().join("helm");
    fs::write(&old, "#!/bin/sh\necho v3.2.1\n").unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run(&[&install[..], &["--helm-program", "helm"]].concat()), "program-too-old");
    fs::write(&old, "#!/bin/sh\necho v4.0.0\n").unwrap();
    assert_eq!(run(&[&install[..], &["--helm-program", "helm"]].concat()), "program-too-new");
    assert_eq!(run(&["upgrade", "execute", "--charts", "charts.json", "--kubeconfig", "k"]), "usage");
    fs::write(&old, "#!/bin/sh\necho v3.18.0\n").unwrap();
    let mut elsewhere = Command::new(env!("CARGO_BIN_EXE_latchkey"));
    let by_driver = [&install[..], &["--helm-program", "helm", "--output", "json"]].concat();
    elsewhere.args(by_driver).current_dir(directory.path()).env("HELM_DRIVER", "configmap");
    let said = latchkey_test_support::output(&mut elsewhere).unwrap();
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["error"]["code"], "helm-driver-unsupported", "{said}");
    let missing = latchkey_test_support::output(
        std::process::Command::new(env!("CARGO_BIN_EXE_latchkey"))
            .args(install)
            .current_dir(directory.path())
            .env("PATH", "/nowhere"),
    )
    .unwrap();
    let said = String::from_utf8(missing.stderr).unwrap();
    assert!(said.contains("helm is not in PATH\nfix: install helm 3 (https://helm.sh"), "{said}");
}
