//! From the command line to an exit code.

use latchkey_service_runtime::config::ConfigFile as _;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use latchkey_edge_service::{RUNNING, connect};
use latchkey_service_runtime::binary::Binary;
use latchkey_service_runtime::pages::{Pages, PagesConfig, VersionPage};
use latchkey_service_runtime::program::{ProgramError, print};
use latchkey_service_runtime::signals::{Asked, SignalStream};
use smol::future::FutureExt as _;

use crate::broker::Broker;
use crate::config::Config;
use crate::monitor::Monitor;
use crate::number::{ConfigMapStore, Numbers};

const PROGRAM: Binary<Prepared> = Binary {
    name: "latchkey-edge-monitor",
    version: env!("CARGO_PKG_VERSION"),
    about: "Says on the centre's MQTT broker, as a Sparkplug B node, that this cluster is there.",
    running: RUNNING,
    load,
    describe,
    serve,
};

/// What the configuration gives.
struct Prepared {
    monitor: Monitor<ConfigMapStore>,
    namespace: String,
    pages: Option<PagesConfig>,
}

/// Runs the program. `arguments` begin with the program's name.
///
/// Exit codes: 0 stopped as asked, or checked and good; 1 failed while running; 2 wrong arguments or an unusable configuration.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    PROGRAM.run(arguments)
}

fn load(file: &Path) -> Result<Prepared, ProgramError> {
    let config = Config::load(file).map_err(ProgramError::unusable)?;
    let client = config.centre.client(&config.account).map_err(ProgramError::unusable)?;
    let connection = connect(config.kubernetes.as_ref()).map_err(ProgramError::unusable)?;
    let (broker, namespace) = (config.broker(), config.namespace.as_str().to_owned());
    if let Some(url) = &broker.url {
        broker.route(url).map_err(ProgramError::unusable)?;
    }
    let numbers = Numbers::new(ConfigMapStore::new(connection, namespace.clone()));
    let monitor = Monitor { client, account: config.account, cluster: config.cluster.uuid, broker, numbers };
    Ok(Prepared { monitor, namespace, pages: config.pages })
}

fn describe(prepared: &Prepared) -> String {
    let Prepared { monitor, namespace, pages: _ } = prepared;
    let broker = match &monitor.broker {
        Broker { url: Some(url), .. } => format!("at {url}"),
        Broker { url: None, .. } => "that the centre's directory names".to_owned(),
    };
    format!(
        "say as {} to the broker {broker} that cluster {} is there, with numbers from the ConfigMap {namespace}/edge-monitor\n",
        monitor.account.principal, monitor.cluster
    )
}

/// Serves until SIGTERM or SIGINT, and then takes leave of the broker.
fn serve(prepared: Prepared) -> Result<(), ProgramError> {
    let (mut signals, pages) = (SignalStream::catch()?, Pages::open(prepared.pages)?);
    print(&format!("READY latchkey-edge-monitor{}\n", pages.in_ready_line()?))?;
    let stop = async { while signals.next().await != Asked::Stop {} };
    let working = async {
        prepared.monitor.run(stop).await;
        Ok(())
    };
    let telling = pages.answer(Arc::new(VersionPage("latchkey_edge_monitor_")));
    smol::block_on(working.or(telling)).map_err(ProgramError::running)
}
