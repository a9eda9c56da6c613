//! From the command line to an exit code.

use crate::back_end::BackEnd;
use crate::config::{ClusterPlace, Config};
use crate::credentials;
use crate::documents::{Cluster, CurrentCluster};
use crate::keys::KeyError;
use crate::server::{self, Prepared};
use latchkey_attesting_service::{NO_COLLATERAL, identity};
use latchkey_channel::PinnedKeyAttester;
use latchkey_cluster_store::{ClusterFile, PlaceCode, RoleRule};
use latchkey_service_runtime::config::{ConfigFile as _, admin_in_words};
use latchkey_service_runtime::program::{self, Command, ProgramError, print};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

const NAME: &str = "latchkey-join-service";

const HELP: &str = "\
latchkey-join-service --config FILE [--log text|json | --check | --print-key-hash]
latchkey-join-service --new-key FILE

Lets nodes into a cluster that prove what they run, and gives them the keys of
their disks.

  --config FILE      the configuration, JSON; join-service.example.json,
                     join-service.embedded.example.json and
                     join-service.kubernetes.example.json show every field
  --check            read and check everything the service needs, say what it would
                     do, and exit without listening
  --print-key-hash   print what the nodes' kernel command line has to say about the
                     service's key, and exit
  --new-key FILE     make a key for `identity_key`, mode 0600, print the same, and exit
  --log FORMAT       how the log on stderr is written: text (the default), or json, one
                     object per line
  --version          print the version
  --help             print this

Prints a line that begins with READY once it listens.
Exit codes: 0 stopped as asked, or done; 1 failed while running; 2 wrong arguments,
or a configuration or cluster directory that cannot be used.
SIGTERM and SIGINT stop it; running calls are finished first. SIGHUP reads everything
again; what is not good changes nothing, and is said.
";

/// Runs the program. `arguments` begin with the program's name.
///
/// Exit codes: 0 stopped as asked, or done; 1 failed while running; 2 wrong arguments or an unusable configuration.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let flags = ["check", "print-key-hash"];
    let outcome = match program::parse(arguments.into_iter().skip(1), &flags, &["new-key"]) {
        Ok(Command::Help) => print(HELP),
        Ok(Command::Version) => print(concat!("latchkey-join-service ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Command::With(file, "check")) => {
            load(&file).and_then(|(config, prepared)| print(&describe(&config, &prepared)?))
        }
        Ok(Command::With(file, _)) => key_hash(&file),
        Ok(Command::Do(_, file)) => identity::create(&file)
            .map_err(ProgramError::unusable)
            .and_then(|key| print(&format!("{}\n", command_line(&key)))),
        Ok(Command::Serve(file, format)) => program::serve(format, || serve(&file)),
        Err(sentence) => Err(ProgramError::unusable(sentence)),
    };
    program::exit(NAME, outcome)
}

fn key_hash(file: &Path) -> Result<(), ProgramError> {
    let config = Config::load(file).map_err(ProgramError::unusable)?;
    let key = identity::load(&config.identity_key).map_err(ProgramError::unusable)?;
    print(&format!("{}\n", command_line(&key)))
}

/// What a node's command line has to say.
fn command_line(key: &PinnedKeyAttester) -> String {
    format!("latchkey.join_service_key=sha256:{}", key.hash())
}

/// Reads and checks everything that the service needs from files.
fn load(file: &Path) -> Result<(Config, Prepared), ProgramError> {
    let (config, secrets) = credentials::load(file)?;
    let back_end = BackEnd::open(&config.place().map_err(ProgramError::unusable)?).map_err(ProgramError::unusable)?;
    let current = CurrentCluster::load(Cluster(back_end.clone()), config.collateral.as_deref());
    let current = current.map_err(ProgramError::unusable)?;
    secrets.check(&config, current.snapshot().own.cluster.as_deref())?;
    Ok((config, Prepared { secrets, back_end, current }))
}

fn serve(file: &Path) -> Result<(), ProgramError> {
    let (config, prepared) = load(file)?;
    server::serve(file, config, prepared.open()?)
}

