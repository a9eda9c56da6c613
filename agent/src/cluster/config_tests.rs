use super::*;
use crate::cluster::Seal;

fn member(role: NodeRole) -> Member {
    Member {
        node_name: "edge-1".into(),
        role,
        cluster_id: "00".repeat(32),
        cluster_name: "plant".into(),
        disk: "/dev/mapper/state".into(),
        seal: Seal::new(&[7; 32]),
    }
}

fn ticket() -> ClusterJoin {
    let mut ticket = ClusterJoin::default();
    ticket.api_server_endpoint = "192.0.2.1:6443".into();
    ticket.bootstrap_token = "abcdef.0123456789abcdef".into();
    ticket
}

/// What kubeadm is given to initialise a cluster.
fn initialised(settings: &ClusterSettings) -> Vec<serde_json::Value> {
    let (directory, logs) = (Path::new("/etc/kubernetes"), Path::new("/var/log/kubernetes"));
    let text = init(&member(NodeRole::First), settings, settings.api_balancer, "v1.34.4", directory, logs).unwrap();
    let documents = std::str::from_utf8(&text).unwrap().split("\n---\n");
    documents.map(|text| serde_json::from_str(text).unwrap()).collect()
}

#[test]
fn a_hostile_name_stays_in_its_place() {
    let mut settings = ClusterSettings { pod_cidr: "10.244.0.0/16".into(), ..ClusterSettings::default() };
    settings.apiserver_cert_sans = vec!["x\"\n---\nkind: Evil".into()];
    let documents = initialised(&settings);
    assert_eq!(documents.len(), 3);
    let cluster = &documents[1];
    assert_eq!(cluster["apiServer"]["certSANs"][0], "x\"\n---\nkind: Evil");
    assert_eq!(cluster["networking"]["podSubnet"], "10.244.0.0/16");
    assert_eq!(cluster["kubernetesVersion"], "v1.34.4");
    assert_eq!(cluster["encryptionAlgorithm"], "ECDSA-P256");
}

#[test]
fn a_worker_joins_as_a_worker_and_a_control_plane_uses_the_files_of_its_ticket() {
    let worker: serde_json::Value =
        serde_json::from_slice(&join(&member(NodeRole::Worker), &ticket(), Path::new("/run/d"), Phases::All).unwrap())
            .unwrap();
    assert!(worker.get("controlPlane").is_none() && worker.get("skipPhases").is_none());
    let control: serde_json::Value = serde_json::from_slice(
        &join(&member(NodeRole::ControlPlane), &ticket(), Path::new("/run/d"), Phases::All).unwrap(),
    )
    .unwrap();
    assert_eq!(control["skipPhases"][0], "control-plane-prepare/download-certs");
    assert!(control["controlPlane"].is_object());
    for (phases, skipped, patience) in [
        (Phases::FromEtcd { briefly: true }, &BEFORE_ETCD[..], "30s"),
        (Phases::FromEtcd { briefly: false }, &BEFORE_ETCD, "5m0s"),
        (Phases::AfterEtcd, &WITH_ETCD, "5m0s"),
    ] {
        let rest = join(&member(NodeRole::ControlPlane), &ticket(), Path::new("/run/d"), phases).unwrap();
        let rest: serde_json::Value = serde_json::from_slice(&rest).unwrap();
        assert_eq!(rest["skipPhases"], serde_json::json!(skipped));
        assert_eq!(rest["timeouts"]["etcdAPICall"], patience);
    }
    assert_eq!(control["discovery"], serde_json::json!({"file": {"kubeConfigPath": "/run/d"}}));
}

#[test]
fn a_cluster_with_a_balancer_is_found_by_it_and_without_one_by_the_operator_s_endpoint() {
    let settings = |endpoint: &str, api_balancer| {
        let endpoint = endpoint.to_owned();
        ClusterSettings { control_plane_endpoint: endpoint, api_balancer, ..ClusterSettings::default() }
    };
    let documents = initialised(&settings("", true));
    assert_eq!(documents[1]["controlPlaneEndpoint"], "127.0.0.1:7445");
    // The API server is where the balancer's list says, and not where kubeadm would choose.
    let own = local_address("").map(|address| address.to_string());
    assert_eq!(documents[0]["localAPIEndpoint"]["advertiseAddress"].as_str(), own.as_deref());
    let documents = initialised(&settings("api.plant.example", false));
    assert_eq!(documents[1]["controlPlaneEndpoint"], "api.plant.example");
    assert!(documents[0].get("localAPIEndpoint").is_none());
}

