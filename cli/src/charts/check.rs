//! `latchkey charts check`.

use serde::Serialize;

use super::work::charts_file;
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table};
use crate::stock::Stock;

pub(crate) fn check(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let charts = charts_file(arguments)?;
    let stock = Stock::from_arguments(arguments);
    let rows = smol::block_on(async {
        let helm = stock.helm_alone().await?;
        let mut rows = Vec::new();
        for chart in &charts.charts {
            output.waiting(&format!("{}: helm template", chart.name));
            let rendered =
                helm.template(&chart.upgrade()).await.map_err(|error| CommandError::from(error).about(&chart.name))?;
            let objects = rendered.lines().filter(|line| line.starts_with("kind:")).count();
            rows.push(CheckRow { name: chart.name.clone(), namespace: chart.namespace.clone(), objects });
        }
        Ok::<_, CommandError>(rows)
    })?;
    output.report(&CheckReport { charts: rows })
}

/// Charts that render with their values.
#[derive(Serialize)]
struct CheckReport {
    charts: Vec<CheckRow>,
}

#[derive(Serialize)]
struct CheckRow {
    name: String,
    namespace: String,
    /// What it makes.
    objects: usize,
}

impl Report for CheckReport {
    fn text(&self, _: Style) -> String {
        let mut table = Table::new(&["NAME", "NAMESPACE", "OBJECTS"]);
        for CheckRow { name, namespace, objects } in &self.charts {
            table.row([name.clone(), namespace.clone(), objects.to_string()]);
        }
        table.to_string()
    }
}
