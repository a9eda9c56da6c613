//! In the place of kubectl and its API server: objects are files in one directory, and each can be made to fail.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::command::{Ran, latchkey};

/// A `ConfigMap` is `NAME.json`, a record `node-EK.json`; `list-RESOURCE.json` is what a list shows; where `fails-NAME` is, nobody writes
/// NAME. Who may do what is in `rights`, a line each: USER VERB RESOURCE. What was asked is in `calls`, a line each.
const SCRIPT: &str = r#"#!/bin/sh
cd "${0%/*}" || exit 1
echo "$*" >>calls
for last; do :; done
case "$*" in
"config view "*)
    # A kubeconfig as JSON.
    while [ "$1" != --kubeconfig ]; do shift; done
    cat "$2" ;;
"version "*) echo '{"clientVersion": {"gitVersion": "v1.34.0"}}' ;;
"get --raw /version "*) echo '{"gitVersion": "v1.34.0"}' ;;
*"--all-namespaces"*) cat "list-$last.json" 2>/dev/null || echo '{"items": []}' ;;
"get "*" -- configmap "*) cat "$last.json" 2>/dev/null; exit 0 ;;
"get "*" -- clusterrolebinding "* | "get "*" -- customresourcedefinition "*) cat "$last.json" 2>/dev/null; exit 0 ;;
"create --raw /apis/authorization.k8s.io/v1/subjectaccessreviews "*)
    cat >review
    of() { sed 's/.*"'$1'":"\([^"]*\)".*/\1/' review; }
    allowed=false
    if grep -qxF "$(of user) $(of verb) $(of resource)" rights; then allowed=true; fi
    echo '{"status": {"allowed": '$allowed'}}' ;;
"get "*" -- attestednodes"*) cat "node-$last.json" 2>/dev/null; exit 0 ;;
"create "* | "replace "*)
    cat >body
    name=$(sed 's/.*"name":"\([^"]*\)".*/\1/' body)
    if [ -e "fails-$name" ]; then
        echo 'Error from server (InternalError): etcd is full' >&2
        exit 1
    fi
    cp body "$name.json"
    cat body ;;
"apply "*)
    # A list of documents, each with its name last.
    sed 's/{"apiVersion":"v1","kind":"ConfigMap"/\n&/g; s/]}$//' | sed -n '/^{"apiVersion":"v1","kind":"ConfigMap"/{s/,$//;p}' >bodies
    echo >>bodies
    while IFS= read -r body; do
        name=$(printf '%s' "$body" | sed 's/.*"metadata":{"name":"\([^"]*\)".*/\1/')
        [ -n "$name" ] || continue
        printf '%s' "$body" >"$name.json"
    done <bodies ;;
"get "* | "delete "* | "drain "* | "wait "*) ;;
*) exit 1 ;;
esac
"#;

