//! An API server with the chart's definitions and rights, a KDC with a centre's list of rights, and who looks at both.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api_server_rig::proxy::Proxy;
use latchkey_api_server_rig::{ApiServer, Client};
use latchkey_factory_plus::Upn;
use latchkey_kdc_rig::{ADMIN, Kdc, REALM};
use latchkey_kerberos::acl::Acl;
use latchkey_test_support::{output, until};
use serde_json::{Value, json};

use crate::front::Front;
use crate::program::Program;

pub(crate) const NAMESPACE: &str = "fplus-edge";
pub(crate) const OWN: &str = "op1krbkeys/Bolt";
const USER: &str = "krb-keys";
const DEFINITIONS: [(&str, &str); 2] = [
    ("kerberos-keys", include_str!("../../../chart/edge-cluster/crds/kerberos-keys.yaml")),
    ("localsecrets", include_str!("../../../chart/edge-cluster/crds/local-secrets.yaml")),
];
const CHART: &str = include_str!("../../../chart/edge-cluster/templates/krb-keys.yaml");
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/fplus-edge/roles/krb-keys";
const YAML: &str = "application/yaml";

pub(crate) struct Edge {
    // Who asks ends before who is asked.
    pub(crate) proxy: Proxy,
    pub(crate) front: Front,
    pub(crate) admin: Client,
    _server: ApiServer,
    pub(crate) kdc: Kdc,
    pub(crate) keytab: PathBuf,
}

fn upn(name: &str) -> Upn {
    Upn::in_realm(name, &REALM.parse().unwrap()).unwrap()
}

impl Edge {
    /// Nothing, where there is no KDC to be had.
    pub(crate) fn start_or_skip() -> Option<Self> {
        let mut kdc = Kdc::start_or_skip()?;
        let keytab = kdc.keytab(&[OWN]);
        let list = Acl::of_centre(&REALM.parse().unwrap(), &[upn(ADMIN.0)], &[]).unwrap();
        kdc.acl(&list.to_string());
        kdc.start_kadmind();
        let server = ApiServer::start();
        let admin = server.client(&server.admin());
        admin.post("/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}})).granted();
        for (plural, text) in DEFINITIONS {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            admin.send("POST", path, YAML, text.into()).unwrap().granted();
            until(format_args!("{plural} to be served"), || (admin.get(&all(plural)).status() == 200).then_some(()));
        }
        let (proxy, front) = (Proxy::before(&server, &server.user(USER, None)), Front::before(&kdc));
        let edge = Self { proxy, front, admin, _server: server, kdc, keytab };
        let binding = json!({
            "metadata": {"name": USER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": USER},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
        });
        edge.admin.post(&ROLE.replace("roles/krb-keys", "rolebindings"), &binding).granted();
        edge.grant("");
        Some(edge)
    }

    /// Gives it the rights of the chart, but for the rules with this word, and waits until that counts.
    pub(crate) fn grant(&self, but: &str) {
        let rules = CHART.split_once("\nrules:\n").unwrap().1.split("---").next().unwrap();
        let kept = rules.lines().filter(|line| but.is_empty() || !line.contains(but)).collect::<Vec<_>>().join("\n");
        let kept = if kept.trim().is_empty() { "  []".into() } else { kept };
        let api = "rbac.authorization.k8s.io/v1";
        let role = format!("apiVersion: {api}\nkind: Role\nmetadata: {{name: {USER}}}\nrules:\n{kept}\n");
        if self.admin.send("PUT", ROLE, YAML, role.clone().into()).unwrap().status() == 404 {
            let path = ROLE.strip_suffix("/krb-keys").unwrap();
            self.admin.send("POST", path, YAML, role.into()).unwrap().granted();
        }
        for (resource, verb) in [("secrets", "get"), ("kerberos-keys", "list"), ("kerberos-keys/status", "patch")] {
            let expected = but.is_empty() || !rules.lines().any(|line| line.contains(but) && has(line, resource));
            until(format_args!("{verb} {resource} to be {expected}"), || {
                (self.may(verb, resource) == expected).then_some(())
            });
        }
    }

    fn may(&self, verb: &str, resource: &str) -> bool {
        let (name, sub) = resource.split_once('/').unwrap_or((resource, ""));
        let group = if name == "secrets" { "" } else { "factoryplus.app.amrc.co.uk" };
        let attributes = json!({
            "namespace": NAMESPACE, "verb": verb, "group": group, "resource": name, "subresource": sub,
        });
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": USER, "resourceAttributes": attributes},
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        self.admin.post(path, &review).granted()["status"]["allowed"] == true
    }

    /// The operator, with nothing that holds it up.
    pub(crate) fn program(&self) -> Program {
        Program::start(self, self.proxy.kubeconfig(), &self.front.krb5_config())
    }

    pub(crate) fn make(&self, kind: &str, name: &str, spec: &Value) {
        let plural = if kind == "LocalSecret" { "localsecrets" } else { "kerberos-keys" };
        let api = "factoryplus.app.amrc.co.uk/v1";
        let object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec});
        self.admin.post(&all(plural), &object).granted();
    }

