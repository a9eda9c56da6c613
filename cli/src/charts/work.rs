//! What all commands of charts need, and bringing a release into a state that can be worked on.

use std::path::Path;
use std::time::{Duration, Instant};

use super::file::{Chart, ChartsFile};
use super::lock::Lock;
use super::situation::Situation;
use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::output::{Output, Tone, printable};
use crate::stock::{Helm, Kubectl, Stock, StockCode};

/// How long a removal may take if the chart is not waited for.
const REMOVAL: Duration = Duration::from_mins(5);

/// The programs, the cluster, and how to work on it.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) kubectl: Kubectl,
    pub(crate) helm: Helm,
    options: Options,
}

/// What the user says about how.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Print each line that helm says of its work.
    pub(crate) debug: bool,
    /// What was begun and not ended is nobody's.
    pub(crate) take_over: bool,
}

impl Options {
    pub(crate) fn from_arguments(arguments: &Arguments) -> Self {
        Self { debug: arguments.has("debug"), take_over: arguments.has("take-over") }
    }
}

impl Work {
    /// Finds the programs, and asks whether all fits.
    pub(crate) async fn begin(stock: &Stock, kubeconfig: &Path, options: Options) -> Result<Self, CommandError> {
        let helm = stock.helm(kubeconfig).await?;
        let kubectl = stock.kubectl(kubeconfig).await?;
        Ok(Self { kubectl, helm, options })
    }

    pub(crate) async fn situation(&self, chart: &Chart) -> Result<Situation, CommandError> {
        Ok(Situation::of(&self.helm.history(&chart.namespace, &chart.name).await?))
    }

    /// Ends what was begun and not ended, and deletes what never worked: afterwards the release is absent, or deployed, or its
    /// last upgrade failed.
    pub(crate) async fn mend(&self, chart: &Chart, lock: Mending, output: &Output) -> Result<Situation, CommandError> {
        let Chart { name, namespace, .. } = chart;
        let situation = self.situation(chart).await?;
        if situation.begun() && !lock.nobody_is_at_it && !self.options.take_over {
            let what = format!("{name}: somebody's helm works on this release, or was interrupted");
            let error = CommandError::local(StockCode::ReleaseBusy, what);
            return Err(error.fix("wait until it is done; if nobody works on it, say --take-over"));
        }
        match situation {
            Situation::Absent | Situation::Deployed | Situation::UpgradeFailed { .. } => return Ok(situation),
            Situation::Removed => {
                let what = format!("{name}: the release was removed by hand, and its history kept");
                let error = CommandError::local(CommandCode::ReleaseRemoved, what);
                return Err(
                    error.fix(format!("`helm uninstall --namespace {namespace} {name}` forgets the history, too"))
                );
            }
            Situation::NeverWorked | Situation::InstallBegun | Situation::RemovalBegun => {
                output.waiting(&format!("{name}: helm uninstall"));
                self.helm.uninstall(namespace, name, chart.wait.unwrap_or(REMOVAL)).await?;
                output.say(Tone::Warning, "deleted", &format!("{name}: {}", why_deleted(situation)));
            }
            Situation::UpgradeBegun { good } => {
                output.waiting(&format!("{name}: helm rollback to revision {good}"));
                self.helm.rollback(namespace, name, good, chart.wait).await?;
                let text = format!("{name}: an upgrade was interrupted; revision {good} serves again");
                output.say(Tone::Warning, "rolled back", &text);
            }
        }
        let mended = self.situation(chart).await?;
        if matches!(mended, Situation::Absent | Situation::Deployed) {
            return Ok(mended);
        }
        Err(CommandError::local(
            StockCode::ReleaseBusy,
            format!("{name}: helm says that it was mended, and it was not"),
        ))
    }

    /// Installs a chart of which there is no release.
    pub(crate) async fn install(&self, chart: &Chart, output: &Output) -> Result<(), CommandError> {
        let (name, begun) = (&chart.name, Instant::now());
        output.waiting(&format!("{name}: helm install"));
        let mut show = |line: &str| debug_line(output, name, line);
        let lines: crate::stock::Lines<'_> = if self.options.debug { Some(&mut show) } else { None };
        self.helm.install(&chart.upgrade(), lines).await.map_err(|error| CommandError::from(error).about(name))?;
        let serving = self.situation(chart).await?;
        if serving != Situation::Deployed {
            let what = format!("{name}: helm says that it installed the chart, and there is no release that serves");
            return Err(CommandError::local(StockCode::Failed, what));
        }
        output.say(Tone::Good, "installed", &format!("{name} in {:.1} s", begun.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Upgrades a release; what fails is rolled back by helm.
    pub(crate) async fn upgrade(&self, chart: &Chart, output: &Output) -> Result<(), CommandError> {
        let name = &chart.name;
        output.waiting(&format!("{name}: helm upgrade"));
        let mut show = |line: &str| debug_line(output, name, line);
        let lines: crate::stock::Lines<'_> = if self.options.debug { Some(&mut show) } else { None };
        self.helm.upgrade(&chart.upgrade(), lines).await.map_err(|error| CommandError::from(error).about(name))
    }
}

/// What is known of who else may be at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mending {
    nobody_is_at_it: bool,
}

impl From<&Lock> for Mending {
    fn from(lock: &Lock) -> Self {
        Self { nobody_is_at_it: lock.taken_over }
    }
}

/// A line of helm, with the chart that it is about.
fn debug_line(output: &Output, name: &str, line: &str) {
    output.say(Tone::Faint, "helm", &format!("{name}: {}", printable(line)));
}

fn why_deleted(situation: Situation) -> &'static str {
    match situation {
        Situation::RemovalBegun => "its removal was begun and not ended",
        Situation::InstallBegun => "its installation was begun and not ended",
        _ => "its installation had failed",
    }
}

/// The charts file that the arguments name.
pub(crate) fn charts_file(arguments: &Arguments) -> Result<ChartsFile, CommandError> {
    ChartsFile::read(arguments.required_path("charts")?)
}
