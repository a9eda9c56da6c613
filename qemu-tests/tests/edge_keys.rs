//! The operator of keys of an edge, at a real centre and a real API server.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Stdio};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api_server_rig::{ApiServer, Client};
use latchkey_centre_site::Program;
use latchkey_factory_plus::uuids::application;
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::centre::edge::Edge;
use latchkey_qemu_tests::process::Process;
use latchkey_test_support::{output, spawn, until};
use serde_json::{Value, json};

const GROUP: &str = "/apis/factoryplus.app.amrc.co.uk/v1/namespaces/fplus-edge";
const SECRETS: &str = "/api/v1/namespaces/fplus-edge/secrets";
/// Keys that are made at once, beside one session of stock kadmin.
const MANY: usize = 100;
/// Wishes for a new key, one after the other.
const WISHES: usize = 8;

/// A bootstrapped edge with its operator of keys.
struct Rig {
    operator: Option<Process>,
    api: ApiServer,
    centre: Centre,
    edge: Edge,
}

impl Rig {
    fn start(name: &str) -> Self {
        let (centre, api) = (Centre::started(name).unwrap(), ApiServer::start());
        let admin = api.client(&api.admin());
        admin.post("/api/v1/namespaces", &json!({ "metadata": { "name": "fplus-edge" } })).granted();
        for (kind, plural) in [("KerberosKey", "kerberos-keys"), ("LocalSecret", "localsecrets")] {
            admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition(kind, plural)).granted();
            let path =
                format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.factoryplus.app.amrc.co.uk");
            until(kind, || admin.get(&path).text().contains("\"Established\",\"status\":\"True\"").then_some(()));
        }
        let cluster = centre.made("Nord").unwrap();
        let kubeconfig = api.kubeconfig("krb-keys", &api.admin());
        let edge = Edge { cluster, name: "Nord".into(), namespace: "fplus-edge".into(), kubeconfig };
        let (done, _) = centre.redeem(&edge, &centre.link_token("Nord").unwrap()).unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.err));
        let mut rig = Self { operator: None, api, centre, edge };
        rig.start_operator();
        rig
    }

    /// Starts it, or starts it again, with the keytab that is in its Secret, as a kubelet would mount it.
    fn start_operator(&mut self) {
        self.operator = None;
        let own = self.held("krb-keys-keytabs", "client").unwrap();
        std::fs::write(self.centre.run.file("own.keytab"), own).unwrap();
        let password = String::from_utf8(self.held("krb-keys-keytabs", "password").unwrap()).unwrap();
        let password = self.centre.write_secret("own.password", &password).unwrap();
        let mut command = self.centre.keeping(&self.edge, &self.centre.run.file("own.keytab"), &password).unwrap();
        let log =
            std::fs::File::options().create(true).append(true).open(self.centre.run.file("krb-keys.log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.operator = Some(Process::watch(spawn(command).unwrap()).unwrap());
    }

    fn admin(&self) -> Client {
        self.api.client(&self.api.admin())
    }

    fn held(&self, secret: &str, key: &str) -> Option<Vec<u8>> {
        let secret = self.admin().get(&format!("{SECRETS}/{secret}"));
        STANDARD.decode(secret.body()["data"][key].as_str()?).ok()
    }

    fn write(&self, plural: &str, kind: &str, name: &str, spec: &Value) {
        let body = json!({
            "apiVersion": "factoryplus.app.amrc.co.uk/v1", "kind": kind, "metadata": { "name": name }, "spec": spec,
        });
        self.admin().post(&format!("{GROUP}/{plural}"), &body).granted();
    }

    fn key(&self, name: &str, spec: &Value) {
        self.write("kerberos-keys", "KerberosKey", name, spec);
    }

    /// The specification that our chart has for the account of a role; all that it asks for is there already.
    fn of_chart(&self, role: &str) -> Value {
        let chart = self.centre.chart().unwrap();
        let path = Centre::entry(application::HELM_CHART_TEMPLATE, chart.as_str().unwrap());
        let template = self.centre.ask(self.centre.admin(), "GET", Program::ConfigDb, &path).unwrap().json();
        let (class, group) =
            (&template["values"]["uuid"]["class"]["edgeAccount"], &template["values"]["uuid"]["group"]);
        let name = format!("Edge {role}: Nord");
        let account = match role {
            "sync" => json!({ "class": class, "name": name, "groups": [group["edgeSync"]] }),
            _ => {
                json!({ "class": class, "name": name, "groups": [group["edgeMonitor"]], "sparkplug": { "node": "Monitor" } })
            }
        };
        let (principal, secret) = (format!("op1{role}/Nord"), format!("op1{role}/password"));
        json!({ "type": "Password", "principal": principal, "secret": secret, "account": account })
    }

    fn resource(&self, name: &str) -> Value {
        self.admin().get(&format!("{GROUP}/kerberos-keys/{name}")).body().clone()
    }

    /// Waits until it is said of the resource as it stands that it is in this phase: the message.
    fn reaches(&self, name: &str, phase: &str) -> String {
        until(format_args!("{name} to be {phase}"), || {
            let resource = self.resource(name);
            let status = &resource["status"];
            let current =
                status["observedGeneration"] == resource["metadata"]["generation"] && status["phase"] == phase;
            current.then(|| status["message"].as_str().unwrap_or_default().to_owned())
        })
    }

    fn annotate(&self, name: &str, annotation: &str, value: &Value) {
        let name_of = format!("krbkeys.factoryplus.app.amrc.co.uk/{annotation}");
        let change = json!({ "metadata": { "annotations": { name_of: value } } });
        self.admin().patch(&format!("{GROUP}/kerberos-keys/{name}"), &change).granted();
    }

    fn remove(&self, name: &str) {
        self.admin().delete(&format!("{GROUP}/kerberos-keys/{name}"), &json!({})).granted();
        until(format_args!("{name} to go"), || (self.resource(name)["code"] == 404).then_some(()));
    }

    /// Whether stock kinit gets a ticket with a keytab from a Secret.
    fn serves(&self, secret: &str, key: &str, principal: &str) -> bool {
        let path = self.centre.run.file("tried.keytab");
        std::fs::write(&path, self.held(secret, key).unwrap()).unwrap();
        let mut kinit = Command::new("kinit");
        kinit.arg("-c").arg(self.centre.tickets()).arg("-kt").arg(&path).arg(principal);
        output(kinit.env("KRB5_CONFIG", self.centre.layout.krb5_conf())).unwrap().status.success()
    }

    fn signs_in(&self, principal: &str, secret: &str, key: &str) -> bool {
        let password = String::from_utf8(self.held(secret, key).unwrap()).unwrap();
        self.centre.kinit(principal, &password).unwrap().status.success()
    }

    fn versions(&self, principal: &str) -> Vec<String> {
        let said = self.centre.kadmin_local(&format!("getprinc {principal}")).unwrap();
        let mut versions: Vec<String> = said
            .lines()
            .filter_map(|line| Some(line.strip_prefix("Key: vno ")?.split(',').next()?.to_owned()))
            .collect();
        versions.dedup();
        versions
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(self.centre.run.file("krb-keys.log")).unwrap_or_default());
        }
    }
}

