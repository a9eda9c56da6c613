//! What all commands of charts need, and bringing a release into a state that can be worked on.

use std::path::Path;
use std::time::{Duration, Instant};

use super::file::{Chart, ChartsFile};
use super::lock::Lock;
use super::situation::{Situation, Standing};
use crate::arguments::Arguments;
use crate::backup::Backup;
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

    /// How a release stands. One that is half done is refused, unless it is known that nobody works on it.
    pub(crate) async fn standing(&self, chart: &Chart, lock: &Lock) -> Result<Situation, CommandError> {
        let standing = Standing::of(&self.helm.history(&chart.namespace, &chart.name).await?);
        if !standing.situation.begun() {
            lock.settled(chart).await?;
        } else if !lock.left(chart, standing) && !self.options.take_over {
            let what = format!("{}: somebody's helm works on this release, or was interrupted", chart.name);
            return Err(CommandError::local(StockCode::ReleaseBusy, what));
        }
        Ok(standing.situation)
    }

    /// How a release stands, for who only looks.
    pub(crate) async fn situation(&self, chart: &Chart) -> Result<Situation, CommandError> {
        Ok(Situation::of(&self.helm.history(&chart.namespace, &chart.name).await?))
    }

    /// Ends an upgrade that was begun and not ended: the revision that served last serves again. Whatever the upgrade brought goes,
    /// so there is a backup.
    pub(crate) async fn roll_back(
        &self,
        chart: &Chart,
        good: u64,
        lock: &Lock,
        _: &Backup,
        output: &Output,
    ) -> Result<(), CommandError> {
        let Chart { name, namespace, .. } = chart;
        output.waiting(&format!("{name}: helm rollback to revision {good}"));
        let rollback = async { Ok(self.helm.rollback(namespace, name, good, chart.wait).await?) };
        lock.changing(&self.helm, chart, rollback).await?;
        self.expect(chart, Situation::Deployed).await?;
        let text = format!("{name}: an upgrade was interrupted; revision {good} serves again");
        output.say(Tone::Warning, "rolled back", &text);
        Ok(())
    }

    /// Deletes a release that never worked, with what its templates define, so there is a backup.
    pub(crate) async fn remove(
        &self,
        chart: &Chart,
        why: &str,
        lock: &Lock,
        _: &Backup,
        output: &Output,
    ) -> Result<(), CommandError> {
        let Chart { name, namespace, .. } = chart;
        output.waiting(&format!("{name}: helm uninstall"));
        let removal = async { Ok(self.helm.uninstall(namespace, name, chart.wait.unwrap_or(REMOVAL)).await?) };
        lock.changing(&self.helm, chart, removal).await?;
        self.expect(chart, Situation::Absent).await?;
        output.say(Tone::Warning, "deleted", &format!("{name}: {why}"));
        Ok(())
    }

    /// What helm says of itself is compared with what it wrote.
    async fn expect(&self, chart: &Chart, wanted: Situation) -> Result<(), CommandError> {
        if self.situation(chart).await? == wanted {
            return Ok(());
        }
        let what = format!("{}: helm says that it was mended, and it was not", chart.name);
        Err(CommandError::local(StockCode::Failed, what))
    }

    /// Installs a chart of which there is no release.
    pub(crate) async fn install(&self, chart: &Chart, lock: &Lock, output: &Output) -> Result<(), CommandError> {
        let (name, begun) = (&chart.name, Instant::now());
        output.waiting(&format!("{name}: helm install"));
        let mut show = |line: &str| debug_line(output, name, line);
        let lines: crate::stock::Lines<'_> = if self.options.debug { Some(&mut show) } else { None };
        let installation = async {
            self.helm.install(&chart.upgrade(), lines).await.map_err(|error| CommandError::from(error).about(name))
        };
        lock.changing(&self.helm, chart, installation).await?;
        let serving = self.situation(chart).await?;
        if serving != Situation::Deployed {
            let what = format!("{name}: helm says that it installed the chart, and there is no release that serves");
            return Err(CommandError::local(StockCode::Failed, what));
        }
        output.say(Tone::Good, "installed", &format!("{name} in {:.1} s", begun.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Upgrades a release; what fails is rolled back by helm.
    pub(crate) async fn upgrade(&self, chart: &Chart, lock: &Lock, output: &Output) -> Result<(), CommandError> {
        let name = &chart.name;
        output.waiting(&format!("{name}: helm upgrade"));
        let mut show = |line: &str| debug_line(output, name, line);
        let lines: crate::stock::Lines<'_> = if self.options.debug { Some(&mut show) } else { None };
        let upgrade = async {
            self.helm.upgrade(&chart.upgrade(), lines).await.map_err(|error| CommandError::from(error).about(name))
        };
        lock.changing(&self.helm, chart, upgrade).await
    }
}

/// A line of helm, with the chart that it is about.
fn debug_line(output: &Output, name: &str, line: &str) {
    output.say(Tone::Faint, "helm", &format!("{name}: {}", printable(line)));
}

/// Why a release that stands like this is neither installed nor upgraded: what it is has to be found out by a person.
pub(crate) fn not_to_mend(name: &str, namespace: &str, situation: Situation) -> CommandError {
    let (code, what) = match situation {
        Situation::Removed => {
            (CommandCode::ReleaseRemoved, format!("{name}: the release was removed by hand, and its history kept"))
        }
        Situation::HistoryCut => {
            let what =
                format!("{name}: no revision of the release that worked is known, and helm forgot its first ones");
            (CommandCode::ReleaseUnclear, what)
        }
        Situation::RemovalBegun => {
            (CommandCode::ReleaseNotInstalled, format!("{name}: the release's removal was begun and not ended"))
        }
        _ => (
            CommandCode::ReleaseNotInstalled,
            format!("{name}: the release never worked, so there is nothing to upgrade"),
        ),
    };
    let failure = CommandError::local(code, what);
    match situation {
        Situation::Removed => {
            failure.fix(format!("`helm uninstall --namespace {namespace} {name}` forgets the history, too"))
        }
        _ => failure,
    }
}

/// The charts file that the arguments name.
pub(crate) fn charts_file(arguments: &Arguments) -> Result<ChartsFile, CommandError> {
    ChartsFile::read(arguments.required_path("charts")?)
}
