//! A member's start with another Kubernetes than it had, with programs that record how they are called.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;

use crate::cluster_fake::{FakeKubeadm, control_plane_ticket, member, ticket};
use latchkey_agent::cluster::{ClusterStep as _, Done, StepCode, StepError, Work};
use latchkey_agent::lifecycle::NodeRole;
use serde_json::{Value, json};
use smol::future::FutureExt as _;

const VERSION: &str = "kubeadm version --output=short";
const START: &str = "systemctl start kubelet.service";
const RESTART: &str = "systemctl restart kubelet.service";
const IMAGES: &str = "kubeadm config images list --kubernetes-version=v1.35.1";
/// kubeadm looks once whether the control plane is ready; the agent waits before.
const RUNS: [&str; 5] = [
    "kubectl wait --timeout=60s --for=jsonpath={.status.nodeInfo.kubeletVersion}=v1.35.1 node/edge-1.plant-7.example \
     --kubeconfig=etc/admin.conf",
    "kubectl wait --timeout=60s --for=condition=Ready node/edge-1.plant-7.example --kubeconfig=etc/admin.conf",
    "kubectl wait --timeout=60s --for=jsonpath={.spec.containers[0].image}=registry.example:5000/k8s/kube-apiserver:v1.35.1 \
     --namespace=kube-system pod/kube-apiserver-edge-1.plant-7.example --kubeconfig=etc/admin.conf",
    "kubectl wait --timeout=60s --for=condition=Ready --namespace=kube-system pod/kube-apiserver-edge-1.plant-7.example \
     --kubeconfig=etc/admin.conf",
    "kubectl get configmap kubeadm-config --namespace=kube-system --output=jsonpath={.data.ClusterConfiguration} \
     --kubeconfig=etc/admin.conf",
];
/// What `latchkey upgrade execute` waits for.
const DONE: &str = "kubectl annotate --overwrite node/edge-1.plant-7.example latchkey.dev/kubernetes=v1.35.1 \
                    --kubeconfig=etc/admin.conf";
const PODS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// A static pod as kubeadm writes it, in what counts.
fn manifest(name: &str, tag: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    kubernetes.io/config.seen: \"x\"\nspec:\n  containers:\n  - \
         command:\n    - {name}\n    - --note=image: {name}:old\n    image: registry.example:5000/k8s/{name}:{tag}\n    \
         imagePullPolicy: IfNotPresent\n    name: {name}\nstatus: {{}}\n"
    )
}

fn etcd_tag(release: &str) -> String {
    format!("3.6.{}-0", release.rsplit('.').next().unwrap())
}

fn tag(name: &str, release: &str) -> String {
    if name == "etcd" { etcd_tag(release) } else { release.to_owned() }
}

fn path(fake: &FakeKubeadm, name: &str) -> std::path::PathBuf {
    fake.path("etc/manifests").join(format!("{name}.yaml"))
}

/// A control plane that was made with 1.34.4.
fn control_plane() -> FakeKubeadm {
    let fake = FakeKubeadm::new();
    fake.run(&member(NodeRole::ControlPlane), &Work::Join(control_plane_ticket())).result.unwrap();
    for name in PODS {
        fs::write(path(&fake, name), manifest(name, &tag(name, "v1.34.4"))).unwrap();
    }
    cluster_is(&fake, "v1.34.4");
    fs::remove_file(fake.path("calls")).unwrap();
    fake
}

fn worker() -> FakeKubeadm {
    let fake = FakeKubeadm::new();
    fake.run(&member(NodeRole::Worker), &Work::Join(ticket())).result.unwrap();
    fs::remove_file(fake.path("calls")).unwrap();
    fake
}

/// What the image carries.
fn carries(fake: &FakeKubeadm, release: &str) {
    fs::write(fake.path("version"), release).unwrap();
}

/// What kubeadm wrote into the cluster.
fn cluster_is(fake: &FakeKubeadm, release: &str) {
    let text =
        format!("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: {release}\n");
    fs::write(fake.path("cluster"), text).unwrap();
}

fn starts(fake: &FakeKubeadm, role: NodeRole) -> Result<Done, StepError> {
    fake.run(&member(role), &Work::Start(None)).result
}

fn pods_are(fake: &FakeKubeadm, release: &str) {
    for name in PODS {
        assert_eq!(fs::read_to_string(path(fake, name)).unwrap(), manifest(name, &tag(name, release)), "{name}");
    }
    // The kubelet would take whatever else lies there for a pod.
    assert_eq!(fs::read_dir(fake.path("etc/manifests")).unwrap().count(), PODS.len());
}

