//! The real programs and a real API server.

use serde::Deserialize;

use super::ReleaseState::{Deployed, Superseded};
use super::*;

#[derive(Debug, Deserialize)]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

fn stock() -> Stock {
    Stock::new(Some(&program("kubectl")), None)
}

fn kubectl(server: &ApiServer) -> Kubectl {
    block_on(stock().kubectl(&server.kubeconfig("admin", &server.admin()))).expect("kubectl")
}

fn config_map(name: &str, value: &str, version: &str) -> Vec<u8> {
    let version = if version.is_empty() { String::new() } else { format!(r#","resourceVersion":"{version}""#) };
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default"{version}}},"data":{{"key":"{value}"}}}}"#
    )
    .into_bytes()
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn kubectl_reads_and_writes_objects_and_says_why_it_cannot() {
    let server = ApiServer::start();
    let kubectl = kubectl(&server);
    assert_eq!(kubectl.server().to_string(), latchkey_api_server_rig::VERSION.trim_start_matches('v'));
    let default = Scope::Namespace("default");
    let get = |name: &'static str| block_on(kubectl.get::<ConfigMap>("configmaps", default, name));
    assert!(get("a").unwrap().is_none());
    let made: ConfigMap = block_on(kubectl.create(&config_map("a", "first", ""))).unwrap();
    let again = block_on(kubectl.create::<ConfigMap>(&config_map("a", "first", ""))).unwrap_err();
    assert!(again.is(StockCode::ObjectExists), "{again:?}");
    let old = made.metadata.resource_version;
    let replaced: ConfigMap = block_on(kubectl.replace(&config_map("a", "second", &old))).unwrap();
    assert_eq!(replaced.data["key"], "second");
    let late = block_on(kubectl.replace::<ConfigMap>(&config_map("a", "third", &old))).unwrap_err();
    assert!(late.is(StockCode::Conflict), "{late:?}");
    block_on(kubectl.apply(&config_map("b", "applied", ""), false)).unwrap();
    let listed: Vec<ConfigMap> = block_on(kubectl.list("configmaps", default)).unwrap();
    let names: Vec<_> = listed.iter().map(|map| &*map.metadata.name).collect();
    assert_eq!(names, ["a", "b"]);
    for _ in 0..2 {
        block_on(kubectl.delete("configmaps", default, "a")).unwrap();
    }
    assert!(get("a").unwrap().is_none());
    // A name is never taken for a flag.
    assert!(get("--all").unwrap().is_none());
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn an_api_server_that_is_away_not_ours_or_says_no_is_told_apart() {
    let mut server = ApiServer::start();
    let eve = server.kubeconfig("eve", &server.user("eve", None));
    let eve = block_on(stock().kubectl(&eve)).expect("everybody may ask for the version");
    let refused = block_on(eve.list::<ConfigMap>("configmaps", Scope::Cluster)).unwrap_err();
    assert!(refused.is(StockCode::Forbidden) && refused.said().contains("\"eve\""), "{refused:?}");
    let nobody = block_on(stock().kubectl(&server.token_kubeconfig("nobody", "token"))).unwrap_err();
    assert!(nobody.is(StockCode::KnowsUsNot), "{nobody:?}");

    let admin = server.kubeconfig("admin", &server.admin());
    let other = ApiServer::start();
    let theirs = fs::read_to_string(other.kubeconfig("other", &other.admin())).unwrap();
    let crossed = other.kubeconfig("crossed", &other.admin());
    fs::write(&crossed, theirs.replace(&other.url(), &server.url())).unwrap();
    let untrusted = block_on(stock().kubectl(&crossed)).unwrap_err();
    assert!(untrusted.is(StockCode::Untrusted), "{untrusted:?}");

    let kubectl = block_on(stock().kubectl(&admin)).unwrap();
    server.kill_api();
    let away = block_on(kubectl.list::<ConfigMap>("configmaps", Scope::Cluster)).unwrap_err();
    assert!(away.is(StockCode::Unreachable), "{away:?}");
    assert!(block_on(stock().kubectl(&admin)).unwrap_err().is(StockCode::Unreachable));
}

/// A chart of one `ConfigMap`.
fn chart(directory: &Path, version: &str) -> ChartSource {
    let chart = directory.join(format!("chart-{version}"));
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), format!("apiVersion: v2\nname: sample\nversion: {version}\n")).unwrap();
    fs::write(chart.join("values.yaml"), "key: of the chart\n").unwrap();
    let schema = r#"{"type": "object", "properties": {"key": {"type": "string"}}}"#;
    fs::write(chart.join("values.schema.json"), schema).unwrap();
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {key: {{ .Values.key }}}\n";
    fs::write(chart.join("templates/config.yaml"), template).unwrap();
    ChartSource::File(chart)
}

#[test]
#[ignore = "needs etcd, kube-apiserver, kubectl and helm: ./dev e2e api-server"]
fn helm_installs_upgrades_rolls_back_and_removes() {
    let server = ApiServer::start();
    let kubectl = kubectl(&server);
    let helm = Stock::new(None, Some(&program("helm")));
    let helm = block_on(helm.helm(&server.kubeconfig("admin", &server.admin()))).unwrap();
    let directory = TempDir::new().unwrap();
    let (first, second) = (chart(directory.path(), "1.0.0"), chart(directory.path(), "1.1.0"));
    let wait = Some(Duration::from_secs(30));
    let of = |chart, values: &'static [u8]| Upgrade { name: "one", namespace: "apps", chart, values, wait, crds: true };
    let value = || {
        let map: Option<ConfigMap> = block_on(kubectl.get("configmaps", Scope::Namespace("apps"), "one")).unwrap();
        map.map(|map| map.data["key"].clone())
    };
    assert!(block_on(helm.list()).unwrap().is_empty());
    assert!(block_on(helm.history("apps", "one")).unwrap().is_empty());
    let invalid = block_on(helm.install(&of(&first, br#"{"key": 1}"#), None)).unwrap_err();
    assert!(invalid.is(StockCode::ValuesInvalid), "{invalid:?}");
    let mut lines = Vec::new();
    let mut take = |line: &str| lines.push(line.to_owned());
    block_on(helm.install(&of(&first, b""), Some(&mut take))).unwrap();
    assert!(lines.iter().any(|line| line.contains("[debug]")), "{lines:?}");
    assert_eq!(value().as_deref(), Some("of the chart"));
    assert!(block_on(helm.install(&of(&first, b""), None)).unwrap_err().is(StockCode::ReleaseBusy));

    let would = block_on(helm.dry_run(&of(&second, br#"{"key": "mine"}"#))).unwrap();
    assert!(would.chart == "sample-1.1.0" && would.manifest.contains("key: mine"), "{would:?}");
    assert_eq!(value().as_deref(), Some("of the chart"), "nothing was changed");
    block_on(helm.upgrade(&of(&second, br#"{"key": "mine"}"#), None)).unwrap();
    assert_eq!(value().as_deref(), Some("mine"));
    assert_eq!(block_on(helm.manifest("apps", "one")).unwrap().trim(), would.manifest.trim());
    block_on(helm.rollback("apps", "one", 1, wait)).unwrap();
    let history = block_on(helm.history("apps", "one")).unwrap();
    let states: Vec<_> = history.iter().map(|revision| (revision.number, revision.status)).collect();
    assert_eq!(states, [(1, Superseded), (2, Superseded), (3, Deployed)]);
    let listed = block_on(helm.list()).unwrap();
    assert_eq!((&*listed[0].name, &*listed[0].chart, listed[0].status), ("one", "sample-1.0.0", Deployed));
    block_on(helm.uninstall("apps", "one", LONG)).unwrap();
    assert!(value().is_none() && block_on(helm.history("apps", "one")).unwrap().is_empty());
}
