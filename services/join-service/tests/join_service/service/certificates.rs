//! From the ticket to the kubelet's certificates, and everything that somebody with a ticket may try instead, before a real API
//! server and a real signer: `./dev e2e api-server`.

use crate::service::api_server::{MAPS, moved_into};
use crate::service::rig::{Answer, Machine, Rig, Service, TIME};
use latchkey_api::v1::ReportRequest;
use latchkey_api_server_rig::{ApiServer, Client, Credentials, Setup};
use latchkey_channel::Purpose;
use latchkey_test_support::until;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};

pub(crate) const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
pub(crate) const NODES: &str = "/apis/latchkey.dev/v1alpha1/attestednodes";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
pub(crate) const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(crate) const SERVING: &str = "kubernetes.io/kubelet-serving";
pub(crate) const ADDRESS: &str = "192.0.2.7";

/// A cluster in its API server, with a signer.
pub(crate) struct Site {
    pub(crate) rig: Rig,
    pub(crate) server: ApiServer,
    pub(crate) admin: Client,
}

impl Site {
    pub(crate) fn new(machines: &[&Machine]) -> Self {
        let mut rig = Rig::new(machines);
        let server = ApiServer::with(Setup { controllers: true, ..Setup::default() });
        let admin = moved_into(&server, &mut rig);
        // Of the chart, what a token may do; what the service may do is tried where the chart is.
        let group = json!({
            "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:bootstrappers:latchkey",
        });
        let binding = json!({
            "metadata": { "name": "latchkey:node-bootstrapper" },
            "subjects": [group],
            "roleRef": {
                "kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "system:node-bootstrapper",
            },
        });
        admin.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).granted();
        Self { rig, server, admin }
    }

    /// Who has a token, once the API server knows it and what it may do.
    pub(crate) fn holder(&self, token: &str) -> Client {
        let holder = self.server.bearer(token);
        let tried = request("tried", CLIENT, &node_csr("tried", &[], &[]).0);
        until("the token to be known", || {
            (holder.post(&format!("{REQUESTS}?dryRun=All"), &tried).status() == 201).then_some(())
        });
        holder
    }

    /// The certificate (PEM) of an approved request, or the reason of its denial.
    pub(crate) fn answer(&self, name: &str) -> Result<String, String> {
        let mut watch = self.admin.watch(&format!("{REQUESTS}?fieldSelector=metadata.name%3D{name}"));
        watch.find("an answer", |request| {
            let status = &request["status"];
            if let Some(certificate) = status["certificate"].as_str() {
                return Some(Ok(String::from_utf8(decoded(certificate)).unwrap()));
            }
            let denied = status["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Denied")?;
            Some(Err(denied["reason"].as_str().unwrap().to_owned()))
        })
    }

    pub(crate) fn denied(&self, asker: &Client, name: &str, signer: &str, csr: &str) -> String {
        post(asker, name, signer, csr);
        let code = self.answer(name).unwrap_err();
        let request = self.admin.get(&format!("{REQUESTS}/{name}")).granted();
        assert_eq!(request["status"]["certificate"], Value::Null, "{request}");
        code
    }

    fn record(&self, machine: &Machine) -> Value {
        self.admin.get(&format!("{NODES}/{}", machine.ek())).granted()["spec"].clone()
    }

    /// Changes a record past all services. Those write it too, so the change is made again to what is there now for as
    /// long as another write came between.
    pub(crate) fn by_hand(&self, machine: &Machine, change: impl Fn(&mut Value)) {
        let path = format!("{NODES}/{}", machine.ek());
        until("the record to be written", || {
            let mut object = self.admin.get(&path).granted();
            change(&mut object["spec"]);
            let answer = self.admin.put(&path, &object);
            (answer.status() != 409).then(|| answer.granted())
        });
    }
}

/// Joins, and gives the token.
pub(crate) fn ticket(service: &Service, machine: &Machine, number: u8, name: &str) -> String {
    let ticket = service.join(machine, &disk(number), name).unwrap();
    ticket.cluster.as_ref().unwrap().bootstrap_token.clone()
}

fn disk(number: u8) -> String {
    format!("0a0a0a0a-0000-4000-8000-0000000000{number:02x}")
}

fn decoded(base64: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(base64).unwrap()
}

/// A request as kubelets make it, and its key (PEM).
pub(crate) fn csr(organisation: &str, common_name: &str, dns: &[&str], addresses: &[&str]) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organisation);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names = dns.iter().map(|name| SanType::DnsName((*name).try_into().unwrap())).collect();
    params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(address.parse().unwrap())));
    (params.serialize_request(&key).unwrap().pem().unwrap(), key.serialize_pem())
}

pub(crate) fn node_csr(name: &str, dns: &[&str], addresses: &[&str]) -> (String, String) {
    csr("system:nodes", &format!("system:node:{name}"), dns, addresses)
}

