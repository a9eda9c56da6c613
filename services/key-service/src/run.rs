//! From the command line to an exit code.

use crate::config::CallerRule;
use crate::current::Prepared;
use crate::server;
use latchkey_service_runtime::config::admin_in_words;
use latchkey_service_runtime::program::{self, Command, ProgramError, print};
use std::ffi::OsString;
use std::process::ExitCode;

const NAME: &str = "latchkey-key-service";

const HELP: &str = "\
latchkey-key-service --config FILE [--log text|json | --check]

Derives data keys from a master secret for callers that its configuration names,
over gRPC with mutual TLS 1.3.

  --config FILE   the configuration, JSON; key-service.example.json shows every field
  --check         read and check everything the service needs, say what it would
                  do, and exit without listening
  --log FORMAT    how the log on stderr is written: text (the default), or json, one
                  object per line
  --version       print the version
  --help          print this

Prints a line that begins with READY once it listens.
Exit codes: 0 stopped as asked, or checked and good; 1 failed while running;
2 wrong arguments, or a configuration that cannot be used.
SIGTERM and SIGINT stop it; running calls are finished first. SIGHUP reads everything
again; what is not good changes nothing, and is said.
";

/// Runs the program. `arguments` begin with the program's name.
///
/// Exit codes: 0 stopped as asked, or checked and good; 1 failed while running; 2 wrong arguments or an unusable
/// configuration.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let outcome = match program::parse(arguments.into_iter().skip(1), &["check"], &[]) {
        Ok(Command::Help) => print(HELP),
        Ok(Command::Version) => print(concat!("latchkey-key-service ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Command::Serve(file, format)) => program::serve(format, || server::serve(&file, Prepared::load(&file)?)),
        Ok(Command::With(file, _) | Command::Do(_, file)) => {
            Prepared::load(&file).and_then(|prepared| print(&describe(&prepared)))
        }
        Err(sentence) => Err(ProgramError::unusable(sentence)),
    };
    program::exit(NAME, outcome)
}

/// What the service would do, for `--check`.
fn describe(Prepared { config, master, .. }: &Prepared) -> String {
    let versions: Vec<String> = master.versions().map(|version| version.to_string()).collect();
    let mut text = format!(
        "The configuration is good. The service would\n\
         - serve keys on {}, over TLS 1.3, to clients with a certificate by {}\n\
         - {}\n\
         - derive from version {} of the master secret ({} held)\n",
        config.listen,
        config.tls.client_ca.display(),
        admin_in_words(config.admin_listen, config.metrics.as_ref()),
        master.current(),
        versions.join(", "),
    );
    let of = match &config.cluster {
        Some(cluster) => format!("- give those of the cluster {}, whose master secret it is\n", cluster.cluster_id),
        None => {
            "- give them whichever cluster the master secret is of: `cluster` is not named, so that was not looked at\n"
                .to_owned()
        }
    };
    text.push_str(&of);
    for rule in &config.callers {
        text.push_str(&describe_rule(rule));
    }
    if config.callers.is_empty() {
        text.push_str("- give keys to nobody: `callers` is empty\n");
    }
    text
}

fn describe_rule(rule: &CallerRule) -> String {
    let CallerRule { name, key_classes, requests_per_minute, burst } = rule;
    let classes: Vec<&str> = key_classes.iter().map(|class| class.name()).collect();
    if classes.is_empty() {
        return format!("- refuse {name} every key: its `key_classes` is empty\n");
    }
    let classes = classes.join(" and ");
    format!("- give {name} keys of {classes}, {requests_per_minute} a minute, up to {burst} at once\n")
}
