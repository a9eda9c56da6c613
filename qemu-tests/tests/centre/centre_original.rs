//! The original's edge programs, call by call, with the accounts that a cluster here has: what they need, they may.
//!
//! The calls are those that Edge Sync, the Edge Monitor and krbkeys of the AMRC Connectivity Stack were seen to make; the programs
//! themselves are not run.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use latchkey_centre_site::Program;
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::{application, class, service};
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::centre::clusters::ROLES;
use latchkey_qemu_tests::centre::web::Answer;
use latchkey_test_support::until;
use serde_json::{Value, json};

/// What an edge's program says as whom, to a centre with one cluster.
struct Edge {
    centre: Centre,
    cluster: String,
    role: &'static str,
}

impl Edge {
    fn calls(&self, method: &str, program: Program, path: &str, body: Option<&Value>) -> Answer {
        let who = format!("{}:own-{}", self.centre.parameters.upn(&self.name()).unwrap(), self.role);
        let body = body.map(Value::to_string);
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let (kind, url) = (format!("content-type: {kind}"), self.centre.url(program, path));
        let mut arguments = vec!["--user", &who, "--request", method, &url];
        if let Some(body) = &body {
            arguments.extend(["--header", &kind, "--data-binary", body]);
        }
        self.centre.curl(&arguments).unwrap()
    }

    fn name(&self) -> String {
        format!("op1{}/Nord", self.role)
    }

    fn gets(&self, program: Program, path: &str) -> Value {
        let answer = self.calls("GET", program, path, None);
        assert_eq!(answer.status, 200, "{} {path}: {answer:?}", self.role);
        answer.json()
    }

    /// Changes something, or finds it changed already.
    fn settles(&self, method: &str, program: Program, path: &str, body: Option<&Value>) {
        let answer = self.calls(method, program, path, body);
        assert!([200, 201, 204].contains(&answer.status), "{} {method} {path}: {answer:?}", self.role);
    }

    fn account(&self, role: &str) -> String {
        let status = self.centre.setup_status(&self.cluster).unwrap();
        status[role]["uuid"].as_str().unwrap_or_else(|| panic!("no {role} in {status}")).to_owned()
    }
}

fn started(name: &str) -> Edge {
    let centre = Centre::started(name).unwrap();
    let cluster = centre.made("Nord").unwrap();
    for role in ROLES {
        centre.set_password(&format!("op1{role}/Nord"), &format!("own-{role}")).unwrap();
    }
    let edge = Edge { centre, cluster, role: "sync" };
    let status = Centre::entry(application::EDGE_CLUSTER_STATUS, &edge.cluster);
    until("the grants of the new accounts to be known", || {
        (edge.calls("PATCH", Program::ConfigDb, &status, Some(&json!({ "hosts": [] }))).status < 300).then_some(())
    });
    edge
}

#[test]
fn the_edge_programs_of_the_original_may_do_what_they_do() {
    let mut edge = started("centre-original");
    edge_sync(&edge);
    edge.role = "monitor";
    edge_monitor(&edge);
    edge.role = "krbkeys";
    krbkeys(&edge);
    an_account_that_krbkeys_makes(&edge);
}

fn edge_sync(edge: &Edge) {
    let git = edge.gets(Program::Directory, &format!("v1/service/{}", service::GIT));
    assert!(git[0]["url"].as_str().is_some_and(|url| url.starts_with("https://")), "{git}");
    for app in [application::K8S_RESOURCE_TEMPLATE, application::HELM_CHART_TEMPLATE, application::EDGE_DEPLOYMENT] {
        edge.gets(Program::ConfigDb, &format!("v2/app/{app}/object"));
    }
    let status = Centre::entry(application::EDGE_CLUSTER_STATUS, &edge.cluster);
    let host = json!({
        "hostname": "nord-1", "arch": "amd64", "k8s_version": "v1.31.2", "control_plane": true, "os_version": "Debian 12",
        "ready": true,
    });
    for patch in [json!({ "hosts": [host] }), json!({ "kubeseal_cert": "PEM" })] {
        edge.settles("PATCH", Program::ConfigDb, &status, Some(&patch));
    }
    assert_eq!(edge.gets(Program::ConfigDb, &status), json!({ "hosts": [host], "kubeseal_cert": "PEM" }));
}

