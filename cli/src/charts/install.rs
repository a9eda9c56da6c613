//! `latchkey charts install`.

use std::path::Path;

use serde::Serialize;

use super::file::ChartsFile;
use super::lock::Lock;
use super::situation::Situation;
use super::work::{Mending, Options, Work, charts_file};
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table};
use crate::stock::Stock;

pub(crate) fn install(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let charts = charts_file(arguments)?;
    let kubeconfig = arguments.required_path("kubeconfig")?;
    let stock = Stock::from_arguments(arguments);
    let report = smol::block_on(into(&charts, &stock, kubeconfig, Options::from_arguments(arguments), output))?;
    output.report(&report)
}

/// Installs the charts of a file into a cluster, one after the other. What is there already stays as it is; a release that never
/// worked is deleted and made anew. The first that fails ends it: the next run goes on with that one.
pub(crate) async fn into(
    charts: &ChartsFile,
    stock: &Stock,
    kubeconfig: &Path,
    options: Options,
    output: &Output,
) -> Result<InstallReport, CommandError> {
    let work = Work::begin(stock, kubeconfig, options).await?;
    let lock = Lock::take(&work.kubectl, output).await?;
    let mending = Mending::from(&lock);
    let installing = async {
        let mut rows = Vec::new();
        for chart in &charts.charts {
            let before = work.situation(chart).await?;
            let done = match work.mend(chart, mending, output).await? {
                Situation::Absent => {
                    work.install(chart, output).await?;
                    Done::Installed
                }
                _ if matches!(before, Situation::UpgradeBegun { .. }) => Done::RolledBack,
                Situation::UpgradeFailed { .. } => Done::UpgradeFailed,
                _ => Done::Kept,
            };
            rows.push(InstallRow { name: chart.name.clone(), namespace: chart.namespace.clone(), done });
        }
        Ok(InstallReport { charts: rows })
    };
    lock.held(installing).await
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Done {
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
