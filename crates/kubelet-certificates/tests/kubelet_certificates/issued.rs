//! The decision before a real API server and a real signer, carried out with the service's own rights: `./dev e2e
//! api-server`.

use super::cluster::{Cluster, REQUESTS, SECRETS, approved, post, shared};
use super::csr::Csr;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api_server_rig::{Answer, Client, program};
use latchkey_kubelet_certificates::{
    AttestedNode, CLIENT_SIGNER, CertificateRefusal as Refusal, Holder, Posted, Reading, Reserved, SERVING_SIGNER,
    Ticket, TicketState, read,
};
use latchkey_test_support::{Process, spawn, until};
use serde_json::{Value, json};
use std::fs::File;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use x509_cert::Certificate;
use x509_cert::der::{DecodePem as _, Encode as _};
use x509_cert::ext::pkix::SubjectAltName;

const NOW: u64 = 1_800_000_000;

/// What is on record. The service's loop is not part of this: the test reads, asks and writes in its place, with
/// its credentials.
#[derive(Clone)]
struct Records {
    ticket: Option<Ticket<'static>>,
    claimed: Option<String>,
    node: &'static str,
    addresses: Vec<IpAddr>,
}

impl Records {
    fn of(node: &'static str) -> Self {
        let ticket = Ticket { node, ends_at: NOW + 900, state: TicketState::Live, used_by: None };
        Self { ticket: Some(ticket), claimed: None, node, addresses: vec!["192.0.2.7".parse().unwrap()] }
    }

    fn state(mut self, state: TicketState) -> Self {
        self.ticket.as_mut().unwrap().state = state;
        self
    }

    fn attested(&self) -> AttestedNode<'_> {
        AttestedNode { name: self.node, denied: false, dns: &[], addresses: &self.addresses, holder: Holder::Worker }
    }

    /// Decides the request of this name as it is in the cluster, and writes the answer into it.
    fn decide(&mut self, cluster: &Cluster, name: &str) -> Result<(), Refusal> {
        let request = cluster.service.get(&format!("{REQUESTS}/{name}")).granted();
        let decided = self.decision(&request);
        let condition = match decided {
            Ok(()) => condition("Approved", "an attested node"),
            Err(refusal) => condition("Denied", refusal.as_str()),
        };
        put(cluster, &request, &condition).granted();
        decided
    }

    fn decision(&mut self, request: &Value) -> Result<(), Refusal> {
        let text = |path: &str| request.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let texts =
            |path: &str| -> Vec<String> { serde_json::from_value(request.pointer(path).unwrap().clone()).unwrap() };
        let posted = Posted {
            uid: text("/metadata/uid"),
            signer: text("/spec/signerName"),
            username: text("/spec/username"),
            groups: &texts("/spec/groups"),
            usages: &texts("/spec/usages"),
            pem: &STANDARD.decode(text("/spec/request")).unwrap(),
            decided: !request["status"].as_object().is_none_or(serde_json::Map::is_empty),
        };
        let approval = match read(&posted) {
            Reading::Deny(refusal) => return Err(refusal),
            Reading::Client(ask) => {
                let claim = ask.decide(self.ticket.as_ref(), NOW)?;
                let standing = self.claimed.get_or_insert_with(|| claim.uid().to_owned()).clone();
                claim.stands(&standing)?
            }
            Reading::Renewal(ask) => {
                let on_record = ask.node() == self.node;
                ask.decide(on_record.then_some(&self.attested()))?
            }
            Reading::Serving(ask) => {
                let on_record = ask.node() == self.node;
                ask.decide(on_record.then_some(&self.attested()), &Reserved::default())?
            }
            Reading::Leave(left) => panic!("{left:?}"),
        };
        assert_eq!(approval.uid(), posted.uid);
        Ok(())
    }
}

fn condition(kind: &str, message: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": "True", "reason": "Latchkey", "message": message}]})
}

fn put(cluster: &Cluster, request: &Value, status: &Value) -> Answer {
    let mut request = request.clone();
    request["status"] = status.clone();
    let name = request["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.service.put(&format!("{REQUESTS}/{name}/approval"), &request)
}

/// Whom the API server takes this client for.
fn identity(client: &Client) -> (String, Vec<String>) {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).granted();
    let user = &answer["status"]["userInfo"];
    (user["username"].as_str().unwrap().to_owned(), serde_json::from_value(user["groups"].clone()).unwrap())
}

