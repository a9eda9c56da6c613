//! Secrets in messages are not printed, and can be moved out without a copy.
#![allow(clippy::unwrap_used, reason = "tests")]

use latchkey_api::v1;

fn init() -> v1::InitRequest {
    v1::InitRequest {
        cluster_name: "cluster".into(),
        disk_uuid: "uuid".into(),
        state_disk_key: b"disk-hush".to_vec(),
        measurement_secret: Vec::new(),
        measurement_salt: vec![1],
        invitation: Vec::new(),
        settings: None,
        control_plane_files: None,
    }
}

fn ticket() -> v1::JoinTicket {
    v1::JoinTicket {
        state_disk_key: b"disk-hush".to_vec(),
        measurement_secret: b"measure-hush".to_vec(),
        measurement_salt: vec![1],
        node_name: "node".into(),
        role: 1,
        epoch: 1,
        cluster: Some(v1::ClusterJoin {
            api_server_endpoint: "endpoint".into(),
            bootstrap_token: "token-hush".into(),
            ca_certificates: Vec::new(),
            control_plane_files: vec![v1::ControlPlaneFile { name: "ca.key".into(), data: b"file-hush".to_vec() }],
            kubelet_certificate: Vec::new(),
            component_list: Vec::new(),
            kubernetes_version: String::new(),
            payload: b"payload-hush".to_vec(),
            service_files: vec![v1::ControlPlaneFile { name: "master.json".into(), data: b"master-hush".to_vec() }],
            secrets_key: Some(v1::SecretsKey { key: b"secrets-hush".to_vec(), version: 1 }),
            api_servers: Vec::new(),
            untainted: false,
        }),
    }
}

#[test]
fn debug_output_says_whether_there_is_a_secret_and_no_more() {
    let succeeded = v1::Succeeded { cluster_id: vec![9], admin_config: b"config-hush".to_vec(), addresses: Vec::new() };
    let event = v1::InitEvent { event: Some(v1::init_event::Event::Succeeded(succeeded)) };
    let authorize = v1::AuthorizeRequest { init_secret: b"init-hush".to_vec() };
    let key = v1::GetDataKeyResponse { data_key: b"key-hush".to_vec(), version: 1 };
    let printed = format!("{:?} {:#?} {event:?} {key:?} {authorize:?}", init(), ticket());
    // As text, or as the numbers that byte strings print as.
    let numbers = "104, 117, 115, 104";
    assert!(!printed.contains("hush") && !printed.contains(numbers), "{printed}");
    assert_eq!(format!("{authorize:?}"), "AuthorizeRequest { init_secret: [secret] }");
    assert!(format!("{:?}", init()).contains(
        "state_disk_key: [secret], measurement_secret: [empty], invitation: [empty], cluster_name: \"cluster\""
    ));
    assert!(printed.contains("ca.key") && printed.contains("endpoint"));
}

#[test]
fn a_secret_is_moved_out_and_not_copied() {
    let mut request = init();
    let before = request.state_disk_key.as_ptr();
    let taken = request.take_state_disk_key();
    assert_eq!((&taken[..], taken.as_ptr()), (&b"disk-hush"[..], before));
    assert!(request.state_disk_key.is_empty());
}
