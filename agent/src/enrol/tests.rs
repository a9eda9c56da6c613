//! Enrolment over the real channel and gRPC, with a real TPM 2.0 (swtpm); the service and kubectl are fakes of this test. Skipped,
//! and says so, where swtpm is not installed.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Mutex;

use latchkey_api::grpc::{Limits, Request, Server, Status};
use latchkey_api::v1::enrol_response::Outcome;
use latchkey_api::v1::{
    BootstrapManifest, EnrolRequest, EnrolResponse, Enrolled, Enrolment as Service, EnrolmentHeld, EnrolmentServer,
};
use latchkey_attestation::LockExpectation;
use latchkey_channel::{PinnedKeyAttester, Purpose, Terms};
use latchkey_node_config::{Endpoint, SpkiHash};
use smol::channel::{Receiver, Sender, unbounded};
use smol::net::TcpListener;
use tempfile::TempDir;

use super::*;
use crate::cluster::StepCode;
use crate::flows::tests::{DISK, Machine, PATIENCE};
use crate::handover::SecretText;

const INVITATION: [u8; 32] = [0x11; 32];
const TOKEN: &str = "a-token-that-nobody-may-see";
const CLUSTER: [u8; 32] = [0xc1; 32];

/// A fake enrol service: answers from a list, then never.
struct FakeEnrolService {
    answers: Mutex<VecDeque<Result<Outcome, Status>>>,
    asked: Sender<EnrolRequest>,
}

impl Service<()> for FakeEnrolService {
    async fn enrol(&self, request: Request<(), EnrolRequest>) -> Result<EnrolResponse, Status> {
        self.asked.send(request.message).await.unwrap();
        let next = self.answers.lock().unwrap().pop_front();
        match next {
            Some(answer) => answer.map(|outcome| EnrolResponse { outcome: Some(outcome) }),
            None => std::future::pending().await,
        }
    }
}

/// A founded cluster that is to be registered, and the service that it asks.
struct Founded {
    directory: TempDir,
    enrolment: Enrolment,
    asked: Receiver<EnrolRequest>,
    _service: smol::Task<()>,
}

async fn founded(answers: impl IntoIterator<Item = Result<Outcome, Status>>) -> Option<Founded> {
    let machine = Machine::start()?;
    machine.attester.lock().unwrap().extend_event(15, &CLUSTER).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent/cluster_fake");
    symlink(scripts.join("enrol-kubectl.sh"), directory.path().join("kubectl")).unwrap();
    symlink(scripts.join("kubeadm.sh"), directory.path().join("kubeadm")).unwrap();
    fs::create_dir(directory.path().join("pod")).unwrap();
    fs::write(directory.path().join("pod/edge-bootstrap"), "Succeeded").unwrap();
    let program = |name: &str| directory.path().join(name).display().to_string();
    let kubeadm = Kubeadm {
        program: program("kubeadm"),
        kubectl: program("kubectl"),
        components: directory.path().join("components"),
        directory: directory.path().join("etc"),
        ..Kubeadm::default()
    };
    let wanted = Wanted::new(DISK, "node-1", &SecretText::new(&INVITATION));
    wanted.keep(&directory.path().join("wanted.json")).unwrap();

    let key = Arc::new(PinnedKeyAttester::generate().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let service = Endpoint::parse(&listener.local_addr().unwrap().to_string()).unwrap();
    let centre = Centre { service, key: SpkiHash(key.hash().0) };
    let (tell, asked) = unbounded();
    let server = FakeEnrolService { answers: Mutex::new(answers.into_iter().collect()), asked: tell };
    let server = Server::new(Limits::default()).service(EnrolmentServer::new(server));
    let terms = Terms { attester: key, verifier: machine.demand(LockExpectation::Locked) };
    let attester = machine.attester();
    let serving = smol::spawn(async move {
        // Its TPM lives as long as somebody asks for evidence.
        let _machine = machine;
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let reception = |purpose| (purpose == Purpose::Enrol).then(|| terms.clone());
            if let Ok(proven) = latchkey_channel::accept(stream, &reception, PATIENCE).await {
                drop(server.serve(proven, ()).await);
            }
        }
    });
    let enrolment = Enrolment { wanted, centre, attester, kubeadm };
    Some(Founded { directory, enrolment, asked, _service: serving })
}