/// In the place of helm: what it is given as a chart is copied to `given`, and what lies in the directory `beside` then is in `seen`.
const HELM: &str = r#"#!/bin/sh
here=${0%/*}
case "$*" in
"version "*) echo v3.18.0 ;;
"history "*)
    if ! [ -e "$here/given" ]; then
        echo 'Error: release: not found' >&2
        exit 1
    fi
    echo '[{"revision": 1, "status": "deployed", "chart": "latchkey-1", "description": ""}]' ;;
"install "*)
    for last; do :; done
    cp -RL "$last" "$here/given" || exit 1
    ls -A "$here/beside/" >"$here/seen" ;;
*) ;;
esac
"#;

/// The join service, as the chart's values call it.
pub const SERVICE: &str = "latchkey:join-service";

/// A cluster that is kept there.
pub struct StandIn(TempDir);

impl StandIn {
    /// With its documents, nobody on record and nobody shut out.
    pub fn new() -> Self {
        let stand_in = Self(TempDir::new().unwrap());
        stand_in.program("kubectl", SCRIPT);
        fs::write(stand_in.path("admin.conf"), "{}").unwrap();
        stand_in.counted(&json!({"count": 0}));
        stand_in.rules(&json!([]));
        let service = json!([{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": SERVICE }]);
        stand_in.rights(&service, &[(SERVICE, "delete attestednodes")]);
        for name in ["latchkey-denied", "latchkey-revisions", "latchkey-pending"] {
            stand_in.map(name, &json!({}));
        }
        stand_in
    }

    /// Before there is a cluster: with what the chart brings. Its helm looks at this directory.
    pub fn empty(beside: &Path) -> Self {
        let stand_in = Self::new();
        for name in ["latchkey-cluster", "latchkey-enrolment"] {
            fs::remove_file(stand_in.path(&format!("{name}.json"))).unwrap();
        }
        stand_in.program("helm", HELM);
        symlink(beside, stand_in.path("beside")).unwrap();
        stand_in
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A program there.
    pub fn program(&self, name: &str, script: &str) {
        use std::io::Write as _;
        let options = &mut fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o700).open(self.path(name)).unwrap();
        file.write_all(script.as_bytes()).unwrap();
    }

    fn cluster(denials: &Value) -> String {
        let version = if denials.get("leaving").is_some() { 3 } else { 2 };
        json!({
            "version": version, "name": "plant", "cluster_id": "cd".repeat(32), "measurement_salt": "01".repeat(32),
            "key_version": 1, "created_at": 1_800_000_000, "denials": denials,
        })
        .to_string()
    }

    pub fn map(&self, name: &str, data: &Value) {
        let metadata = json!({ "name": name, "namespace": "latchkey", "resourceVersion": "7" });
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
        fs::write(self.path(&format!("{name}.json")), map.to_string()).unwrap();
    }

    pub fn rules(&self, pinned: &Value) {
        let default = json!({ "role": "hold", "name": "as-requested", "on_new_disk": "admit" });
        let rules = json!({ "version": 1, "pinned": pinned, "default": default });
        self.map("latchkey-enrolment", &json!({ "enrolment.json": rules.to_string() }));
    }

    /// The cluster's document, with denials counted so.
    pub fn counted(&self, denials: &Value) {
        self.map("latchkey-cluster", &json!({ "cluster.json": Self::cluster(denials) }));
    }

    /// Whom the chart binds its rights to, and who may do what.
    pub fn rights(&self, subjects: &Value, rights: &[(&str, &str)]) {
        fs::write(self.path("latchkey-records.json"), json!({ "subjects": subjects }).to_string()).unwrap();
        let lines: Vec<String> = rights.iter().map(|(who, what)| format!("{who} {what}\n")).collect();
        fs::write(self.path("rights"), lines.concat()).unwrap();
    }

    /// The object of a record.
    pub fn record(&self, ek: &str, spec: &Value) {
        let object = json!({ "metadata": { "name": ek }, "spec": spec });
        fs::write(self.path(&format!("node-{ek}.json")), object.to_string()).unwrap();
        let list = json!({ "items": [object] });
        fs::write(self.path("list-attestednodes.latchkey.dev.json"), list.to_string()).unwrap();
    }

    pub fn data(&self, map: &str) -> Value {
        let text = fs::read(self.path(&format!("{map}.json"))).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["data"].clone()
    }

    /// From now on nobody writes this document.
    pub fn fail(&self, map: &str) {
        fs::write(self.path(&format!("fails-{map}")), "").unwrap();
    }

    /// What was asked for that changes something.
    pub fn changes(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let changes =
            |call: &&str| ["create ", "replace ", "delete ", "drain "].iter().any(|word| call.starts_with(word));
        calls
            .lines()
            .filter(changes)
            .filter(|call| !call.starts_with("create --raw /apis/authorization."))
            .map(str::to_owned)
            .collect()
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        let more = ["--kubeconfig", "admin.conf", "--kubectl-program", "./kubectl", "--output", "json"];
        latchkey(self.0.path(), &[arguments, &more].concat())
    }
}
