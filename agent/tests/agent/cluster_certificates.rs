//! A control plane's certificates, with a kubeadm that records how it is called and whose certificates say what is left of them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;

use crate::cluster_fake::{FakeKubeadm, Ran, control_plane_ticket, member, ticket};
use latchkey_agent::cluster::{Done, StepCode, StepError, Work};
use latchkey_agent::lifecycle::NodeRole;

const VERSION: &str = "kubeadm version --output=short";
const START: &str = "systemctl start kubelet.service";
const LOOK: &str =
    "kubeadm certs check-expiration --output=json --rootfs=etc/latchkey/certificates.new --config=/kubeadm.json";
const RENEW: &str = "kubeadm certs renew all --rootfs=etc/latchkey/certificates.new --config=/kubeadm.json";
/// Seconds: a day less than what a start waits for, and that day more.
const ABOUT_TO_END: &str = "5097600\n";
const NOT_YET: &str = "5184000\n";
/// A day less than half a year, and that day more.
const LITTLE: &str = "15638400\n";
const ENOUGH: &str = "15724800\n";
const RENEWED: &str = "31536000\n";
/// Pods with annotations, and without.
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    kubeadm.kubernetes.io/x: \"1\"\n  labels:\n    a: b\n\
                   spec:\n  containers:\n  - image: registry.k8s.io/kube-apiserver:v1.34.4\n";
const BARE_POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    a: b\nspec:\n  containers:\n  - image: registry.k8s.io/etcd:3.6.5-0\n";

/// A control plane of whose certificates this is left.
fn control_plane(left: &str) -> FakeKubeadm {
    let fake = FakeKubeadm::new();
    fake.run(&member(NodeRole::ControlPlane), &Work::Join(control_plane_ticket())).result.unwrap();
    for name in ["pki/apiserver.crt", "pki/etcd/server.crt", "admin.conf", "scheduler.conf"] {
        fs::write(fake.path("etc").join(name), left).unwrap();
    }
    fs::write(fake.path("etc/manifests/kube-apiserver.yaml"), POD).unwrap();
    fs::write(fake.path("etc/manifests/etcd.yaml"), BARE_POD).unwrap();
    fs::remove_file(fake.path("calls")).unwrap();
    fake
}

fn starts(fake: &FakeKubeadm) -> Ran {
    fake.run(&member(NodeRole::ControlPlane), &Work::Start(None))
}

/// What the timer does.
fn week_passes(fake: &FakeKubeadm) -> Result<(), StepError> {
    latchkey_test_support::block_on(fake.step().renew_certificates(&mut |_| ()))
}

fn read(fake: &FakeKubeadm, name: &str) -> String {
    fs::read_to_string(fake.path("etc").join(name)).unwrap()
}

fn certificates_are(fake: &FakeKubeadm, left: &str) {
    for name in ["pki/apiserver.crt", "pki/etcd/server.crt", "admin.conf", "scheduler.conf"] {
        assert_eq!(read(fake, name), left, "{name}");
    }
    // The authority, and what only the first control plane has.
    assert_eq!(read(fake, "pki/ca.key"), "PEM of ca.key");
    assert!(!fake.path("etc/super-admin.conf").exists());
    assert!(!fake.path("etc/latchkey/certificates.new").exists(), "a copy is left");
}

#[test]
fn a_control_plane_renews_what_is_about_to_end_before_the_kubelet_starts() {
    let fake = control_plane(ABOUT_TO_END);
    fake.on("systemctl", "start", 1, "cat $here/etc/pki/apiserver.crt > $here/seen");
    let Done { news, .. } = starts(&fake).result.unwrap();
    assert!(!news);
    assert_eq!(fake.calls(), [VERSION, LOOK, RENEW, LOOK, START]);
    certificates_are(&fake, RENEWED);
    assert_eq!(fs::read_to_string(fake.path("seen")).unwrap(), RENEWED, "the kubelet started with the old ones");
    assert!(!fake.path("etc/latchkey/certificates.old").exists());
    // All pods start with the machine: none has to be told.
    assert_eq!(read(&fake, "manifests/kube-apiserver.yaml"), POD);
    let configuration = &fake.records("config")[1];
    assert!(configuration.contains("ECDSA-P256") && configuration.contains("v1.34.4"), "{configuration}");
}

#[test]
fn certificates_with_more_left_stay_as_they_are_and_workers_have_none() {
    let fake = control_plane(ENOUGH);
    starts(&fake).result.unwrap();
    week_passes(&fake).unwrap();
    assert_eq!(fake.calls(), [VERSION, LOOK, START, VERSION, LOOK]);
    certificates_are(&fake, ENOUGH);
    // A start leaves to the timer what it can: its clock may be anything.
    let fake = control_plane(NOT_YET);
    starts(&fake).result.unwrap();
    certificates_are(&fake, NOT_YET);
    assert_eq!(read(&fake, "manifests/kube-apiserver.yaml"), POD);

    let worker = FakeKubeadm::new();
    worker.run(&member(NodeRole::Worker), &Work::Join(ticket())).result.unwrap();
    fs::remove_file(worker.path("calls")).unwrap();
    worker.run(&member(NodeRole::Worker), &Work::Start(None)).result.unwrap();
    week_passes(&worker).unwrap();
    assert_eq!(worker.calls(), [VERSION, START, VERSION]);
}