fn edge_monitor(edge: &Edge) {
    let me = edge.gets(Program::Auth, "v2/whoami");
    assert_eq!(me["uuid"], json!(edge.account("monitor")));
    let own = Centre::entry(application::SPARKPLUG_ADDRESS, me["uuid"].as_str().unwrap());
    assert_eq!(edge.gets(Program::ConfigDb, &own), json!({ "group_id": "ACME-Nord", "node_id": "Monitor" }));
    let agent = Centre::entry(application::EDGE_AGENT_CONFIG, &Uuid::random().to_string());
    assert_eq!(edge.calls("GET", Program::ConfigDb, &agent, None).status, 404, "it may know that there is none");
}

/// Its chart's accounts for Edge Sync and the Monitor, which are there already.
fn krbkeys(edge: &Edge) {
    let cluster = Centre::entry(application::SPARKPLUG_ADDRESS, &edge.cluster);
    let group = edge.gets(Program::ConfigDb, &cluster)["group_id"].clone();
    for role in ["sync", "monitor"] {
        let account = edge.account(role);
        let upn = edge.centre.parameters.upn(&format!("op1{role}/Nord")).unwrap().to_string();
        let found =
            edge.gets(Program::Auth, &format!("v2/identity/kerberos/{}", upn.replace('/', "%2F").replace('@', "%40")));
        assert_eq!(found, json!(account));
        let info = Centre::entry(application::INFO, &account);
        edge.settles("PATCH", Program::ConfigDb, &info, Some(&json!({ "name": format!("Edge {role}: Nord") })));
        if role == "monitor" {
            let address = Centre::entry(application::SPARKPLUG_ADDRESS, &account);
            let entry = json!({ "group_id": group, "node_id": "Monitor" });
            edge.settles("PUT", Program::ConfigDb, &address, Some(&entry));
        }
        let config = Centre::entry(application::SERVICE_CONFIG, &service::CLUSTER_MANAGER.to_string());
        let groups = edge.centre.ask(edge.centre.admin(), "GET", Program::ConfigDb, &config).unwrap().json();
        let group = groups["group"][role]["uuid"].as_str().unwrap_or_else(|| panic!("no group of {role}: {groups}"));
        edge.settles("PUT", Program::ConfigDb, &format!("v2/class/{group}/direct/member/{account}"), None);
        edge.settles("PUT", Program::Auth, &format!("v2/principal/{account}/kerberos"), Some(&json!(upn)));
    }
}

/// Of an edge agent, say: but for a Sparkplug address, which says in whose name it may speak.
fn an_account_that_krbkeys_makes(edge: &Edge) {
    let made = edge.calls("POST", Program::ConfigDb, "v2/object", Some(&json!({ "class": class::EDGE_SERVICE })));
    assert_eq!(made.status, 201, "{made:?}");
    let account = made.json()["uuid"].as_str().unwrap().to_owned();
    let info = Centre::entry(application::INFO, &account);
    edge.settles("PATCH", Program::ConfigDb, &info, Some(&json!({ "name": "Agent 1" })));
    let upn = edge.centre.parameters.upn("nd1/Nord/Agent1").unwrap().to_string();
    edge.settles("PUT", Program::Auth, &format!("v2/principal/{account}/kerberos"), Some(&json!(upn)));
    let address = Centre::entry(application::SPARKPLUG_ADDRESS, &account);
    let others = json!({ "group_id": "ACME-Sued", "node_id": "Monitor" });
    assert_eq!(edge.calls("PUT", Program::ConfigDb, &address, Some(&others)).status, 403);
}
