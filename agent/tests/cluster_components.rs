//! The Kubernetes cluster step of an image without components, with programs that record how they are called.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "other tests of the step need more of it")]
mod cluster_fake;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cluster_fake::{FakeKubeadm, member, settings, ticket};
use latchkey_agent::cluster::{Member, Seal, StepCode, Work};
use latchkey_agent::lifecycle::NodeRole;
use latchkey_api::v1::ClusterSettings;

const LIST: &[u8] = b"{\"schema\":1}";
const RUNTIME: &str = "systemctl start latchkey-component-images.service";
const VERSION: &str = "kubeadm version --output=short";
const KUBELET: &str = "systemctl start kubelet.service";
const RECORD: &str = "etc/latchkey/components.json";

/// Of an image that has what gets components, and no components: these come with a list.
fn without_components() -> FakeKubeadm {
    let fake = FakeKubeadm::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster_fake/components.sh");
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
    // SHA-256 of the list.
    let hash = ring::digest::digest(&ring::digest::SHA256, LIST);
    format!("components verify {} --role {role} --link fetched", hex::encode(hash))
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
        fake.run(&member, &Work::Start).result.unwrap();
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
    let cases: [(&str, &str, Member); 6] = [
        ("gone", "", node()),
        ("another list", &replaced, node()),
        ("of another disk", &good, another()),
        ("another version", &good.replace("\"version\":1", "\"version\":2"), node()),
        ("no record", "{}", node()),
        ("too long", &" ".repeat(5000), node()),
    ];
    for (name, content, member) in cases {
        let fake = without_components();
        fs::create_dir_all(fake.path("etc/latchkey")).unwrap();
        if !content.is_empty() {
            fs::write(fake.path(RECORD), content).unwrap();
        }
        let error = fake.run(&member, &Work::Start).result.unwrap_err();
        assert_eq!(error.code, StepCode::ComponentsChanged, "{name}: {error}");
        assert!(fake.calls().is_empty(), "{name}: {:?}", fake.calls());
    }
    // The record itself is good where nothing changed.
    noted.run(&node(), &Work::Start).result.unwrap();
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
    let error = fake.run(&member(NodeRole::Worker), &Work::Start).result.unwrap_err();
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
