//! Stock programs: `kubectl` and `helm`, run as they are, for what concerns a cluster.
//!
//! ```text
//! let stock = Stock::from_arguments(arguments)?;
//! let kubectl = stock.kubectl(kubeconfig).await?;   // found, its version asked, the API server's too
//! let helm = stock.helm(kubeconfig).await?;
//! ```
//!
//! [`program`] finds the file, [`call`] runs it once: what it reads comes by standard input, what it prints is bounded, how long
//! it takes is limited, and a signal to this command ends it ([`interrupt`]). [`kubectl`] and [`helm`] make typed results of
//! their `-o json`. The kubeconfig is a path: no secret is ever in an argument or the environment. Variables that would change
//! what a call means (`KUBECONFIG`, `HELM_…`) are taken away.

mod call;
mod code;
mod conditions;
mod error;
mod helm;
mod interrupt;
mod kubectl;
mod nodes;
mod object;
mod program;
mod raw;
mod restart;
#[cfg(test)]
mod tests;
mod tie;
mod version;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arguments::Arguments;

pub(crate) use call::Lines;
pub use code::StockCode;
pub(crate) use conditions::Conditions;
pub(crate) use error::StockError;
pub(crate) use helm::{ChartSource, Helm, Release, ReleaseState, Revision, Upgrade};
pub(crate) use kubectl::{Kubectl, Scope};
pub(crate) use object::Object;
pub(crate) use program::{Program, in_path};
pub(crate) use restart::RestartProgram;
pub(crate) use tie::tie;
pub(crate) use version::Version;

use interrupt::Interrupt;

/// The options by which a user names the programs.
pub(crate) const KUBECTL_OPTION: &str = "kubectl-program";
pub(crate) const HELM_OPTION: &str = "helm-program";

/// Where the programs come from, and how they are stopped. From its making on a signal ends a program that runs first, and
/// with it the command; where none runs, the command at once.
#[derive(Clone, Debug)]
pub(crate) struct Stock {
    kubectl: Option<PathBuf>,
    helm: Option<PathBuf>,
    interrupt: Arc<Interrupt>,
}

impl Stock {
    /// With the programs that the user names, or else the first in PATH.
    pub(crate) fn from_arguments(arguments: &Arguments) -> Self {
        Self::new(arguments.path(KUBECTL_OPTION), arguments.path(HELM_OPTION))
    }

    pub(crate) fn new(kubectl: Option<&Path>, helm: Option<&Path>) -> Self {
        let interrupt = Arc::new(Interrupt::new());
        Self { kubectl: kubectl.map(Into::into), helm: helm.map(Into::into), interrupt }
    }

    /// kubectl for the cluster of a kubeconfig. That it is there, that the API server answers, and that both fit is asked now.
    pub(crate) async fn kubectl(&self, kubeconfig: &Path) -> Result<Kubectl, StockError> {
        is_there(kubeconfig)?;
        let file = Program::Kubectl.find(self.kubectl.as_deref())?;
        Kubectl::connect(file, kubeconfig, self.interrupt.clone()).await
    }

    /// kubectl for a kubeconfig, and not for its API server, which is not asked.
    pub(crate) fn kubectl_alone(&self, kubeconfig: &Path) -> Result<Kubectl, StockError> {
        let file = Program::Kubectl.find(self.kubectl.as_deref())?;
        Ok(Kubectl::alone(file, kubeconfig, self.interrupt.clone()))
    }

    /// helm for the cluster of a kubeconfig. That it is there, and of a version that is known, is asked now.
    pub(crate) async fn helm(&self, kubeconfig: &Path) -> Result<Helm, StockError> {
        is_there(kubeconfig)?;
        let file = Program::Helm.find(self.helm.as_deref())?;
        Helm::connect(file, Some(kubeconfig), self.interrupt.clone()).await
    }

    /// helm without a cluster: it can render charts, and nothing else.
    pub(crate) async fn helm_alone(&self) -> Result<Helm, StockError> {
        let file = Program::Helm.find(self.helm.as_deref())?;
        Helm::connect(file, None, self.interrupt.clone()).await
    }
}

/// Without a kubeconfig the programs would ask an API server at localhost, and say that nobody answers there.
fn is_there(kubeconfig: &Path) -> Result<(), StockError> {
    if kubeconfig.exists() { Ok(()) } else { Err(StockError::NoKubeconfig { path: kubeconfig.to_owned() }) }
}
