//! The Kubernetes cluster step of an image without components, with programs that record how they are called.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::cluster_fake::{FakeKubeadm, member, settings, ticket};
use latchkey_agent::cluster::{Member, Seal, StepCode, Work};
use latchkey_agent::lifecycle::NodeRole;
use latchkey_api::v1::{ClusterSettings, Components};
use serde_json::{Value, json};

const LIST: &[u8] = b"{\"schema\":1}";
const NEXT: &[u8] = b"{\"schema\":1,\"of\":\"1.35\"}";
const RUNTIME: &str = "systemctl start latchkey-component-images.service";
const VERSION: &str = "kubeadm version --output=short";
const KUBELET: &str = "systemctl start kubelet.service";
const RECORD: &str = "etc/latchkey/components.json";

/// Of an image that has what gets components, and no components: these come with a list.
fn without_components() -> FakeKubeadm {
    let fake = FakeKubeadm::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent/cluster_fake/components.sh");
    symlink(script, fake.path("components")).unwrap();
    fake
}

fn init() -> Work {
    let list = LIST.to_vec();
    Work::Init(ClusterSettings { component_list: list, kubernetes_version: "1.34".into(), ..settings() }, None)
}

fn join() -> Work {
    let mut ticket = ticket();
    ticket.component_list = LIST.to_vec();
    Work::Join(ticket)
}

fn fetch(role: &str, version: &str) -> String {
    format!("components fetch {version}--role {role} --link fetched")
}

fn verify(role: &str) -> String {
    verify_list(LIST, "", role)
}

fn verify_list(list: &[u8], more: &str, role: &str) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, list);
    format!("components verify {} {more}--role {role} --link fetched", hex::encode(hash))
}

/// A member's start, when its cluster names this version.
fn start_with(minor: &str, list: &[u8]) -> Work {
    Work::Start(Some(Components { kubernetes_version: minor.to_owned(), list: list.to_vec() }))
}

/// A member that got 1.34.4 when it was made.
fn made(role: NodeRole) -> FakeKubeadm {
    let fake = without_components();
    let work = if role == NodeRole::First { init() } else { join() };
    fake.run(&member(role), &work).result.unwrap();
    fs::remove_file(fake.path("calls")).unwrap();
    fake
}

/// What the programs of the next list say of themselves.
fn brings(fake: &FakeKubeadm, release: &str) {
    // `made` began the count of calls anew.
    fake.on("components", "fetch", 1, &format!("echo {release} >$here/version"));
}

fn noted(fake: &FakeKubeadm) -> Value {
    serde_json::from_slice(&fs::read(fake.path("etc/latchkey/kubernetes.json")).unwrap()).unwrap()
}

#[test]
fn components_come_before_anything_of_kubernetes_runs_and_are_what_runs() {
    let fake = without_components();
    // The image has none.
    for program in ["kubeadm", "kubectl"] {
        fs::rename(fake.path(program), fake.path(&format!("{program}.sh"))).unwrap();
    }
    fake.run(&member(NodeRole::First), &init()).result.unwrap();
    let calls = fake.calls();
    assert_eq!(
        calls[..3],
        [fetch("control-plane", "--version 1.34 "), RUNTIME.into(), "kubeadm version --output=short".into()]
    );
    assert_eq!(fake.records("stdin")[0].as_bytes(), LIST);
    let fake = without_components();
    fake.run(&member(NodeRole::Worker), &join()).result.unwrap();
    assert_eq!(
        fake.calls(),
        [fetch("worker", ""), RUNTIME.into(), "kubeadm join".into(), KUBELET.into(), VERSION.into()]
    );
}

#[test]
fn later_boots_verify_the_list_that_the_node_noted() {
    for (role, name) in [(NodeRole::First, "control-plane"), (NodeRole::Worker, "worker")] {
        let fake = without_components();
        let member = member(role);
        let work = if role == NodeRole::First { init() } else { join() };
        fake.run(&member, &work).result.unwrap();
        let before = fake.calls().len();
        fake.run(&member, &Work::Start(None)).result.unwrap();
        assert_eq!(fake.calls()[before..], [verify(name), VERSION.into(), KUBELET.into()]);
    }
}

