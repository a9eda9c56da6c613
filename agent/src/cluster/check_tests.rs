use latchkey_api::control_plane::{MAX_FILE, NAMES, file};

use super::*;

/// Has the form of a certificate.
const CA: &str = "-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n";

fn good_ticket() -> ClusterJoin {
    let mut ticket = ClusterJoin::default();
    ticket.api_server_endpoint = "10.0.0.1:6443".into();
    ticket.bootstrap_token = "abcdef.0123456789abcdef".into();
    ticket.ca_certificates = CA.into();
    ticket
}

/// Settings that leave everything to kubeadm.
fn complete() -> ClusterSettings {
    let mut key = latchkey_api::v1::SecretsKey::default();
    (key.key, key.version) = (vec![7; 32], 1);
    ClusterSettings { secrets_key: Some(key), ..ClusterSettings::default() }
}

fn with_files(names: &[&str]) -> ClusterJoin {
    let mut ticket = good_ticket();
    ticket.control_plane_files = names.iter().map(|name| file(name, b"PEM".to_vec())).collect();
    ticket.secrets_key = complete().secrets_key;
    ticket
}

fn node(name: &str) -> Member {
    Member {
        node_name: name.into(),
        role: NodeRole::Worker,
        cluster_id: String::new(),
        cluster_name: String::new(),
        disk: String::new(),
        seal: crate::cluster::Seal::new(&[7; 32]),
    }
}

#[test]
fn a_name_with_dots_is_a_name_and_one_too_long_for_a_label_is_not() {
    assert!(member(&node("edge-1.plant-7.example.org")).is_ok());
    for bad in ["", "Edge", "a..b", "-a", "a/b", "--config=x", &"a".repeat(64), &["a"; 33].join(".")] {
        assert_eq!(member(&node(bad)).err().unwrap().code, StepCode::NodeNameRefused, "{bad}");
    }
}

#[test]
fn a_version_that_kubeadm_would_fetch_from_the_internet_is_refused() {
    for good in ["v1.34.4", "v1.35.0-rc.1", "v1.35.0-alpha.3.12-x"] {
        assert!(is_version(good), "{good}");
    }
    for bad in [
        "stable-1",
        "latest",
        "ci/latest",
        "1.34.4",
        "v1.34",
        "v1.34.4.1",
        "v1.34.x",
        "v1.34.4-",
        "v1.34.4+a",
        "v",
        "https://evil.example/version",
        "v1.34.4\n",
        "v1..4",
        "v1.34.44444",
    ] {
        assert!(!is_version(bad), "{bad}");
        if !bad.is_empty() {
            let wish = ClusterSettings { kubernetes_version: bad.into(), ..complete() };
            assert_eq!(settings(&wish).err().unwrap().code, StepCode::SettingsRefused, "{bad}");
        }
    }
}

#[test]
fn an_operator_names_a_minor_version_and_no_patch() {
    for good in ["1.34", "1.35", "2.0"] {
        assert!(is_minor(good), "{good}");
    }
    for bad in ["v1.34", "1.34.4", "v1.34.4", "1", "1.", ".34", "1.34 ", "1.x", "stable-1", "1.3444"] {
        let wish = ClusterSettings { kubernetes_version: bad.into(), ..complete() };
        assert_eq!(settings(&wish).err().unwrap().code, StepCode::SettingsRefused, "{bad}");
    }
}

#[test]
fn subnets_are_one_of_a_family() {
    for good in ["10.244.0.0/16", "fd00:1::/48", "10.244.0.0/16,fd00:1::/48"] {
        assert!(are_subnets(good), "{good}");
    }
    for bad in [
        "",
        "10.244.0.0",
        "10.0.0.0/33",
        "fd00::/129",
        "10.0.0.0/+8",
        "10.0.0.0/8,10.1.0.0/16",
        "a/8",
        "10.0.0.0/8, fd00::/48",
        "10.0.0.0/8,fd00::/48,fd01::/48",
    ] {
        assert!(!are_subnets(bad), "{bad}");
    }
}

#[test]
fn settings_and_tickets_of_control_planes_without_a_key_for_secrets_are_refused() {
    let error = settings(&ClusterSettings::default()).err().unwrap();
    assert_eq!(error.code, StepCode::SettingsRefused);
    assert!(error.message.contains("lacks the key"), "{error}");
    let mut short = complete();
    short.secrets_key.as_mut().unwrap().key.pop();
    assert!(settings(&short).is_err());
    let error = ticket(NodeRole::ControlPlane, &good_ticket()).err().unwrap();
    assert_eq!(error.code, StepCode::TicketIncomplete);
    let mut with_key = good_ticket();
    with_key.secrets_key = complete().secrets_key;
    assert!(ticket(NodeRole::ControlPlane, &with_key).is_ok_and(|files| files.is_some()));
    assert_eq!(ticket(NodeRole::Worker, &with_key).err().unwrap().code, StepCode::TicketRefused);
}

