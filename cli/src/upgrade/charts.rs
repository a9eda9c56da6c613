//! `latchkey upgrade execute --helm`: charts, and nothing else.
//!
//! In the order of a run: the lock; releases that cannot be upgraded are refused; what was interrupted is rolled back; what would
//! change is asked of helm; then each chart, atomically. Before the first change, a roll-back included, there is the backup. That a chart which fails was rolled back is not believed: helm's history is read.

use std::fmt::Write as _;
use std::time::Instant;

use serde::Serialize;

use super::changes::{self, Change};
use crate::arguments::Arguments;
use crate::backup::{self, Backup, BackupOnce, BackupReport};
use crate::charts::{Chart, ChartsFile, Crds, Lock, Options, Situation, Work, charts_file, not_to_mend};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table, Tone, printable};
use crate::stock::{Stock, StockCode, StockError};

pub(super) fn execute(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    // The table lets it be left out, since Kubernetes is upgraded without it.
    arguments.required_path("charts")?;
    let charts = charts_file(arguments)?;
    let kubeconfig = arguments.required_path("kubeconfig")?;
    let stock = Stock::from_arguments(arguments);
    let backups = backup::directory(arguments);
    let report = smol::block_on(async {
        let work = Work::begin(&stock, kubeconfig, Options::from_arguments(arguments)).await?;
        if arguments.has("dry-run") {
            let plan = Plan::of(&work, &charts, output).await?;
            return Ok(UpgradeReport { dry_run: true, backup: None, charts: plan.rows(Done::Would) });
        }
        let lock = Lock::take(&work.kubectl, output).await?;
        let upgrading = async {
            let mut backup = BackupOnce::new(&work.kubectl, &backups, output);
            mend(&work, &charts, &lock, &mut backup, output).await?;
            let plan = Plan::of(&work, &charts, output).await?;
            for chart in plan.changed() {
                upgrade(&work, chart, &lock, backup.get().await?, output).await?;
            }
            Ok(UpgradeReport { dry_run: false, backup: backup.report(), charts: plan.rows(Done::Upgraded) })
        };
        Box::pin(lock.held(upgrading)).await
    })?;
    output.report(&report)
}

/// Has every release stand so that it can be upgraded. What never worked is not touched: there is nothing to upgrade.
async fn mend(
    work: &Work,
    charts: &ChartsFile,
    lock: &Lock,
    backup: &mut BackupOnce<'_>,
    output: &Output,
) -> Result<(), CommandError> {
    let mut begun = Vec::new();
    for chart in &charts.charts {
        if let Situation::UpgradeBegun { .. } = upgradable(chart, work.situation(chart).await?)? {
            begun.push(chart);
        }
    }
    for chart in begun {
        if let Situation::UpgradeBegun { good } = work.standing(chart, lock).await? {
            work.roll_back(chart, good, lock, backup.get().await?, output).await?;
        }
    }
    Ok(())
}

fn upgradable(chart: &Chart, situation: Situation) -> Result<Situation, CommandError> {
    match situation {
        Situation::Absent | Situation::Deployed | Situation::UpgradeFailed { .. } | Situation::UpgradeBegun { .. } => {
            Ok(situation)
        }
        other => Err(not_to_mend(&chart.name, &chart.namespace, other)),
    }
}

/// What is to be done, chart by chart.
struct Plan<'a>(Vec<(&'a Chart, Step)>);

enum Step {
    /// There is no release of it: upgrading installs nothing.
    Absent,
    /// It is what the file says.
    Same,
    Change {
        from: String,
        to: String,
        changes: Vec<Change>,
    },
}

impl<'a> Plan<'a> {
    /// Asks helm, and touches nothing.
    async fn of(work: &Work, charts: &'a ChartsFile, output: &Output) -> Result<Self, CommandError> {
        let mut steps = Vec::new();
        for chart in &charts.charts {
            output.waiting(&format!("{}: helm upgrade --dry-run", chart.name));
            let step = match upgradable(chart, work.situation(chart).await?)? {
                Situation::Absent => Step::Absent,
                Situation::UpgradeBegun { .. } => {
                    let what = format!("{}: the release is half done, so what would change cannot be told", chart.name);
                    let error = CommandError::local(StockCode::ReleaseBusy, what);
                    return Err(error.fix("run the command without --dry-run, which rolls it back first"));
                }
                situation => step(work, chart, situation).await?,
            };
            steps.push((chart, step));
        }
        Ok(Self(steps))
    }

    fn changed(&self) -> impl Iterator<Item = &'a Chart> {
        self.0.iter().filter(|(_, step)| matches!(step, Step::Change { .. })).map(|(chart, _)| *chart)
    }

    fn rows(self, if_other: Done) -> Vec<UpgradeRow> {
        let row = |(chart, step): (&Chart, Step)| {
            let (name, namespace) = (chart.name.clone(), chart.namespace.clone());
            let (done, from, to, changes) = match step {
                Step::Absent => (Done::Absent, None, None, Vec::new()),
                Step::Same => (Done::Same, None, None, Vec::new()),
                Step::Change { from, to, changes } => (if_other, Some(from), Some(to), changes),
            };
            UpgradeRow { name, namespace, done, from, to, changes }
        };
        self.0.into_iter().map(row).collect()
    }
}

