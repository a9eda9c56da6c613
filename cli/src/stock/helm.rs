//! helm.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::call::{Call, Ended, Lines};
use super::error::code_of;
use super::interrupt::Interrupt;
use super::{Program, StockCode, StockError, Version};

/// Charts by digest, and dry runs on the server's side, are all there since this one; helm 4 has other flags.
const OLDEST: Version = Version { major: 3, minor: 18, patch: 0 };
const NEXT_MAJOR: u16 = 4;
/// How long what asks only may take.
const ALLOWED: Duration = Duration::from_secs(90);
/// How often helm may wait for so long: for the hooks before, the objects, the hooks after; and for those of a rollback.
const WAITS: u32 = 6;
/// Beside what helm is told to wait: it renders, loads charts, and writes.
const OVERHEAD: Duration = Duration::from_mins(2);
/// A release is in one Secret (1 MiB, compressed); what it renders to is more.
const MANIFEST: usize = 64 << 20;
const MAX_RELEASES: usize = 1000;
/// Revisions of a release that are kept.
const HISTORY: &str = "10";

/// Stock helm, for one cluster or for none.
#[derive(Clone, Debug)]
pub(crate) struct Helm {
    file: PathBuf,
    kubeconfig: Option<PathBuf>,
    interrupt: Option<Arc<Interrupt>>,
}

/// Where a chart is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChartSource {
    /// A directory or an archive.
    File(PathBuf),
    /// `oci://REGISTRY/REPOSITORY@sha256:DIGEST`, which no registry can answer with something else.
    Registry(String),
}

/// What a release is to be made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upgrade<'a> {
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) chart: &'a ChartSource,
    /// JSON or YAML; empty: those of the chart.
    pub(crate) values: &'a [u8],
    /// How long its objects may take to get ready; `None` does not wait for them.
    pub(crate) wait: Option<Duration>,
    /// Whether a first installation brings the custom resource definitions of the chart's `crds` directory.
    pub(crate) crds: bool,
}

/// The state of a release or of one of its revisions, in helm's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReleaseState {
    Unknown,
    Deployed,
    Uninstalled,
    Superseded,
    Failed,
    Uninstalling,
    PendingInstall,
    PendingUpgrade,
    PendingRollback,
}

impl ReleaseState {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Deployed => "deployed",
            Self::Uninstalled => "uninstalled",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
            Self::Uninstalling => "uninstalling",
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
        }
    }
}

/// A release, as its last revision stands.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Release {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) revision: String,
    pub(crate) status: ReleaseState,
    /// Name and version of the chart: `flannel-0.26.7`.
    pub(crate) chart: String,
    pub(crate) app_version: String,
}

/// What a release is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// Its objects and its hooks, as YAML documents. Secrets are among them.
    pub(crate) manifest: String,
    /// Name and version of the chart, as in [`Release::chart`].
    pub(crate) chart: String,
}

#[derive(Deserialize)]
struct DryRun {
    manifest: String,
    hooks: Option<Vec<Hook>>,
    chart: Chart,
}

#[derive(Deserialize)]
struct Hook {
    path: String,
    manifest: String,
}

#[derive(Deserialize)]
struct Chart {
    metadata: ChartMetadata,
}

#[derive(Deserialize)]
struct ChartMetadata {
    name: String,
    version: String,
}

/// One revision of a release.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Revision {
    #[serde(rename = "revision")]
    pub(crate) number: u64,
    pub(crate) status: ReleaseState,
    pub(crate) chart: String,
    pub(crate) description: String,
}

impl Helm {
    pub(super) async fn connect(
        file: PathBuf,
        kubeconfig: Option<&Path>,
        interrupt: Arc<Interrupt>,
    ) -> Result<Self, StockError> {
        let driver = std::env::var_os("HELM_DRIVER").unwrap_or_default();
        if !keeps_secrets(&driver) {
            return Err(StockError::Driver { driver: driver.to_string_lossy().into_owned() });
        }
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let helm = Self { file, kubeconfig: kubeconfig.map(absolute), interrupt: Some(interrupt) };
        let call = helm.call(["version", "--template={{.Version}}"], [], ALLOWED);
        let shown = call.shown();
        let printed = helm.run(call).await?;
        let malformed = |reason| StockError::Malformed { call: shown.clone(), reason };
        let found: Version = String::from_utf8_lossy(&printed).parse().map_err(malformed)?;
        let needed = format!("this command works with helm {}.{} to the last of helm 3", OLDEST.major, OLDEST.minor);
        let program = Program::Helm;
        if found < OLDEST {
            return Err(StockError::TooOld { program, found, needed });
        }
        if found.major >= NEXT_MAJOR {
            return Err(StockError::TooNew { program, found, needed });
        }
        Ok(helm)
    }

    /// The same, for what has to be known after the command was told to stop.
    pub(crate) fn uninterrupted(&self) -> Self {
        Self { interrupt: None, ..self.clone() }
    }