/// Posts and decides, and sees that a refused request stays without a certificate.
#[track_caller]
fn refused(cluster: &Cluster, records: &mut Records, asker: &Client, name: &str, signer: &str, csr: &Csr) -> Refusal {
    post(asker, name, signer, &csr.pem());
    let refusal = records.decide(cluster, name).unwrap_err();
    let path = format!("{REQUESTS}/{name}");
    let request = cluster.admin.get(&path).granted();
    assert_eq!(request["status"]["conditions"][0]["type"], "Denied", "{request}");
    assert_eq!(request["status"]["conditions"][0]["message"], refusal.as_str());
    // It is final: nobody approves what was denied.
    let mut approve = request.clone();
    approve["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .extend(approved()["conditions"].as_array().unwrap().clone());
    assert_eq!(cluster.admin.put(&format!("{path}/approval"), &approve).status(), 422);
    assert_eq!(cluster.admin.get(&path).granted()["status"]["certificate"], Value::Null);
    refusal
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn a_node_gets_its_client_certificate_with_its_ticket_and_its_serving_certificate_as_itself() {
    let cluster = shared();
    let holder = cluster.token("joins0");
    let mut records = Records::of("joins-0");
    let (pem, key) = Csr::node("joins-0").pem_with_key();
    post(&holder, "joins0", CLIENT_SIGNER, &pem);
    records.decide(&cluster, "joins0").unwrap();
    let node = cluster.identified(&cluster.issued("joins0").unwrap(), &key);
    let (user, groups) = identity(&node);
    assert_eq!(
        (user.as_str(), groups),
        ("system:node:joins-0", vec!["system:nodes".into(), "system:authenticated".into()])
    );
    let serving = Csr::node("joins-0").names(&["joins-0"], &["192.0.2.7"]);
    post(&node, "joins0-serving", SERVING_SIGNER, &serving.pem());
    records.decide(&cluster, "joins0-serving").unwrap();
    let certificate = Certificate::from_pem(cluster.issued("joins0-serving").unwrap()).unwrap();
    let (_, names) = certificate.tbs_certificate().get_extension::<SubjectAltName>().unwrap().unwrap();
    assert_eq!(names.0.len(), 2, "{names:?}");
    assert!(names.to_der().unwrap().windows(7).any(|bytes| bytes == b"joins-0"), "{names:?}");
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server, and root as kubelets do"]
fn what_the_real_kubelet_asks_for_with_its_ticket_is_approved_and_it_takes_the_certificate() {
    let cluster = shared();
    cluster.token("kubel0");
    let directory = tempfile::tempdir().unwrap();
    let token = cluster.server.token_kubeconfig("kubel0", "kubel0.0123456789abcdef");
    // With rotation it would ask in the background, and end before: it has no containers to run.
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "rotateCertificates": false,
        "containerRuntimeEndpoint": "unix:///nonexistent",
    });
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("config"), config.to_string()).unwrap();
    let mut kubelet = Command::new(program("kubelet"));
    for (option, value) in
        [("bootstrap-kubeconfig", token), ("kubeconfig", path("kubeconfig")), ("config", path("config"))]
    {
        kubelet.arg(format!("--{option}={}", value.display()));
    }
    for option in ["cert-dir", "root-dir"] {
        kubelet.arg(format!("--{option}={}", directory.path().display()));
    }
    kubelet.arg("--hostname-override=kubelet-0");
    let log = File::create(path("log")).unwrap();
    kubelet.env_clear().stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let _kubelet = Process::watch(spawn(kubelet).unwrap()).unwrap();
    let mut watch = cluster.admin.watch(REQUESTS);
    let said = || std::fs::read_to_string(path("log")).unwrap_or_default();
    let name = watch.find("request of the kubelet", |request| {
        let own = request["spec"]["username"] == "system:bootstrap:kubel0";
        own.then(|| request["metadata"]["name"].as_str().unwrap().to_owned())
    });
    Records::of("kubelet-0").decide(&cluster, &name).unwrap_or_else(|refusal| panic!("{refusal}: {}", said()));
    cluster.issued(&name).unwrap();
    until("the kubelet's kubeconfig", || path("kubeconfig").exists().then_some(()));
    let current = std::fs::read_to_string(path("kubelet-client-current.pem")).unwrap();
    let (user, _) = identity(&cluster.identified(&current, &current));
    assert_eq!(user, "system:node:kubelet-0", "{}", said());
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn a_stolen_token_gets_nothing_but_the_name_of_its_ticket() {
    let cluster = shared();
    let thief = cluster.token("stolen");
    let mut records = Records::of("victim-0");
    for (name, signer, csr, expected) in [
        ("stolen-other", CLIENT_SIGNER, Csr::node("control-1"), Refusal::NameForeign),
        ("stolen-masters", CLIENT_SIGNER, Csr::of("system:masters", "system:node:victim-0"), Refusal::GroupRefused),
        ("stolen-admin", CLIENT_SIGNER, Csr::of("system:masters", "kubernetes-admin"), Refusal::GroupRefused),
        ("stolen-names", CLIENT_SIGNER, Csr::node("victim-0").names(&["kubernetes"], &[]), Refusal::ClientWithNames),
        ("stolen-serving", SERVING_SIGNER, Csr::node("victim-0").names(&["victim-0"], &[]), Refusal::RequesterRefused),
    ] {
        assert_eq!(refused(&cluster, &mut records, &thief, name, signer, &csr), expected, "{name}");
    }
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn the_cluster_itself_would_issue_another_nodes_name_to_a_token() {
    let cluster = shared();
    let thief = cluster.token("careld");
    post(&thief, "careless", CLIENT_SIGNER, &Csr::node("control-9").pem());
    let request = cluster.service.get(&format!("{REQUESTS}/careless")).granted();
    put(&cluster, &request, &approved()).granted();
    assert!(cluster.issued("careless").is_ok(), "then there would be nothing to decide");
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn a_token_used_twice_gets_one_certificate() {
    let cluster = shared();
    let holder = cluster.token("twice0");
    let mut records = Records::of("twice-0");
    post(&holder, "twice-first", CLIENT_SIGNER, &Csr::node("twice-0").pem());
    records.decide(&cluster, "twice-first").unwrap();
    cluster.issued("twice-first").unwrap();
    let second = refused(&cluster, &mut records, &holder, "twice-second", CLIENT_SIGNER, &Csr::node("twice-0"));
    assert_eq!(second, Refusal::TicketUsed);
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn a_token_gets_nothing_after_the_lease_or_the_report_and_its_holder_is_nobody_after_its_deletion() {
    let cluster = shared();
    let holder = cluster.token("lateco");
    let csr = Csr::node("late-0");
    for (name, state, expected) in [
        ("late-lease", TicketState::LeaseEnded, Refusal::TicketLeaseEnded),
        ("late-report", TicketState::Reported, Refusal::TicketReported),
    ] {
        let mut records = Records::of("late-0").state(state);
        assert_eq!(refused(&cluster, &mut records, &holder, name, CLIENT_SIGNER, &csr), expected);
    }
    let mut forgotten = Records { ticket: None, ..Records::of("late-0") };
    let refusal = refused(&cluster, &mut forgotten, &holder, "late-unknown", CLIENT_SIGNER, &csr);
    assert_eq!(refusal, Refusal::TicketUnknown);
    cluster.service.delete(&format!("{SECRETS}/bootstrap-token-lateco"), &json!({})).granted();
    let request = super::cluster::request("late-deleted", CLIENT_SIGNER, &csr.pem());
    until("the token to be unknown", || {
        (holder.post(&format!("{REQUESTS}?dryRun=All"), &request).status() == 401).then_some(())
    });
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn a_node_gets_no_serving_certificate_for_foreign_names() {
    let cluster = shared();
    let node = cluster.node("edge-7");
    let mut records = Records::of("edge-7");
    let mut ask = |name: &str, dns: &[&str], addresses: &[&str]| {
        let csr = Csr::node("edge-7").names(dns, addresses);
        refused(&cluster, &mut records, &node, name, SERVING_SIGNER, &csr)
    };
    assert_eq!(ask("foreign-service", &["edge-7", "kubernetes.default.svc"], &[]), Refusal::ServingNameForeign);
    assert_eq!(ask("foreign-node", &["control-1"], &["192.0.2.7"]), Refusal::ServingNameForeign);
    assert_eq!(ask("foreign-address", &["edge-7"], &["10.96.0.1"]), Refusal::ServingNameForeign);
    // Who is a node of the cluster, and not on our record.
    let stranger = cluster.node("edge-8");
    let csr = Csr::node("edge-8").names(&["edge-8"], &[]);
    let refusal = refused(&cluster, &mut records, &stranger, "unattested", SERVING_SIGNER, &csr);
    assert_eq!(refusal, Refusal::NodeUnknown);
    // Another node's name the API server refuses by itself.
    let other =
        super::cluster::request("other-node", SERVING_SIGNER, &Csr::node("edge-7").names(&["edge-7"], &[]).pem());
    stranger.post(REQUESTS, &other).forbidden();
}

#[test]
#[ignore = "needs the programs of ./dev e2e api-server"]
fn a_request_that_was_posted_anew_is_not_approved_in_place_of_the_one_that_was_looked_at() {
    let cluster = shared();
    let holder = cluster.token("anew00");
    let honest = post(&holder, "anew", CLIENT_SIGNER, &Csr::node("anew-0").pem());
    cluster.admin.delete(&format!("{REQUESTS}/anew"), &json!({})).granted();
    post(&holder, "anew", CLIENT_SIGNER, &Csr::node("control-1").pem());
    assert_eq!(put(&cluster, &honest, &approved()).status(), 409);
    let now = cluster.admin.get(&format!("{REQUESTS}/anew")).granted();
    assert_eq!(now["status"], json!({}));
}
