//! An edge that has redeemed its link: a namespace of a real API server, and its operator of keys.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api_server_rig::{ApiServer, Client};
use latchkey_centre_site::Program;
use latchkey_factory_plus::uuids::application;
use latchkey_test_support::{spawn, until};
use serde_json::{Value, json};

use super::Centre;
use super::edge::Edge;
use crate::error::{HarnessError, io_error};
use crate::kubernetes::definition;
use crate::process::{Process, TOOL, run};

/// The edge's namespace.
pub const NAMESPACE: &str = "fplus-edge";
const GROUP: &str = "/apis/factoryplus.app.amrc.co.uk/v1/namespaces/fplus-edge";
const SECRETS: &str = "/api/v1/namespaces/fplus-edge/secrets";

/// What the edge's programs ask the API server for: group, version, kind, plural.
const KINDS: [[&str; 4]; 4] = [
    ["factoryplus.app.amrc.co.uk", "v1", "KerberosKey", "kerberos-keys"],
    ["factoryplus.app.amrc.co.uk", "v1", "LocalSecret", "localsecrets"],
    ["helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"],
    ["source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories"],
];

/// An edge at a centre.
#[derive(Debug)]
pub struct Bootstrapped {
    operator: Option<Process>,
    /// The edge's API server.
    pub api: ApiServer,
    /// Its centre.
    pub centre: Centre,
    /// Where its programs find everything.
    pub edge: Edge,
    /// How long `krb-keys redeem` took.
    pub redeemed: Duration,
}

impl Bootstrapped {
    /// Of a new cluster of this name; its operator of keys does not run yet.
    ///
    /// # Panics
    /// If the API server refuses what its administrator makes.
    pub fn at(centre: Centre, name: &str) -> Result<Self, HarnessError> {
        let api = ApiServer::start();
        let admin = api.client(&api.admin());
        admin.post("/api/v1/namespaces", &json!({ "metadata": { "name": NAMESPACE } })).granted();
        for defined @ [group, _, kind, plural] in KINDS {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            admin.post(path, &definition(defined)).granted();
            let path = format!("{path}/{plural}.{group}");
            until(kind, || admin.get(&path).text().contains("\"Established\",\"status\":\"True\"").then_some(()));
        }
        let cluster = centre.made(name)?;
        let kubeconfig = api.kubeconfig("edge", &api.admin());
        let edge = Edge { cluster, name: name.into(), namespace: NAMESPACE.into(), kubeconfig };
        let (done, redeemed) = centre.redeem(&edge, &centre.link_token(name)?)?;
        if !done.status.success() {
            let output = String::from_utf8_lossy(&done.err).into_owned();
            return Err(HarnessError::Command { command: "krb-keys redeem".into(), output });
        }
        Ok(Self { operator: None, api, centre, edge, redeemed })
    }

    /// Starts the operator, or starts it again, with the keytab that is in its Secret, as a kubelet would mount it.
    pub fn start_operator(&mut self) -> Result<(), HarnessError> {
        self.stop_operator();
        let missing = || HarnessError::Unusable("krb-keys redeem wrote no keys".into());
        let keytab = self.centre.run.file("own.keytab");
        fs::write(&keytab, self.held("krb-keys-keytabs", "client").ok_or_else(missing)?)
            .map_err(io_error("write", &keytab))?;
        let password = self.mounted("krb-keys-keytabs", "password")?;
        let mut command = self.centre.keeping(&self.edge, &keytab, &password)?;
        let log = self.centre.run.file("krb-keys.log");
        let errors = fs::File::options().create(true).append(true).open(&log).map_err(io_error("write", &log))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let started = spawn(command).and_then(Process::watch).map_err(io_error("start", "krb-keys".as_ref()))?;
        self.operator = Some(started);
        Ok(())
    }

    /// Kills the operator.
    pub fn stop_operator(&mut self) {
        self.operator = None;
    }

    /// The API server as its administrator sees it.
    pub fn admin(&self) -> Client {
        self.api.client(&self.api.admin())
    }

    /// What is in a Secret.
    pub fn held(&self, secret: &str, key: &str) -> Option<Vec<u8>> {
        let secret = self.admin().get(&format!("{SECRETS}/{secret}"));
        STANDARD.decode(secret.body()["data"][key].as_str()?).ok()
    }

