//! Machines found clusters with the real kubeadm and register them at a real centre, with nobody beside them but for `latchkey init`.

use std::time::Instant;

use latchkey_qemu_tests::centre::registering::{NOT_FINISHED, Registering};
use latchkey_qemu_tests::fleet::{MEMBER, STEP, VERSION};
use latchkey_qemu_tests::host_name::test_again;
use latchkey_qemu_tests::operator::ek;
use serde_json::{Value, json};

fn seconds(what: &str, since: Instant) {
    eprintln!("{what}: {:.1} s", since.elapsed().as_secs_f32());
}

#[test]
#[ignore = "a real control plane, with Kubernetes built with Go; ./dev e2e edge_enrol --ignored"]
fn a_machine_registers_its_cluster_by_its_invitation_and_has_its_keys() {
    Registering::prepare().unwrap();
    if test_again("edge_enrol::a_machine_registers_its_cluster_by_its_invitation_and_has_its_keys").unwrap() {
        return;
    }
    let all = Registering::prepared("edge-enrol", false).unwrap();
    let (centre, site) = (&all.centre, &all.site);
    let invitation = all.invite("Press_4").unwrap();

    let mut node = site.control_plane(1).unwrap().start().unwrap();
    let power_on = Instant::now();
    all.found(&node, Some(&invitation)).unwrap();
    seconds("power-on to the end of init", power_on);
    node.expect(MEMBER, STEP).unwrap();
    node.expect("registered as Press_4; applying its manifests", STEP).unwrap();
    seconds("power-on to the registration", power_on);
    let shown = centre.reported(&["show", "Press_4"]).unwrap();
    assert_eq!(shown["registration"]["ek_sha256"], ek(&node), "{shown}");
    assert_eq!((&shown["registration"]["image"]["version"], &shown["ready"]), (&json!(VERSION), &json!(true)));

    // Its power goes while its manifests are applied: it goes on with the same cluster.
    let _services = site.fleet.services().unwrap();
    node.restart().unwrap();
    node.expect("registered as Press_4; applying its manifests", STEP).unwrap();
    assert_eq!(centre.clusters().unwrap().as_object().unwrap().len(), 1);

    // The operator's Flux is late.
    node.expect("ensure CRDs are installed first", STEP).unwrap();
    all.define_flux().unwrap();
    node.expect("is registered as Press_4 and has its keys", STEP).unwrap();
    seconds("power-on to the keys", power_on);
    let told = node.console().text().matches("ensure CRDs are installed first").count();
    assert_eq!(told, 1, "it is tried often, and said once");
    let mark = site.ask(&["get", "namespace", "fplus-edge", "--output", "json"]).unwrap();
    let mark: Value = serde_json::from_str(&mark).unwrap();
    assert!(mark["metadata"]["annotations"]["latchkey.dev/edge-cluster"].is_string(), "{mark}");
    let objects = "pods,serviceaccounts,secrets,gitrepositories,kustomizations";
    let objects = site.ask(&["--namespace", "fplus-edge", "get", objects, "--output", "name"]).unwrap();
    for object in ["secret/krb-keys-keytabs", "secret/flux-secrets", "gitrepository", "kustomization"] {
        assert!(objects.lines().any(|line| line.starts_with(object)), "{object}: {objects}");
    }
    assert!(!objects.contains("edge-bootstrap"), "nothing is left of the bootstrap: {objects}");
    // It waited for nobody's word.
    assert_eq!(all.operator(&["held"]).unwrap()["held"], json!([]));

    // Keys and password serve, and nobody but the edge made them.
    let flux = String::from_utf8(all.secret("flux-secrets", "password").unwrap()).unwrap();
    let (to, cluster) = (centre.run.file("clone"), shown["uuid"].as_str().unwrap());
    let cloned = centre.git_clone(("op1flux/Press_4", &flux), &format!("uuid/{cluster}"), &to).unwrap();
    assert!(cloned.status.success(), "{}", String::from_utf8_lossy(&cloned.err));
    assert!(to.join("edo/cluster/self-link.yaml").exists());
    let keytab = centre.write_secret("krbkeys.keytab", all.secret("krb-keys-keytabs", "client").unwrap()).unwrap();
    let signed_in = centre.kinit_by("op1krbkeys/Press_4", &keytab).unwrap();
    assert!(signed_in.status.success(), "{}", String::from_utf8_lossy(&signed_in.err));

    // Another boot registers nothing again: the keys stay, and so does the one link.
    let (before, shown) = (site.ready("node-1", "").unwrap(), centre.reported(&["show", "Press_4"]).unwrap());
    node.restart().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    site.ready("node-1", &before).unwrap();
    assert_eq!(String::from_utf8(all.secret("flux-secrets", "password").unwrap()).unwrap(), flux);
    let after = centre.reported(&["show", "Press_4"]).unwrap();
    for what in ["links", "registration"] {
        assert!(!after[what].is_null() && after[what] == shown[what], "{after}");
    }
}