fn noted(fake: &FakeKubeadm) -> Value {
    serde_json::from_slice(&fs::read(fake.path("etc/latchkey/kubernetes.json")).unwrap()).unwrap()
}

fn is_done(fake: &FakeKubeadm) {
    pods_are(fake, "v1.35.1");
    assert_eq!(noted(fake), json!({"version": 1, "kubernetes": "v1.35.1"}));
    assert_eq!(fs::read_dir(fake.path("run")).unwrap().count(), 0, "a configuration is left");
}

#[test]
fn the_first_control_plane_takes_the_images_of_the_root_then_kubeadm_changes_the_cluster() {
    let fake = control_plane();
    carries(&fake, "v1.35.1");
    fs::create_dir_all(fake.path("etc/tmp/kubeadm-backup-etcd-1")).unwrap();
    fake.on("systemctl", "start", 1, "cp -r $here/etc/manifests $here/seen");
    assert!(starts(&fake, NodeRole::ControlPlane).unwrap().news);
    assert_eq!(
        fake.calls(),
        [&[VERSION, IMAGES, START], &RUNS[..], &["kubeadm upgrade apply --yes", RESTART, DONE]].concat()
    );
    is_done(&fake);
    for name in PODS {
        let seen = fs::read_to_string(fake.path("seen").join(format!("{name}.yaml"))).unwrap();
        assert_eq!(seen, manifest(name, &tag(name, "v1.35.1")), "the kubelet started with another");
    }
    assert!(!fake.path("etc/tmp").exists(), "copies of etcd's data heap up");
    let configs = fake.records("config");
    let upgrade: Value = serde_json::from_str(configs.last().unwrap()).unwrap();
    assert_eq!(upgrade["apply"]["kubernetesVersion"], "v1.35.1");
    assert_eq!(upgrade["apply"]["skipPhases"], json!(["bootstrap-token"]), "nodes would be approved by themselves");
    // The next start is one like any other.
    fs::remove_file(fake.path("calls")).unwrap();
    assert!(!starts(&fake, NodeRole::ControlPlane).unwrap().news);
    assert_eq!(fake.calls(), [VERSION, START]);
}

#[test]
fn the_next_control_planes_and_workers_take_what_the_cluster_has() {
    let fake = control_plane();
    carries(&fake, "v1.35.1");
    cluster_is(&fake, "v1.35.1");
    starts(&fake, NodeRole::ControlPlane).unwrap();
    assert_eq!(fake.calls(), [&[VERSION, IMAGES, START], &RUNS[..], &["kubeadm upgrade node", RESTART, DONE]].concat());
    is_done(&fake);
    for release in ["v1.35.1", "v1.36.0"] {
        let fake = worker();
        carries(&fake, release);
        assert!(starts(&fake, NodeRole::Worker).unwrap().news);
        assert_eq!(fake.calls(), [VERSION, START, "kubeadm upgrade node", RESTART]);
        assert_eq!(noted(&fake)["kubernetes"], release);
    }
}

/// A kubelet of 1.35 does not start with what kubeadm 1.34 wrote for one of its own.
#[test]
fn the_kubelet_starts_without_arguments_that_it_does_not_know_any_more() {
    for role in [NodeRole::ControlPlane, NodeRole::Worker] {
        let fake = if role == NodeRole::Worker { worker() } else { control_plane() };
        fs::create_dir(fake.path("kubelet")).unwrap();
        let flags = |pause: &str| format!("KUBELET_KUBEADM_ARGS=\"--node-ip=10.1.0.1{pause}\"\n");
        let path = fake.path("kubelet/kubeadm-flags.env");
        let written = flags(" --pod-infra-container-image=registry.k8s.io/pause:3.10.1");
        fs::write(&path, &written).unwrap();
        starts(&fake, role).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), written, "kubeadm's file is changed by a start like any other");
        carries(&fake, "v1.35.1");
        fake.on("systemctl", "start", 2, "cp $here/kubelet/kubeadm-flags.env $here/flags");
        starts(&fake, role).unwrap();
        assert_eq!(fs::read_to_string(fake.path("flags")).unwrap(), flags(""), "the kubelet ends at once");
    }
}

