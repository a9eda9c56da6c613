//! A STAND-IN for Flux's helm-controller, which no Go module has in a form that builds here: it runs real helm for each `HelmRelease`,
//! with the chart that the source's stand-in fetched, and fills the status. Its kind is defined without its fields, which the
//! controller's module has and no other.

use std::fs;
use std::process::Command;

use latchkey_test_support::until;
use serde_json::{Value, json};

use super::{StandIns, text};
use crate::error::{HarnessError, io_error};
use crate::kubernetes::program;
use crate::process::output;

/// Its kind: group, version, kind, plural.
pub(super) const KIND: [&str; 4] = ["helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"];

impl StandIns {
    /// Installs, or upgrades, what every `HelmRelease` of the namespace asks for, once there is one: their names.
    ///
    /// # Panics
    /// If there is none in time.
    pub fn install_releases(&self) -> Result<Vec<String>, HarnessError> {
        let [group, version, _, plural] = KIND;
        let path = self.path(&format!("{group}/{version}"), plural);
        let releases = until("a release", || {
            let all = self.kubectl.get(&path).ok()?;
            all["items"].as_array().filter(|releases| !releases.is_empty()).cloned()
        });
        releases.iter().map(|release| self.installed(release)).collect()
    }

    fn installed(&self, release: &Value) -> Result<String, HarnessError> {
        let name = text(release, "/metadata/name")?;
        let chart = self.clone_of(text(release, "/spec/chart/spec/sourceRef/name")?);
        let chart = chart.join(text(release, "/spec/chart/spec/chart")?);
        let values = self.clones.join(format!("{name}.values.json"));
        fs::write(&values, release["spec"]["values"].to_string()).map_err(io_error("write", &values))?;
        let mut helm = Command::new(program("helm")?);
        helm.args(["upgrade", "--install", name]).arg(chart).arg("--values").arg(values);
        helm.args(["--namespace", &self.namespace, "--kubeconfig"]).arg(self.kubectl.kubeconfig());
        output(helm.env_clear().env("HOME", &self.clones))?;
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "InstallSucceeded", "message": "installed by stock helm",
            "lastTransitionTime": release["metadata"]["creationTimestamp"],
        });
        let status = json!({ "observedGeneration": release["metadata"]["generation"], "conditions": [ready] });
        let [group, _, _, plural] = KIND;
        self.set_status(&format!("{plural}.{group}/{name}"), &status)?;
        Ok(name.to_owned())
    }
}
