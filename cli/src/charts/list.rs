//! `latchkey charts list`.

use serde::Serialize;

use super::file::ChartsFile;
use super::work::charts_file;
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table};
use crate::stock::{Release, Stock};

pub(crate) fn list(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let charts = arguments.path("charts").map(|_| charts_file(arguments)).transpose()?;
    let kubeconfig = arguments.required_path("kubeconfig")?;
    let stock = Stock::from_arguments(arguments);
    let releases = smol::block_on(async { stock.helm(kubeconfig).await?.list().await })?;
    output.report(&ListReport::of(charts.as_ref(), releases))
}

/// The releases of a cluster, and the charts of a file that it does not have.
#[derive(Serialize)]
struct ListReport {
    charts: Vec<ListRow>,
}

#[derive(Serialize)]
struct ListRow {
    name: String,
    namespace: String,
    /// Helm's word; `absent` for a chart of the file of which there is no release.
    state: &'static str,
    revision: String,
    chart: String,
    app_version: String,
    /// Whether the charts file names it; nothing if there is none.
    in_file: Option<bool>,
}

impl ListReport {
    fn of(file: Option<&ChartsFile>, releases: Vec<Release>) -> Self {
        let named = |namespace: &str, name: &str| {
            file.map(|file| file.charts.iter().any(|chart| chart.namespace == namespace && chart.name == name))
        };
        let absent: Vec<ListRow> = file
            .into_iter()
            .flat_map(|file| &file.charts)
            .filter(|chart| !releases.iter().any(|one| one.namespace == chart.namespace && one.name == chart.name))
            .map(|chart| ListRow {
                name: chart.name.clone(),
                namespace: chart.namespace.clone(),
                state: "absent",
                revision: String::new(),
                chart: String::new(),
                app_version: String::new(),
                in_file: Some(true),
            })
            .collect();
        let there = releases.into_iter().map(|release| ListRow {
            in_file: named(&release.namespace, &release.name),
            name: release.name,
            namespace: release.namespace,
            state: release.status.name(),
            revision: release.revision,
            chart: release.chart,
            app_version: release.app_version,
        });
        Self { charts: there.chain(absent).collect() }
    }
}

impl Report for ListReport {
    fn text(&self, _: Style) -> String {
        let mut table = Table::new(&["NAME", "NAMESPACE", "STATE", "REVISION", "CHART", "APP VERSION", "IN FILE"]);
        for row in &self.charts {
            let in_file = row.in_file.map_or("", |named| if named { "yes" } else { "no" });
            table.row([
                row.name.clone(),
                row.namespace.clone(),
                row.state.to_owned(),
                row.revision.clone(),
                row.chart.clone(),
                row.app_version.clone(),
                in_file.to_owned(),
            ]);
        }
        table.to_string()
    }
}
