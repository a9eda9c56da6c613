//! From the command line to an exit code.

use crate::config::Config;
use crate::server::{self, Prepared};
use crate::source::{CurrentDirectory, Directory};
use latchkey_attesting_service::identity;
use latchkey_channel::PinnedKeyAttester;
use latchkey_cluster_store::registration::RegistrationStore;
use latchkey_factory_plus::uuids::service;
use latchkey_service_runtime::config::{ConfigFile as _, admin_in_words};
use latchkey_service_runtime::guarded;
use latchkey_service_runtime::program::{self, Command, ProgramError, print};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// Where collateral could be and is not.
const NO_COLLATERAL: &str = "there is no collateral: name a directory in `collateral`";

const NAME: &str = "latchkey-enrol-service";

const HELP: &str = "\
latchkey-enrol-service --config FILE [--log text|json | --check | --print-key-hash]
latchkey-enrol-service --new-key FILE

Takes up clusters at a centre whose first node proves what it runs, by an invitation,
a rule, or the operator's word.

  --config FILE      the configuration, JSON; enrol-service.example.json shows every
                     field
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
or a configuration or directory that cannot be used.
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
        Ok(Command::Version) => print(concat!("latchkey-enrol-service ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Command::With(file, "check")) => load(&file).and_then(|prepared| print(&describe(&prepared))),
        Ok(Command::With(file, _)) => key_hash(&file),
        Ok(Command::Do(_, file)) => identity::create(&file)
            .map_err(ProgramError::unusable)
            .and_then(|key| print(&format!("{}\n", command_line(&key)))),
        Ok(Command::Serve(file, format)) => program::serve(format, || server::serve(load(&file)?)),
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
    format!("latchkey.centre_key=sha256:{}", key.hash())
}

/// Reads and checks everything that the service needs from files.
fn load(file: &Path) -> Result<Prepared, ProgramError> {
    let config = Config::load(file).map_err(ProgramError::unusable)?;
    let identity = identity::load(&config.identity_key).map_err(ProgramError::unusable)?;
    guarded::check(config.metrics.as_ref()).map_err(ProgramError::unusable)?;
    let directory = RegistrationStore::open(&config.directory).map_err(ProgramError::unusable)?;
    let current = CurrentDirectory::load(Directory(directory), config.collateral.as_deref());
    let current = current.map_err(ProgramError::unusable)?;
    let needs = [(service::CONFIG_DB, "configuration database"), (service::CLUSTER_MANAGER, "cluster manager")];
    let client = config.centre.client(&needs).map_err(ProgramError::unusable)?;
    Ok(Prepared { config, identity, current, client })
}

/// What the service would do, for `--check`.
fn describe(Prepared { config, identity, current, .. }: &Prepared) -> String {
    let snapshot = current.snapshot();
    let mut text = String::from("The configuration is good. The service would\n");
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        // Writing to a String does not fail.
        let _ = writeln!(text, "- {arguments}");
    };
    line(format_args!("meet nodes on {} with the key sha256:{}", config.listen, identity.hash()));
    line(format_args!("{}", admin_in_words(config.admin_listen, config.metrics.as_ref())));
    line(format_args!("be {} to the centre", config.centre.principal));
    if snapshot.policy.is_of_nobody() {
        line(format_args!("admit nobody: there is no policy.json in {}", config.directory.display()));
    }
    if let Err(refusal) = snapshot.processors.check_means(&snapshot.policy) {
        let why = if snapshot.has_collateral() { refusal.detail() } else { NO_COLLATERAL };
        line(format_args!("admit nobody: the policy demands processors' reports, and {why}"));
    }
    for manifest in snapshot.references.iter() {
        let values = manifest.values();
        let (images, name, serial) = (values.images().len(), values.name(), values.serial());
        line(format_args!("admit {images} images of the manifest {name}, serial {serial}"));
    }
    for rule in &snapshot.own.rules {
        let tpms = rule.eks.as_ref().map_or_else(|| "any TPM".to_owned(), |eks| format!("{} TPMs", eks.len()));
        let (name, manifest, least) = (&rule.name, &rule.manifest, rule.minimum_version);
        let (names, most) = (&rule.cluster_names, rule.per_day);
        line(format_args!(
            "take up {names} for {tpms} of {manifest} from {least} on, {most} a day, by the rule {name}"
        ));
    }
    line(format_args!("take up whom an invitation or the operator names, and hold all others"));
    text
}