    /// What a resource is at the API server; an answer with code 404 where there is none.
    pub(crate) fn resource(&self, plural: &str, name: &str) -> Value {
        self.admin.get(&format!("{}/{name}", all(plural))).body().clone()
    }

    pub(crate) fn change(&self, name: &str, change: &Value) {
        self.admin.patch(&format!("{}/{name}", all("kerberos-keys")), change).granted();
    }

    pub(crate) fn annotate(&self, name: &str, annotation: &str, value: &str) {
        self.change(name, &json!({"metadata": {"annotations": {mark(annotation): value}}}));
    }

    pub(crate) fn delete(&self, plural: &str, name: &str) {
        self.admin.delete(&format!("{}/{name}", all(plural)), &json!({})).granted();
    }

    pub(crate) fn is_gone(&self, plural: &str, name: &str) -> bool {
        self.resource(plural, name)["code"] == 404
    }

    pub(crate) fn is_in(&self, plural: &str, name: &str, phase: &str) -> bool {
        let resource = self.resource(plural, name);
        let status = &resource["status"];
        status["observedGeneration"] == resource["metadata"]["generation"] && status["phase"] == phase
    }

    /// Waits until it is said of the resource that it is in this phase: the message.
    pub(crate) fn reaches(&self, name: &str, phase: &str) -> String {
        until(format_args!("{name} to be {phase}"), || {
            self.is_in("kerberos-keys", name, phase).then(|| {
                self.resource("kerberos-keys", name)["status"]["message"].as_str().unwrap_or_default().to_owned()
            })
        })
    }

    pub(crate) fn secret(name: &str) -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
    }

    /// What a Secret of this name has in `key`.
    pub(crate) fn held(&self, name: &str) -> Option<Vec<u8>> {
        let secret = self.admin.get(&Self::secret(name));
        STANDARD.decode(secret.body()["data"]["key"].as_str()?).ok()
    }

    /// Whether stock kinit gets a ticket with the keytab in a Secret.
    pub(crate) fn serves(&self, name: &str, principal: &str) -> bool {
        let path = self.kdc.path("tried.keytab");
        std::fs::write(&path, self.held(name).unwrap_or_default()).unwrap();
        output(self.kdc.command("kinit").arg("-kt").arg(&path).arg(principal)).unwrap().status.success()
    }

    /// Gets a ticket with the password in a Secret, as stock kinit does.
    pub(crate) fn sign_in(&self, name: &str, principal: &str) {
        self.kdc.kinit(principal, &String::from_utf8(self.held(name).unwrap()).unwrap());
    }

    /// What the KDC has of a principal: whether it is enabled, and the versions of its keys; none, where there is none.
    pub(crate) fn known(&self, principal: &str) -> Option<(bool, Vec<String>)> {
        let names = self.principals();
        names.contains(&format!("{principal}@{REALM}")).then(|| {
            let shown = self.kdc.kadmin_local(&format!("getprinc {principal}"));
            let of = |line: &str| Some(line.strip_prefix("Key: vno ")?.split(',').next()?.to_owned());
            let mut versions: Vec<String> = shown.lines().filter_map(of).collect();
            versions.dedup();
            (!shown.contains("DISALLOW_ALL_TIX"), versions)
        })
    }

    /// Who may do what at kadmind.
    pub(crate) fn rights_at_kadmind(&self) -> String {
        std::fs::read_to_string(self.kdc.path("kadm5.acl")).unwrap()
    }

    pub(crate) fn set_rights_at_kadmind(&mut self, text: &str) {
        self.kdc.acl(text);
        self.kdc.start_kadmind();
    }

    /// All principals of the KDC.
    pub(crate) fn principals(&self) -> Vec<String> {
        let said = self.kdc.kadmin_local("listprincs");
        let mut names: Vec<String> = said.lines().filter(|line| line.contains('@')).map(str::to_owned).collect();
        names.retain(|name| !name.contains(' '));
        names.sort();
        names
    }
}

fn has(rule: &str, resource: &str) -> bool {
    let listed = rule.split("resources: [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    listed.split(", ").any(|one| one == resource)
}

/// An annotation or a label of the operator's.
pub(crate) fn mark(name: &str) -> String {
    format!("krbkeys.factoryplus.app.amrc.co.uk/{name}")
}

fn all(plural: &str) -> String {
    format!("/apis/factoryplus.app.amrc.co.uk/v1/namespaces/{NAMESPACE}/{plural}")
}