#[test]
fn two_minor_versions_at_once_and_a_way_back_start_nothing() {
    for (release, code) in
        [("v1.36.0", StepCode::SkipsMinor), ("v2.0.0", StepCode::SkipsMinor), ("v1.33.9", StepCode::OlderThanCluster)]
    {
        let fake = control_plane();
        carries(&fake, release);
        let error = starts(&fake, NodeRole::ControlPlane).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(release) && error.message.contains("v1.34.4"), "{error}");
        assert_eq!(fake.calls(), [VERSION]);
        pods_are(&fake, "v1.34.4");
        // With the image that it had it starts, and says that all is well again.
        carries(&fake, "v1.34.4");
        assert!(starts(&fake, NodeRole::ControlPlane).unwrap().news);
        assert!(!starts(&fake, NodeRole::ControlPlane).unwrap().news);
    }
}

#[test]
fn a_worker_may_go_back_for_a_while_and_changes_nothing_then() {
    let fake = worker();
    carries(&fake, "v1.33.9");
    assert!(!starts(&fake, NodeRole::Worker).unwrap().news);
    assert_eq!(fake.calls(), [VERSION, START]);
    assert_eq!(noted(&fake)["kubernetes"], "v1.34.4");
}

#[test]
fn another_patch_is_taken_either_way_and_a_newer_cluster_is_left_alone() {
    for (patch, cluster, last) in [
        ("v1.34.9", "v1.34.4", Some("kubeadm upgrade apply --yes")),
        ("v1.34.1", "v1.34.1", Some("kubeadm upgrade node")),
        ("v1.34.1", "v1.34.4", None),
    ] {
        let fake = control_plane();
        carries(&fake, patch);
        cluster_is(&fake, cluster);
        starts(&fake, NodeRole::ControlPlane).unwrap();
        pods_are(&fake, patch);
        let upgrades: Vec<_> = fake.calls().into_iter().filter(|call| call.starts_with("kubeadm upgrade")).collect();
        assert_eq!(upgrades, last.into_iter().collect::<Vec<_>>(), "{patch} {cluster}");
        assert_eq!(noted(&fake)["kubernetes"], patch);
    }
}

#[test]
fn a_kubeadm_that_fails_leaves_a_node_that_runs_and_the_next_start_tries_again() {
    let fake = control_plane();
    carries(&fake, "v1.35.1");
    for nth in 1..=3 {
        fake.on("kubeadm", "upgrade", nth, "echo 'error: etcd has no quorum' >&2; exit 1");
    }
    let error = starts(&fake, NodeRole::ControlPlane).unwrap_err();
    assert_eq!(error.code, StepCode::UpgradeFailed);
    assert!(error.message.contains("etcd has no quorum") && error.log_tail.contains("etcd has no quorum"), "{error:?}");
    let calls = fake.calls();
    assert_eq!(calls.iter().filter(|call| *call == START).count(), 1);
    assert_eq!(calls.iter().filter(|call| call.starts_with("kubeadm upgrade apply")).count(), 3);
    assert_eq!(noted(&fake), json!({"version": 1, "kubernetes": "v1.34.4", "failed": true}));
    fs::remove_file(fake.path("calls")).unwrap();
    for nth in 1..=3 {
        fs::remove_file(fake.path(&format!("kubeadm.upgrade.{nth}.does"))).unwrap();
    }
    assert!(starts(&fake, NodeRole::ControlPlane).unwrap().news);
    assert_eq!(fake.calls(), [&[VERSION, START], &RUNS[..], &["kubeadm upgrade apply --yes", RESTART, DONE]].concat());
    is_done(&fake);
}

#[test]
fn an_api_server_that_is_not_there_yet_is_waited_for_and_one_that_never_comes_is_named() {
    let fake = control_plane();
    carries(&fake, "v1.35.1");
    fake.on("kubectl", "wait", 1, "echo 'connection refused' >&2; exit 1");
    starts(&fake, NodeRole::ControlPlane).unwrap();
    assert_eq!(fake.calls().iter().filter(|call| *call == RUNS[0]).count(), 2);

    let fake = control_plane();
    carries(&fake, "v1.35.1");
    fs::write(fake.path("kubectl.always.does"), "[ $1 != wait ] || { echo 'connection refused' >&2; exit 1; }")
        .unwrap();
    let step = latchkey_agent::cluster::Kubeadm { limit: std::time::Duration::from_secs(1), ..fake.step() };
    let (member, work) = (member(NodeRole::ControlPlane), Work::Start(None));
    let error = latchkey_test_support::block_on(step.run(&member, &work, &mut |_: &str| {})).err().unwrap();
    assert!(error.code == StepCode::UpgradeFailed && error.message.contains("connection refused"), "{error}");
    assert!(!fake.calls().iter().any(|call| call.starts_with("kubeadm upgrade")));
}

