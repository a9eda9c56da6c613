//! From the command line to an exit code.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use latchkey_centre_service::{AccessLists, Program};
use latchkey_factory_plus::Realm;
use latchkey_factory_plus::uuids::{account, application, service};
use latchkey_factory_plus_client::notify::Event;
use latchkey_factory_plus_client::{Client, ConfigDb};
use latchkey_factory_plus_server::{About, HttpServer, Nothing, Software, Verifier};
use latchkey_service_runtime::admin::Admin;
use latchkey_service_runtime::config::{ConfigFile as _, admin_in_words};
use latchkey_service_runtime::page::Page;
use latchkey_service_runtime::program::ProgramError;

use crate::config::Config;
use crate::repositories::Repositories;
use crate::server::GitServer;
use crate::web::Web;

const PROGRAM: Program<Prepared> = Program {
    name: "latchkey-git-server",
    version: env!("CARGO_PKG_VERSION"),
    about: "Serves git repositories over HTTP, each to whom the centre's authorisation service\nlets pull from or push to it. Stock git does the work: `git http-backend`.",
    load: Prepared::load,
    describe,
    serve,
};

/// Everything that was read and checked.
struct Prepared {
    config: Config,
    client: Client,
    realm: Realm,
    verifier: Arc<dyn Verifier>,
}

/// Runs the program. `arguments` begin with the program's name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    PROGRAM.run(arguments)
}

impl Prepared {
    fn load(file: &Path) -> Result<Self, ProgramError> {
        let config = Config::load(file).map_err(ProgramError::unusable)?;
        let version =
            std::process::Command::new("git").arg("--version").env_clear().env("PATH", crate::git::PATH).output();
        version.map_err(|error| ProgramError::unusable(format!("git cannot be run: {error}; install it")))?;
        let needs = [(service::AUTH, "authorisation service"), (service::CONFIG_DB, "configuration database")];
        let client = config.centre.client(&needs).map_err(ProgramError::unusable)?;
        let (realm, verifier) = config.kerberos.verifier().map_err(ProgramError::unusable)?;
        Ok(Self { config, client, realm, verifier })
    }
}

fn serve(Prepared { config, client, realm, verifier }: Prepared) -> Result<(), ProgramError> {
    let (git, limits) = (config.limits.of_git(), config.limits.of_backend());
    let repositories = Repositories::open(&config.repositories, git).map_err(ProgramError::running)?;
    let lists = AccessLists::new(&config.access, &client);
    let server = GitServer::new(repositories, limits);
    let web = Web::new(server, lists, git, limits.run);
    let about = About {
        version: "2.0.0",
        service: service::GIT,
        device: Some(account::GIT),
        software: Software { vendor: "Latchkey", application: PROGRAM.name, revision: PROGRAM.version },
    };
    let http = HttpServer::new(&config.http, about, realm, verifier, web.clone());
    let http = http.map_err(ProgramError::unusable)?.feed(Arc::new(web.clone()));
    let _following = smol::spawn(follow(client, web.clone()));
    http.run(Arc::new(Pages(web)), Arc::new(Nothing))
}

/// Follows the entries for as long as the server runs. While the configuration database does not answer, what it said last holds.
async fn follow(client: Client, web: Web) {
    let mut search = ConfigDb::of(&client).search_entries(application::GIT_REPOSITORY_CONFIGURATION, None);
    loop {
        match search.next().await {
            Event::Complete(all) => {
                tracing::info!(repositories = all.len(), "Read the entries of repositories");
                web.all_entries(all.iter().map(|(uuid, entry)| (*uuid, &**entry)));
            }
            Event::Set(uuid, entry) => web.entry(uuid, Some(&entry)),
            Event::Gone(uuid) => web.entry(uuid, None),
            Event::Stale(_, reason) => tracing::warn!(%reason, "Entries of repositories are not followed"),
            Event::Fresh => tracing::info!("Entries of repositories are followed again"),
        }
    }
}

struct Pages(Web);

impl Admin for Pages {
    fn metrics(&self) -> String {
        let mut page = Page::new("latchkey_git_server_");
        page.family("ready", "gauge", "Whether the entries of repositories were read");
        page.line("ready", "", u8::from(self.0.is_ready()));
        page.into_text()
    }

    fn health(&self) -> Result<Vec<String>, String> {
        if self.0.is_ready() { Ok(Vec::new()) } else { Err("the entries of repositories were not read yet".to_owned()) }
    }
}

/// What the server would do, for `--check`.
fn describe(Prepared { config, .. }: &Prepared) -> String {
    let listen: Vec<String> = config.http.listen.iter().map(ToString::to_string).collect();
    let how = if config.http.insecure { "without TLS" } else { "over TLS" };
    format!(
        "- serve git repositories on {}, {how}, to principals whose tickets are for {}\n\
         - keep them in {}\n\
         - be {} to the other services\n\
         - {}\n",
        listen.join(", "),
        config.kerberos.service,
        config.repositories.display(),
        config.centre.principal,
        admin_in_words(config.http.admin_listen, config.http.metrics.as_ref()),
    )
}
