//! The program.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use latchkey_centre_service::Program;
use latchkey_factory_plus::{Realm, uuids};
use latchkey_factory_plus_client::Client;
use latchkey_factory_plus_client::classes::Follower;
use latchkey_factory_plus_client::notify::State;
use latchkey_factory_plus_server::{Nothing, Verifier};
use latchkey_kerberos::Kerberos;
use latchkey_service_runtime::admin::Admin;
use latchkey_service_runtime::config::ConfigFile as _;
use latchkey_service_runtime::page::Page;
use latchkey_service_runtime::program::ProgramError;

use crate::broker::Broker;
use crate::config::Config;
use crate::follow::follow;
use crate::keeper::Keeper;
use crate::rights::Rules;
use crate::server::server;

const PROGRAM: Program<Prepared> = Program {
    name: "latchkey-auth",
    version: env!("CARGO_PKG_VERSION"),
    about: "The authorisation service of a Factory+ centre: who is who, and what each may do,\nover HTTP, with change notification.",
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
    rules: Rules,
    realm: Realm,
    verifier: Arc<dyn Verifier>,
    client: Client,
    kerberos: Kerberos,
}

impl Prepared {
    fn load(path: &Path) -> Result<Self, ProgramError> {
        let config = Config::load(path).map_err(ProgramError::unusable)?;
        let rules = config.rules().map_err(ProgramError::unusable)?;
        let (realm, verifier) = config.kerberos.verifier().map_err(ProgramError::unusable)?;
        let (_, kerberos) = config.kerberos.kerberos().map_err(ProgramError::unusable)?;
        let needs = [(uuids::service::CONFIG_DB, "configuration database")];
        let client = config.centre.client(&needs).map_err(ProgramError::unusable)?;
        Ok(Self { config, rules, realm, verifier, client, kerberos })
    }

    fn describe(&self) -> String {
        let Config { http, data, trusted_realms, .. } = &self.config;
        let root = self
            .rules
            .root
            .as_ref()
            .map_or_else(|| "let nobody pass every check".into(), |root| format!("let {root} pass every check"));
        format!(
            "- serve on {}, {}\n- know principals of {} and {} realms that it trusts\n- {root}\n- keep everything in {}\n",
            http.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "),
            if http.insecure { "without TLS" } else { "over TLS" },
            self.realm,
            trusted_realms.len(),
            data.display(),
        )
    }

    fn serve(self) -> Result<(), ProgramError> {
        let Self { config, rules, realm, verifier, client, kerberos } = self;
        let keeper = Keeper::open(&config.data, rules).map_err(ProgramError::running)?;
        let follower = Follower::new(&client);
        let _following = smol::spawn(follow(keeper.clone(), follower.clone()));
        let users = config.broker_users.unwrap_or_else(|| [rustix::process::geteuid().as_raw()].into());
        let answering = config.broker_socket.map(|path| {
            let broker = Broker::following(keeper.clone(), &client, kerberos);
            broker.listen(&path, users).map(smol::spawn).map_err(ProgramError::running)
        });
        let _answering = answering.transpose()?;
        let server = server(&config.http, realm, verifier, &keeper).map_err(ProgramError::unusable)?;
        server.run(Arc::new(Pages { keeper, follower }), Arc::new(Nothing))
    }
}

/// What the operator is told.
struct Pages {
    keeper: Keeper,
    follower: Follower,
}

impl Admin for Pages {
    fn metrics(&self) -> String {
        let (identities, grants) = self.keeper.counts();
        let mut page = Page::new("latchkey_auth_");
        for (name, help, count) in [("identities", "Names of principals", identities), ("grants", "Grants", grants)] {
            page.family(name, "gauge", help);
            page.line(name, "", count);
        }
        page.into_text()
    }

    fn health(&self) -> Result<Vec<String>, String> {
        if !self.keeper.has_heard() {
            return Err("the configuration database has not told about classes yet; see that it runs".to_owned());
        }
        Ok(match self.follower.snapshot().state() {
            State::Stale { reason, .. } => vec![format!("what is known of classes may be old: {reason}")],
            State::Waiting | State::Fresh => Vec::new(),
        })
    }
}