#[test]
fn settings_without_wishes_and_with_good_ones_pass() {
    assert!(settings(&complete()).is_ok());
    let mut wish = ClusterSettings { control_plane_endpoint: "[fd00::1]:6443".into(), ..complete() };
    wish.apiserver_cert_sans = vec!["*.plant.example".into(), "10.0.0.1".into(), "fd00::1".into()];
    assert!(settings(&wish).is_ok());
    wish.apiserver_cert_sans = vec!["a".into(); 33];
    assert_eq!(settings(&wish).err().unwrap().code, StepCode::SettingsRefused);
    wish.apiserver_cert_sans = vec!["a\n---".into()];
    assert_eq!(settings(&wish).err().unwrap().code, StepCode::SettingsRefused);
}

#[test]
fn a_ticket_without_token_or_ca_pin_is_incomplete_and_names_what_lacks() {
    assert!(ticket(NodeRole::Worker, &good_ticket()).is_ok());
    let mut unpinned = good_ticket();
    unpinned.ca_certificates.clear();
    let error = ticket(NodeRole::Worker, &unpinned).err().unwrap();
    assert_eq!(error.code, StepCode::TicketIncomplete);
    assert!(error.message.contains("the cluster's CA"), "{error}");
    let mut open = good_ticket();
    open.bootstrap_token = String::new();
    assert_eq!(ticket(NodeRole::Worker, &open).err().unwrap().code, StepCode::TicketIncomplete);
}

#[test]
fn a_ticket_that_is_malformed_anywhere_is_refused_without_showing_its_token() {
    let spoil: [fn(&mut ClusterJoin); 9] = [
        |t| t.api_server_endpoint = "10.0.0.1".into(),
        |t| t.api_server_endpoint = "fd00::1:6443".into(),
        |t| t.bootstrap_token = "abcdef.0123456789ABCDEF".into(),
        |t| t.bootstrap_token = "abcdef.0123456789abcdef\n".into(),
        |t| t.ca_certificates = b"sha256:ab".into(),
        |t| t.ca_certificates = CA.replace("CERTIFICATE", "PRIVATE KEY").into(),
        |t| t.ca_certificates = format!("{CA}\ncurrent-context: evil").into(),
        |t| t.ca_certificates = CA.replace("MAo=", "MAo").into(),
        |t| t.ca_certificates = CA.repeat(9).into(),
    ];
    for (case, spoil) in spoil.iter().enumerate() {
        let mut spoilt = good_ticket();
        spoil(&mut spoilt);
        let error = ticket(NodeRole::Worker, &spoilt).err().unwrap();
        assert_eq!(error.code, StepCode::TicketRefused, "case {case}");
        assert!(!error.message.contains("abcdef"), "{error}");
    }
}

#[test]
fn a_worker_is_never_given_the_clusters_keys() {
    let mut generous = with_files(&NAMES);
    assert!(ticket(NodeRole::ControlPlane, &generous).is_ok());
    generous.secrets_key = None;
    assert_eq!(ticket(NodeRole::Worker, &generous).err().unwrap().code, StepCode::TicketRefused);
}

#[test]
fn a_file_outside_the_closed_list_twice_empty_or_huge_is_refused() {
    let code = |ticket: &ClusterJoin| control_plane_files(NodeRole::ControlPlane, ticket).err().unwrap().code;
    for name in ["../admin.conf", "/etc/shadow", "etcd/../ca.key", "ca.crt\0", "", "CA.crt", "etcd", "etcd/server.key"]
    {
        assert_eq!(code(&with_files(&[name])), StepCode::TicketRefused, "{name}");
    }
    assert_eq!(code(&with_files(&["ca.crt", "ca.crt"])), StepCode::TicketRefused);
    for data in [vec![], vec![0; MAX_FILE + 1]] {
        let mut ticket = with_files(&NAMES);
        ticket.control_plane_files[3].data = data;
        assert_eq!(code(&ticket), StepCode::TicketRefused);
    }
}

#[test]
fn a_control_plane_without_one_of_its_files_would_make_its_own_ca_and_is_refused() {
    assert_eq!(control_plane_files(NodeRole::ControlPlane, &with_files(&NAMES)).unwrap().unwrap().iter().count(), 8);
    for left_out in NAMES {
        let names = NAMES.iter().copied().filter(|name| *name != left_out).collect::<Vec<_>>();
        let ticket = with_files(&names);
        let error = control_plane_files(NodeRole::ControlPlane, &ticket).err().unwrap();
        assert_eq!(error.code, StepCode::TicketIncomplete);
        assert!(error.message.contains(left_out), "{error}");
    }
    assert!(control_plane_files(NodeRole::Worker, &good_ticket()).unwrap().is_none());
}
