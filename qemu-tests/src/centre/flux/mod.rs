//! Flux, as far as it can be had here: its kustomize-controller is real. For the other two there are STAND-INS, which work when a test or
//! demonstration tells them to: [`StandIns::fetch`] is the source-controller's work, [`StandIns::install_releases`] the helm-controller's.

mod helm;
mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use latchkey_test_support::metadata::FakeServer;
use serde_json::{Value, json};

use super::Centre;
use crate::error::{HarnessError, io_error};
use crate::kubernetes::{Kubectl, container_image, definition, program};
use crate::process::output;

/// Where Flux's controllers are.
const NAMESPACE: &str = "flux-system";
const CONTROLLERS: [&str; 3] = ["source-controller", KUSTOMIZE, "helm-controller"];
const KUSTOMIZE: &str = "kustomize-controller";
/// What the chart of Sealed Secrets runs, by name.
const SEALED_SECRETS: &str = "controller";
/// The file of the set, in the centre's run.
pub const SET: &str = "install.yaml";
/// How kustomize-controller is called, in a cluster or beside it: it listens for nobody.
pub const KUSTOMIZE_ARGUMENTS: [&str; 3] = ["--metrics-addr=0", "--health-addr=0", "--events-addr="];

/// The two controllers that cannot be had, for the edge's namespace of one cluster.
#[derive(Debug)]
pub struct StandIns {
    kubectl: Kubectl,
    namespace: String,
    /// The clones, by the names of their repositories.
    clones: PathBuf,
    archives: PathBuf,
    server: FakeServer,
    /// Where the cluster finds the server.
    host: String,
}

impl Centre {
    /// `latchkey centre charts import`: our chart, Sealed Secrets, and a set of Flux in whose place the stand-ins can be.
    pub fn import_charts(&self) -> Result<(), HarnessError> {
        let flux = self.run.write(SET, set()?)?;
        let mut import = Command::new(self.programs().join("latchkey"));
        import.args(["centre", "charts", "import"]).arg(flux).arg(program("sealed-secrets.tgz")?);
        import.arg("--centre").arg(self.layout.operator()).arg("--password-file").arg(self.run.file("password"));
        output(&mut import).map(drop)
    }
}

/// Builds what takes long the first time.
pub(crate) fn prepare() -> Result<(), HarnessError> {
    [KUSTOMIZE, "sealed-secrets-controller", "helm"].into_iter().try_for_each(|name| program(name).map(drop))
}

/// The set, as `flux install --export` prints one.
fn set() -> Result<String, HarnessError> {
    let metadata = json!({ "name": KUSTOMIZE, "namespace": NAMESPACE });
    let mut objects = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        definition(helm::KIND),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": KUSTOMIZE },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "name": KUSTOMIZE, "namespace": NAMESPACE }],
        }),
    ];
    objects.extend(CONTROLLERS.map(controller));
    let mut text = objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n") + "\n";
    for definitions in ["sources.yaml", "kustomizations.yaml"] {
        let path = program(definitions)?;
        text.push_str(&fs::read_to_string(&path).map_err(io_error("read", &path))?);
    }
    Ok(text)
}

/// A Deployment of Flux. Those of the stand-ins are there, and have no pods.
fn controller(name: &str) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "replicas": u8::from(name == KUSTOMIZE),
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": KUSTOMIZE,
                    "securityContext": { "runAsNonRoot": true, "runAsUser": 65534, "fsGroup": 65534 },
                    "containers": [{
                        "name": "manager", "image": image_of(name), "args": KUSTOMIZE_ARGUMENTS,
                        "env": [{ "name": "RUNTIME_NAMESPACE", "value": NAMESPACE }],
                        "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp" }],
                    }],
                    "volumes": [{ "name": "tmp", "emptyDir": {} }],
                },
            },
        },
    })
}

fn image_of(controller: &str) -> String {
    format!("latchkey.invalid/{controller}:1")
}

/// Archives of the container images that the set, and the chart of Sealed Secrets, run in a cluster.
pub(crate) fn archives(directory: &Path) -> Result<[PathBuf; 2], HarnessError> {
    let archive = |program: &Path, name: &str, image: &str| {
        let file = directory.join(format!("{name}.tar"));
        container_image(program, name, image, &file).map(|()| file)
    };
    let mut helm = Command::new(program("helm")?);
    let chart = output(helm.args(["template", "sealed"]).arg(program("sealed-secrets.tgz")?))?;
    let sealed = chart.lines().find_map(|line| line.trim().strip_prefix("image: "));
    let sealed = sealed.ok_or_else(|| HarnessError::Unusable("the chart of Sealed Secrets names no image".into()))?;
    Ok([
        archive(&program(KUSTOMIZE)?, KUSTOMIZE, &image_of(KUSTOMIZE))?,
        archive(&program("sealed-secrets-controller")?, SEALED_SECRETS, sealed)?,
    ])
}

impl StandIns {
    /// Work for a cluster in a directory of their own; the cluster reaches this machine's loopback as `host`.
    pub fn new(kubectl: Kubectl, namespace: &str, host: &str, place: &Path) -> Result<Self, HarnessError> {
        let (clones, archives) = (place.join("clones"), place.join("archives"));
        for directory in [&clones, &archives] {
            fs::create_dir_all(directory).map_err(io_error("make", directory))?;
        }
        let server = source::server(archives.clone());
        Ok(Self { kubectl, namespace: namespace.into(), clones, archives, server, host: host.into() })
    }

    fn path(&self, group: &str, object: &str) -> String {
        format!("/apis/{group}/namespaces/{}/{object}", self.namespace)
    }

    /// Says of an object what its controller would.
    fn set_status(&self, object: &str, status: &Value) -> Result<(), HarnessError> {
        let patch = json!({ "status": status }).to_string();
        let status = ["--subresource=status", "--type=merge", "--patch", &patch];
        self.kubectl.ask(&[&["--namespace", &self.namespace, "patch", object], &status[..]].concat()).map(drop)
    }
}

/// A text of an object.
fn text<'a>(object: &'a Value, pointer: &str) -> Result<&'a str, HarnessError> {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.ok_or_else(|| HarnessError::Unusable(format!("there is no text {pointer} in {object}")))
}