    /// A file with a text of a Secret, as a kubelet mounts it.
    pub fn mounted(&self, secret: &str, key: &str) -> Result<std::path::PathBuf, HarnessError> {
        let text = self.held(secret, key).and_then(|held| String::from_utf8(held).ok());
        let text = text.ok_or_else(|| HarnessError::Unusable(format!("{secret}/{key} has no text")))?;
        self.centre.write_secret(&format!("{secret}.{key}"), &text)
    }

    /// Makes a resource of the operator's.
    ///
    /// # Panics
    /// If it is refused.
    pub fn write(&self, plural: &str, kind: &str, name: &str, spec: &Value) {
        self.admin().post(&format!("{GROUP}/{plural}"), &resource(kind, name, spec)).granted();
    }

    /// Makes a `KerberosKey`.
    ///
    /// # Panics
    /// If it is refused.
    pub fn key(&self, name: &str, spec: &Value) {
        self.write("kerberos-keys", "KerberosKey", name, spec);
    }

    /// Makes several.
    ///
    /// # Panics
    /// If one is refused.
    pub fn keys(&self, keys: impl IntoIterator<Item = (String, Value)>) {
        let admin = self.admin();
        for (name, spec) in keys {
            admin.post(&format!("{GROUP}/kerberos-keys"), &resource("KerberosKey", &name, &spec)).granted();
        }
    }

    /// The specification that our chart has for the account of a role; all that it asks for is there already.
    pub fn of_chart(&self, role: &str) -> Result<Value, HarnessError> {
        let chart = self.centre.chart()?;
        let path = Centre::entry(application::HELM_CHART_TEMPLATE, chart.as_str().unwrap_or_default());
        let template = self.centre.ask(self.centre.admin(), "GET", Program::ConfigDb, &path)?.json();
        let (class, group) =
            (&template["values"]["uuid"]["class"]["edgeAccount"], &template["values"]["uuid"]["group"]);
        let cluster = &self.edge.name;
        let name = format!("Edge {role}: {cluster}");
        let account = match role {
            "sync" => json!({ "class": class, "name": name, "groups": [group["edgeSync"]] }),
            _ => {
                json!({ "class": class, "name": name, "groups": [group["edgeMonitor"]], "sparkplug": { "node": "Monitor" } })
            }
        };
        let (principal, secret) = (format!("op1{role}/{cluster}"), format!("op1{role}/password"));
        Ok(json!({ "type": "Password", "principal": principal, "secret": secret, "account": account }))
    }

    /// A `KerberosKey` as it stands.
    pub fn resource(&self, name: &str) -> Value {
        self.admin().get(&format!("{GROUP}/kerberos-keys/{name}")).body().clone()
    }

    /// Waits until it is said of the resource as it stands that it is in this phase: the message.
    ///
    /// # Panics
    /// If it is not in time.
    pub fn reaches(&self, name: &str, phase: &str) -> String {
        until(format_args!("{name} to be {phase}"), || {
            let resource = self.resource(name);
            is_in(&resource, phase).then(|| resource["status"]["message"].as_str().unwrap_or_default().to_owned())
        })
    }

    /// Waits until so many are in a phase, hearing of each change: what a watch costs, and no more.
    ///
    /// # Panics
    /// If they are not in time.
    pub fn all_reach(&self, count: usize, phase: &str) {
        let mut there = std::collections::BTreeSet::new();
        let mut watch = self.admin().watch(&format!("{GROUP}/kerberos-keys"));
        watch.find(&format!("{count} keys that are {phase}"), |resource| {
            if is_in(resource, phase) {
                there.insert(resource["metadata"]["name"].to_string());
            }
            (there.len() == count).then_some(())
        });
    }

    /// Sets an annotation of the operator's.
    ///
    /// # Panics
    /// If it is refused.
    pub fn annotate(&self, name: &str, annotation: &str, value: &Value) {
        let name_of = format!("krbkeys.factoryplus.app.amrc.co.uk/{annotation}");
        let change = json!({ "metadata": { "annotations": { name_of: value } } });
        self.admin().patch(&format!("{GROUP}/kerberos-keys/{name}"), &change).granted();
    }

