//! The program.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use latchkey_centre_service::{AccessLists, Program};
use latchkey_factory_plus::{Realm, uuids};
use latchkey_factory_plus_client::Client;
use latchkey_factory_plus_server::{Nothing, Verifier};
use latchkey_service_runtime::config::ConfigFile as _;
use latchkey_service_runtime::program::ProgramError;

use crate::ConfigDb;
use crate::config::Config;
use crate::engine::Engine;
use crate::server::{Callers, server};

const PROGRAM: Program<Prepared> = Program {
    name: "latchkey-config-db",
    version: env!("CARGO_PKG_VERSION"),
    about: "The configuration database of a Factory+ centre: objects, classes and entries, over\nHTTP, with change notification.",
    load: Prepared::load,
    describe: Prepared::describe,
    serve: Prepared::serve,
};

/// Runs the program. `arguments` begin with the program's name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    PROGRAM.run(arguments)
}

/// Everything that the configuration names, checked.
struct Prepared {
    config: Config,
    realm: Realm,
    verifier: Arc<dyn Verifier>,
    client: Client,
    engine: Box<dyn Engine>,
}

impl Prepared {
    fn load(path: &Path) -> Result<Self, ProgramError> {
        let config = Config::load(path).map_err(ProgramError::unusable)?;
        let (realm, verifier) = config.kerberos.verifier().map_err(ProgramError::unusable)?;
        let needs = [(uuids::service::AUTH, "authorisation service")];
        let client = config.centre.client(&needs).map_err(ProgramError::unusable)?;
        let engine = config.engine().map_err(ProgramError::unusable)?;
        Ok(Self { config, realm, verifier, client, engine })
    }

    fn describe(&self) -> String {
        let Config { http, data, postgres, access, .. } = &self.config;
        let place = match (data, postgres) {
            (Some(data), _) => data.display().to_string(),
            (None, Some(postgres)) => postgres.to_string(),
            (None, None) => String::new(),
        };
        format!(
            "- serve on {}, {}\n- keep everything in {place}\n- know {} principals without the authorisation service\n",
            http.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "),
            if http.insecure { "without TLS" } else { "over TLS" },
            access.fixed.len() + usize::from(access.root.is_some()),
        )
    }

    fn serve(self) -> Result<(), ProgramError> {
        let Self { config, realm, verifier, client, engine } = self;
        let database = ConfigDb::start(engine).map_err(ProgramError::running)?;
        let callers = Callers::new(AccessLists::new(&config.access, &client), &client);
        let server = server(&config.http, realm, verifier, &database, &callers).map_err(ProgramError::unusable)?;
        server.run(Arc::new(Nothing), Arc::new(Nothing))
    }
}