async fn step(work: &Work, chart: &Chart, situation: Situation) -> Result<Step, CommandError> {
    let (namespace, name) = (&chart.namespace, &chart.name);
    let history = work.helm.history(namespace, name).await?;
    let from = history.last().map(|revision| revision.chart.clone()).unwrap_or_default();
    let would =
        work.helm.dry_run(&chart.upgrade()).await.map_err(|error| CommandError::from(error).about(&chart.name))?;
    let mut changes = changes::between(&work.helm.manifest(namespace, name).await?, &would.manifest);
    changes.extend(definitions_changes(work, chart).await.map_err(|error| CommandError::from(error).about(name))?);
    let same = changes.is_empty() && from == would.chart && situation == Situation::Deployed;
    Ok(if same { Step::Same } else { Step::Change { from, to: would.chart, changes } })
}

/// The custom resource definitions that an upgrade of the chart applies before anything else; empty if it applies none.
async fn definitions(work: &Work, chart: &Chart) -> Result<Vec<u8>, StockError> {
    if chart.crds != Crds::Upgrade {
        return Ok(Vec::new());
    }
    let definitions = work.helm.custom_resource_definitions(&chart.source).await?;
    Ok(if definitions.trim_ascii().is_empty() { Vec::new() } else { definitions })
}

async fn definitions_changes(work: &Work, chart: &Chart) -> Result<Vec<Change>, StockError> {
    let definitions = definitions(work, chart).await?;
    if definitions.is_empty() {
        return Ok(Vec::new());
    }
    let now = work.kubectl.get_named_in(&definitions).await?;
    Ok(changes::of_objects(&now, &work.kubectl.would_apply(&definitions).await?))
}

/// Upgrades one chart. That there is a backup is shown by having it.
async fn upgrade(
    work: &Work,
    chart: &Chart,
    lock: &Lock,
    backup: &Backup,
    output: &Output,
) -> Result<(), CommandError> {
    let (name, begun) = (&chart.name, Instant::now());
    let before = work.helm.history(&chart.namespace, name).await?.last().map_or(0, |revision| revision.number);
    let about = |error| CommandError::from(error).about(name);
    let definitions = definitions(work, chart).await.map_err(about)?;
    if !definitions.is_empty() {
        work.kubectl.apply(&definitions, true).await.map_err(about)?;
    }
    let done = work.upgrade(chart, lock, output).await;
    // What helm says of itself is compared with what it wrote.
    let history = match work.helm.history(&chart.namespace, name).await {
        Ok(history) => history,
        Err(error) => return Err(done.err().unwrap_or_else(|| error.into())),
    };
    let situation = Situation::of(&history);
    let last = history.last().map_or(0, |revision| revision.number);
    match done {
        Ok(()) if situation == Situation::Deployed && last > before => {
            output.say(Tone::Good, "upgraded", &format!("{name} in {:.1} s", begun.elapsed().as_secs_f64()));
            Ok(())
        }
        Ok(()) => {
            let what = format!("{name}: helm says that it upgraded the chart, and its history does not");
            Err(CommandError::local(CommandCode::UpgradeNotRolledBack, what))
        }
        Err(error) if situation == Situation::Deployed => {
            let restorable = backup.directory().display();
            let kept = if last > before { "was rolled back by helm" } else { "was not begun" };
            Err(error.because(format!("the upgrade {kept}; the backup is {restorable}")))
        }
        Err(error) => {
            let what = format!("{name}: the upgrade failed, and was not rolled back");
            let failure = CommandError::local(CommandCode::UpgradeNotRolledBack, what).because(&error.what);
            let failure = match history.last() {
                Some(last) => failure.because(format!("revision {}: {}", last.number, last.description)),
                None => failure,
            };
            Err(error.because.iter().fold(failure, CommandError::because))
        }
    }
}

/// What an upgrade did, or would do.
#[derive(Serialize)]
struct UpgradeReport {
    dry_run: bool,
    backup: Option<BackupReport>,
    charts: Vec<UpgradeRow>,
}

#[derive(Serialize)]
struct UpgradeRow {
    name: String,
    namespace: String,
    done: Done,
    from: Option<String>,
    to: Option<String>,
    changes: Vec<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Done {
    Upgraded,
    /// It would be upgraded.
    Would,
    Same,
    Absent,
}

impl Report for UpgradeReport {
    fn text(&self, style: Style) -> String {
        let mut table = Table::new(&["NAME", "NAMESPACE", "DONE", "FROM", "TO", "OBJECTS"]);
        for row in &self.charts {
            let done = match row.done {
                Done::Upgraded => "upgraded",
                Done::Would => "would be upgraded",
                Done::Same => "is as the file says",
                Done::Absent => "not installed: see `latchkey charts install`",
            };
            let changes = if row.changes.is_empty() { String::new() } else { row.changes.len().to_string() };
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            table.row([row.name.clone(), row.namespace.clone(), done.into(), text(&row.from), text(&row.to), changes]);
        }
        let mut text = table.to_string();
        for row in self.charts.iter().filter(|_| self.dry_run) {
            for Change { object, kind, diff } in &row.changes {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "\n{}: {} {}", row.name, kind.name(), printable(object));
                for line in diff.lines() {
                    let tone = match line.as_bytes().first() {
                        Some(b'+') => Tone::Good,
                        Some(b'-') => Tone::Bad,
                        _ => Tone::Plain,
                    };
                    text.push_str(&style.paint(tone, &printable(line)));
                    text.push('\n');
                }
            }
        }
        text
    }
}
