//! From the command line to an exit code.

use latchkey_service_runtime::config::ConfigFile as _;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use latchkey_edge_service::{RUNNING, connect, work};
use latchkey_factory_plus_client::Client;
use latchkey_service_runtime::binary::Binary;
use latchkey_service_runtime::pages::VersionPage;
use latchkey_service_runtime::program::ProgramError;

use crate::config::Config;
use crate::deployments::Site;
use crate::drive::EdgeSync;

const PROGRAM: Binary<Prepared> = Binary {
    name: "latchkey-edge-sync",
    version: env!("CARGO_PKG_VERSION"),
    about: "Tells a Factory+ centre of the machines of this edge cluster and of the certificate that\nsecrets for it are sealed for, and deploys to the cluster what the centre wants there.",
    running: RUNNING,
    load: Prepared::load,
    describe,
    serve,
};

/// Everything that was read and checked.
struct Prepared {
    config: Config,
    client: Client,
}

/// Runs the program. `arguments` begin with the program's name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    PROGRAM.run(arguments)
}

impl Prepared {
    fn load(file: &Path) -> Result<Self, ProgramError> {
        let config = Config::load(file).map_err(ProgramError::unusable)?;
        let client = config.centre.client(&config.account).map_err(ProgramError::unusable)?;
        Ok(Self { config, client })
    }
}

fn describe(Prepared { config, .. }: &Prepared) -> String {
    format!(
        "be {} at the centre of {}\nreport the machines of {} ({}) and the keys in namespace {}\ndeploy into namespace {}\n",
        config.account.principal,
        config.centre.directory,
        config.cluster.name,
        config.cluster.uuid,
        config.keys_namespace(),
        config.namespace.as_str(),
    )
}

fn serve(Prepared { config, client }: Prepared) -> Result<(), ProgramError> {
    let connection = connect(config.kubernetes.as_ref()).map_err(ProgramError::unusable)?;
    let sync = EdgeSync::new(connection, &client, site(&config), config.keys_namespace());
    work(PROGRAM.name, (config.pages, VersionPage("latchkey_edge_sync_")), sync.run())
}

fn site(config: &Config) -> Site {
    Site {
        cluster: config.cluster.uuid,
        name: config.cluster.name.clone(),
        namespace: config.namespace.as_str().to_owned(),
        realm: config.realm.as_str().to_owned(),
        directory: config.centre.directory.to_string(),
    }
}