    /// All releases of all namespaces, whatever their state.
    pub(crate) async fn list(&self) -> Result<Vec<Release>, StockError> {
        let max = format!("--max={MAX_RELEASES}");
        let flags = ["list", "--all", "--all-namespaces", "--output=json", &max];
        let releases: Vec<Release> = self.typed(self.call(flags, [], ALLOWED)).await?;
        if releases.len() < MAX_RELEASES {
            return Ok(releases);
        }
        Err(StockError::TooLong { call: format!("helm list (more than {MAX_RELEASES} releases)"), limit: MAX_RELEASES })
    }

    /// The revisions of a release, oldest first; none if there is no such release.
    pub(crate) async fn history(&self, namespace: &str, name: &str) -> Result<Vec<Revision>, StockError> {
        let call = self.call(["history", "--output=json", &in_namespace(namespace)], [name], ALLOWED);
        match self.typed(call).await {
            Err(StockError::Failed { said, .. }) if said.contains("release: not found") => Ok(Vec::new()),
            revisions => revisions,
        }
    }

    /// What the release's last revision was rendered to, with its hooks.
    pub(crate) async fn manifest(&self, namespace: &str, name: &str) -> Result<String, StockError> {
        let mut manifest = String::new();
        for what in ["manifest", "hooks"] {
            let printed = self.run(self.call(["get", what, &in_namespace(namespace)], [name], ALLOWED)).await?;
            manifest.push_str(&String::from_utf8_lossy(&printed));
        }
        Ok(manifest)
    }

    /// Installs a release of a name that is not in use. What fails stays, to be looked at. Only to somebody who takes its lines
    /// does helm tell all that it does.
    pub(crate) async fn install(&self, upgrade: &Upgrade<'_>, lines: Lines<'_>) -> Result<(), StockError> {
        let mut flags = vec!["install".into(), "--create-namespace".into()];
        flags.extend(upgrade.wait.map(|_| "--wait".into()));
        if !upgrade.crds {
            flags.push("--skip-crds".into());
        }
        self.change(flags, upgrade, lines).await
    }

    /// Upgrades a release; what fails is rolled back by helm itself. Values are those given, and the chart's for all others.
    pub(crate) async fn upgrade(&self, upgrade: &Upgrade<'_>, lines: Lines<'_>) -> Result<(), StockError> {
        let history = format!("--history-max={HISTORY}");
        let flags = ["upgrade", "--reset-values", "--atomic", "--cleanup-on-fail", &history].map(OsString::from);
        self.change(flags.to_vec(), upgrade, lines).await
    }

    /// What an upgrade would make of the release; the API server is asked, nothing is changed.
    pub(crate) async fn dry_run(&self, upgrade: &Upgrade<'_>) -> Result<Rendered, StockError> {
        let flags = ["upgrade", "--reset-values", "--dry-run=server", "--output=json"].map(OsString::from);
        let DryRun { manifest, hooks, chart } = self.typed(self.with_chart(flags.to_vec(), upgrade, ALLOWED)).await?;
        let ChartMetadata { name, version } = chart.metadata;
        let hooks = hooks.unwrap_or_default();
        let hooks = hooks.into_iter().map(|hook| format!("---\n# Source: {}\n{}\n", hook.path, hook.manifest));
        let manifest = [manifest, hooks.collect()].concat();
        Ok(Rendered { manifest, chart: format!("{name}-{version}") })
    }

    /// What a chart renders to with these values, no cluster asked.
    pub(crate) async fn template(&self, upgrade: &Upgrade<'_>) -> Result<String, StockError> {
        let call = self.with_chart(vec!["template".into()], upgrade, ALLOWED);
        Ok(String::from_utf8_lossy(&self.run(call).await?).into_owned())
    }

    /// The custom resource definitions in the chart's `crds` directories.
    pub(crate) async fn custom_resource_definitions(&self, chart: &ChartSource) -> Result<Vec<u8>, StockError> {
        let call = self.call_os(["show", "crds"].map(OsString::from).to_vec(), vec![chart.argument()], ALLOWED);
        self.run(call).await
    }

    /// Removes a release with its history, and waits until its objects are gone.
    pub(crate) async fn uninstall(&self, namespace: &str, name: &str, allowed: Duration) -> Result<(), StockError> {
        let timeout = format!("--timeout={}s", allowed.as_secs());
        let flags = ["uninstall", "--ignore-not-found", "--wait", &timeout, &in_namespace(namespace)];
        self.run(self.call(flags, [name], allowed * WAITS / 2 + OVERHEAD)).await.map(drop)
    }

    /// Makes an earlier revision the release's state again, as a new revision.
    pub(crate) async fn rollback(
        &self,
        namespace: &str,
        name: &str,
        revision: u64,
        wait: Option<Duration>,
    ) -> Result<(), StockError> {
        let allowed = wait.unwrap_or(ALLOWED);
        let timeout = format!("--timeout={}s", allowed.as_secs());
        let history = format!("--history-max={HISTORY}");
        let (namespace, revision) = (in_namespace(namespace), revision.to_string());
        let mut flags = vec!["rollback", "--cleanup-on-fail", &timeout, &history, &namespace];
        flags.extend(wait.map(|_| "--wait"));
        self.run(self.call(flags, [name, &revision], allowed * WAITS / 2 + OVERHEAD)).await.map(drop)
    }

