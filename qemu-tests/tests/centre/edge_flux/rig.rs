//! A centre with a cluster, and an edge of it: a real API server and what runs there, as plain processes.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api_server_rig::{ApiServer, Client};
use latchkey_centre_site::Program;
use latchkey_factory_plus::manager::BootstrapManifests;
use latchkey_qemu_tests::build;
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::centre::bootstrapped::NAMESPACE;
use latchkey_qemu_tests::centre::edge::Edge;
use latchkey_qemu_tests::centre::flux::{self, StandIns};
use latchkey_qemu_tests::kubernetes::{Kubectl, program};
use latchkey_qemu_tests::process::Process;
use latchkey_test_support::{Port, spawn, until};
use serde_json::{Value, json};

/// The cluster.
pub(crate) const NAME: &str = "Nord";
/// Where the controller of Sealed Secrets is, as our chart says.
pub(crate) const SEALING: &str = "sealed-secrets";
const FLUX: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/fplus-edge/kustomizations";
/// Puts a folder where a kubelet would have put it, for nobody else to see, and becomes the program.
const IN_A_POD: &str = "mount -t tmpfs tmpfs /run; mkdir -p /run/secrets/kubernetes.io; \
                        cp -r \"$1\" /run/secrets/kubernetes.io/serviceaccount; shift; exec \"$@\"";