impl Founded {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Until the cluster is registered.
    async fn drive(self) -> (TempDir, Vec<EnrolRequest>) {
        let path = self.path("wanted.json");
        self.enrolment.drive(&path).await.unwrap();
        assert!(!path.exists(), "what is done is not wanted any more");
        let mut asked = Vec::new();
        while let Ok(request) = self.asked.try_recv() {
            asked.push(request);
        }
        (self.directory, asked)
    }
}

fn enrolled() -> Enrolled {
    let manifest = |name: &str, yaml: &str| BootstrapManifest { name: name.into(), yaml: yaml.into() };
    Enrolled {
        cluster_uuid: DISK.into(),
        name: "Press_4".into(),
        namespace: "fplus-edge".into(),
        manifests: vec![
            manifest("namespace.yaml", "the namespace"),
            manifest("edge-bootstrap.yaml", &format!("the pod with {TOKEN}")),
        ],
        bootstrap_token: TOKEN.into(),
        token_expires: 1,
    }
}

fn taken_up() -> Outcome {
    Outcome::Enrolled(enrolled())
}

fn held() -> EnrolmentHeld {
    EnrolmentHeld { reference: "0123456789abcdef".into(), ek_sha256: "ab".repeat(32), ask_again_seconds: 1 }
}

fn calls(directory: &TempDir) -> Vec<String> {
    let text = fs::read_to_string(directory.path().join("calls")).unwrap();
    text.lines().filter(|line| !line.starts_with("kubeadm")).map(str::to_owned).collect()
}

#[test]
fn a_machine_that_waits_and_is_refused_asks_again_until_its_cluster_has_its_keys() {
    latchkey_test_support::block_on(async {
        let refused = Err(Status::unavailable("enrol-being-set-up: in a moment"));
        let Some(founded) = founded([Ok(Outcome::Held(held())), refused, Ok(taken_up())]).await else { return };
        let (directory, asked) = founded.drive().await;
        assert_eq!(asked.len(), 3);
        for request in &asked {
            assert_eq!(request.invitation, INVITATION);
            assert_eq!((request.disk_uuid.as_str(), request.node_name.as_str()), (DISK, "node-1"));
            assert!(request.kubernetes_version.starts_with("v1."), "{}", request.kubernetes_version);
        }
        let verbs: Vec<String> =
            calls(&directory).iter().map(|call| call.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(verbs, ["get", "get", "delete", "apply", "apply", "wait", "delete"]);
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("applied.1"), "the namespace");
        assert_eq!(read("applied.2"), format!("the pod with {TOKEN}"));
        assert!(!read("calls").contains(TOKEN), "everybody on a machine sees arguments");
        // kubectl refuses a manifest of another namespace than the one that it is given.
        let of_pods = |call: &&String| !call.starts_with("apply") && !call.starts_with("get");
        let named = |call: &String| call.contains("--namespace=fplus-edge");
        assert!(calls(&directory).iter().filter(of_pods).all(named));
        assert!(!calls(&directory).iter().any(|call| call.starts_with("apply") && named(call)));
    });
}

#[test]
fn a_manifest_that_is_refused_for_now_is_applied_again() {
    latchkey_test_support::block_on(async {
        let Some(founded) = founded([Ok(taken_up())]).await else { return };
        fs::write(founded.path("apply.2.does"), "echo no matches for kind >&2; exit 1").unwrap();
        let (directory, asked) = founded.drive().await;
        assert_eq!(asked.len(), 1, "the same link serves");
        assert_eq!(calls(&directory).iter().filter(|call| call.starts_with("apply")).count(), 3);
    });
}