#[test]
fn a_list_that_this_node_did_not_note_starts_nothing() {
    let noted = without_components();
    noted.run(&member(NodeRole::Worker), &join()).result.unwrap();
    let good = fs::read_to_string(noted.path(RECORD)).unwrap();
    let other = if good.contains("\"list\":\"0") { '1' } else { '0' };
    let at = good.find("\"list\":\"").unwrap() + 8;
    let replaced = format!("{}{other}{}", &good[..at], &good[at + 1..]);
    let node = || member(NodeRole::Worker);
    let another = || Member { seal: Seal::new(&[8; 32]), ..member(NodeRole::Worker) };
    let cases: [(&str, &str, Member); 5] = [
        ("another list", &replaced, node()),
        ("of another disk", &good, another()),
        ("another version", &good.replace("\"version\":1", "\"version\":2"), node()),
        ("no record", "{}", node()),
        ("too long", &" ".repeat(5000), node()),
    ];
    for (name, content, member) in cases {
        let fake = without_components();
        fs::create_dir_all(fake.path("etc/latchkey")).unwrap();
        fs::write(fake.path(RECORD), content).unwrap();
        let error = fake.run(&member, &Work::Start(None)).result.unwrap_err();
        assert_eq!(error.code, StepCode::ComponentsChanged, "{name}: {error}");
        assert!(fake.calls().is_empty(), "{name}: {:?}", fake.calls());
    }
    // The record itself is good where nothing changed.
    noted.run(&node(), &Work::Start(None)).result.unwrap();
}

#[test]
fn a_node_whose_components_are_not_there_runs_nothing_of_kubernetes() {
    let fails = "echo 'failed: component-hash-differs: kubelet: take another mirror' >&2; exit 1";
    let fake = without_components();
    fake.on("components", "fetch", 1, fails);
    let error = fake.run(&member(NodeRole::Worker), &join()).result.unwrap_err();
    assert_eq!(error.code, StepCode::ComponentsMissing);
    assert!(error.message.contains("component-hash-differs"), "{error}");
    assert_eq!(fake.calls(), [fetch("worker", "")]);
    assert!(!fake.path(RECORD).exists());
    // The next boot's ticket gets them.
    fake.run(&member(NodeRole::Worker), &join()).result.unwrap();
    fake.on("components", "verify", 1, fails);
    let before = fake.calls().len();
    let error = fake.run(&member(NodeRole::Worker), &Work::Start(None)).result.unwrap_err();
    assert_eq!((error.code, fake.calls().len()), (StepCode::ComponentsMissing, before + 1));
}

#[test]
fn who_names_no_components_is_told_so_and_images_with_their_own_take_no_others() {
    let fake = without_components();
    let error = fake.run(&member(NodeRole::Worker), &Work::Join(ticket())).result.unwrap_err();
    assert_eq!(error.code, StepCode::ComponentsNotNamed);
    assert!(fake.calls().is_empty());
    let fake = FakeKubeadm::new();
    fake.run(&member(NodeRole::Worker), &join()).result.unwrap();
    assert_eq!(fake.calls(), ["kubeadm join", KUBELET, VERSION]);
}

