//! An edge that is driven from its repository: real kustomize-controller, real Sealed Secrets, on a real API server.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod rig;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_centre_site::Program;
use latchkey_factory_plus::uuids::application;
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::kubernetes::program;
use latchkey_qemu_tests::process::output;
use latchkey_test_support::until;
use serde_json::{Value, json};

use rig::{NAME, SEALING, Site, condition};

const SEALED: &str = "/apis/bitnami.com/v1alpha1/namespaces/fplus-edge/sealedsecrets";

/// How soon the centre is to know of a new key.
const SOON: Duration = Duration::from_secs(10);

/// Starts what seals and reports of the chart's programs: the process id of Sealed Secrets.
fn start_chart(site: &mut Site, centre: &Centre) -> u32 {
    site.start_krb_keys(centre);
    let sealing = site.start_sealed_secrets(centre);
    site.start_edge_sync(centre);
    sealing
}

/// Waits until the controller has so many keys: their certificates.
fn certificates(site: &Site, keys: usize) -> Vec<String> {
    let path =
        format!("/api/v1/namespaces/{SEALING}/secrets?labelSelector=sealedsecrets.bitnami.com/sealed-secrets-key");
    let found = until(format_args!("{keys} keys of the controller"), || {
        let found = site.admin().get(&path).granted();
        found["items"].as_array().filter(|all| all.len() == keys).cloned()
    });
    let pem = |key: &Value| STANDARD.decode(key["data"]["tls.crt"].as_str().unwrap()).unwrap();
    found.iter().map(|key| String::from_utf8(pem(key)).unwrap().trim().to_owned()).collect()
}

/// Waits until the centre seals for this certificate.
fn is_reported(centre: &Centre, cluster: &str, certificate: &str) {
    let path = Centre::entry(application::EDGE_CLUSTER_STATUS, cluster);
    until("the certificate at the centre", || {
        let status = centre.ask(centre.admin(), "GET", Program::ConfigDb, &path).unwrap().json();
        (status["kubeseal_cert"].as_str().map(str::trim) == Some(certificate)).then_some(())
    });
    is_sealing(centre, cluster);
}

/// Reports the certificate of a key that no controller has, as an Edge Sync would that is gone since.
fn report_a_key(centre: &Centre, cluster: &str) {
    let status = json!({ "kubeseal_cert": centre.sealing_certificate().unwrap() });
    assert!(centre.report(centre.admin(), cluster, &status).unwrap() < 300);
    is_sealing(centre, cluster);
}

fn is_sealing(centre: &Centre, cluster: &str) {
    until("the cluster manager to know it", || (centre.clusters().ok()?[cluster]["sealing"] == true).then_some(()));
}

/// `latchkey cluster seal`.
fn seal(centre: &Centre, place: &str, value: &[u8]) {
    let path = centre.run.write("value", value).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    centre.reported(&["seal", NAME, "--secret", place, "--value-file", path.to_str().unwrap()]).unwrap();
}

#[test]
#[ignore = "kustomize-controller and Sealed Secrets, built with Go; ./dev e2e edge_flux --ignored"]
fn a_secret_that_is_sealed_at_the_centre_is_read_at_the_edge() {
    let (centre, cluster) = rig::centre("edge-flux", &[]);
    let mut site = Site::bootstrapped(&centre, &cluster, "first");
    let revision = site.flux.fetch(&centre, "self-link").unwrap();
    let fetched = Instant::now();
    site.flux.fetch(&centre, "helm-charts").unwrap();
    let release = until("the release of the cluster's chart", || {
        let all = site.admin().get("/apis/helm.toolkit.fluxcd.io/v2/namespaces/fplus-edge/helmreleases");
        all.body()["items"][0]["metadata"]["name"].as_str().map(str::to_owned)
    });
    eprintln!("the repository's first manifest after {:?}", fetched.elapsed());
    assert_eq!(site.flux.install_releases().unwrap(), [release]);
    site.applied("self-link", &revision);
    eprintln!("the first Kustomization ready after {:?}, with helm's work", fetched.elapsed());
    for program in ["krb-keys", "edge-sync", "edge-monitor"] {
        site.admin().get(&format!("/apis/apps/v1/namespaces/fplus-edge/deployments/{program}")).granted();
    }
    let sealing = start_chart(&mut site, &centre);
    site.applied("secrets", &revision);
    eprintln!("all ready after {:?}", fetched.elapsed());
    let first = certificates(&site, 1).remove(0);
    is_reported(&centre, &cluster, &first);

    let value: Vec<u8> = (0..=255).cycle().take(3000).chain(*b"end").collect();
    let begin = Instant::now();
    seal(&centre, "fplus-edge/plc/password", &value);
    let sealed = begin.elapsed();
    let revision = site.flux.fetch(&centre, "self-link").unwrap();
    let fetched = begin.elapsed();
    until("the sealed secret", || (site.admin().get(&format!("{SEALED}/plc")).status() == 200).then_some(()));
    let applied = begin.elapsed();
    let opened = until("the secret", || site.held("plc", "password"));
    let times = [sealed, fetched, applied, begin.elapsed()];
    eprintln!("sealed, fetched, applied, opened after {times:?}");
    assert_eq!(opened, value);
    site.applied("secrets", &revision);
    let object = site.admin().get(&format!("{SEALED}/plc")).granted();
    assert_eq!(condition(&object, "Synced")["status"], "True", "{object}");

    // A new key seals from now on, and the old one opens what it always did.
    output(Command::new("kill").args(["-USR1", &sealing.to_string()])).unwrap();
    let second = certificates(&site, 2).into_iter().find(|certificate| *certificate != first).unwrap();
    let begin = Instant::now();
    is_reported(&centre, &cluster, &second);
    let told = begin.elapsed();
    eprintln!("a new key told after {told:?}");
    assert!(told < SOON, "{told:?}");
    seal(&centre, "fplus-edge/plc/user", b"operator");
    site.flux.fetch(&centre, "self-link").unwrap();
    assert_eq!(until("the second key", || site.held("plc", "user")), b"operator");
    assert_eq!(site.held("plc", "password").unwrap(), value);

    // What is taken out of the repository goes.
    for key in ["password", "user"] {
        let path = format!("v1/cluster/{cluster}/secret/fplus-edge/plc/{key}");
        assert_eq!(centre.ask(centre.admin(), "DELETE", Program::ClusterManager, &path).unwrap().status, 204);
    }
    let revision = site.flux.fetch(&centre, "self-link").unwrap();
    site.applied("secrets", &revision);
    assert_eq!(site.admin().get(&format!("{SEALED}/plc")).status(), 404);
    assert!(centre.reported(&["show", NAME]).unwrap()["errors"].is_null());
}

