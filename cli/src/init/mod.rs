//! `latchkey init`: a fresh node becomes the first of a new cluster.
//!
//! [`job`] reads the arguments and holds the directory; [`authorities`] makes those of a Kubernetes cluster; [`drive`] connects,
//! again and again, until it is done; [`services`] is what join and key service read where they run on control planes; [`follow`]
//! shows what the node reports; [`journal`] is what makes that safe, with what was [`asked`] for; [`reach`] has the operator's machine find the API server,
//! [`merge`] by the kubeconfig that is used every day, both as [`config`] reads and writes one; [`found`] moves the cluster into it, if it
//! is to be kept there; [`report`] prints the end.

mod asked;
pub(crate) mod authorities;
mod chart;
mod config;
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
use crate::backup;
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
    let left =
        |reaches, founds| Left { job: &job, arguments, reaches, founds, charts: charts.as_ref(), timeout, output };
    if let Stage::Done { .. } = journal.stage {
        let is_to_move = job.store == Store::Kubernetes && StoreNote::is_to_be_written(&job.directory.path(""));
        let reaches = (is_to_move || arguments.has("resume")) && job.admin_config.exists();
        left(reaches, is_to_move).by(&job.admin_config)?;
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
    let founds = job.store == Store::Kubernetes;
    match &ending.admin_config {
        AdminConfig::Written(kubeconfig) => left(true, founds).by(kubeconfig)?,
        _ if founds || charts.is_some() => {
            let what = "the cluster is there, and this command has no credentials to its API server";
            let failure = CommandError::local(CommandCode::ClusterMissing, what);
            let (directory, file) = (job.directory.shown(), job.admin_config.display());
            let way = match authorities::kept(&job.directory)? {
                Some(_) => format!("`latchkey credentials admin --cluster {directory} --api-server HOST --out {file}`"),
                // Its authority was made on the machine.
                None => format!("put its admin.conf into {file}"),
            };
            return Err(failure.fix(format!("{way}, and run the same command again")));
        }
        _ => {}
    }
    report::done(&job, &ending, output)
}

/// What is left to do with the cluster's credentials.
struct Left<'a> {
    job: &'a Job,
    arguments: &'a Arguments,
    /// This machine is to find the API server where the operator says, and by the file that the operator says.
    reaches: bool,
    /// The cluster moves into its API server.
    founds: bool,
    /// They are installed, as `latchkey charts install` does.
    charts: Option<&'a ChartsFile>,
    timeout: Duration,
    output: &'a Output,
}

impl Left<'_> {
    /// Does it. The kubeconfig is in the cluster's directory, which may be another user's: it is looked at once, and what was looked at
    /// is what every program reads.
    fn by(self, kubeconfig: &Path) -> Result<(), CommandError> {
        let Self { job, arguments, reaches, founds, charts, timeout, output } = self;
        let merged = arguments.path("merge-kubeconfig").filter(|_| reaches);
        let address = job.api_server.as_ref().filter(|_| reaches);
        if merged.is_none() && address.is_none() && !founds && charts.is_none() {
            return Ok(());
        }
        let (stock, backups) = (Stock::from_arguments(arguments), backup::directory(arguments));
        let kubeconfig = Kubeconfig::of_directory(&stock, kubeconfig).map_err(goes_on)?;
        let doing = async {
            let kubeconfig = match address {
                Some(address) => reach::at(&stock, kubeconfig, address).await?,
                None => kubeconfig,
            };
            if let Some(into) = merged {
                merge::merge(&stock, &kubeconfig, into, &job.name, output).await?;
            }
            if founds {
                let (directory, settings, inside) =
                    (&job.directory, &job.settings, job.inside.as_ref().map(Inside::key_hash));
                let (stock, kubeconfig, backups) = (&stock, &kubeconfig, &backups);
                let founding = Founding { directory, kubeconfig, settings, stock, inside, backups, output };
                founding.run(&mut Patience::new(timeout)).await?;
            }
            if let Some(charts) = charts {
                found::connect(&stock, &kubeconfig, output, &mut Patience::new(timeout)).await?;
                Box::pin(charts::into(charts, &stock, &kubeconfig.path(), Options::default(), &backups, output))
                    .await?;
            }
            Ok::<_, CommandError>(())
        };
        node::block_on(doing).map_err(goes_on)
    }
}

fn goes_on(failure: CommandError) -> CommandError {
    let remedy = failure.remedy().to_owned();
    failure.fix(format!("{remedy}; the machine itself is done, and the same command goes on from here"))
}
