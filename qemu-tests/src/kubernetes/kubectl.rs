//! Stock kubectl, for whoever has a kubeconfig.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::program;
use crate::error::HarnessError;
use crate::process::output;

/// Who asks.
#[derive(Debug, Clone)]
pub struct Kubectl {
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// Who this kubeconfig says.
    pub fn of(kubeconfig: impl Into<PathBuf>) -> Self {
        Self { kubeconfig: kubeconfig.into() }
    }

    /// With these arguments. What it remembers of the API server lies beside the kubeconfig, and not in its user's home.
    pub fn command(&self, arguments: &[&str]) -> Result<Command, HarnessError> {
        let mut kubectl = Command::new(program("kubectl")?);
        kubectl.arg("--kubeconfig").arg(&self.kubeconfig);
        kubectl.arg("--cache-dir").arg(self.kubeconfig.with_extension("cache")).args(arguments);
        Ok(kubectl)
    }

    /// What it prints.
    pub fn ask(&self, arguments: &[&str]) -> Result<String, HarnessError> {
        output(&mut self.command(arguments)?)
    }

    /// An object, or a list, by its path.
    pub fn get(&self, path: &str) -> Result<Value, HarnessError> {
        let text = self.ask(&["get", "--raw", path])?;
        serde_json::from_str(&text).map_err(|error| HarnessError::Unusable(format!("{path}: {error}")))
    }

    /// Waits until this is so of an object, `KIND/NAME`: `create`, `condition=…`, `jsonpath=…`.
    pub fn wait_for(&self, namespace: &str, object: &str, what: &str) -> Result<(), HarnessError> {
        self.ask(&["--namespace", namespace, "wait", object, &format!("--for={what}"), "--timeout=9m"]).map(drop)
    }

    /// The kubeconfig.
    pub fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }
}