#[test]
#[ignore = "real control planes, with Kubernetes built with Go; ./dev e2e edge_enrol --ignored"]
fn who_was_not_invited_waits_for_the_operator_and_an_unknown_image_is_refused() {
    Registering::prepare().unwrap();
    if test_again("who_was_not_invited_waits_for_the_operator_and_an_unknown_image_is_refused").unwrap() {
        return;
    }
    let all = Registering::prepared("edge-held", false).unwrap();
    let (centre, site) = (&all.centre, &all.site);
    let mut node = site.control_plane(1).unwrap().start().unwrap();
    all.found(&node, None).unwrap();
    all.define_flux().unwrap();
    node.expect("held for the operator of the centre", STEP).unwrap();
    assert_eq!(all.operator(&["held"]).unwrap()["held"][0]["ek_sha256"], ek(&node));
    all.admit(&node, "Press_5").unwrap();
    node.expect("is registered as Press_5 and has its keys", STEP).unwrap();
    assert_eq!(centre.reported(&["show", "Press_5"]).unwrap()["registration"]["ek_sha256"], ek(&node));
    node.kill();

    // Its own operator trusts it, and has an invitation.
    let invitation = all.invite("Press_6").unwrap();
    let stranger = all.stranger().unwrap().start().unwrap();
    all.founded_by_stranger(&stranger, &invitation).unwrap();
    stranger.expect(&format!("{NOT_FINISHED}measurements-refused"), STEP).unwrap();
    let names: Vec<_> =
        centre.clusters().unwrap().as_object().unwrap().values().map(|one| one["name"].clone()).collect();
    assert_eq!(names, [json!("Press_5")]);
}

#[test]
#[ignore = "a real control plane and Flux, built with Go; ./dev e2e edge_enrol --ignored"]
fn a_cluster_that_registers_is_driven_from_its_repository() {
    Registering::prepare_flux().unwrap();
    if test_again("edge_enrol::a_cluster_that_registers_is_driven_from_its_repository").unwrap() {
        return;
    }
    let all = Registering::with_flux("edge-driven", false).unwrap();
    let invitation = all.invite("Press_7").unwrap();
    let node = all.site.control_plane(1).unwrap().start().unwrap();
    all.found(&node, Some(&invitation)).unwrap();
    node.expect("is registered as Press_7 and has its keys", STEP).unwrap();
    let flux = all.stand_ins().unwrap();
    all.centre.reader().unwrap();
    let listener = all.centre.listen().unwrap();
    all.first_reconciliation(&flux).unwrap();
    eprintln!("driven {:?} after its node was ready", all.driven_after("node-1").unwrap());
    assert_eq!(all.sealed_and_opened(&flux, "Press_7", b"of the press").unwrap(), b"of the press");
    let hosts = all.reported_hosts("Press_7").unwrap();
    assert_eq!((&hosts[0]["hostname"], &hosts[0]["control_plane"]), (&json!("node-1"), &json!(true)), "{hosts}");
    let birth = all.birth(&listener, "Press_7").unwrap();
    assert!(birth.metric("bdSeq").is_some() && birth.metric("Node Control/Rebirth").is_some(), "{birth:?}");
}

/// What the one above is measured beside.
#[test]
#[ignore = "a real control plane and Flux, built with Go; ./dev e2e edge_enrol --ignored"]
fn a_cluster_whose_operator_runs_the_script_is_driven_from_its_repository() {
    Registering::prepare_flux().unwrap();
    if test_again("edge_enrol::a_cluster_whose_operator_runs_the_script_is_driven_from_its_repository").unwrap() {
        return;
    }
    let all = Registering::with_flux("edge-by-hand", false).unwrap();
    all.centre.reported(&["new", "Press_8"]).unwrap();
    let node = all.site.control_plane(1).unwrap().start().unwrap();
    // Nobody invited it, and nobody admits it: it stays as it is.
    all.found(&node, None).unwrap();
    all.site.ready("node-1", "").unwrap();
    all.joined_by_hand(&all.stand_ins().unwrap(), "Press_8").unwrap();
    eprintln!("driven {:?} after its node was ready", all.driven_after("node-1").unwrap());
}