/// Also one that has ended: the node's pods run, and another control plane may serve it.
#[test]
fn a_renewal_that_fails_changes_nothing_and_keeps_no_node_down() {
    for (left, nth, script) in [
        (ABOUT_TO_END, 1, "exit 1"),
        (ABOUT_TO_END, 1, "echo no JSON; exit 0"),
        // Half of them are written.
        (ABOUT_TO_END, 2, "echo torn > $root/etc/kubernetes/pki/apiserver.crt; exit 1"),
        ("-5\n", 2, "exit 1"),
        // What is renewed ends as early, with its authority.
        (ABOUT_TO_END, 2, "exit 0"),
    ] {
        let fake = control_plane(left);
        fake.on("kubeadm", "certs", nth, script);
        let ran = starts(&fake);
        assert!(ran.result.is_ok(), "{script}: {:?}", ran.result);
        assert_eq!(fake.calls().last().unwrap(), START);
        let said = ran.lines.iter().find(|line| line.starts_with("the certificates are not renewed")).unwrap();
        assert!(said.contains(": step-"), "no reason code: {said}");
        certificates_are(&fake, left);
        // The next start tries again.
        starts(&fake).result.unwrap();
        certificates_are(&fake, RENEWED);
    }
}

#[test]
fn a_control_plane_that_runs_has_its_pods_restarted_and_keeps_the_old_certificates_for_them_until_then() {
    let fake = control_plane(LITTLE);
    week_passes(&fake).unwrap();
    assert_eq!(fake.calls(), [VERSION, LOOK, RENEW, LOOK]);
    certificates_are(&fake, RENEWED);
    assert_eq!(read(&fake, "latchkey/certificates.old/etc/kubernetes/pki/apiserver.crt"), LITTLE);
    let annotation = "    latchkey.dev/certificates-until: \"until 31536000\"\n";
    let annotations = format!("  annotations:\n{annotation}");
    let pod = POD.replace("  annotations:\n", &annotations);
    assert_eq!(read(&fake, "manifests/kube-apiserver.yaml"), pod);
    let bare = BARE_POD.replace("metadata:\n", &format!("metadata:\n{annotations}"));
    assert_eq!(read(&fake, "manifests/etcd.yaml"), bare);
    assert_eq!(fs::read_dir(fake.path("etc/manifests")).unwrap().count(), 2);

    // The next week restarts nothing; half a year later it is done again, and said once.
    week_passes(&fake).unwrap();
    assert_eq!(read(&fake, "manifests/kube-apiserver.yaml"), pod);
    fs::write(fake.path("etc/pki/apiserver.crt"), "7\n").unwrap();
    fs::write(fake.path("etc/manifests/etcd.yaml"), bare.replace("31536000", "7")).unwrap();
    week_passes(&fake).unwrap();
    assert_eq!(read(&fake, "manifests/etcd.yaml"), bare);
    // A start has no pod that reads the old ones.
    starts(&fake).result.unwrap();
    assert!(!fake.path("etc/latchkey/certificates.old").exists());
}

/// What a power cut left, or a kubeadm that failed, is no reason to renew nothing.
#[test]
fn what_an_earlier_run_left_is_removed() {
    let fake = control_plane(ABOUT_TO_END);
    fs::create_dir_all(fake.path("etc/latchkey/certificates.new/etc/kubernetes/pki")).unwrap();
    fs::write(fake.path("etc/latchkey/certificates.new/etc/kubernetes/pki/apiserver.crt"), "torn").unwrap();
    // Cut between the kubeconfigs and the rest.
    fs::write(fake.path("etc/admin.conf"), RENEWED).unwrap();
    starts(&fake).result.unwrap();
    certificates_are(&fake, RENEWED);
}

#[test]
fn a_pod_that_is_not_kubeadms_is_not_changed_and_the_next_run_tells_the_others() {
    let fake = control_plane(LITTLE);
    let foreign = POD.replace("  annotations:\n    kubeadm.kubernetes.io/x: \"1\"\n", "  annotations: {}\n");
    fs::write(fake.path("etc/manifests/etcd.yaml"), &foreign).unwrap();
    assert_eq!(week_passes(&fake).unwrap_err().code, StepCode::StaticPodForeign);
    certificates_are(&fake, RENEWED);
    assert_eq!(read(&fake, "manifests/etcd.yaml"), foreign);
    assert_eq!(read(&fake, "manifests/kube-apiserver.yaml"), POD);
    fs::write(fake.path("etc/manifests/etcd.yaml"), BARE_POD).unwrap();
    week_passes(&fake).unwrap();
    for name in ["etcd", "kube-apiserver"] {
        assert!(read(&fake, &format!("manifests/{name}.yaml")).contains("until 31536000"), "{name}");
    }
}

/// Renewed at a start whose clock was a year ahead they would begin in a year.
#[test]
fn what_a_clock_that_was_ahead_has_issued_is_taken_back_once_the_clock_is_set() {
    let fake = control_plane(ENOUGH);
    let a_year_and_two_days = "31708800\n";
    fs::write(fake.path("last"), a_year_and_two_days).unwrap();
    // The kubelet may be started before the clock is set.
    starts(&fake).result.unwrap();
    certificates_are(&fake, ENOUGH);
    week_passes(&fake).unwrap();
    certificates_are(&fake, RENEWED);
    assert!(read(&fake, "manifests/etcd.yaml").contains("until 31536000"));
    week_passes(&fake).unwrap();
    assert_eq!(fake.calls().iter().filter(|call| *call == RENEW).count(), 1);

    // Where the clock is behind, authorities have more left than they were ever given: nothing is as it seems.
    let fake = control_plane(ENOUGH);
    fs::write(fake.path("last"), a_year_and_two_days).unwrap();
    fs::write(fake.path("authority"), "315532800\n").unwrap();
    week_passes(&fake).unwrap();
    certificates_are(&fake, ENOUGH);
}