/// Cuts a start in the middle of a program's call, as a power failure does.
fn cut(fake: &FakeKubeadm, program: &str, verb: &str, role: NodeRole) {
    fake.on(program, verb, 1, "echo in the middle >&2; echo in the middle; exec sleep 600");
    // What prints its result says so on standard error, what prints progress on both.
    let (told, heard) = smol::channel::unbounded();
    let mut progress = |line: &str| {
        if line == "in the middle" {
            told.try_send(()).unwrap();
        }
    };
    let (step, member) = (fake.step(), member(role));
    let run = async { step.run(&member, &Work::Start(None), &mut progress).await.is_ok() };
    let crash = async { heard.recv().await.is_err() };
    assert!(!latchkey_test_support::block_on(run.or(crash)));
    fs::remove_file(fake.path(&format!("{program}.{verb}.1.does"))).unwrap();
}

#[test]
fn a_start_that_is_cut_anywhere_is_gone_on_with() {
    let calls = [
        ("kubeadm", "config"),
        ("systemctl", "start"),
        ("kubectl", "wait"),
        ("kubectl", "get"),
        ("kubeadm", "upgrade"),
        ("systemctl", "restart"),
    ];
    for is_noted in [true, false] {
        for (program, verb) in calls {
            let fake = control_plane();
            if !is_noted {
                // Of a node that was made before there was a note.
                fs::remove_file(fake.path("etc/latchkey/kubernetes.json")).unwrap();
            }
            carries(&fake, "v1.35.1");
            cut(&fake, program, verb, NodeRole::ControlPlane);
            assert!(starts(&fake, NodeRole::ControlPlane).unwrap().news, "{program} {verb}");
            let last = fake.calls();
            assert_eq!(last[last.len() - 3..], ["kubeadm upgrade apply --yes", RESTART, DONE], "{program} {verb}");
            is_done(&fake);
        }
    }
    for (program, verb) in [("systemctl", "start"), ("kubeadm", "upgrade"), ("systemctl", "restart")] {
        let fake = worker();
        carries(&fake, "v1.35.1");
        cut(&fake, program, verb, NodeRole::Worker);
        assert!(starts(&fake, NodeRole::Worker).unwrap().news, "{program} {verb}");
        assert_eq!(noted(&fake)["kubernetes"], "v1.35.1");
    }
}

/// Where a pod is while it is written.
fn beside(fake: &FakeKubeadm, name: &str) -> std::path::PathBuf {
    path(fake, name).with_file_name(format!(".{name}.yaml.new"))
}

#[test]
fn static_pods_of_which_some_are_new_already_are_gone_on_with() {
    for new in 0..PODS.len() - 1 {
        let fake = control_plane();
        carries(&fake, "v1.35.1");
        // In the order in which they are written; the API server's is the last.
        for name in ["etcd", "kube-controller-manager", "kube-scheduler"].iter().take(new + 1) {
            fs::write(path(&fake, name), manifest(name, &tag(name, "v1.35.1"))).unwrap();
        }
        fs::write(beside(&fake, "kube-apiserver"), "half").unwrap();
        starts(&fake, NodeRole::ControlPlane).unwrap();
        is_done(&fake);
    }
}

#[test]
fn static_pods_that_are_not_kubeadm_s_are_left_alone_and_nothing_starts() {
    for (name, text) in [
        ("kube-apiserver", manifest("kube-apiserver", "latest")),
        ("kube-apiserver", manifest("kube-apiserver", "v1.34.4").replace(":v1.34.4", "@sha256:00")),
        ("etcd", "spec: {}\n".into()),
        ("kube-scheduler", manifest("kube-scheduler", "v1.34.4").repeat(2)),
    ] {
        let fake = control_plane();
        carries(&fake, "v1.35.1");
        fs::write(path(&fake, name), &text).unwrap();
        let all = || PODS.map(|name| fs::read_to_string(path(&fake, name)).unwrap());
        let before = all();
        let error = starts(&fake, NodeRole::ControlPlane).unwrap_err();
        assert_eq!(error.code, StepCode::StaticPodForeign, "{error}");
        assert!(error.message.contains(&format!("{name}.yaml")), "{error}");
        assert!(!fake.calls().contains(&START.to_owned()));
        assert_eq!(all(), before, "{name}");
    }
}

