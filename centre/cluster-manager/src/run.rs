//! From the command line to an exit code.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use latchkey_centre_service::{AccessLists, Program};
use latchkey_factory_plus::Realm;
use latchkey_factory_plus::uuids::{account, service};
use latchkey_factory_plus_client::Client;
use latchkey_factory_plus_server::{About, HttpServer, Nothing, Software, Verifier};
use latchkey_git_client::{Git, PATH};
use latchkey_kerberos::Admin as KerberosAdmin;
use latchkey_service_runtime::admin::Admin;
use latchkey_service_runtime::config::{ConfigFile as _, admin_in_words};
use latchkey_service_runtime::page::Page;
use latchkey_service_runtime::program::ProgramError;

use crate::config::Config;
use crate::keeper::Keeper;
use crate::manager::{Manager, Place};
use crate::web::Web;
use crate::world::{Centre, Kadmin};

const PROGRAM: Program<Prepared> = Program {
    name: "latchkey-cluster-manager",
    version: env!("CARGO_PKG_VERSION"),
    about: "Sets up edge clusters of a Factory+ centre, from entries of its configuration database,\nand serves the page where people do that.",
    load: Prepared::load,
    describe,
    serve,
};

/// Everything that was read and checked.
struct Prepared {
    config: Config,
    client: Client,
    kadmin: KerberosAdmin,
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
        let version = std::process::Command::new("git").arg("--version").env_clear().env("PATH", PATH).output();
        version.map_err(|error| ProgramError::unusable(format!("git cannot be run: {error}; install it")))?;
        let needs = [
            (service::AUTH, "authorisation service"),
            (service::CONFIG_DB, "configuration database"),
            (service::GIT, "git server"),
        ];
        let client = config.centre.client(&needs).map_err(ProgramError::unusable)?;
        config.authorities().map_err(ProgramError::unusable)?;
        let kadmin = config.kadmin.admin().map_err(ProgramError::unusable)?;
        let (realm, verifier) = config.kerberos.verifier().map_err(ProgramError::unusable)?;
        Ok(Self { config, client, kadmin, realm, verifier })
    }
}

/// What is the same for all clusters, by a configuration.
fn place(config: &Config) -> Result<Place, ProgramError> {
    let git = config.git().map_err(ProgramError::unusable)?;
    let mut hosts: Vec<String> = config.centre.services.named().map(|(_, url)| url.host().to_owned()).collect();
    hosts.push(config.bootstrap.domain.clone());
    Ok(Place {
        realm: config.kerberos.realm.clone(),
        organisation: config.organisation.clone(),
        git: git.to_string(),
        hosts,
        names_held_ms: config.names_held_seconds * 1000,
    })
}

fn serve(Prepared { config, client, kadmin, realm, verifier }: Prepared) -> Result<(), ProgramError> {
    let place = place(&config)?;
    let keeper = Arc::new(Keeper::open(&config.data).map_err(ProgramError::running)?);
    let git = Git::new(&client, &config.data.with_extension("git"), config.centre.authorities.as_deref());
    let git = git.map_err(ProgramError::running)?;
    let principals = Arc::new(Kadmin::new(kadmin, realm.clone()));
    let manager = Manager::new(place, Centre::new(&client, git, principals, keeper));
    let lists = AccessLists::new(&config.access, &client);
    let web = Web::new(manager.clone(), lists, &config).map_err(ProgramError::unusable)?;
    let http = HttpServer::new(&config.http, about(), realm, verifier, web.clone());
    let http = http.map_err(ProgramError::unusable)?.feed(Arc::new(web));
    let pages = Arc::new(Pages(manager.clone()));
    let _following = smol::spawn(async move { manager.follow().await });
    http.run(pages, Arc::new(Nothing))
}

/// What the service says of itself.
fn about() -> About {
    About {
        version: "2.0.0",
        service: service::CLUSTER_MANAGER,
        device: Some(account::CLUSTER_MANAGER),
        software: Software { vendor: "Latchkey", application: PROGRAM.name, revision: PROGRAM.version },
    }
}

struct Pages(Manager);

impl Admin for Pages {
    fn metrics(&self) -> String {
        let mut page = Page::new("latchkey_cluster_manager_");
        page.family("ready", "gauge", "Whether all clusters are known");
        page.line("ready", "", u8::from(self.0.is_ready()));
        let clusters = self.0.clusters(|_| true);
        page.family("clusters", "gauge", "Clusters, by whether they are set up");
        let set_up = clusters.values().filter(|cluster| cluster.ready).count();
        page.line("clusters", "{set_up=\"true\"}", set_up);
        page.line("clusters", "{set_up=\"false\"}", clusters.len() - set_up);
        page.family("clusters_failing", "gauge", "Clusters with an error");
        page.line("clusters_failing", "", clusters.values().filter(|cluster| cluster.error.is_some()).count());
        let (done, failed) = self.0.counts();
        page.family("effects_total", "counter", "Effects on other services, by what became of them");
        page.line("effects_total", "{done=\"true\"}", done);
        page.line("effects_total", "{done=\"false\"}", failed);
        page.into_text()
    }

    fn health(&self) -> Result<Vec<String>, String> {
        if self.0.is_ready() { Ok(Vec::new()) } else { Err("the clusters' entries were not read yet".to_owned()) }
    }
}

/// What the service would do, for `--check`.
fn describe(Prepared { config, .. }: &Prepared) -> String {
    let listen: Vec<String> = config.http.listen.iter().map(ToString::to_string).collect();
    let how = if config.http.insecure { "without TLS" } else { "over TLS" };
    format!(
        "- serve its page and its interface on {}, {how}, to principals whose tickets are for {}\n\
         - keep bootstrap links in {}\n\
         - be {} to the other services, and {} to the KDC\n\
         - set clusters up in Sparkplug groups {}-NAME\n\
         - {}\n",
        listen.join(", "),
        config.kerberos.service,
        config.data.display(),
        config.centre.principal,
        config.kadmin.principal,
        config.organisation,
        admin_in_words(config.http.admin_listen, config.http.metrics.as_ref()),
    )
}
