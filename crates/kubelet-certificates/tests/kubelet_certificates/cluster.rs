//! A real API server with our chart in it, and those who ask.

use super::csr::Csr;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api_server_rig::{Answer, ApiServer, Client, Credentials, Setup, program};
use latchkey_kubelet_certificates::{SERVING_SIGNER, TOKEN_GROUP};
use latchkey_test_support::{output, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The join service, as the chart's values call it.
pub(super) const SERVICE: &str = "latchkey:join-service";
pub(super) const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
pub(super) const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// Where the chart is installed.
pub(super) const NAMESPACE: &str = "latchkey";

pub(super) struct Cluster {
    pub(super) server: ApiServer,
    pub(super) admin: Client,
    /// Whoever has the service's own credentials.
    pub(super) service: Client,
}

/// One for all tests of a program that run at the same time; the last one ends it.
pub(super) fn shared() -> Arc<Cluster> {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(Cluster::start());
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}

impl Cluster {
    fn start() -> Self {
        let server = ApiServer::with(Setup { controllers: true, ..Setup::default() });
        let admin = server.client(&server.admin());
        let service = server.client(&server.user(SERVICE, None));
        let cluster = Self { server, admin, service };
        cluster.install();
        cluster
    }

    /// With the stock helm, and waits until each policy is in force: it refuses what it is for, which is only tried.
    fn install(&self) {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/latchkey");
        let kubeconfig = self.server.kubeconfig("helm", &self.server.admin());
        let mut helm = Command::new(program("helm"));
        helm.args(["install", "latchkey"]).arg(chart).arg("--kubeconfig").arg(kubeconfig);
        helm.args(["--namespace", NAMESPACE, "--create-namespace"]);
        let installed = output(&mut helm).unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let opaque = json!({"metadata": {"name": "bootstrap-token-tryout"}, "type": "Opaque"});
        self.admin.post(SECRETS, &opaque).granted();
        refuses("token-create", || self.service.post(&format!("{SECRETS}?dryRun=All"), &opaque));
        let path = format!("{SECRETS}/bootstrap-token-tryout");
        refuses("token-delete", || self.service.delete(&format!("{path}?dryRun=All"), &json!({})));
        self.admin.delete(&path, &json!({})).granted();
        // Not of the other signer: what an administrator asks of that the controller manager approves, and so changes.
        let mut request = post(&self.admin, "tryout", SERVING_SIGNER, &Csr::node("tryout").pem());
        request["status"] = approved();
        let path = format!("{REQUESTS}/tryout/approval?dryRun=All");
        refuses("approve", || self.service.put(&path, &request));
        self.admin.delete(&format!("{REQUESTS}/tryout"), &json!({})).granted();
    }

    /// The token of a ticket, made by the service: who has it.
    pub(super) fn token(&self, id: &str) -> Client {
        self.service.post(SECRETS, &token(id, TOKEN_GROUP)).granted();
        self.holder(id)
    }

    /// Who has the token, once the API server knows it.
    pub(super) fn holder(&self, id: &str) -> Client {
        let holder = self.server.bearer(&format!("{id}.0123456789abcdef"));
        until(format_args!("token {id} to be known"), || (holder.get("/version").status() != 401).then_some(()));
        holder
    }

    /// A node with its client certificate.
    pub(super) fn node(&self, name: &str) -> Client {
        self.server.client(&self.server.user(&format!("system:node:{name}"), Some("system:nodes")))
    }

    /// Who has a certificate that was issued.
    pub(super) fn identified(&self, certificate: &str, key: &str) -> Client {
        self.server.client(&Credentials::new(certificate, key))
    }

    /// What becomes of an approved request: its certificate (PEM), or the reason why there is none.
    pub(super) fn issued(&self, name: &str) -> Result<String, String> {
        let mut watch = self.admin.watch(&format!("{REQUESTS}?fieldSelector=metadata.name%3D{name}"));
        watch.find("certificate or failure", |request| {
            let status = &request["status"];
            if let Some(certificate) = status["certificate"].as_str() {
                return Some(Ok(String::from_utf8(STANDARD.decode(certificate).unwrap()).unwrap()));
            }
            let failed = status["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Failed")?;
            Some(Err(failed["message"].as_str().unwrap_or_default().to_owned()))
        })
    }
}

/// Posts a request as `asker`.
pub(super) fn post(asker: &Client, name: &str, signer: &str, pem: &[u8]) -> Value {
    asker.post(REQUESTS, &request(name, signer, pem)).granted()
}

fn refuses(policy: &str, attempt: impl Fn() -> Answer) {
    until(format_args!("the policy latchkey-{policy} to be in force"), || {
        attempt().text().contains(&format!("latchkey-{policy}")).then_some(())
    });
}

/// The Secret of a bootstrap token.
pub(super) fn token(id: &str, groups: &str) -> Value {
    json!({
        "metadata": {"name": format!("bootstrap-token-{id}")},
        "type": "bootstrap.kubernetes.io/token",
        "data": {
            "token-id": STANDARD.encode(id),
            "token-secret": STANDARD.encode("0123456789abcdef"),
            "expiration": STANDARD.encode("2999-01-01T00:00:00Z"),
            "usage-bootstrap-authentication": STANDARD.encode("true"),
            "auth-extra-groups": STANDARD.encode(groups),
        },
    })
}

/// A request of a kubelet.
pub(super) fn request(name: &str, signer: &str, pem: &[u8]) -> Value {
    let purpose = if signer == SERVING_SIGNER { "server auth" } else { "client auth" };
    json!({
        "metadata": {"name": name},
        "spec": {
            "signerName": signer,
            "usages": ["digital signature", purpose],
            "request": STANDARD.encode(pem),
        },
    })
}

/// The status that approves a request.
pub(super) fn approved() -> Value {
    conditions("Approved")
}

/// The status that denies one.
pub(super) fn denied() -> Value {
    conditions("Denied")
}

fn conditions(kind: &str) -> Value {
    let condition = json!({"type": kind, "status": "True", "reason": "Latchkey", "message": "tried"});
    json!({"conditions": [condition]})
}