#[test]
fn a_member_of_an_image_with_components_needs_some_to_be_named_in_one_without() {
    // Whatever it was, nobody is told to wipe a disk that holds a good member.
    let fake = FakeKubeadm::new();
    let node = member(NodeRole::Worker);
    fake.run(&node, &Work::Join(ticket())).result.unwrap();
    fs::remove_file(fake.path("calls")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent/cluster_fake/components.sh");
    symlink(script, fake.path("components")).unwrap();
    let error = fake.run(&node, &Work::Start(None)).result.unwrap_err();
    assert_eq!(error.code, StepCode::ComponentsNotNamed, "{error}");
    fake.on("components", "fetch", 1, "echo 'failed: component-not-to-be-had: kubelet' >&2; exit 1");
    let error = fake.run(&node, &start_with("1.34", LIST)).result.unwrap_err();
    assert!(error.code == StepCode::ComponentsMissing && error.message.contains("not-to-be-had"), "{error}");
    assert_eq!(fake.calls(), [fetch("worker", "--version 1.34 ")]);
    fake.run(&node, &start_with("1.34", LIST)).result.unwrap();
    assert_eq!(fake.calls()[2..], [RUNTIME, VERSION, KUBELET]);
}

#[test]
fn a_join_that_was_done_and_not_marked_goes_where_a_start_goes() {
    let fake = made(NodeRole::Worker);
    fake.run(&member(NodeRole::Worker), &join()).result.unwrap();
    assert_eq!(fake.calls(), [verify("worker"), VERSION.into(), KUBELET.into()]);
}

#[test]
fn a_member_gets_what_its_cluster_names_and_notes_it_once_it_can_run() {
    let fake = made(NodeRole::Worker);
    brings(&fake, "v1.35.4");
    let node = member(NodeRole::Worker);
    assert!(fake.run(&node, &start_with("1.35", NEXT)).result.unwrap().news);
    let upgrade = "kubeadm upgrade node";
    let fetched = fetch("worker", "--version 1.35 ");
    assert_eq!(fake.calls(), [&*fetched, RUNTIME, VERSION, KUBELET, upgrade, "systemctl restart kubelet.service"]);
    assert_eq!(fake.records("stdin")[0].as_bytes(), NEXT);
    assert_eq!(noted(&fake), json!({"version": 1, "kubernetes": "v1.35.4"}));
    // From then on it is a node of that list, whether somebody names it again, or nobody names any.
    for work in [start_with("1.35", NEXT), Work::Start(None)] {
        fs::remove_file(fake.path("calls")).unwrap();
        assert!(!fake.run(&node, &work).result.unwrap().news);
        assert_eq!(fake.calls(), [verify_list(NEXT, "", "worker"), VERSION.into(), KUBELET.into()]);
    }
    // Another list of its version, for example of another mirror, changes nothing of Kubernetes.
    fs::remove_file(fake.path("calls")).unwrap();
    assert!(!fake.run(&node, &start_with("1.35", LIST)).result.unwrap().news);
    assert_eq!(fake.calls(), [&*fetched, RUNTIME, VERSION, KUBELET]);
}

#[test]
fn a_node_that_cannot_have_what_is_named_runs_with_what_it_has_and_says_why() {
    let fails = "echo 'failed: component-not-to-be-had: kubelet: take another mirror' >&2; exit 1";
    let keeps = verify_list(LIST, "--keep-others ", "worker");
    for (fails_at, verb) in [("components", "fetch"), ("systemctl", "start latchkey")] {
        let fake = made(NodeRole::Worker);
        let node = member(NodeRole::Worker);
        fake.on(fails_at, verb.split(' ').next().unwrap(), 1, fails);
        let ran = fake.run(&node, &start_with("1.35", NEXT));
        let error = ran.result.unwrap_err();
        assert_eq!(error.code, StepCode::ComponentsMissing, "{error}");
        assert!(error.message.contains("component-not-to-be-had"), "{error}");
        assert_eq!(noted(&fake)["failed"], true, "{fails_at}: nobody is told");
        assert!(ran.lines.iter().any(|line| line.starts_with("keeping the components of before")), "{:?}", ran.lines);
        let calls = fake.calls();
        assert_eq!(calls[calls.len() - 3..], [&*keeps, VERSION, KUBELET], "{fails_at}");
        // The next start tells that it went well.
        fs::remove_file(fake.path("calls")).unwrap();
        fs::remove_file(fake.path(&format!("{fails_at}.{}.1.does", verb.split(' ').next().unwrap()))).unwrap();
        brings(&fake, "v1.35.4");
        assert!(fake.run(&node, &start_with("1.35", NEXT)).result.unwrap().news, "{fails_at}");
    }
}

#[test]
fn control_planes_go_up_one_minor_version_and_no_node_goes_back() {
    let control_plane = || {
        let fake = made(NodeRole::First);
        let pod = "spec:\n  containers:\n  - name: kube-apiserver\n    image: registry.k8s.io/kube-apiserver:v1.34.4\n";
        fs::write(fake.path("etc/manifests/kube-apiserver.yaml"), pod).unwrap();
        fake
    };
    let cases = [
        (NodeRole::First, "1.36", Some(StepCode::SkipsMinor)),
        (NodeRole::First, "1.33", Some(StepCode::OlderThanCluster)),
        (NodeRole::First, "x", Some(StepCode::ComponentsMissing)),
        (NodeRole::Worker, "1.33", None),
    ];
    for (role, minor, code) in cases {
        let fake = if role == NodeRole::First { control_plane() } else { made(role) };
        let ran = fake.run(&member(role), &start_with(minor, NEXT));
        assert_eq!(ran.result.as_ref().err().map(|error| error.code), code, "{minor}");
        let calls = fake.calls();
        assert!(calls[0].starts_with("components verify"), "{minor}: {calls:?}");
        assert!(calls.contains(&KUBELET.to_owned()), "{minor}: {calls:?}");
        assert_eq!(noted(&fake)["failed"], code.map_or(Value::Null, |_| true.into()), "{minor}");
    }
    // A worker was off for a year.
    let fake = made(NodeRole::Worker);
    brings(&fake, "v1.37.0");
    fake.run(&member(NodeRole::Worker), &start_with("1.37", NEXT)).result.unwrap();
    assert_eq!(fake.calls()[0], fetch("worker", "--version 1.37 "));
}
