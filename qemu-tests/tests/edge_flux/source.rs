//! A STAND-IN for Flux's source-controller, which no Go module has in a form that builds here. It clones with stock git, with what is in
//! the Secret that a `GitRepository` names, serves the archive over HTTP on loopback, and fills the status as the controller does. It
//! works when a test tells it to, as `flux reconcile source git` would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api_server_rig::Client;
use latchkey_boot_formats::sha256;
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::process::output;
use latchkey_test_support::metadata::FakeServer;
use latchkey_test_support::until;
use serde_json::{Value, json};

/// Where the API server has them, below a namespace.
const GROUP: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces";

/// The stand-in, for one namespace.
pub(crate) struct SourceController {
    admin: Client,
    namespace: String,
    /// The clones, by the names of their repositories.
    clones: PathBuf,
    archives: PathBuf,
    server: FakeServer,
}

impl SourceController {
    /// Works in a directory of the test.
    pub(crate) fn new(admin: Client, namespace: &str, place: &Path) -> Self {
        let (clones, archives) = (place.join("clones"), place.join("archives"));
        for directory in [&clones, &archives] {
            fs::create_dir_all(directory).unwrap();
        }
        let files = archives.clone();
        let server = FakeServer::raw(move |question| {
            let path = question.split(' ').nth(1).and_then(|path| path.strip_prefix('/')).unwrap_or_default();
            // Names without a slash lead to no other directory.
            let file = (!path.contains('/')).then(|| fs::read(files.join(path)).ok()).flatten();
            let status = if file.is_some() { "200 OK" } else { "404 Not Found" };
            let body = file.unwrap_or_default();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            [head.into_bytes(), body].concat()
        });
        Self { admin, namespace: namespace.into(), clones, archives, server }
    }

    /// Fetches what a `GitRepository` names, once it is there, and says so in its status: the revision.
    pub(crate) fn reconcile(&self, centre: &Centre, name: &str) -> String {
        let path = format!("{GROUP}/{}/gitrepositories/{name}", self.namespace);
        let repository = until(format_args!("the GitRepository {name}"), || {
            let answer = self.admin.get(&path);
            (answer.status() == 200).then(|| answer.granted())
        });
        let spec = &repository["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{repository}")).to_owned();
        let secret = format!("/api/v1/namespaces/{}/secrets/{}", self.namespace, text(&spec["secretRef"]["name"]));
        let secret = self.admin.get(&secret).granted();
        let [user, password] = ["username", "password"]
            .map(|key| String::from_utf8(STANDARD.decode(text(&secret["data"][key])).unwrap()).unwrap());
        let clone = self.clone_of(name);
        let _ = fs::remove_dir_all(&clone);
        let cloned = centre.git_clone_url((&user, &password), &text(&spec["url"]), &clone).unwrap();
        assert!(cloned.status.success(), "{}", String::from_utf8_lossy(&cloned.err));
        let git = |arguments: &[&str]| output(Command::new("git").arg("-C").arg(&clone).args(arguments)).unwrap();
        let branch = text(&spec["ref"]["branch"]);
        let commit = git(&["rev-parse", &format!("refs/remotes/origin/{branch}")]).trim().to_owned();
        let archive = format!("{name}-{commit}.tar.gz");
        let place = self.archives.join(&archive);
        git(&["archive", "--format=tar.gz", "--output", place.to_str().unwrap(), &commit]);
        let bytes = fs::read(&place).unwrap();
        let revision = format!("{branch}@sha1:{commit}");
        let now = output(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"])).unwrap().trim().to_owned();
        let generation = &repository["metadata"]["generation"];
        let condition = |kind: &str| {
            json!({
                "type": kind, "status": "True", "reason": "Succeeded", "message": format!("stored artifact for revision '{revision}'"),
                "observedGeneration": generation, "lastTransitionTime": now,
            })
        };
        let status = json!({ "status": {
            "observedGeneration": generation,
            "conditions": [condition("Ready"), condition("ArtifactInStorage")],
            "artifact": {
                "path": format!("gitrepository/{}/{name}/{archive}", self.namespace),
                "url": format!("http://{}/{archive}", self.server.address()),
                "revision": revision, "digest": format!("sha256:{}", hex::encode(sha256(&[&bytes]))), "size": bytes.len(),
                "lastUpdateTime": now,
            },
        }});
        self.admin.patch(&format!("{path}/status"), &status).granted();
        revision
    }

    /// The files of a repository, as they were fetched last.
    pub(crate) fn clone_of(&self, name: &str) -> PathBuf {
        self.clones.join(name)
    }
}