/// A definition of a kind whose schema is the API server's own business, as far as the operator is concerned.
fn definition(kind: &str, plural: &str) -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.factoryplus.app.amrc.co.uk") },
        "spec": {
            "group": "factoryplus.app.amrc.co.uk", "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

#[test]
fn keys_are_made_kept_and_taken_away() {
    let mut rig = Rig::start("edge-keys");
    rig.key("node", &json!({ "type": "Random", "principal": "nd1/Nord/a", "additionalPrincipals": ["nd1/Nord/b"], "secret": "node/keytab" }));
    rig.key("sync", &rig.of_chart("sync"));
    rig.key("monitor", &rig.of_chart("monitor"));
    rig.reaches("node", "Ready");
    for role in ["sync", "monitor"] {
        rig.reaches(role, "Ready");
        let account = &rig.resource(role)["metadata"]["annotations"]["krbkeys.factoryplus.app.amrc.co.uk/account-uuid"];
        assert_eq!(*account, rig.centre.setup_status(&rig.edge.cluster).unwrap()[role]["uuid"], "the centre made it");
    }
    assert!(rig.serves("node", "keytab", "nd1/Nord/a") && rig.serves("node", "keytab", "nd1/Nord/b"));
    assert!(rig.signs_in("op1sync/Nord", "op1sync", "password"));

    // What serves stays, whatever restarts.
    let before = (rig.held("node", "keytab"), rig.held("op1sync", "password"), rig.versions("nd1/Nord/a"));
    rig.start_operator();
    rig.key("local", &json!({ "type": "Disabled", "principal": "nd1/Nord/none" }));
    rig.reaches("local", "Ready");
    assert_eq!((rig.held("node", "keytab"), rig.held("op1sync", "password"), rig.versions("nd1/Nord/a")), before);
    rig.write(
        "localsecrets",
        "LocalSecret",
        "shared",
        &json!({ "secret": "shared", "key": "text", "format": "Password" }),
    );
    until("the local secret", || rig.held("shared", "text").filter(|text| text.len() == 43));

    // A new key on request; what was asked for is forgotten then.
    rig.annotate("node", "force-rekey", &json!("now"));
    until("the new keys", || (rig.held("node", "keytab") != before.0).then_some(()));
    until("the end of the wish", || {
        rig.resource("node")["metadata"]["annotations"]["krbkeys.factoryplus.app.amrc.co.uk/force-rekey"]
            .is_null()
            .then_some(())
    });
    assert!(rig.serves("node", "keytab", "nd1/Nord/a") && rig.serves("node", "keytab", "nd1/Nord/b"));

    // Somebody else's Secret, and somebody else's principal.
    let theirs = json!({ "metadata": { "name": "theirs" }, "stringData": { "keytab": "theirs" } });
    rig.admin().post(SECRETS, &theirs).granted();
    rig.key("foreign", &json!({ "type": "Random", "principal": "nd1/Nord/c", "secret": "theirs/keytab" }));
    assert!(rig.reaches("foreign", "Refused").contains("the Secret theirs is not ours"));
    assert_eq!(rig.held("theirs", "keytab").unwrap(), b"theirs");
    assert_eq!(rig.centre.enabled("nd1/Nord/c").unwrap(), None);
    rig.key("other", &json!({ "type": "Password", "principal": "op1sync/Sued", "secret": "other/password" }));
    assert!(rig.reaches("other", "Refused").contains("kerberos-admin-refused"));
    rig.key("rival", &json!({ "type": "Password", "principal": "op1sync/Nord", "secret": "rival/password" }));
    assert!(rig.reaches("rival", "Refused").contains("KerberosKey sync was first"));
    assert!(rig.held("rival", "password").is_none());

    // Removal disables, and the key goes; a rival that waited takes over.
    rig.remove("node");
    assert_eq!(rig.centre.enabled("nd1/Nord/a").unwrap(), Some(false));
    assert_eq!(rig.centre.enabled("nd1/Nord/b").unwrap(), Some(false));
    assert_eq!(rig.admin().get(&format!("{SECRETS}/node")).status(), 404);
    rig.remove("sync");
    rig.reaches("rival", "Ready");
    assert!(rig.signs_in("op1sync/Nord", "rival", "password"));
    // Removed and made again, also while nobody looks.
    rig.operator = None;
    rig.key("node", &json!({ "type": "Random", "principal": "nd1/Nord/a", "secret": "node/keytab" }));
    rig.start_operator();
    rig.reaches("node", "Ready");
    assert!(rig.serves("node", "keytab", "nd1/Nord/a"));
}

#[test]
fn old_keys_are_kept_and_trimmed() {
    let rig = Rig::start("edge-old-keys");
    rig.key(
        "node",
        &json!({ "type": "Random", "principal": "nd1/Nord/a", "keepOldKeys": true, "secret": "node/keytab" }),
    );
    rig.reaches("node", "Ready");
    let first = rig.versions("nd1/Nord/a");
    // Each wish is met once, however late the operator hears that it took the one before away.
    for met in 1..=WISHES {
        rig.annotate("node", "force-rekey", &json!(""));
        until("the wish to be taken away", || {
            rig.resource("node")["metadata"]["annotations"]["krbkeys.factoryplus.app.amrc.co.uk/force-rekey"]
                .is_null()
                .then_some(())
        });
        assert_eq!(rig.versions("nd1/Nord/a").len(), first.len() + met);
    }
    until("the label", || {
        (rig.resource("node")["metadata"]["labels"]["krbkeys.factoryplus.app.amrc.co.uk/has-old-keys"] == "true")
            .then_some(())
    });
    assert!(rig.serves("node", "keytab", "nd1/Nord/a"));
    rig.annotate("node", "rekeyed-at", &json!("1000"));
    until("the end of the old keys", || (rig.versions("nd1/Nord/a").len() == 1).then_some(()));
    until("the end of the label", || {
        rig.resource("node")["metadata"]["labels"]["krbkeys.factoryplus.app.amrc.co.uk/has-old-keys"]
            .is_null()
            .then_some(())
    });
    assert!(rig.serves("node", "keytab", "nd1/Nord/a"));
}

#[test]
fn nothing_is_missed_while_others_are_away() {
    let mut rig = Rig::start("edge-away");
    rig.key("one", &json!({ "type": "Password", "principal": "op1sync/Nord", "secret": "one/password" }));
    rig.reaches("one", "Ready");
    // The API server restarts, and a resource is made at once.
    rig.api.kill_api();
    rig.api.start_api();
    rig.key("two", &json!({ "type": "Password", "principal": "op1monitor/Nord", "secret": "two/password" }));
    rig.reaches("two", "Ready");
    // The KDC is away for a while.
    let kadmind = rig.centre.child("kadmind").unwrap();
    let signal = |signal: &str| output(Command::new("kill").args([signal, &kadmind.to_string()])).unwrap();
    signal("-STOP");
    rig.key("three", &json!({ "type": "Random", "principal": "nd1/Nord/a", "secret": "three/keytab" }));
    let why = rig.reaches("three", "Waiting");
    assert!(why.contains("kerberos-"), "{why}");
    signal("-CONT");
    rig.reaches("three", "Ready");
    assert!(rig.serves("three", "keytab", "nd1/Nord/a"));
}

#[test]
fn many_keys_take_not_much_longer_than_stock_kadmin_does() {
    let rig = Rig::start("edge-many-keys");
    let begin = Instant::now();
    for number in 0..MANY {
        let spec = json!({ "type": "Random", "principal": format!("nd1/Nord/n{number}"), "secret": format!("n{number}/keytab") });
        rig.key(&format!("n{number}"), &spec);
    }
    rig.reaches(&format!("n{}", MANY - 1), "Ready");
    for number in 0..MANY {
        rig.reaches(&format!("n{number}"), "Ready");
    }
    let ours = begin.elapsed();
    let queries: Vec<String> = (0..MANY)
        .flat_map(|number| {
            let file = rig.centre.run.file(&format!("k{number}.keytab"));
            let name = format!("nd1/Nord/k{number}");
            [format!("addprinc -randkey {name}"), format!("ktadd -k {} {name}", file.display())]
        })
        .collect();
    let queries = queries.join("\n") + "\n";
    let mut kadmin = Command::new("kadmin");
    kadmin
        .args(["-r", rig.centre.parameters.realm.as_str(), "-k", "-t"])
        .arg(rig.centre.run.file("own.keytab"))
        .args(["-p", "op1krbkeys/Nord"]);
    kadmin.env("KRB5_CONFIG", rig.centre.layout.krb5_conf());
    kadmin.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begin = Instant::now();
    let mut child = spawn(kadmin).unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), queries.as_bytes()).unwrap();
    let done = latchkey_test_support::finish("kadmin", child);
    let theirs = begin.elapsed();
    assert!(
        rig.centre.run.file(&format!("k{}.keytab", MANY - 1)).exists(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    eprintln!(
        "{MANY} keys: {ours:?}, and stock kadmin {theirs:?}: {:.2} times",
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
}