#[test]
fn an_image_of_before_takes_back_static_pods_whose_change_was_cut() {
    for new in 0..=PODS.len() {
        let fake = control_plane();
        carries(&fake, "v1.35.1");
        // The first of them cannot be written.
        let beside = beside(&fake, "etcd");
        fs::create_dir(&beside).unwrap();
        starts(&fake, NodeRole::ControlPlane).unwrap_err();
        assert!(!fake.calls().contains(&START.to_owned()));
        assert_eq!(noted(&fake), json!({"version": 1, "kubernetes": "v1.34.4", "pods_mixed": true}));
        fs::remove_dir(&beside).unwrap();
        for name in PODS.iter().take(new) {
            fs::write(path(&fake, name), manifest(name, &tag(name, "v1.35.1"))).unwrap();
        }
        carries(&fake, "v1.34.4");
        assert!(!starts(&fake, NodeRole::ControlPlane).unwrap().news);
        pods_are(&fake, "v1.34.4");
        assert_eq!(noted(&fake), json!({"version": 1, "kubernetes": "v1.34.4"}));
        assert!(!fake.calls().iter().any(|call| call.starts_with("kubeadm upgrade")));
    }
}

#[test]
fn a_release_is_not_left_before_kubeadm_is_done_with_it() {
    let fake = control_plane();
    carries(&fake, "v1.35.1");
    cut(&fake, "kubectl", "wait", NodeRole::ControlPlane);
    pods_are(&fake, "v1.35.1");
    for (release, code) in [("v1.36.0", StepCode::SkipsMinor), ("v1.34.4", StepCode::OlderThanCluster)] {
        carries(&fake, release);
        let error = starts(&fake, NodeRole::ControlPlane).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        pods_are(&fake, "v1.35.1");
    }
    carries(&fake, "v1.35.1");
    starts(&fake, NodeRole::ControlPlane).unwrap();
    is_done(&fake);
    // Now it may be left.
    carries(&fake, "v1.36.0");
    starts(&fake, NodeRole::ControlPlane).unwrap();
    pods_are(&fake, "v1.36.0");
}

#[test]
fn a_join_that_was_done_and_not_marked_is_a_start_of_whatever_the_cluster_has_by_now() {
    let join =
        |fake: &FakeKubeadm| fake.run(&member(NodeRole::ControlPlane), &Work::Join(control_plane_ticket())).result;
    let fake = control_plane();
    carries(&fake, "v1.36.0");
    assert_eq!(join(&fake).unwrap_err().code, StepCode::SkipsMinor);
    assert_eq!(fake.calls(), [VERSION]);
    fs::remove_file(fake.path("calls")).unwrap();
    carries(&fake, "v1.35.1");
    join(&fake).unwrap();
    assert_eq!(
        fake.calls(),
        [&[VERSION, IMAGES, START], &RUNS[..], &["kubeadm upgrade apply --yes", RESTART, DONE]].concat()
    );
    pods_are(&fake, "v1.35.1");
}

#[test]
fn a_control_plane_whose_etcd_is_elsewhere_has_no_static_pod_of_it() {
    let fake = control_plane();
    carries(&fake, "v1.35.1");
    fs::remove_file(path(&fake, "etcd")).unwrap();
    starts(&fake, NodeRole::ControlPlane).unwrap();
    assert!(!path(&fake, "etcd").exists());
    assert_eq!(noted(&fake)["kubernetes"], "v1.35.1");
}

#[test]
fn nodes_that_were_made_before_there_was_a_note_note_their_release() {
    let fake = control_plane();
    fs::remove_file(fake.path("etc/latchkey/kubernetes.json")).unwrap();
    assert!(!starts(&fake, NodeRole::ControlPlane).unwrap().news);
    assert_eq!(fake.calls(), [VERSION, START]);
    assert_eq!(noted(&fake)["kubernetes"], "v1.34.4");
    // A worker has no other sign of its release, so that its configuration is taken anew, once.
    let fake = worker();
    fs::write(fake.path("etc/latchkey/kubernetes.json"), "{}").unwrap();
    starts(&fake, NodeRole::Worker).unwrap();
    assert_eq!(fake.calls(), [VERSION, START, "kubeadm upgrade node", RESTART]);
    fs::remove_file(fake.path("calls")).unwrap();
    starts(&fake, NodeRole::Worker).unwrap();
    assert_eq!(fake.calls(), [VERSION, START]);
}