pub(crate) fn post(asker: &Client, name: &str, signer: &str, csr: &str) -> Value {
    asker.post(REQUESTS, &request(name, signer, csr)).granted()
}

pub(crate) fn request(name: &str, signer: &str, csr: &str) -> Value {
    use base64::Engine as _;
    let purpose = if signer == SERVING { "server auth" } else { "client auth" };
    json!({
        "metadata": { "name": name },
        "spec": {
            "signerName": signer,
            "usages": ["digital signature", purpose],
            "request": base64::engine::general_purpose::STANDARD.encode(csr),
        },
    })
}

/// The report of a kubelet that serves at [`ADDRESS`]es.
pub(crate) fn report(service: &Service, machine: &Machine, number: u8, addresses: &[&str]) -> Result<(), Answer> {
    let addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
    let request = ReportRequest { disk_uuid: disk(number), succeeded: true, addresses, ..ReportRequest::default() };
    service.call(machine, Purpose::Report, async |client| client.report(&request, TIME).await).map(drop)
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn a_node_gets_its_certificates_by_its_ticket_and_its_report_and_the_token_ends() {
    let machine = Machine::new();
    let site = Site::new(&[&machine]);
    let mut service = site.rig.start();
    let token = ticket(&service, &machine, 1, "edge-1");
    let holder = site.holder(&token);
    let (request, key) = node_csr("edge-1", &[], &[]);
    post(&holder, "joins", CLIENT, &request);
    let node = site.server.client(&Credentials::new(site.answer("joins").unwrap(), &key));
    service.next_line(&["Certificate", "outcome=\"approved\"", "request=\"joins\""]);

    // Its serving certificate waits for its report, which says where it serves.
    post(&node, "serves", SERVING, &node_csr("edge-1", &["edge-1"], &[ADDRESS]).0);
    until("the request to be seen", || (service.metric("certificates_waiting") == 1).then_some(()));
    assert_eq!(site.admin.get(&format!("{REQUESTS}/serves")).granted()["status"], json!({}));
    let machine = machine.locked(&site.rig);
    report(&service, &machine, 1, &[ADDRESS]).unwrap();
    site.answer("serves").unwrap();
    assert_eq!(site.record(&machine)["addresses"], json!([ADDRESS]));

    // What comes later is held against that; so is who is shut out.
    let foreign = [
        ("foreign-service", &["edge-1", "kubernetes.default.svc"][..], &[][..]),
        ("foreign-node", &["control-1"], &[ADDRESS]),
        ("foreign-address", &["edge-1"], &["10.96.0.1"]),
    ];
    for (name, dns, addresses) in foreign {
        let code = site.denied(&node, name, SERVING, &node_csr("edge-1", dns, addresses).0);
        assert_eq!(code, "serving-name-foreign", "{name}");
    }
    // A machine that was taken over says another address: its ticket is over.
    report(&service, &machine, 1, &["192.0.2.1"]).unwrap();
    assert_eq!(site.record(&machine)["addresses"], json!([ADDRESS]));

    until("the token to be nobody's", || (holder.get("/version").status() == 401).then_some(()));
    let deny = json!({ "data": { machine.ek().to_string(): "" } });
    site.admin.patch(&format!("{MAPS}/latchkey-denied"), &deny).granted();
    service.next_line(&["Machines are shut out"]);
    let code = site.denied(&node, "shut-out", SERVING, &node_csr("edge-1", &["edge-1"], &[ADDRESS]).0);
    assert_eq!(code, "machine-denied");
    assert_eq!(service.metric("certificates_total{signer=\"serving\",outcome=\"serving-name-foreign\"}"), 3);
    assert_eq!(service.metric("certificates_total{signer=\"client\",outcome=\"approved\"}"), 1);
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn a_ticket_makes_no_other_node_and_is_used_once_whichever_service_looks() {
    let (machine, late) = (Machine::new(), Machine::new());
    let site = Site::new(&[&machine, &late]);
    let services = [site.rig.start(), site.rig.start()];
    let token = ticket(&services[0], &machine, 1, "edge-1");
    let holder = site.holder(&token);
    for (name, signer, (request, _), expected) in [
        ("other", CLIENT, node_csr("first", &[], &[]), "certificate-of-another-node"),
        ("masters", CLIENT, csr("system:masters", "system:node:edge-1", &[], &[]), "certificate-group-refused"),
        ("names", CLIENT, node_csr("edge-1", &["kubernetes"], &[]), "client-certificate-with-names"),
        ("serving", SERVING, node_csr("edge-1", &["edge-1"], &[]), "certificate-requester-refused"),
    ] {
        assert_eq!(site.denied(&holder, name, signer, &request), expected, "{name}");
    }
    // Used twice at the same time: one of them gets a certificate, and only one.
    for name in ["twice-1", "twice-2"] {
        post(&holder, name, CLIENT, &node_csr("edge-1", &[], &[]).0);
    }
    let answers = [site.answer("twice-1"), site.answer("twice-2")];
    let refused: Vec<&String> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert_eq!(refused, ["ticket-used"], "{answers:?}");

    // A token that no ticket carries: whoever has the service's credentials can make one.
    let encoded = |text: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let stray = json!({
        "metadata": { "name": "bootstrap-token-strayy" },
        "type": "bootstrap.kubernetes.io/token",
        "data": {
            "token-id": encoded("strayy"), "token-secret": encoded("0123456789abcdef"),
            "expiration": encoded("2999-01-01T00:00:00Z"), "usage-bootstrap-authentication": encoded("true"),
            "auth-extra-groups": encoded("system:bootstrappers:latchkey"),
        },
    });
    site.admin.post(SECRETS, &stray).granted();
    let stray = site.holder("strayy.0123456789abcdef");
    assert_eq!(site.denied(&stray, "stray", CLIENT, &node_csr("edge-1", &[], &[]).0), "ticket-unknown");

    // A ticket whose time is over, and one that a later one took the place of.
    let token = ticket(&services[1], &late, 2, "edge-2");
    let over = site.holder(&token);
    site.by_hand(&late, |record| record["ticket"]["ends_at"] = 1.into());
    assert_eq!(site.denied(&over, "over", CLIENT, &node_csr("edge-2", &[], &[]).0), "ticket-expired");
    let next = ticket(&services[0], &late, 2, "edge-2");
    until("the earlier token to be nobody's", || (over.get("/version").status() == 401).then_some(()));
    post(&site.holder(&next), "next", CLIENT, &node_csr("edge-2", &[], &[]).0);
    site.answer("next").unwrap();
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn what_a_crash_or_an_api_server_that_was_away_left_is_answered_once() {
    let machine = Machine::new();
    let mut site = Site::new(&[&machine]);
    let service = site.rig.start();
    let token = ticket(&service, &machine, 1, "edge-1");
    let holder = site.holder(&token);
    // A claim was written, and the service was no more.
    drop(service);
    post(&holder, "other", CLIENT, &node_csr("edge-1", &[], &[]).0);
    let claimed = post(&holder, "claimed", CLIENT, &node_csr("edge-1", &[], &[]).0);
    site.by_hand(&machine, |record| record["ticket"]["used_by"] = claimed["metadata"]["uid"].clone());
    let service = site.rig.start();
    site.answer("claimed").unwrap();
    assert_eq!(site.answer("other").unwrap_err(), "ticket-used");
    site.server.kill_api();
    site.server.start_api();
    assert_eq!(site.denied(&holder, "later", CLIENT, &node_csr("edge-1", &[], &[]).0), "ticket-used");
    assert_eq!(service.metric("certificates_total{signer=\"client\",outcome=\"approved\"}"), 1);
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn a_report_that_is_repeated_because_its_answer_was_lost_ends_the_token() {
    let machine = Machine::new();
    let site = Site::new(&[&machine]);
    let service = site.rig.start();
    let holder = site.holder(&ticket(&service, &machine, 1, "edge-1"));
    site.by_hand(&machine, |record| record["ticket"]["reported"] = true.into());
    assert_eq!(holder.get("/version").status(), 200);
    report(&service, &machine.locked(&site.rig), 1, &[ADDRESS]).unwrap();
    until("the token to be nobody's", || (holder.get("/version").status() == 401).then_some(()));
}

/// More than are looked at of one requester at a time.
const FLOOD: usize = 40;

#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn a_flood_of_requests_that_was_there_at_the_start_is_drained_and_keeps_nobody_waiting() {
    let (hostile, honest) = (Machine::new(), Machine::new());
    let site = Site::new(&[&hostile, &honest]);
    let service = site.rig.start();
    let flooding = site.holder(&ticket(&service, &hostile, 1, "edge-1"));
    let joining = site.holder(&ticket(&service, &honest, 2, "edge-2"));
    drop(service);
    let (foreign, _) = node_csr("control-1", &[], &[]);
    for number in 0..FLOOD {
        post(&flooding, &format!("a-{number}"), CLIENT, &foreign);
    }
    post(&joining, "z", CLIENT, &node_csr("edge-2", &[], &[]).0);
    let service = site.rig.start();
    site.answer("z").unwrap();
    for number in 0..FLOOD {
        assert_eq!(site.answer(&format!("a-{number}")).unwrap_err(), "certificate-of-another-node", "{number}");
    }
    assert_eq!(service.page("/healthz").0, "HTTP/1.1 200 OK");
}