#[test]
fn pods_run_on_control_planes_where_the_operator_says_so() {
    let untainted = |untainted| ClusterSettings { untainted, ..ClusterSettings::default() };
    let taints = |documents: &[serde_json::Value]| documents[0]["nodeRegistration"].get("taints").cloned();
    assert_eq!(taints(&initialised(&untainted(false))), None, "kubeadm's default taints it");
    assert_eq!(taints(&initialised(&untainted(true))), Some(serde_json::json!([])));
    for (role, said, wanted) in [
        (NodeRole::ControlPlane, true, Some(serde_json::json!([]))),
        (NodeRole::ControlPlane, false, None),
        (NodeRole::Worker, true, None),
    ] {
        let mut ticket = ticket();
        ticket.untainted = said;
        let document = join(&member(role), &ticket, Path::new("/run/d"), Phases::All).unwrap();
        assert_eq!(taints(&[serde_json::from_slice(&document).unwrap()]), wanted, "{role:?} {said}");
    }
}

#[test]
fn kubelets_and_strangers_are_not_believed() {
    let documents = initialised(&ClusterSettings::default());
    let argument = |name: &str| {
        let arguments = documents[1]["apiServer"]["extraArgs"].as_array().unwrap();
        arguments.iter().find(|argument| argument["name"] == name).unwrap()["value"].as_str().unwrap().to_owned()
    };
    assert_eq!(argument("kubelet-certificate-authority"), "/etc/kubernetes/pki/ca.crt");
    let volume = &documents[1]["apiServer"]["extraVolumes"][0];
    assert!(argument("authentication-config").starts_with(volume["mountPath"].as_str().unwrap()));
    assert_eq!(documents[2]["serverTLSBootstrap"], true);
    assert_eq!(documents[2]["authentication"]["anonymous"]["enabled"], false);
    assert_eq!(documents[2]["readOnlyPort"], 0);
    assert_eq!(documents[2]["tlsCipherSuites"], serde_json::json!(crate::cluster::secure_defaults::CIPHER_SUITES));
    assert_eq!((&documents[2]["seccompDefault"], &documents[2]["podPidsLimit"]), (&true.into(), &4096.into()));
    for component in ["apiServer", "controllerManager", "scheduler"] {
        let arguments = documents[1][component]["extraArgs"].as_array().unwrap();
        assert!(arguments.contains(&serde_json::json!({"name": "profiling", "value": "false"})), "{component}");
    }
}

#[test]
fn who_leads_outlives_a_slow_api_server() {
    let documents = initialised(&ClusterSettings::default());
    for component in ["controllerManager", "scheduler"] {
        let arguments = documents[1][component]["extraArgs"].as_array().unwrap();
        let seconds = |name: &str| {
            let argument = arguments.iter().find(|argument| argument["name"] == name).unwrap();
            argument["value"].as_str().unwrap().strip_suffix('s').unwrap().parse::<u32>().unwrap()
        };
        // "The lease duration must be greater than the renew deadline", and that than the retry period with its jitter of 1.2.
        let [lease, renew, retry] =
            ["lease-duration", "renew-deadline", "retry-period"].map(|name| seconds(&format!("leader-elect-{name}")));
        assert!(lease > renew && renew * 10 > retry * 12, "{component}");
    }
}

#[test]
fn certificates_are_issued_as_fast_as_a_site_asks_for_them() {
    let documents = initialised(&ClusterSettings::default());
    for name in ["kube-api-qps", "kube-api-burst"] {
        let argument = serde_json::json!({"name": name, "value": "500"});
        let has = |component: &str| documents[1][component]["extraArgs"].as_array().unwrap().contains(&argument);
        assert!(has("controllerManager") && !has("scheduler"), "{name}");
    }
}

#[test]
fn an_address_that_others_cannot_reach_is_not_advertised() {
    for endpoint in ["127.0.0.1:6443", "[::1]:6443", "api.plant.example:6443", "", "0.0.0.0:6443"] {
        assert!(local_endpoint(endpoint).is_none(), "{endpoint}");
    }
    for endpoint in ["127.0.0.1:6443", "[::1]:6443"] {
        assert!(local_address(endpoint).is_none(), "{endpoint}");
    }
}
