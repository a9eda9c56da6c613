//! From the command line to an exit code.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use latchkey_factory_plus::uuids::{account, application, service};
use latchkey_factory_plus_client::notify::Event;
use latchkey_factory_plus_client::{Client, ConfigDb, Identity, Insecure, Services, Settings, Trust, acl};
use latchkey_http_server::{About, HttpServer, Nothing, Realm, Software};
use latchkey_kerberos::{Kerberos, Upn};
use latchkey_service_runtime::admin::Admin;
use latchkey_service_runtime::page::Page;
use latchkey_service_runtime::program::{self, Command, ProgramError, print};

use crate::config::Config;
use crate::repositories::Repositories;
use crate::server::GitServer;
use crate::verifier::ByKerberos;
use crate::web::Web;

const NAME: &str = "latchkey-git-server";

const HELP: &str = "\
latchkey-git-server --config FILE [--log text|json | --check]

Serves git repositories over HTTP, each to whom the centre's authorisation service
lets pull from or push to it. Stock git does the work: `git http-backend`.

  --config FILE   the configuration, JSON; git-server.example.json shows every field
  --check         read and check everything the server needs, say what it would do,
                  and exit without listening
  --log FORMAT    how the log on stderr is written: text (the default), or json, one
                  object per line
  --version       print the version
  --help          print this

Prints a line that begins with READY once it listens.
Exit codes: 0 stopped as asked, or checked and good; 1 failed while running;
2 wrong arguments, or a configuration that cannot be used.
SIGTERM and SIGINT stop it; running requests are finished first. SIGHUP reads the
certificate again.
";

/// How many helpers ask the KDC at a time, how long each may take, and how many requests wait for one.
const HELPERS: usize = 4;
const KERBEROS_DEADLINE: Duration = Duration::from_secs(10);
const KERBEROS_WAITING: usize = 64;

/// Everything that was read and checked.
struct Prepared {
    config: Config,
    client: Client,
    kerberos: Kerberos,
    realm: Realm,
}

/// Runs the program. `arguments` begin with the program's name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let outcome = match program::parse(arguments.into_iter().skip(1), &["check"], &[]) {
        Ok(Command::Help) => print(HELP),
        Ok(Command::Version) => print(concat!("latchkey-git-server ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Command::Serve(file, format)) => program::serve(format, || serve(Prepared::load(&file)?)),
        Ok(Command::With(file, _) | Command::Do(_, file)) => {
            Prepared::load(&file).and_then(|prepared| print(&describe(&prepared.config)))
        }
        Err(sentence) => Err(ProgramError::unusable(sentence)),
    };
    program::exit(NAME, outcome)
}

impl Prepared {
    fn load(file: &Path) -> Result<Self, ProgramError> {
        let config = Config::load(file).map_err(ProgramError::unusable)?;
        let version =
            std::process::Command::new("git").arg("--version").env_clear().env("PATH", crate::git::PATH).output();
        version.map_err(|error| ProgramError::unusable(format!("git cannot be run: {error}; install it")))?;
        let centre = &config.centre;
        let trust = match &centre.authorities {
            Some(file) => Trust::roots(file).map_err(ProgramError::unusable)?,
            None => Trust::none(),
        };
        let client = Client::new(Settings {
            identity: Identity::from_file(&centre.principal, &centre.password).map_err(ProgramError::unusable)?,
            trust: if centre.insecure { trust.allowing(Insecure) } else { trust },
            services: Services::fixed([
                (service::AUTH, centre.auth.clone()),
                (service::CONFIG_DB, centre.config_db.clone()),
            ]),
            limits: latchkey_factory_plus_client::Limits::default(),
        });
        let service = Upn::parse(&config.kerberos.service).map_err(ProgramError::unusable)?;
        let realm = Realm::parse(service.realm()).map_err(ProgramError::unusable)?;
        let kerberos = Kerberos::new(latchkey_kerberos::Settings {
            helper: config.kerberos.helper.clone(),
            krb5_config: config.kerberos.krb5_config.clone(),
            keytab: config.kerberos.keytab.clone(),
            service,
            replay_cache: config.kerberos.replay_cache.clone(),
            helpers: HELPERS,
            deadline: KERBEROS_DEADLINE,
            waiting: KERBEROS_WAITING,
        });
        Ok(Self { config, client, kerberos, realm })
    }
}

fn serve(Prepared { config, client, kerberos, realm }: Prepared) -> Result<(), ProgramError> {
    let (git, limits) = (config.limits.of_git(), config.limits.of_backend());
    let repositories = Repositories::open(&config.repositories, git).map_err(ProgramError::running)?;
    let lists = acl::Follower::new(&client, acl::Settings::default());
    let server = GitServer::new(repositories, limits);
    let web = Web::new(server, Arc::new(lists), config.root_principal, git, limits.run);
    let about = About {
        version: "2.0.0",
        service: service::GIT,
        device: Some(account::GIT),
        software: Software { vendor: "Latchkey", application: NAME, revision: env!("CARGO_PKG_VERSION") },
    };
    let http = HttpServer::new(&config.http, about, realm, Arc::new(ByKerberos(kerberos)), web.clone());
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
        page.family("build_info", "gauge", "The running version");
        page.line("build_info", concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1);
        page.family("ready", "gauge", "Whether the entries of repositories were read");
        page.line("ready", "", u8::from(self.0.is_ready()));
        page.into_text()
    }

    fn health(&self) -> Result<Vec<String>, String> {
        if self.0.is_ready() { Ok(Vec::new()) } else { Err("the entries of repositories were not read yet".to_owned()) }
    }
}

/// What the server would do, for `--check`.
fn describe(config: &Config) -> String {
    let listen: Vec<String> = config.http.listen.iter().map(ToString::to_string).collect();
    let how = if config.http.insecure { "without TLS" } else { "over TLS" };
    format!(
        "The configuration is good. The server would\n\
         - serve git repositories on {}, {how}, to principals whose tickets are for {}\n\
         - keep them in {}\n\
         - ask {} and {} as {}\n\
         - serve /metrics and /healthz on {}\n",
        listen.join(", "),
        config.kerberos.service,
        config.repositories.display(),
        config.centre.config_db,
        config.centre.auth,
        config.centre.principal,
        config.http.admin_listen,
    )
}
