//! `latchkey init`: a fresh node becomes the first of a new cluster.
//!
//! [`job`] reads the arguments and holds the directory; [`authorities`] makes those of a Kubernetes cluster; [`drive`] connects,
//! again and again, until it is done; [`services`] is what join and key service read where they run on control planes; [`follow`]
//! shows what the node reports; [`journal`] is what makes that safe, with what was [`asked`] for; [`reach`] has the operator's machine find the API server,
//! [`merge`] by the kubeconfig that is used every day; [`found`] moves the cluster into it, if it is to be kept there; [`report`]
//! prints the end.

mod asked;
pub(crate) mod authorities;
mod chart;
mod drive;
mod follow;
mod found;
mod job;
mod journal;
mod merge;
mod reach;
mod report;
mod services;

use std::path::Path;
use std::time::Duration;

use crate::api_server::{Kubeconfig, StoreNote};
use crate::arguments::Arguments;
use crate::charts::{self, ChartsFile, Options, charts_file};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::node::{self, Patience};
use crate::output::{Output, Tone};
use crate::stock::Stock;
use drive::{AdminConfig, Drive};
use found::Founding;
pub(crate) use found::JOIN_SERVICE;
use job::{Job, Store};
use journal::Stage;
use services::Inside;

const WITHOUT_STORE: &str = "with --store directory no machine joins this Kubernetes cluster as a worker or a control plane: the \
                             join service gives tokens and approves certificates where its records are in the API server";
const TIMEOUT: Duration = Duration::from_mins(30);

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    // Before the node is touched: what cannot be installed is said at once.
    let charts = arguments.path("charts").map(|_| charts_file(arguments)).transpose()?;
    let mut job = Job::from_arguments(arguments)?;
    let timeout = arguments.timeout(TIMEOUT)?;
    let patience = Patience::new(timeout);
    let (_held, journal) = job.begin(arguments.has("resume"), output)?;
    if job.store == Store::Directory && !job.settings.kubernetes_version.is_empty() {
        output.say(Tone::Warning, "note", WITHOUT_STORE);
    }
    if let Stage::Done { .. } = journal.stage {
        let is_to_move = job.store == Store::Kubernetes && !StoreNote::is_in(&job.directory.path(""));
        if (is_to_move || arguments.has("resume")) && job.admin_config.exists() {
            reach(&job, arguments, &job.admin_config, output)?;
        }
        if is_to_move {
            found(&job, arguments, &job.admin_config, timeout, output)?;
        }
        if let Some(charts) = &charts {
            install(charts, &job, arguments, &job.admin_config, timeout, output)?;
        }
        if is_to_move || charts.is_some() {
            return report::founded(&job, &journal, output);
        }
        return report::done_before(&job, &journal, arguments.has("resume"), output);
    }
    job.check_admin_config(journal.stage)?;
    if let Some(into) = arguments.path("merge-kubeconfig") {
        node::block_on(merge::check(&Stock::from_arguments(arguments), into, &job.name))?;
    }
    job.directory.adopt(&job.trust)?;
    let ending = node::block_on(Drive::new(&job, journal, output).run(patience))?;
    if let AdminConfig::Written(kubeconfig) = &ending.admin_config {
        reach(&job, arguments, kubeconfig, output)?;
    }
    if job.store == Store::Kubernetes || charts.is_some() {
        let AdminConfig::Written(kubeconfig) = &ending.admin_config else {
            let what = "the cluster is there, and this command has no credentials to its API server";
            let failure = CommandError::local(CommandCode::ClusterMissing, what);
            let (directory, file) = (job.directory.shown(), job.admin_config.display());
            let way = match authorities::kept(&job.directory)? {
                Some(_) => format!("`latchkey credentials admin --cluster {directory} --api-server HOST --out {file}`"),
                // Its authority was made on the machine.
                None => format!("put its admin.conf into {file}"),
            };
            return Err(failure.fix(format!("{way}, and run the same command again")));
        };
        if job.store == Store::Kubernetes {
            found(&job, arguments, kubeconfig, timeout, output)?;
        }
        if let Some(charts) = &charts {
            install(charts, &job, arguments, kubeconfig, timeout, output)?;
        }
    }
    report::done(&job, &ending, output)
}

/// Has this machine find the API server where the operator says, and by the file that the operator says.
fn reach(job: &Job, arguments: &Arguments, kubeconfig: &Path, output: &Output) -> Result<(), CommandError> {
    let stock = Stock::from_arguments(arguments);
    let reached = async {
        if let Some(address) = &job.api_server {
            reach::at(&stock, kubeconfig, address).await?;
        }
        match arguments.path("merge-kubeconfig") {
            Some(into) => merge::merge(&stock, kubeconfig, into, &job.name, output).await,
            None => Ok(()),
        }
    };
    node::block_on(reached).map_err(goes_on)
}

/// Moves the cluster into its API server.
fn found(
    job: &Job,
    arguments: &Arguments,
    kubeconfig: &Path,
    timeout: Duration,
    output: &Output,
) -> Result<(), CommandError> {
    let inside = job.inside.as_ref().map(Inside::key_hash);
    let (directory, stock) = (&job.directory, Stock::from_arguments(arguments));
    let (kubeconfig, settings) = (Kubeconfig::of_directory(&stock, kubeconfig).map_err(goes_on)?, &job.settings);
    let founding = Founding { directory, kubeconfig, settings, stock, inside, output };
    node::block_on(founding.run(&mut Patience::new(timeout))).map_err(goes_on)
}

/// Installs the charts of a file, as `latchkey charts install` does.
fn install(
    charts: &ChartsFile,
    job: &Job,
    arguments: &Arguments,
    kubeconfig: &Path,
    timeout: Duration,
    output: &Output,
) -> Result<(), CommandError> {
    let (stock, backups) = (Stock::from_arguments(arguments), job.directory.path(found::BACKUPS));
    let kubeconfig = Kubeconfig::of_directory(&stock, kubeconfig).map_err(goes_on)?;
    let installing = async {
        found::connect(&stock, &kubeconfig, output, &mut Patience::new(timeout)).await?;
        Box::pin(charts::into(charts, &stock, &kubeconfig.path(), Options::default(), &backups, output)).await.map(drop)
    };
    node::block_on(installing).map_err(goes_on)
}

fn goes_on(failure: CommandError) -> CommandError {
    let remedy = failure.remedy().to_owned();
    failure.fix(format!("{remedy}; the machine itself is done, and the same command goes on from here"))
}