#[test]
fn a_link_that_was_not_redeemed_is_asked_for_again() {
    latchkey_test_support::block_on(async {
        let Some(founded) = founded([Ok(taken_up()), Ok(taken_up())]).await else { return };
        fs::write(founded.path("pod/edge-bootstrap"), "Failed ImagePullBackOff").unwrap();
        fs::write(founded.path("apply.4.does"), r#"echo Succeeded >"$here/pod/edge-bootstrap""#).unwrap();
        let (directory, asked) = founded.drive().await;
        assert_eq!(asked.len(), 2);
        let asks = |call: &String| call.starts_with("get pod/edge-bootstrap") && call.contains("terminated.message");
        assert!(calls(&directory).iter().any(asks), "why is said");
    });
}

#[test]
fn of_a_pod_that_does_not_end_the_log_is_shown() {
    latchkey_test_support::block_on(async {
        let Some(founded) = founded([]).await else { return };
        fs::write(founded.path("pod/edge-bootstrap"), "Pending ImagePullBackOff").unwrap();
        let mut manifests = Manifests::check(enrolled()).unwrap();
        manifests.patience = Duration::ZERO;
        let error = manifests.apply(&founded.enrolment.kubeadm, &mut |_| {}).await.unwrap_err();
        assert!(error.message.contains("did not end in time (its state: Pending ImagePullBackOff)"), "{error}");
        let asks = |call: &String| call.starts_with("logs pod/edge-bootstrap --tail=5 --namespace=fplus-edge");
        assert!(calls(&founded.directory).iter().any(asks), "{:?}", calls(&founded.directory));
    });
}

#[test]
fn what_somebody_else_has_in_the_cluster_is_left_to_him() {
    latchkey_test_support::block_on(async {
        let Some(founded) = founded([Ok(taken_up())]).await else { return };
        fs::write(founded.path("namespace"), "00000000-1111-4222-8333-444444444444").unwrap();
        let Err(error) = founded.enrolment.once().await else { panic!("it applied") };
        assert!(error.message.contains("00000000-1111-4222-8333-444444444444"), "{error}");
        assert!(!calls(&founded.directory).iter().any(|call| !call.starts_with("get")), "nothing is touched");
        for (secrets, foreign) in [
            ("flux-secrets=", "flux-secrets"),
            ("krb-keys-claim=krbkeys.factoryplus.app.amrc.co.uk krb-keys-keytabs=Helm ", "krb-keys-keytabs"),
        ] {
            let Some(founded) = self::founded([Ok(taken_up())]).await else { return };
            fs::write(founded.path("secret"), secrets).unwrap();
            let Err(error) = founded.enrolment.once().await else { panic!("it applied") };
            assert!(error.message.contains(&format!("a Secret {foreign} that somebody else made")), "{error}");
            assert!(!calls(&founded.directory).iter().any(|call| !call.starts_with("get")), "nothing is touched");
        }

        let of = |name: &str| BootstrapManifest { name: name.into(), yaml: name.into() };
        for (flux, applied) in [("deployment.apps/x", 3), ("", 4)] {
            let mut answer = enrolled();
            answer.manifests.extend(["flux-system.yaml", "self-link.yaml"].map(of));
            let Some(founded) = self::founded([Ok(Outcome::Enrolled(answer))]).await else { return };
            fs::write(founded.path("namespace"), DISK).unwrap();
            fs::write(founded.path("deployment"), flux).unwrap();
            let (directory, _) = founded.drive().await;
            let calls = calls(&directory);
            let applies: Vec<_> = calls.iter().filter(|call| call.starts_with("apply")).collect();
            assert_eq!(applies.len(), applied, "{calls:?}");
            // What Flux applies of itself, too, and nothing else.
            let forced = applies.iter().map(|call| call.contains("--force-conflicts")).collect::<Vec<_>>();
            assert_eq!(forced, [vec![false; applied - 1], vec![true]].concat());
        }
    });
}

#[test]
fn another_service_than_the_pinned_one_is_told_nothing() {
    latchkey_test_support::block_on(async {
        let Some(mut founded) = founded([Ok(taken_up())]).await else { return };
        founded.enrolment.centre.key = SpkiHash([7; 32]);
        let Err(error) = founded.enrolment.once().await else { panic!("it asked") };
        assert_eq!(error.code.as_str(), "key-not-pinned");
        assert!(founded.asked.is_empty());
    });
}

/// A change of an answer.
type Change = fn(&mut Enrolled);

#[test]
fn an_answer_out_of_bounds_reaches_no_cluster() {
    let cases: [(&str, Change); 9] = [
        ("cluster_uuid", |answer| answer.cluster_uuid = "../x".into()),
        ("name", |answer| answer.name = "$(reboot)".into()),
        ("name", |answer| answer.name = "x".repeat(32)),
        ("namespace", |answer| answer.namespace = "kube-system --all".into()),
        ("namespace", |answer| answer.namespace = "-x".into()),
        ("bootstrap_token", |answer| answer.bootstrap_token = String::new()),
        ("manifests are none", |answer| answer.manifests.clear()),
        ("manifests have a name", |answer| answer.manifests[0].name = "../x.yaml".into()),
        ("more than 4 MiB", |answer| answer.manifests[0].yaml = vec![b'x'; (4 << 20) + 1]),
    ];
    for (about, change) in cases {
        let mut answer = enrolled();
        change(&mut answer);
        let Err(error) = Manifests::check(answer) else { panic!("{about} passes") };
        assert_eq!(error.code.as_str(), "enrol-answer-malformed");
        assert!(error.message.contains(about), "{}", error.message);
    }
    assert!(Manifests::check(enrolled()).is_ok());
}

#[test]
fn what_is_wanted_lasts_on_the_disk_for_root_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubernetes/wanted.json");
    assert!(Wanted::read(&path).unwrap().is_none());
    let wanted = Wanted::new(DISK, "node-1", &SecretText::new(&INVITATION));
    wanted.keep(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(!format!("{wanted:?}").contains("ERER"), "the invitation is not shown");
    let read = Wanted::read(&path).unwrap().unwrap();
    assert_eq!((read.invitation.expose(), read.disk_uuid.as_str()), (&INVITATION[..], DISK));
    let text = fs::read_to_string(&path).unwrap();
    for bad in [text.replace("\"version\":1", "\"version\":2"), text.replace('}', ",\"x\":1}"), String::new()] {
        fs::write(&path, bad).unwrap();
        assert_eq!(Wanted::read(&path).unwrap_err().code, StepCode::File);
    }
}

/// Where somebody else is kubelet and scheduler: a pod ends when this test says so.
#[test]
#[ignore = "needs a real API server: ./dev e2e api-server"]
fn a_real_cluster_takes_the_manifests_and_is_rid_of_what_was_for_the_link_alone() {
    use latchkey_api_server_rig::{ApiServer, program};
    let server = ApiServer::start();
    let admin = server.client(&server.admin());
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = fs::read(server.kubeconfig("admin", &server.admin())).unwrap();
    fs::create_dir(directory.path().join("etc")).unwrap();
    fs::write(directory.path().join("etc/admin.conf"), kubeconfig).unwrap();
    let kubeadm = Kubeadm {
        kubectl: program("kubectl").display().to_string(),
        components: directory.path().join("components"),
        directory: directory.path().join("etc"),
        ..Kubeadm::default()
    };
    let labels = "labels: {app.kubernetes.io/managed-by: latchkey-bootstrap}";
    let mut answer = enrolled();
    answer.manifests[0].yaml = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: fplus-edge}\n".to_vec();
    let pod = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: edge-bootstrap, namespace: fplus-edge, {labels}}}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {{name: edge-bootstrap, namespace: fplus-edge, {labels}}}\n\
         stringData: {{token: {TOKEN}}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {{name: edge-bootstrap, namespace: fplus-edge, {labels}}}\n\
         spec: {{serviceAccountName: edge-bootstrap, containers: [{{name: one, image: one}}]}}\n"
    );
    answer.manifests[1].yaml = pod.into_bytes();
    answer.manifests.push(BootstrapManifest {
        name: "flux-system.yaml".into(),
        yaml: b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: flux, namespace: default}\n".to_vec(),
    });
    let manifests = Manifests::check(answer).unwrap();
    let pods = "/api/v1/namespaces/fplus-edge/pods/edge-bootstrap";
    let mut lines = Vec::new();
    let mut progress = |line: &str| lines.push(line.to_owned());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            latchkey_test_support::until("the pod", || (admin.get(pods).status() == 200).then_some(()));
            let succeeded = serde_json::json!({"status": {"phase": "Succeeded"}});
            admin.patch(&format!("{pods}/status"), &succeeded).granted();
        });
        latchkey_test_support::block_on(manifests.apply(&kubeadm, &mut progress)).unwrap();
    });
    latchkey_test_support::until("the pod to be gone", || (admin.get(pods).status() == 404).then_some(()));
    assert_eq!(admin.get("/api/v1/namespaces/fplus-edge/secrets/edge-bootstrap").status(), 404);
    assert!(!lines.join("\n").contains(TOKEN), "{lines:?}");

    let foreign = serde_json::json!({"metadata": {"name": "flux-secrets"}});
    admin.post("/api/v1/namespaces/fplus-edge/secrets", &foreign).granted();
    let refused = latchkey_test_support::block_on(manifests.apply(&kubeadm, &mut |_| {})).unwrap_err();
    assert!(refused.message.contains("a Secret flux-secrets that somebody else made"), "{refused}");
}
