//! The program.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use latchkey_centre_service::{AccessLists, Program};
use latchkey_factory_plus::{Realm, uuids};
use latchkey_factory_plus_server::{Nothing, Verifier};
use latchkey_service_runtime::config::ConfigFile as _;
use latchkey_service_runtime::program::ProgramError;

use crate::advertised::Services;
use crate::config::Config;
use crate::keeper::Keeper;
use crate::server::{Rules, server};

const PROGRAM: Program<Prepared> = Program {
    name: "latchkey-directory",
    version: env!("CARGO_PKG_VERSION"),
    about: "The directory of a Factory+ centre: where each service is, over HTTP.",
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
    services: Services,
    realm: Realm,
    verifier: Arc<dyn Verifier>,
    lists: AccessLists,
}

impl Prepared {
    fn load(path: &Path) -> Result<Self, ProgramError> {
        let config = Config::load(path).map_err(ProgramError::unusable)?;
        let services = config.services().map_err(ProgramError::unusable)?;
        let (realm, verifier) = config.kerberos.verifier().map_err(ProgramError::unusable)?;
        let needs = [(uuids::service::AUTH, "authorisation service")];
        let client = config.centre.client(&needs).map_err(ProgramError::unusable)?;
        let lists = AccessLists::new(&config.access, &client);
        Ok(Self { config, services, realm, verifier, lists })
    }

    fn describe(&self) -> String {
        let Config { http, data, trusted_proxies, .. } = &self.config;
        format!(
            "- serve on {}, {}\n- advertise {} services by itself, and keep those that others advertise in {}\n\
             - believe proxies of {} networks how a client got here\n",
            http.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "),
            if http.insecure { "without TLS" } else { "over TLS" },
            self.services.all().count(),
            data.display(),
            trusted_proxies.len(),
        )
    }

    fn serve(self) -> Result<(), ProgramError> {
        let Self { config, services, realm, verifier, lists } = self;
        let keeper = Keeper::open(&config.data, services).map_err(ProgramError::running)?;
        let rules = Rules { domain: config.domain, trusted_proxies: config.trusted_proxies };
        let server = server(&config.http, realm, verifier, (keeper, rules, Arc::new(lists)));
        server.map_err(ProgramError::unusable)?.run(Arc::new(Nothing), Arc::new(Nothing))
    }
}