/// A centre that has charts to give, and a cluster, made with these further arguments.
pub(crate) fn centre(name: &str, arguments: &[&str]) -> (Centre, String) {
    let centre = Centre::started(name).unwrap();
    centre.import_charts().unwrap();
    let made = centre.reported(&[&["new", NAME], arguments].concat()).unwrap();
    let cluster = made["uuid"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    (centre, cluster)
}

/// An edge. Dropping it ends all of it.
pub(crate) struct Site {
    // In this order: who asks ends before who is asked.
    programs: Vec<Process>,
    pub(crate) flux: StandIns,
    pub(crate) edge: Edge,
    pub(crate) place: PathBuf,
    pub(crate) api: ApiServer,
    ports: Vec<Port>,
}

impl Site {
    /// Bootstrapped: what the centre gives is applied, in its order, the link is redeemed, and kustomize-controller runs.
    pub(crate) fn bootstrapped(centre: &Centre, cluster: &str, name: &str) -> Self {
        let api = ApiServer::start();
        let place = centre.run.subdirectory(name).unwrap();
        let kubeconfig = api.kubeconfig("admin", &api.admin());
        let edge = Edge { cluster: cluster.into(), name: NAME.into(), namespace: NAMESPACE.into(), kubeconfig };
        let flux = StandIns::new(Kubectl::of(&edge.kubeconfig), NAMESPACE, "127.0.0.1", &place).unwrap();
        let mut site = Self { programs: Vec::new(), flux, edge, place, api, ports: Vec::new() };
        let path = format!("v1/cluster/{cluster}/manifests");
        let made = centre.send(centre.admin(), "POST", Program::ClusterManager, &path, &json!({})).unwrap();
        let made: BootstrapManifests = serde_json::from_str(&made.body).unwrap();
        if !made.files.iter().any(|file| file.name == "flux-system.yaml") {
            // Who has a bare cluster brings Flux himself.
            site.apply(flux::SET, &fs::read_to_string(centre.run.file(flux::SET)).unwrap());
        }
        for file in &made.files {
            site.apply(&file.name, &file.text);
        }
        let account = site.account("edge-bootstrap", NAMESPACE);
        let (done, _) = centre.redeem(&Edge { kubeconfig: account, ..site.edge.clone() }, &made.token).unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.err));
        site.start_kustomize_controller(centre);
        site
    }

    pub(crate) fn admin(&self) -> Client {
        self.api.client(&self.api.admin())
    }

    /// The kubeconfig of who may do everything.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.edge.kubeconfig
    }

    /// Applies documents as a bootstrap does, and waits until what they define is served.
    pub(crate) fn apply(&self, name: &str, text: &str) {
        let file = self.place.join(name);
        fs::write(&file, text).unwrap();
        let kubectl = Kubectl::of(self.kubeconfig());
        let apply = ["apply", "--server-side", "--field-manager=latchkey-bootstrap", "--filename"];
        kubectl.ask(&[&apply[..], &[file.to_str().unwrap()]].concat()).unwrap();
        let established =
            ["wait", "--for=condition=Established", "--timeout=60s", "customresourcedefinitions", "--all"];
        if text.contains("kind: CustomResourceDefinition") {
            kubectl.ask(&established).unwrap();
        }
    }

    /// A token of a service account, as a kubelet asks for one.
    fn token(&self, account: &str, namespace: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let asked = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": 7200 } });
        self.admin().post(&path, &asked).granted()["status"]["token"].as_str().unwrap().to_owned()
    }

    /// A kubeconfig of a service account.
    fn account(&self, account: &str, namespace: &str) -> PathBuf {
        self.api.token_kubeconfig(account, &self.token(account, namespace))
    }

    fn port(&mut self) -> String {
        let port = Port::reserve();
        let address = port.address().to_string();
        self.ports.push(port);
        address
    }

    /// Starts a program whose words go to a log of the test's: its process id.
    fn start(&mut self, centre: &Centre, name: &str, mut command: Command) -> u32 {
        let log = centre.run.file(&format!("{}-{name}.log", self.place.file_name().unwrap().to_string_lossy()));
        let log = File::options().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = Process::watch(spawn(command).unwrap()).unwrap();
        let id = process.id();
        self.programs.push(process);
        id
    }

    fn start_kustomize_controller(&mut self, centre: &Centre) {
        let mut command = Command::new(program("kustomize-controller").unwrap());
        command.args(flux::KUSTOMIZE_ARGUMENTS);
        command.env_clear().env("KUBECONFIG", self.kubeconfig()).env("HOME", &self.place).env("TMPDIR", &self.place);
        command.env("RUNTIME_NAMESPACE", "flux-system");
        self.start(centre, "kustomize-controller", command);
    }

    /// The controller of Sealed Secrets, as a kubelet would start it for the Deployment that the chart made: its process id.
    pub(crate) fn start_sealed_secrets(&mut self, centre: &Centre) -> u32 {
        let deployment = format!("/apis/apps/v1/namespaces/{SEALING}/deployments/sealed-secrets");
        let deployment = self.admin().get(&deployment).granted();
        let pod = &deployment["spec"]["template"]["spec"];
        let folder = self.place.join("serviceaccount");
        fs::create_dir_all(&folder).unwrap();
        let token = self.token(pod["serviceAccountName"].as_str().unwrap(), SEALING);
        for (name, text) in [("token", token.as_str()), ("ca.crt", self.api.authority()), ("namespace", SEALING)] {
            fs::write(folder.join(name), text).unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let (listen, metrics) = (self.port(), self.port());
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-euc", IN_A_POD, "sh"]).arg(&folder);
        command.arg(program("sealed-secrets-controller").unwrap());
        let arguments = pod["containers"][0]["args"].as_array().unwrap();
        command.args(arguments.iter().map(|argument| argument.as_str().unwrap()));
        // It listens on all addresses otherwise.
        command.args([format!("--listen-addr={listen}"), format!("--listen-metrics-addr={metrics}")]);
        let address = self.api.address();
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", &self.place);
        command.env("KUBERNETES_SERVICE_HOST", address.ip().to_string());
        command.env("KUBERNETES_SERVICE_PORT", address.port().to_string());
        self.start(centre, "sealed-secrets", command)
    }

    /// The operator of keys, with the rights that the chart gave it and the files that a kubelet would mount.
    pub(crate) fn start_krb_keys(&mut self, centre: &Centre) {
        let edge = Edge { kubeconfig: self.account("krb-keys", NAMESPACE), ..self.edge.clone() };
        let keytab = self.place.join("own.keytab");
        fs::write(&keytab, self.held("krb-keys-keytabs", "client").unwrap()).unwrap();
        let password = String::from_utf8(self.held("krb-keys-keytabs", "password").unwrap()).unwrap();
        let password = centre.write_secret("krb-keys.password", &password).unwrap();
        let command = centre.keeping(&edge, &keytab, &password).unwrap();
        self.start(centre, "krb-keys", command);
    }

    /// Edge Sync, with the rights and the configuration that the chart gave it, once its account's password is there.
    pub(crate) fn start_edge_sync(&mut self, centre: &Centre) {
        let password = until("the account of Edge Sync", || self.held("op1sync", "password"));
        let password = centre.write_secret("edge-sync.password", password).unwrap();
        let map = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/edge-sync-config");
        let map = self.admin().get(&map).granted();
        let mut config: Value = serde_json::from_str(map["data"]["edge-sync.json"].as_str().unwrap()).unwrap();
        // Where its files are, which a kubelet would mount elsewhere.
        let authority = map["data"]["ca.pem"].as_str().unwrap_or_else(|| panic!("{map}"));
        config["centre"]["authority"] = json!(centre.run.write("edge-sync.ca.pem", authority).unwrap());
        config["account"]["password_file"] = json!(password);
        config["kubernetes"] = json!({ "kubeconfig": self.account("edge-sync", NAMESPACE) });
        let config = centre.run.write("edge-sync.json", config.to_string()).unwrap();
        let mut command = Command::new(build::program("latchkey-edge-sync").unwrap());
        command.arg("--config").arg(config).env_clear();
        self.start(centre, "edge-sync", command);
    }

    /// What a Secret of the edge's namespace holds.
    pub(crate) fn held(&self, secret: &str, key: &str) -> Option<Vec<u8>> {
        let secret = self.admin().get(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/{secret}"));
        STANDARD.decode(secret.body()["data"][key].as_str()?).ok()
    }

    pub(crate) fn kustomization(&self, name: &str) -> Value {
        self.admin().get(&format!("{FLUX}/{name}")).body().clone()
    }

    /// Waits until kustomize-controller has applied a revision.
    pub(crate) fn applied(&self, name: &str, revision: &str) {
        let mut last = Value::Null;
        until(format_args!("{name} to be applied at {revision}"), || {
            let object = self.kustomization(name);
            let ready = condition(&object, "Ready");
            if last != ready["message"] {
                last = ready["message"].clone();
                eprintln!("{name}: {} {last}", ready["status"]);
            }
            (ready["status"] == "True" && object["status"]["lastAppliedRevision"] == revision).then_some(())
        });
    }
}

/// A condition of an object; null where it has none of this type.
pub(crate) fn condition(object: &Value, kind: &str) -> Value {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
}