#[test]
#[ignore = "kustomize-controller and Sealed Secrets, built with Go; ./dev e2e edge_flux --ignored"]
fn new_hardware_gets_what_the_repository_has_and_the_centre_says_what_it_cannot_open() {
    let (centre, cluster) = rig::centre("edge-flux-again", &[]);
    // Sealed for a key that is gone with the hardware which had it.
    report_a_key(&centre, &cluster);
    for key in ["fplus-edge/plc/password", "fplus-edge/plc/user"] {
        seal(&centre, key, b"of the old hardware");
    }

    // With secrets in the repository, and no definition of them at the edge.
    let mut site = Site::bootstrapped(&centre, &cluster, "new-hardware");
    let revision = site.flux.fetch(&centre, "self-link").unwrap();
    site.flux.fetch(&centre, "helm-charts").unwrap();
    let waits = until("the secrets to wait", || {
        let ready = condition(&site.kustomization("secrets"), "Ready");
        (ready["status"] == "False").then_some(ready)
    });
    assert_eq!(waits["reason"], "DependencyNotReady", "{waits}");
    assert_ne!(condition(&site.kustomization("self-link"), "Ready")["status"], "True");
    assert_eq!(site.admin().get(SEALED).status(), 404);
    assert_eq!(site.flux.install_releases().unwrap().len(), 1);
    let defined = Instant::now();
    site.applied("self-link", &revision);
    site.applied("secrets", &revision);
    eprintln!("secrets applied {:?} after their definition", defined.elapsed());
    site.admin().get(&format!("{SEALED}/plc")).granted();

    start_chart(&mut site, &centre);
    is_reported(&centre, &cluster, &certificates(&site, 1)[0]);
    let told = until("the lost secret to be listed", || {
        let shown = centre.reported(&["show", NAME]).unwrap();
        shown["errors"].as_array().filter(|errors| !errors.is_empty()).cloned()
    });
    let [told] = told.as_slice() else { panic!("{told:?}") };
    let wanted = "the sealed secret fplus-edge/plc is not opened (no key could decrypt secret";
    assert!(told.as_str().unwrap().starts_with(wanted), "{told}");
    assert_eq!(site.held("plc", "password"), None);

    // Sealed anew, they are opened, and the list is empty.
    for key in ["fplus-edge/plc/password", "fplus-edge/plc/user"] {
        seal(&centre, key, b"of the new hardware");
    }
    site.flux.fetch(&centre, "self-link").unwrap();
    until("the secret", || (site.held("plc", "password")? == b"of the new hardware").then_some(()));
    assert_eq!(site.held("plc", "user").unwrap(), b"of the new hardware");
    until("nothing to be listed", || centre.reported(&["show", NAME]).unwrap()["errors"].is_null().then_some(()));
}

#[test]
#[ignore = "kustomize-controller and Sealed Secrets, built with Go; ./dev e2e edge_flux --ignored"]
fn secrets_of_a_bare_cluster_are_applied_once_somebody_has_defined_them() {
    let (centre, cluster) = rig::centre("edge-flux-bare", &["--bare"]);
    report_a_key(&centre, &cluster);
    seal(&centre, "fplus-edge/plc/password", b"hush");
    let site = Site::bootstrapped(&centre, &cluster, "bare");
    let revision = site.flux.fetch(&centre, "self-link").unwrap();
    // Nothing of the cluster's own waits for somebody else.
    site.applied("self-link", &revision);
    let ready = until("the secrets to be refused", || {
        let ready = condition(&site.kustomization("secrets"), "Ready");
        (ready["status"] == "False" && ready["reason"] != "DependencyNotReady").then_some(ready)
    });
    assert!(ready["message"].as_str().unwrap().contains("no matches for kind \"SealedSecret\""), "{ready}");
    let mut helm = Command::new(program("helm").unwrap());
    let definition = output(helm.args(["show", "crds"]).arg(program("sealed-secrets.tgz").unwrap())).unwrap();
    site.apply("sealed-secrets.yaml", &definition);
    site.applied("secrets", &revision);
    site.admin().get(&format!("{SEALED}/plc")).granted();
}
