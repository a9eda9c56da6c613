//! A STAND-IN for Flux's source-controller, which no Go module has in a form that builds here. It clones with stock git, with what is in
//! the Secret that a `GitRepository` names, serves the archive over HTTP on loopback, and fills the status as the controller does.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_boot_formats::sha256;
use latchkey_test_support::metadata::FakeServer;
use serde_json::json;

use super::{StandIns, text};
use crate::centre::Centre;
use crate::error::{HarnessError, io_error};
use crate::process::output;

const GROUP: &str = "source.toolkit.fluxcd.io/v1";
const KIND: &str = "gitrepositories.source.toolkit.fluxcd.io";
/// When somebody asked for it, in words of his own, which the status repeats.
const REQUESTED: &str = "reconcile.fluxcd.io/requestedAt";

/// Serves the files of a directory.
pub(super) fn server(directory: PathBuf) -> FakeServer {
    FakeServer::raw(move |question| {
        let path = question.split(' ').nth(1).and_then(|path| path.strip_prefix('/')).unwrap_or_default();
        // Names without a slash lead to no other directory.
        let file = (!path.contains('/')).then(|| fs::read(directory.join(path)).ok()).flatten();
        let status = if file.is_some() { "200 OK" } else { "404 Not Found" };
        let body = file.unwrap_or_default();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        [head.into_bytes(), body].concat()
    })
}

impl StandIns {
    /// Fetches what a `GitRepository` names, once it is there, and says so in its status, as `flux reconcile source git` would have it
    /// done: the revision.
    pub fn fetch(&self, centre: &Centre, name: &str) -> Result<String, HarnessError> {
        let object = format!("{KIND}/{name}");
        self.kubectl.wait_for(&self.namespace, &object, "create")?;
        let repository = self.kubectl.get(&self.path(GROUP, &format!("gitrepositories/{name}")))?;
        let secret = text(&repository, "/spec/secretRef/name")?;
        let secret = self.kubectl.get(&format!("/api/v1/namespaces/{}/secrets/{secret}", self.namespace))?;
        let [user, password] = ["/data/username", "/data/password"].map(|key| {
            let decoded = STANDARD.decode(text(&secret, key)?).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            decoded.ok_or_else(|| HarnessError::Unusable(format!("{name}: {key} of its Secret is no text")))
        });
        let clone = self.clone_of(name);
        drop(fs::remove_dir_all(&clone)); // there is none the first time
        let cloned = centre.git_clone_url((&user?, &password?), text(&repository, "/spec/url")?, &clone)?;
        if !cloned.status.success() {
            let output = String::from_utf8_lossy(&cloned.err).into_owned();
            return Err(HarnessError::Command { command: format!("git clone of {name}"), output });
        }
        let git = |arguments: &[&str]| output(Command::new("git").arg("-C").arg(&clone).args(arguments));
        let branch = text(&repository, "/spec/ref/branch")?;
        let commit = git(&["rev-parse", &format!("refs/remotes/origin/{branch}")])?.trim().to_owned();
        let archive = format!("{name}-{commit}.tar.gz");
        let place = self.archives.join(&archive);
        git(&["archive", "--format=tar.gz", "--output", &place.display().to_string(), &commit])?;
        let bytes = fs::read(&place).map_err(io_error("read", &place))?;
        let revision = format!("{branch}@sha1:{commit}");
        let now = output(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]))?.trim().to_owned();
        let generation = &repository["metadata"]["generation"];
        let condition = |kind: &str| {
            json!({
                "type": kind, "status": "True", "reason": "Succeeded", "message": format!("stored artifact for revision '{revision}'"),
                "observedGeneration": generation, "lastTransitionTime": now,
            })
        };
        let status = json!({
            "observedGeneration": generation,
            "lastHandledReconcileAt": repository["metadata"]["annotations"][REQUESTED],
            "conditions": [condition("Ready"), condition("ArtifactInStorage")],
            "artifact": {
                "path": format!("gitrepository/{}/{name}/{archive}", self.namespace),
                "url": format!("http://{}:{}/{archive}", self.host, self.server.address().port()),
                "revision": revision, "digest": format!("sha256:{}", hex::encode(sha256(&[&bytes]))), "size": bytes.len(),
                "lastUpdateTime": now,
            },
        });
        self.set_status(&object, &status).map(|()| revision)
    }

    /// Waits until somebody asks for a repository, which may not be there yet, nor its kind.
    pub fn asked_for(&self, name: &str) -> Result<(), HarnessError> {
        let kubectl = |object: &str, what: &str| self.kubectl.wait_for(&self.namespace, object, what);
        kubectl(&format!("crd/{KIND}"), "create")?;
        kubectl(&format!("crd/{KIND}"), "condition=Established")?;
        kubectl(&format!("{KIND}/{name}"), "create")?;
        let annotation = format!("jsonpath={{.metadata.annotations.{}}}", REQUESTED.replace('.', "\\."));
        kubectl(&format!("{KIND}/{name}"), &annotation)
    }

    /// The files of a repository, as they were fetched last.
    pub(super) fn clone_of(&self, name: &str) -> PathBuf {
        self.clones.join(name)
    }
}
