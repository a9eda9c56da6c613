//! `latchkey charts install`.

use std::path::Path;

use serde::Serialize;

use super::file::{Chart, ChartsFile};
use super::lock::Lock;
use super::situation::Situation;
use super::work::{Options, Work, charts_file, not_to_mend};
use crate::arguments::Arguments;
use crate::backup::{self, BackupOnce};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table};
use crate::stock::Stock;

pub(crate) fn install(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let charts = charts_file(arguments)?;
    let kubeconfig = arguments.required_path("kubeconfig")?;
    let stock = Stock::from_arguments(arguments);
    let (options, backups) = (Options::from_arguments(arguments), backup::directory(arguments));
    let report = smol::block_on(into(&charts, &stock, kubeconfig, options, &backups, output))?;
    output.report(&report)
}

/// Installs the charts of a file into a cluster, one after the other. What is there already stays as it is; a release that never
/// worked is deleted, after a backup, and made anew. The first that fails ends it: the next run goes on with that one.
pub(crate) async fn into(
    charts: &ChartsFile,
    stock: &Stock,
    kubeconfig: &Path,
    options: Options,
    backups: &Path,
    output: &Output,
) -> Result<InstallReport, CommandError> {
    let work = Work::begin(stock, kubeconfig, options).await?;
    let lock = Lock::take(&work.kubectl, output).await?;
    let installing = async {
        let mut backup = BackupOnce::new(&work.kubectl, backups, output);
        let mut rows = Vec::new();
        for chart in &charts.charts {
            let done = present(&work, chart, &lock, &mut backup, output).await?;
            rows.push(InstallRow { name: chart.name.clone(), namespace: chart.namespace.clone(), done });
        }
        Ok(InstallReport { charts: rows })
    };
    Box::pin(lock.held(installing)).await
}

/// Has a release of a chart be there: what became of it.
pub(crate) async fn present(
    work: &Work,
    chart: &Chart,
    lock: &Lock,
    backup: &mut BackupOnce<'_>,
    output: &Output,
) -> Result<Done, CommandError> {
    let situation = work.standing(chart, lock).await?;
    let why = match situation {
        Situation::Deployed => return Ok(Done::Kept),
        Situation::UpgradeFailed { .. } => return Ok(Done::UpgradeFailed),
        Situation::UpgradeBegun { good } => {
            work.roll_back(chart, good, lock, backup.get().await?, output).await?;
            return Ok(Done::RolledBack);
        }
        Situation::Removed | Situation::HistoryCut => {
            return Err(not_to_mend(&chart.name, &chart.namespace, situation));
        }
        Situation::Absent => None,
        Situation::NeverWorked => Some("its installation had failed"),
        Situation::InstallBegun => Some("its installation was begun and not ended"),
        Situation::RemovalBegun => Some("its removal was begun and not ended"),
    };
    if let Some(why) = why {
        work.remove(chart, why, lock, backup.get().await?, output).await?;
    }
    work.install(chart, lock, output).await?;
    Ok(Done::Installed)
}

/// What became of the charts of a file.
#[derive(Debug, Serialize)]
pub(crate) struct InstallReport {
    charts: Vec<InstallRow>,
}

#[derive(Debug, Serialize)]
struct InstallRow {
    name: String,
    namespace: String,
    done: Done,
}

/// What became of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Done {
    Installed,
    /// It was there.
    Kept,
    /// An upgrade of it had been interrupted.
    RolledBack,
    /// It was there, and its last upgrade failed: that is for `latchkey upgrade`.
    UpgradeFailed,
}

impl Report for InstallReport {
    fn text(&self, _: Style) -> String {
        let mut table = Table::new(&["NAME", "NAMESPACE", "DONE"]);
        for InstallRow { name, namespace, done } in &self.charts {
            let done = match done {
                Done::Installed => "installed",
                Done::Kept => "was there",
                Done::RolledBack => "rolled back: its upgrade had been interrupted",
                Done::UpgradeFailed => "was there; its last upgrade failed",
            };
            table.row([name.clone(), namespace.clone(), done.to_owned()]);
        }
        table.to_string()
    }
}
