//! The cluster of a machine that has its keys, driven from its repository: by the real kustomize-controller, the real Sealed Secrets and
//! the edge's programs as pods of the machine, and by the [stand-ins](super::flux) of Flux's other controllers.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use latchkey_sparkplug::Payload;
use latchkey_test_support::until;
use serde_json::Value;

use super::bootstrapped::NAMESPACE;
use super::broker::Listener;
use super::flux::StandIns;
use super::registering::Registering;
use crate::error::{HarnessError, io_error};
use crate::fleet::STEP;
use crate::kubernetes::path_with_programs;
use crate::service::Service;

const KUSTOMIZATION: &str = "kustomizations.kustomize.toolkit.fluxcd.io";
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

    /// The same, where the operator brings the bootstrap command of the cluster's page to a machine of his own: until the script has
    /// ended.
    ///
    /// # Panics
    /// As [`Self::first_reconciliation`].
    pub fn joined_by_hand(&self, flux: &StandIns, name: &str) -> Result<(), HarnessError> {
        let made = self.centre.reported(&["command", name])?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(made["command"].as_str().unwrap_or_default());
        shell.env("KUBECONFIG", self.site.fleet.path("admin.conf")).env("PATH", path_with_programs()?);
        let script = Service::spawn(&self.centre.run, "bootstrap-script", shell)?;
        script.console().expect("Flux is installed", STEP)?;
        flux.asked_for("self-link")?;
        self.first_reconciliation(flux)?;
        script.console().expect(&format!("The edge cluster {name} has joined."), STEP)?;
        if script.wait(STEP)?.success() {
            return Ok(());
        }
        Err(HarnessError::Unusable("the bootstrap script says that the cluster has joined, and fails".into()))
    }

    /// How long after its node the cluster's first Kustomization was ready, by the machine's clock and in whole seconds.
    pub fn driven_after(&self, node: &str) -> Result<Duration, HarnessError> {
        let driven = self.site.object_ready_at(NAMESPACE, &format!("{KUSTOMIZATION}/self-link"))?;
        driven.duration_since(self.site.ready_at(node)?).map_err(|error| HarnessError::Unusable(error.to_string()))
    }

    fn applied(&self, kustomization: &str, revision: &str) -> Result<(), HarnessError> {
        let object = format!("{KUSTOMIZATION}/{kustomization}");
        let kubectl = self.site.kubectl();
        kubectl.wait_for(NAMESPACE, &object, &format!("jsonpath={{.status.lastAppliedRevision}}={revision}"))?;
        kubectl.wait_for(NAMESPACE, &object, "condition=Ready")
    }

    /// The birth of the edge's monitor at the broker.
    ///
    /// # Panics
    /// If it is not in time.
    pub fn birth(&self, listener: &Listener, name: &str) -> Result<Payload, HarnessError> {
        self.runs("edge-monitor")?;
        let end = format!("-{name}/NBIRTH/Monitor");
        loop {
            let (topic, bytes) = listener.message()?;
            if topic.ends_with(&end) {
                return Payload::decode(&bytes).map_err(|error| HarnessError::Unusable(format!("{topic}: {error}")));
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

    /// `latchkey cluster seal`, once secrets can be sealed for the cluster, and what its Secret has then.
    ///
    /// # Panics
    /// As [`Self::reported_hosts`].
    pub fn sealed_and_opened(&self, flux: &StandIns, name: &str, value: &[u8]) -> Result<Vec<u8>, HarnessError> {
        self.reported_hosts(name)?;
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