    async fn change(
        &self,
        mut flags: Vec<OsString>,
        upgrade: &Upgrade<'_>,
        lines: Lines<'_>,
    ) -> Result<(), StockError> {
        let wait = upgrade.wait.unwrap_or(ALLOWED);
        flags.push(format!("--timeout={}s", wait.as_secs()).into());
        if lines.is_some() {
            flags.push("--debug".into());
        }
        let call = self.with_chart(flags, upgrade, wait * WAITS + OVERHEAD);
        self.heard(call, lines).await.map(drop)
    }

    fn with_chart<'a>(&'a self, mut flags: Vec<OsString>, upgrade: &Upgrade<'a>, allowed: Duration) -> Call<'a> {
        flags.push(in_namespace(upgrade.namespace).into());
        if !upgrade.values.is_empty() {
            flags.push("--values=-".into());
        }
        let call = self.call_os(flags, vec![upgrade.name.into(), upgrade.chart.argument()], allowed);
        Call { input: upgrade.values, ..call }
    }

    fn call<'a, 'b>(
        &'a self,
        flags: impl IntoIterator<Item = &'b str>,
        operands: impl IntoIterator<Item = &'b str>,
        allowed: Duration,
    ) -> Call<'a> {
        let os = |text: &str| OsString::from(text);
        self.call_os(flags.into_iter().map(os).collect(), operands.into_iter().map(os).collect(), allowed)
    }

    fn call_os(&self, mut flags: Vec<OsString>, operands: Vec<OsString>, allowed: Duration) -> Call<'_> {
        if let Some(kubeconfig) = &self.kubeconfig {
            flags.extend(["--kubeconfig".into(), kubeconfig.clone().into_os_string()]);
        }
        if !operands.is_empty() {
            flags.push("--".into());
            flags.extend(operands);
        }
        let file = &self.file;
        Call { program: Program::Helm, file, arguments: flags, input: &[], limit: MANIFEST, allowed }
    }

    async fn run(&self, call: Call<'_>) -> Result<Vec<u8>, StockError> {
        self.heard(call, None).await
    }

    async fn heard(&self, call: Call<'_>, lines: Lines<'_>) -> Result<Vec<u8>, StockError> {
        let shown = call.shown();
        let Ended { status, stdout, said } = call.run(self.interrupt.as_deref(), lines).await?;
        if status.success() {
            return Ok(stdout);
        }
        let said = its_error(&said);
        Err(StockError::Failed { call: shown, code: helm_code_of(&said), said })
    }

    async fn typed<T: serde::de::DeserializeOwned>(&self, call: Call<'_>) -> Result<T, StockError> {
        let shown = call.shown();
        let printed = self.run(call).await?;
        serde_json::from_slice(&printed)
            .map_err(|error| StockError::Malformed { call: shown, reason: error.to_string() })
    }
}

impl ChartSource {
    fn argument(&self) -> OsString {
        match self {
            Self::File(path) => path.clone().into_os_string(),
            Self::Registry(reference) => reference.into(),
        }
    }
}

/// Whether helm by hand keeps its releases where this command looks for them.
pub(super) fn keeps_secrets(driver: &OsStr) -> bool {
    ["", "secret", "secrets"].iter().any(|one| driver == *one)
}

fn in_namespace(namespace: &str) -> String {
    format!("--namespace={namespace}")
}

/// The error at the end of what helm says, without what it tells of its own functions.
fn its_error(said: &str) -> String {
    let Some(at) = said.rfind("Error: ") else { return said.to_owned() };
    let lines = said.get(at..).unwrap_or_default().lines();
    lines.take_while(|line| !line.contains("[debug]")).collect::<Vec<_>>().join("\n")
}

fn helm_code_of(said: &str) -> StockCode {
    const REASONS: [(&str, StockCode); 13] = [
        ("another operation (install/upgrade/rollback) is in progress", StockCode::ReleaseBusy),
        ("cannot re-use a name that is still in use", StockCode::ReleaseBusy),
        ("values don't meet the specifications of the schema", StockCode::ValuesInvalid),
        ("failed to parse", StockCode::ValuesInvalid),
        ("error converting YAML to JSON", StockCode::ValuesInvalid),
        ("execution error at", StockCode::ValuesInvalid),
        ("Chart.yaml file is missing", StockCode::ChartUnusable),
        ("chart metadata is missing", StockCode::ChartUnusable),
        ("failed to download", StockCode::ChartUnusable),
        ("does not appear to be a gzipped archive", StockCode::ChartUnusable),
        ("parse error at", StockCode::ChartUnusable),
        ("chart requires kubeVersion", StockCode::ChartUnusable),
        ("missing in charts/ directory", StockCode::ChartUnusable),
    ];
    const LATE: [&str; 2] = ["context deadline exceeded", "timed out waiting for the condition"];
    if let Some((_, code)) = REASONS.iter().find(|(words, _)| said.contains(words)) {
        return *code;
    }
    match code_of(said) {
        StockCode::Failed if LATE.iter().any(|words| said.contains(words)) => StockCode::NotReady,
        code => code,
    }
}
