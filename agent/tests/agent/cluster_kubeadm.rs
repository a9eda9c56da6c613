//! The Kubernetes cluster step, with a kubeadm that records how it is called.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::cluster_fake::{FakeKubeadm, TOKEN, control_plane_files, control_plane_ticket, member, settings, ticket};
use latchkey_agent::cluster::{ClusterStep as _, StepCode, Work};
use latchkey_agent::lifecycle::NodeRole;
use latchkey_api::control_plane::{ControlPlaneFiles, NAMES};
use latchkey_api::v1::{ClusterJoin, ClusterSettings};
use smol::future::FutureExt as _;

const START: &str = "systemctl start kubelet.service";
const BALANCER: &str = "systemctl restart latchkey-api-balancer.service";
/// What is taken back after each `kubeadm init`.
const RIGHTS: &str =
    "kubectl delete --ignore-not-found --wait=false --filename=run/unwanted.json --kubeconfig=etc/admin.conf";
const TOKENS: &str = "kubectl delete --ignore-not-found --wait=false secrets --namespace=kube-system \
                      --field-selector=type=bootstrap.kubernetes.io/token --kubeconfig=etc/admin.conf";
/// What a node that was just made notes.
const VERSION: &str = "kubeadm version --output=short";

fn init() -> Work {
    Work::Init(settings(), None)
}

/// What the node notes of its Kubernetes.
fn noted(fake: &FakeKubeadm) -> serde_json::Value {
    serde_json::from_slice(&fs::read(fake.path("etc/latchkey/kubernetes.json")).unwrap()).unwrap()
}

#[test]
fn init_asks_for_the_version_runs_once_starts_the_kubelet_and_returns_the_kubeconfig() {
    let fake = FakeKubeadm::new();
    let ran = fake.run(&member(NodeRole::First), &init());
    assert_eq!(ran.result.unwrap().admin_config.expose(), b"kubeconfig of init 1\n");
    assert_eq!(fake.calls(), [VERSION, "kubeadm init", RIGHTS, TOKENS, START, VERSION]);
    let configs = fake.records("config");
    assert!(configs[0].contains("\"v1.34.4\"") && configs[0].contains("\"edge-1.plant-7.example\""), "{configs:?}");
}

#[test]
fn a_worker_joins_without_admin_configuration() {
    let fake = FakeKubeadm::new();
    let ran = fake.run(&member(NodeRole::Worker), &Work::Join(ticket()));
    assert!(ran.result.unwrap().admin_config.is_empty());
    assert_eq!(fake.calls(), ["kubeadm join", START, VERSION]);
    assert_eq!(fake.records("files")[0], "600 latchkey.json\n");
}