/// What the service would do, for `--check`.
fn describe(config: &Config, prepared: &Prepared) -> Result<String, ProgramError> {
    let snapshot = prepared.current.snapshot();
    let silent = match &snapshot.own.cluster {
        Some(cluster) => ask_key_service(config, prepared, cluster)?,
        None => String::new(),
    };
    let mut text = String::from("The configuration is good. The service would\n");
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        // Writing to a String does not fail.
        let _ = writeln!(text, "- {arguments}");
    };
    line(format_args!("meet nodes on {} with the key sha256:{}", config.listen, prepared.secrets.identity.hash()));
    line(format_args!("{}", admin_in_words(config.admin_listen, config.metrics.as_ref())));
    if let Some(socket) = &config.denial_socket {
        line(format_args!("hear of root's denials on {}", socket.display()));
    }
    match config.place() {
        Ok(ClusterPlace::Directory(path)) => line(format_args!("keep the cluster in {}", path.display())),
        Ok(ClusterPlace::Kubernetes(api)) => {
            line(format_args!("keep the cluster in the API server that {} names", api.kubeconfig.display()));
        }
        Err(_) => {}
    }
    match prepared.back_end.api_server().map(|api| api.may_delete_records()) {
        None | Some(Ok(true)) => {}
        Some(Ok(false)) => {
            let chart = PlaceCode::ChartNotUpgraded;
            line(format_args!(
                "keep each record that came second, and its machine out: it may not delete attestednodes ({chart}); {}",
                chart.remedy()
            ));
        }
        Some(Err(error)) => line(format_args!("perhaps not delete a record that came second: {error}")),
    }
    match (&config.key_service, &config.master_secret_file) {
        (Some(service), _) => {
            line(format_args!("get keys from {} ({}){silent}", service.address, service.server_name));
        }
        (None, Some(file)) => line(format_args!("derive keys from {}", file.display())),
        (None, None) => {}
    }
    if prepared.secrets.control_plane.is_some() {
        line(format_args!("give control planes what they share, one at a time"));
    }
    if prepared.secrets.inside.is_some() {
        line(format_args!("have every further control plane run these services, too"));
    }
    match &config.collateral {
        Some(directory) => {
            line(format_args!("verify processors' reports by the collateral in {}", directory.display()));
        }
        None if snapshot.has_collateral() => {
            line(format_args!("verify processors' reports by the collateral in the API server"));
        }
        None => {}
    }
    if let Err(refusal) = snapshot.processors.check_means(&snapshot.policy) {
        let why = if snapshot.has_collateral() { refusal.detail() } else { NO_COLLATERAL };
        line(format_args!("admit nobody: the policy demands processors' reports, and {why}"));
    }
    for manifest in snapshot.references.iter() {
        let values = manifest.values();
        line(format_args!(
            "admit {} images of the manifest {}, serial {}",
            values.images().len(),
            values.name(),
            values.serial()
        ));
    }
    match &snapshot.own.cluster {
        Some(cluster) => line(format_args!("let them into the cluster {} ({})", cluster.name, cluster.cluster_id)),
        None => line(format_args!("tell them that the cluster is not initialised yet")),
    }
    let default = match snapshot.own.enrolment.default.role {
        RoleRule::ControlPlane => "as control planes",
        RoleRule::Worker => "as workers",
        RoleRule::Hold => "when the operator says so",
        RoleRule::Refuse => "not at all",
    };
    line(format_args!(
        "let {} TPMs in by rules of their own, and others {default}",
        snapshot.own.enrolment.pinned.len()
    ));
    Ok(text)
}

/// Whether the key service has this cluster's master secret and gives its keys; where it does not answer, the words for that.
fn ask_key_service(config: &Config, prepared: &Prepared, cluster: &ClusterFile) -> Result<String, ProgramError> {
    if config.key_service.is_none() {
        return Ok(String::new());
    }
    match smol::block_on(prepared.secrets.keys.measurement(cluster)) {
        Ok(_) => Ok(", which has this cluster's master secret".to_owned()),
        Err(error @ KeyError::Unavailable(_)) => {
            Ok(format!("; whether it has this cluster's master secret is not known: {error}"))
        }
        Err(error) => Err(ProgramError::unusable(format!("{error}; {}", error.code().remedy()))),
    }
}
