//! The cluster of a machine that has its keys, driven from its repository: by the real kustomize-controller, the real Sealed Secrets and
//! the edge's programs as pods of the machine, and by the [stand-ins](super::flux) of Flux's other controllers.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use latchkey_sparkplug::Payload;
use latchkey_test_support::until;
use serde_json::Value;

use super::bootstrapped::NAMESPACE;
use super::broker::Listener;
use super::flux::StandIns;
use super::registering::Registering;
use crate::error::{HarnessError, io_error};

/// Where `latchkey cluster seal` puts the secret.
const SECRET: (&str, &str) = ("plc", "password");

impl Registering {
    /// The repository is applied for the first time: until its Kustomization is ready, with what helm installs for it.
    ///
    /// # Panics
    /// If the repository has no release.
    pub fn first_reconciliation(&self, flux: &StandIns) -> Result<(), HarnessError> {
        let kubectl = self.site.kubectl();
        kubectl.wait_for("flux-system", "deployment/kustomize-controller", "condition=Available")?;
        let revision = flux.fetch(&self.centre, "self-link")?;
        flux.fetch(&self.centre, "helm-charts")?;
        flux.install_releases()?;
        self.applied("self-link", &revision)
    }

    fn applied(&self, kustomization: &str, revision: &str) -> Result<(), HarnessError> {
        let object = format!("kustomizations.kustomize.toolkit.fluxcd.io/{kustomization}");
        let kubectl = self.site.kubectl();
        kubectl.wait_for(NAMESPACE, &object, &format!("jsonpath={{.status.lastAppliedRevision}}={revision}"))?;
        kubectl.wait_for(NAMESPACE, &object, "condition=Ready")
    }

    /// The edge's monitor is born at the broker: topic and message.
    ///
    /// # Panics
    /// If it is not in time.
    pub fn birth(&self, listener: &Listener) -> Result<(String, Payload), HarnessError> {
        self.runs("edge-monitor")?;
        loop {
            let (topic, bytes) = listener.message()?;
            if topic.contains("/NBIRTH/") {
                let payload = Payload::decode(&bytes);
                let payload = payload.map_err(|error| HarnessError::Unusable(format!("{topic}: {error}")))?;
                return Ok((topic, payload));
            }
        }
    }

    fn runs(&self, deployment: &str) -> Result<(), HarnessError> {
        let object = format!("deployment/{deployment}");
        self.site.kubectl().wait_for(NAMESPACE, &object, "condition=Available")
    }

    /// The hosts that the centre lists for the cluster, and that secrets can be sealed for it.
    ///
    /// # Panics
    /// If Edge Sync has not told of them in time.
    pub fn reported_hosts(&self, name: &str) -> Result<Value, HarnessError> {
        self.runs("edge-sync")?;
        let shown = until("hosts and certificate at the centre", || {
            let shown = self.centre.reported(&["show", name]).ok()?;
            (shown["sealing"] == true && shown["hosts"].as_array().is_some_and(|all| !all.is_empty())).then_some(shown)
        });
        Ok(shown["hosts"].clone())
    }

    /// `latchkey cluster seal`, and what the cluster's Secret has then.
    pub fn sealed_and_opened(&self, flux: &StandIns, name: &str, value: &[u8]) -> Result<Vec<u8>, HarnessError> {
        let path = self.centre.run.write("value", value)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(io_error("chmod", &path))?;
        let (secret, key) = SECRET;
        let place = format!("{NAMESPACE}/{secret}/{key}");
        let path = path.display().to_string();
        self.centre.reported(&["seal", name, "--secret", &place, "--value-file", &path])?;
        let revision = flux.fetch(&self.centre, "self-link")?;
        self.applied("secrets", &revision)?;
        self.site.kubectl().wait_for(NAMESPACE, &format!("secret/{secret}"), "create")?;
        self.secret(secret, key)
    }
}