    /// Deletes a `KerberosKey`, and waits until it is gone.
    ///
    /// # Panics
    /// If it is refused, or stays.
    pub fn remove(&self, name: &str) {
        self.admin().delete(&format!("{GROUP}/kerberos-keys/{name}"), &json!({})).granted();
        until(format_args!("{name} to go"), || (self.resource(name)["code"] == 404).then_some(()));
    }

    /// Deletes every `KerberosKey`, and waits until they are gone.
    ///
    /// # Panics
    /// If that is refused, or one stays.
    pub fn remove_all(&self) {
        let (admin, path) = (self.admin(), format!("{GROUP}/kerberos-keys"));
        admin.delete(&path, &json!({})).granted();
        let gone = || admin.get(&path).body()["items"].as_array().is_some_and(Vec::is_empty).then_some(());
        until("all keys to go", gone);
    }

    /// Whether stock kinit gets a ticket with a keytab from a Secret.
    pub fn serves(&self, secret: &str, key: &str, principal: &str) -> Result<bool, HarnessError> {
        let path = self.centre.run.file("tried.keytab");
        fs::write(&path, self.held(secret, key).unwrap_or_default()).map_err(io_error("write", &path))?;
        let mut kinit = Command::new("kinit");
        kinit.arg("-c").arg(self.centre.tickets()).arg("-kt").arg(&path).arg(principal);
        Ok(run(kinit.env("KRB5_CONFIG", self.centre.layout.krb5_conf()), TOOL)?.status.success())
    }

    /// Whether stock kinit gets a ticket with a password from a Secret.
    pub fn signs_in(&self, principal: &str, secret: &str, key: &str) -> Result<bool, HarnessError> {
        let password = String::from_utf8(self.held(secret, key).unwrap_or_default()).unwrap_or_default();
        Ok(self.centre.kinit(principal, &password)?.status.success())
    }

    /// Kubelets of this edge, all on one connection.
    pub fn kubelets(&self) -> Kubelets {
        Kubelets(self.admin())
    }

    /// The versions of a principal's keys that the KDC has.
    pub fn versions(&self, principal: &str) -> Result<Vec<String>, HarnessError> {
        let said = self.centre.kadmin_local(&format!("getprinc {principal}"))?;
        let of = |line: &str| Some(line.strip_prefix("Key: vno ")?.split(',').next()?.to_owned());
        let mut versions: Vec<String> = said.lines().filter_map(of).collect();
        versions.dedup();
        Ok(versions)
    }
}

/// Who makes Nodes, and says how they are.
#[derive(Debug)]
pub struct Kubelets(Client);

impl Kubelets {
    /// Makes a Node, ready, as a kubelet makes one.
    ///
    /// # Panics
    /// If it is refused.
    pub fn node(&self, name: &str) {
        let labels = json!({ "kubernetes.io/hostname": name });
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels } });
        self.0.post("/api/v1/nodes", &node).granted();
        self.say(name, "True");
    }

    /// What a kubelet says of its Node: whether it is ready, and as much beside that as a real one does.
    ///
    /// # Panics
    /// If it is refused.
    pub fn say(&self, name: &str, ready: &str) {
        let image = |number: u32| {
            let digest = "a".repeat(64);
            json!({ "names": [format!("registry.example/some/image-{number}@sha256:{digest}")], "sizeBytes": number })
        };
        let status = json!({ "status": {
            "conditions": [{ "type": "Ready", "status": ready, "reason": "KubeletReady", "message": "posting" }],
            "nodeInfo": {
                "kubeletVersion": "v1.34.4", "architecture": "amd64", "osImage": "Debian GNU/Linux 13 (trixie)",
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "6.12",
                "containerRuntimeVersion": "containerd://2.1", "kubeProxyVersion": "", "operatingSystem": "linux",
            },
            "images": (0..50).map(image).collect::<Vec<_>>(),
        } });
        self.0.patch(&format!("/api/v1/nodes/{name}/status"), &status).granted();
    }
}

impl Drop for Bootstrapped {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(self.centre.run.file("krb-keys.log")).unwrap_or_default());
        }
    }
}

/// Whether it is said of a resource as it stands that it is in this phase.
fn is_in(resource: &Value, phase: &str) -> bool {
    let status = &resource["status"];
    status["observedGeneration"] == resource["metadata"]["generation"] && status["phase"] == phase
}

fn resource(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "factoryplus.app.amrc.co.uk/v1", "kind": kind, "metadata": { "name": name }, "spec": spec,
    })
}