#[test]
fn a_control_plane_has_its_files_for_root_alone_before_kubeadm_runs() {
    let fake = FakeKubeadm::new();
    fake.run(&member(NodeRole::ControlPlane), &Work::Join(control_plane_ticket())).result.unwrap();
    let mut expected = NAMES.map(|name| format!("600 pki/{name}\n")).to_vec();
    let api_server = ["admission", "audit", "authentication", "encryption"];
    expected.extend(api_server.map(|name| format!("600 latchkey/{name}.json\n")));
    expected.push("600 latchkey.json\n".into());
    expected.sort();
    assert_eq!(fake.records("files")[0], expected.concat());
    assert_eq!(fs::read(fake.path("etc/pki/etcd/ca.key")).unwrap(), b"PEM of etcd/ca.key");
    assert_eq!(fs::metadata(fake.path("etc/pki/etcd")).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_cluster_is_made_with_the_authorities_that_init_brought_also_after_a_try_that_was_reset() {
    let fake = FakeKubeadm::new();
    fake.on("kubeadm", "init", 1, "exit 1");
    let files = ControlPlaneFiles::new(control_plane_files()).unwrap();
    let ran = fake.run(&member(NodeRole::First), &Work::Init(settings(), Some(files)));
    ran.result.unwrap();
    let seen = fake.records("files");
    let inits = [&seen[0], &seen[2]];
    for name in NAMES {
        assert!(inits.iter().all(|files| files.contains(&format!("600 pki/{name}\n"))), "{name}: {seen:?}");
    }
    assert!(!ran.lines.concat().contains("PEM of"), "{:?}", ran.lines);
}

#[test]
fn a_reboot_starts_the_kubelet_and_nothing_else() {
    let fake = FakeKubeadm::new();
    fake.run(&member(NodeRole::Worker), &Work::Join(ticket())).result.unwrap();
    let calls = fake.calls().len();
    assert_eq!(noted(&fake), serde_json::json!({"version": 1, "kubernetes": "v1.34.4"}));
    fake.run(&member(NodeRole::Worker), &Work::Start(None)).result.unwrap();
    assert_eq!(fake.calls()[calls..], [VERSION, START]);
}

#[test]
fn the_token_is_in_a_file_of_root_for_a_while_and_nowhere_else() {
    let fake = FakeKubeadm::new();
    let ran = fake.run(&member(NodeRole::ControlPlane), &Work::Join(control_plane_ticket()));
    ran.result.unwrap();
    for kind in ["argv", "environ", "stdin", "files"] {
        let records = fake.records(kind);
        assert_eq!(records.len(), 2, "{kind}");
        let shown = records.concat();
        assert!(!shown.contains("secret") && !shown.contains("PEM"), "{kind}: {records:?}");
    }
    assert!(fake.records("discovery")[0].contains(TOKEN) && !fake.records("config")[0].contains(TOKEN));
    assert_eq!(fake.records("mode"), ["600\n700\n600\n"]);
    assert_eq!(fs::read_dir(fake.path("run")).unwrap().count(), 0);
    assert!(!ran.lines.concat().contains("secret"));
}

#[test]
fn a_kubeadm_that_prints_its_configuration_gives_no_token_away() {
    let fake = FakeKubeadm::new();
    fake.on("kubeadm", "join", 1, "cd $here/run; cat *; cat * >&2; cat * | tr '\\n' ' ' >&2; exit 1");
    let ran = fake.run(&member(NodeRole::Worker), &Work::Join(ticket()));
    let error = ran.result.unwrap_err();
    let told = format!("{error:?} {}", ran.lines.concat());
    assert!(told.contains("certificate-authority-data"), "{told}");
    assert!(!told.contains("secret.") && !told.contains("0123456789abcdef"), "{told}");
    assert_eq!(fs::read_dir(fake.path("run")).unwrap().count(), 0);
}

#[test]
fn a_failed_try_is_reset_and_tried_again() {
    let fake = FakeKubeadm::new();
    fake.on("kubeadm", "init", 1, "mkdir -p $etc/pki; exit 1");
    fake.on("kubeadm", "init", 2, "exit 1");
    let ran = fake.run(&member(NodeRole::First), &init());
    ran.result.unwrap();
    let tries = ["kubeadm init", "kubeadm reset", "kubeadm init", "kubeadm reset", "kubeadm init"];
    assert_eq!(fake.calls()[1..], [&tries[..], &[RIGHTS, TOKENS, START, VERSION]].concat());
    assert!(ran.lines.iter().any(|line| line.starts_with("try 1 of 3 failed: step-failed")), "{:?}", ran.lines);
}

#[test]
fn a_join_that_failed_is_not_tried_again_with_the_same_ticket() {
    let fake = FakeKubeadm::new();
    fake.on("kubeadm", "join", 1, "exit 1");
    fake.run(&member(NodeRole::Worker), &Work::Join(ticket())).result.unwrap_err();
    assert_eq!(fake.calls(), ["kubeadm join"], "the ticket may be used up");
    // Another ticket: what is half done goes first.
    fake.run(&member(NodeRole::Worker), &Work::Join(ticket())).result.unwrap();
    assert_eq!(fake.calls()[1..], ["kubeadm reset", "kubeadm join", START, VERSION]);
}

/// What is left of a join that ended when etcd counted the node.
const ETCD_COUNTS: &str = "mkdir -p $here/etcd/member; exit 1";

#[test]
fn a_control_plane_that_etcd_counts_is_not_reset_and_goes_on() {
    let fake = FakeKubeadm::new();
    fake.on("kubeadm", "join", 1, ETCD_COUNTS);
    let (member, work) = (member(NodeRole::ControlPlane), Work::Join(control_plane_ticket()));
    let error = fake.run(&member, &work).result.unwrap_err();
    assert!(error.disk_stays, "its disk would be reset: {error}");
    fake.run(&member, &work).result.unwrap();
    // etcd runs before kubeadm looks for it, and nothing is reset.
    assert_eq!(fake.calls(), ["kubeadm join", START, "kubeadm join", VERSION]);
    let configs = fake.records("config");
    let skipped: serde_json::Value = serde_json::from_str(&configs[1]).unwrap();
    assert_eq!(
        skipped["skipPhases"],
        serde_json::json!(["preflight", "control-plane-prepare", "check-etcd", "kubelet-start"])
    );
    assert!(fake.records("files")[1].contains("600 bootstrap-kubelet.conf\n"), "its kubelet could ask for nothing");
}

/// What kubeadm 1.34 and 1.35 say, once each 500 ms and at their end, about a member that is away and had its vote, or has none.
const WARNED: &str = r#"echo '{"level":"warn","error":"rpc error: code = FailedPrecondition desc = etcdserver: can only promote a learner member"}' >&2;"#;
const ENDED: &str = "echo 'error: error execution phase etcd-join: error creating local etcd static pod manifest file: etcdserver: \
    can only promote a learner member which is in sync with leader' >&2; exit 1";

/// Whether a control plane goes on without etcd's phase once kubeadm has said this, in shell, of the vote that it asked etcd for.
pub(crate) fn goes_on_without_etcd(warned: &str) -> bool {
    let (member, work) = (member(NodeRole::ControlPlane), Work::Join(control_plane_ticket()));
    let fake = FakeKubeadm::new();
    fake.on("kubeadm", "join", 1, ETCD_COUNTS);
    fake.on("kubeadm", "join", 2, &format!("{warned} {ENDED}"));
    fake.run(&member, &work).result.unwrap_err();
    fake.run(&member, &work).result.unwrap();
    assert_eq!(fake.calls(), ["kubeadm join", START, "kubeadm join", "kubeadm join", VERSION]);
    let configs = fake.records("config");
    let [briefly, then]: [serde_json::Value; 2] = [1, 2].map(|nth| serde_json::from_str(&configs[nth]).unwrap());
    assert_eq!(
        (&briefly["timeouts"]["etcdAPICall"], &then["timeouts"]["etcdAPICall"]),
        (&"30s".into(), &"5m0s".into())
    );
    then["skipPhases"].as_array().unwrap().contains(&"etcd-join".into())
}

#[test]
fn a_control_plane_that_has_its_vote_in_etcd_asks_for_it_once_and_goes_on() {
    assert!(goes_on_without_etcd(WARNED));
    assert!(!goes_on_without_etcd(""));
}

/// What is left of a join that ended when it looked for etcd.
const ETCD_IS_SLOW: &str =
    "mkdir -p $here/kubelet; echo {} >$here/kubelet/config.yaml; echo kubelet >$etc/kubelet.conf; exit 1";

#[test]
fn a_control_plane_that_found_no_etcd_tries_again_with_the_kubelet_that_it_has() {
    let fake = FakeKubeadm::new();
    fake.on("kubeadm", "join", 1, ETCD_IS_SLOW);
    fake.on("kubeadm", "join", 2, "exit 1");
    let (member, work) = (member(NodeRole::ControlPlane), Work::Join(control_plane_ticket()));
    fake.run(&member, &work).result.unwrap();
    // The ticket's certificate is asked for once.
    assert_eq!(fake.calls(), ["kubeadm join", START, "kubeadm join", START, "kubeadm join", VERSION]);
    for config in &fake.records("config")[1..3] {
        let config: serde_json::Value = serde_json::from_str(config).unwrap();
        assert!(config["skipPhases"].as_array().unwrap().contains(&"kubelet-start".into()), "{config}");
    }

    let fake = FakeKubeadm::new();
    fake.on("kubeadm", "join", 1, ETCD_IS_SLOW);
    for nth in [2, 3] {
        fake.on("kubeadm", "join", nth, "exit 1");
    }
    let error = fake.run(&member, &work).result.unwrap_err();
    assert!(!error.disk_stays, "{error}");
    assert_eq!(fake.calls(), ["kubeadm join", START, "kubeadm join", START, "kubeadm join"]);
}

#[test]
fn a_kubelet_that_has_its_certificate_is_given_no_token() {
    let fake = FakeKubeadm::new();
    fake.on("kubeadm", "join", 1, &format!("echo kubelet >$etc/kubelet.conf; {ETCD_COUNTS}"));
    let (member, work) = (member(NodeRole::ControlPlane), Work::Join(control_plane_ticket()));
    fake.run(&member, &work).result.unwrap_err();
    fake.run(&member, &work).result.unwrap();
    assert!(!fake.records("files")[1].contains("bootstrap-kubelet.conf"), "{:?}", fake.records("files"));
}

#[test]
fn a_control_plane_that_etcd_does_not_count_yet_and_a_worker_begin_anew() {
    for (role, ticket) in [(NodeRole::ControlPlane, control_plane_ticket()), (NodeRole::Worker, ticket())] {
        let fake = FakeKubeadm::new();
        fake.on("kubeadm", "join", 1, "exit 1");
        let error = fake.run(&member(role), &Work::Join(ticket.clone())).result.unwrap_err();
        assert!(!error.disk_stays, "{error}");
        fake.run(&member(role), &Work::Join(ticket)).result.unwrap();
        assert_eq!(fake.calls(), ["kubeadm join", "kubeadm reset", "kubeadm join", START, VERSION]);
    }
}

#[test]
fn a_member_of_etcd_does_not_become_a_worker() {
    let fake = FakeKubeadm::new();
    fake.on("kubeadm", "join", 1, ETCD_COUNTS);
    fake.run(&member(NodeRole::ControlPlane), &Work::Join(control_plane_ticket())).result.unwrap_err();
    // Its disk goes on saying that it is a control plane's.
    for role in [NodeRole::Worker, NodeRole::ControlPlane] {
        let error = fake.run(&member(role), &Work::Join(ticket())).result.unwrap_err();
        assert!(error.code == StepCode::EtcdMemberStays && error.disk_stays, "{error}");
    }
    assert_eq!(fake.calls(), ["kubeadm join"]);
}

/// A ticket of a cluster whose nodes have a balancer.
fn balanced(mut ticket: ClusterJoin) -> ClusterJoin {
    ticket.api_servers = vec!["192.0.2.1:6443".into(), "192.0.2.2:6443".into()];
    ticket
}

#[test]
fn a_node_with_a_balancer_finds_its_cluster_by_it_and_the_balancer_has_its_list_first() {
    let fake = FakeKubeadm::new();
    fs::write(fake.path("api-balancer"), "").unwrap();
    fake.run(&member(NodeRole::Worker), &Work::Join(balanced(ticket()))).result.unwrap();
    assert_eq!(fake.calls(), [BALANCER, "kubeadm join", START, VERSION]);
    assert_eq!(fake.records("files")[0], "600 latchkey.json\n600 latchkey/api-servers.json\n");
    let list = fs::read(fake.path("etc/latchkey/api-servers.json")).unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
    assert_eq!(list, serde_json::json!({"version": 1, "api_servers": ["192.0.2.1:6443", "192.0.2.2:6443"]}));
    assert!(fake.records("discovery")[0].contains("https://127.0.0.1:7445"), "{:?}", fake.records("discovery"));
}

#[test]
fn an_image_without_a_balancer_joins_no_cluster_that_needs_one() {
    let fake = FakeKubeadm::new();
    let error = fake.run(&member(NodeRole::Worker), &Work::Join(balanced(ticket()))).result.unwrap_err();
    assert_eq!(error.code, StepCode::BalancerMissing);
    assert!(fake.calls().is_empty() && !fake.path("etc").exists());
}

#[test]
fn a_control_plane_that_etcd_counts_has_a_balancer_again_when_it_goes_on() {
    let fake = FakeKubeadm::new();
    fs::write(fake.path("api-balancer"), "").unwrap();
    fake.on("kubeadm", "join", 1, ETCD_COUNTS);
    let (member, work) = (member(NodeRole::ControlPlane), Work::Join(balanced(control_plane_ticket())));
    fake.run(&member, &work).result.unwrap_err();
    fake.run(&member, &work).result.unwrap();
    assert_eq!(fake.calls(), [BALANCER, "kubeadm join", BALANCER, START, "kubeadm join", VERSION]);
}

#[test]
fn a_cluster_whose_open_doors_stay_open_is_none() {
    let fake = FakeKubeadm::new();
    fake.on("kubectl", "delete", 2, "exit 1");
    fake.run(&member(NodeRole::First), &init()).result.unwrap();
    let expected = ["kubeadm init", RIGHTS, TOKENS, "kubeadm reset", "kubeadm init", RIGHTS, TOKENS, START, VERSION];
    assert_eq!(fake.calls()[1..], expected);
    let deleted = &fake.records("deleted")[0];
    assert!(deleted.contains("kubeadm:node-autoapprove-bootstrap"), "{deleted}");
    assert!(
        deleted.contains("kubeadm:node-autoapprove-certificate-rotation"),
        "who is shut out would renew: {deleted}"
    );
}

#[test]
fn a_minor_version_that_the_image_does_not_carry_is_refused_before_anything_is_done() {
    let wish = |minor: &str| Work::Init(ClusterSettings { kubernetes_version: minor.into(), ..settings() }, None);
    let fake = FakeKubeadm::new();
    let error = fake.run(&member(NodeRole::First), &wish("1.35")).result.unwrap_err();
    assert_eq!(error.code, StepCode::VersionDiffers);
    assert!(error.message.contains("1.35") && error.message.contains("v1.34.4"), "{error}");
    assert_eq!(fake.calls(), [VERSION]);
    fake.run(&member(NodeRole::First), &wish("1.34")).result.unwrap();
}

#[test]
fn the_third_failure_is_the_last_and_says_why() {
    let fake = FakeKubeadm::new();
    for nth in 1..=3 {
        let script = format!("echo '[preflight] try {nth}'; echo 'error: no route to the API server' >&2; exit 1");
        fake.on("kubeadm", "init", nth, &script);
    }
    let error = fake.run(&member(NodeRole::First), &init()).result.unwrap_err();
    assert_eq!(error.code, StepCode::Failed);
    assert!(error.message.ends_with("kubeadm init ended with exit status: 1: error: no route to the API server"));
    assert!(error.log_tail.contains("[preflight] try 3") && !error.log_tail.contains("try 2"), "{}", error.log_tail);
    assert_eq!(fake.calls().iter().filter(|call| *call == "kubeadm init").count(), 3);
}

#[test]
fn a_reset_or_a_kubelet_that_fails_is_a_failed_try() {
    let fake = FakeKubeadm::new();
    fake.on("systemctl", "start", 1, "exit 5");
    fake.on("kubeadm", "reset", 1, "exit 1");
    fake.run(&member(NodeRole::First), &init()).result.unwrap();
    let calls = fake.calls();
    let init = ["kubeadm init", RIGHTS, TOKENS, START];
    let expected = [&init[..], &["kubeadm reset", "kubeadm reset"], &init, &[VERSION]].concat();
    assert_eq!(calls[1..], expected);
}

#[test]
fn a_kubeadm_that_hangs_is_not_tried_again() {
    let fake = FakeKubeadm::new();
    fake.on("kubeadm", "join", 1, "exec sleep 600");
    let step = latchkey_agent::cluster::Kubeadm { limit: std::time::Duration::from_secs(1), ..fake.step() };
    let (member, work) = (member(NodeRole::Worker), Work::Join(ticket()));
    let error = latchkey_test_support::block_on(step.run(&member, &work, &mut |_: &str| {})).unwrap_err();
    assert_eq!(error.code, StepCode::Timeout);
    assert_eq!(fs::read_dir(fake.path("run")).unwrap().count(), 0);
}

/// Runs a step until kubeadm is in the middle of `init`, and drops it.
fn interrupt_init(fake: &FakeKubeadm) {
    fake.on("kubeadm", "init", 1, "mkdir -p $etc/manifests; echo half >$etc/admin.conf; echo in the middle; sleep 600");
    let (told, heard) = smol::channel::unbounded();
    let mut progress = |line: &str| {
        if line == "in the middle" {
            told.try_send(()).unwrap();
        }
    };
    let (step, member, work) = (fake.step(), member(NodeRole::First), init());
    let run = async { step.run(&member, &work, &mut progress).await.is_ok() };
    let crash = async { heard.recv().await.is_err() };
    assert!(!latchkey_test_support::block_on(run.or(crash)));
    assert_eq!(fs::read_dir(fake.path("run")).unwrap().count(), 0, "the configuration outlived its step");
}

#[test]
fn a_crash_in_the_middle_is_reset_first_and_then_done_anew() {
    let fake = FakeKubeadm::new();
    interrupt_init(&fake);
    let done = fake.run(&member(NodeRole::First), &init()).result.unwrap();
    assert_eq!(done.admin_config.expose(), b"kubeconfig of init 2\n");
    assert_eq!(fake.calls()[2..], [VERSION, "kubeadm reset", "kubeadm init", RIGHTS, TOKENS, START, VERSION]);
}

#[test]
fn a_crash_after_the_end_does_not_make_a_second_cluster() {
    let fake = FakeKubeadm::new();
    fake.run(&member(NodeRole::First), &init()).result.unwrap();
    let again = fake.run(&member(NodeRole::First), &init()).result.unwrap();
    assert_eq!(again.admin_config.expose(), b"kubeconfig of init 1\n");
    assert_eq!(fake.calls().iter().filter(|call| *call == "kubeadm init").count(), 1);
    assert!(!fake.calls().contains(&"kubeadm reset".into()));
}

#[test]
fn files_of_somebody_else_are_refused_and_left_alone() {
    for trace in ["admin.conf", "kubelet.conf", "pki/ca.key"] {
        let fake = FakeKubeadm::new();
        fs::create_dir_all(fake.path("etc/pki")).unwrap();
        fs::write(fake.path("etc").join(trace), "theirs").unwrap();
        let error = fake.run(&member(NodeRole::Worker), &Work::Join(ticket())).result.unwrap_err();
        assert_eq!(error.code, StepCode::FilesForeign);
        assert!(fake.calls().is_empty());
        assert_eq!(fs::read(fake.path("etc").join(trace)).unwrap(), b"theirs");
    }
}

#[test]
fn a_member_of_another_cluster_is_not_reset() {
    let fake = FakeKubeadm::new();
    fake.run(&member(NodeRole::First), &init()).result.unwrap();
    let mut other = member(NodeRole::First);
    other.cluster_id = "cd".repeat(32);
    let calls = fake.calls().len();
    assert_eq!(fake.run(&other, &init()).result.unwrap_err().code, StepCode::FilesForeign);
    assert_eq!(fake.calls().len(), calls);
    assert!(fake.path("etc/admin.conf").exists());
}

#[test]
fn a_record_that_is_malformed_is_no_permission_to_reset() {
    for text in ["", "{}", "{\"version\":1,\"finished\":false,\"extra\":1}", &"[".repeat(20_000)] {
        let fake = FakeKubeadm::new();
        fs::create_dir(fake.path("etc")).unwrap();
        fs::write(fake.path("etc/latchkey.json"), text).unwrap();
        let error = fake.run(&member(NodeRole::Worker), &Work::Join(ticket())).result.unwrap_err();
        assert!(matches!(error.code, StepCode::FilesForeign | StepCode::File), "{error}");
        assert!(fake.calls().is_empty());
    }
}

#[test]
fn a_hostile_ticket_starts_nothing_and_writes_nothing() {
    let spoil: [fn(&mut ClusterJoin); 6] = [
        |t| t.control_plane_files[0].name = "../../outside".into(),
        |t| t.control_plane_files[0].name = "/outside".into(),
        |t| drop(t.control_plane_files.pop()),
        |t| t.ca_certificates.clear(),
        |t| t.api_server_endpoint = "x\n---\nkind: ClusterConfiguration".into(),
        |t| t.bootstrap_token = "x\"}}\nkind: Evil".into(),
    ];
    for (case, spoil) in spoil.iter().enumerate() {
        let fake = FakeKubeadm::new();
        let mut ticket = control_plane_ticket();
        spoil(&mut ticket);
        let error = fake.run(&member(NodeRole::ControlPlane), &Work::Join(ticket)).result.unwrap_err();
        assert!(error.code.as_str().starts_with("ticket-"), "case {case}: {error}");
        assert!(fake.calls().is_empty() && !fake.path("etc").exists() && !fake.path("run").exists(), "case {case}");
    }
}

#[test]
fn a_kubeadm_that_is_missing_is_named_at_once() {
    let fake = FakeKubeadm::new();
    fs::remove_file(fake.path("kubeadm")).unwrap();
    let error = fake.run(&member(NodeRole::Worker), &Work::Join(ticket())).result.unwrap_err();
    assert_eq!(error.code, StepCode::NotStarted);
    assert!(
        error.message.contains("cannot be started") && error.code.remedy().contains("put the program into the image"),
        "{error}"
    );
}
