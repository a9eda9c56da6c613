//! From the command line to an exit code.

use crate::args::{self, Command};
use crate::config::{CallerRule, Config};
use crate::server::{Bound, Prepared};
use crate::tls;
use async_signal::{Signal, Signals};
use latchkey_keys::MasterSecret;
use smol::stream::StreamExt;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Wrong arguments or an unusable configuration; everything else that fails is 1.
const UNUSABLE: u8 = 2;

/// Runs the program. `arguments` begin with the program's name.
///
/// Exit codes: 0 stopped as asked, or checked and good; 1 failed while running; 2 wrong arguments or an unusable
/// configuration.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let outcome = match args::parse(arguments.into_iter().skip(1)) {
        Ok(Command::Help) => print(args::HELP),
        Ok(Command::Version) => print(concat!("latchkey-key-service ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Command::Check(file)) => load(&file).and_then(|(config, prepared)| print(&describe(&config, &prepared))),
        Ok(Command::Serve(file)) => serve(&file),
        Err(sentence) => Err(Failure { code: UNUSABLE, sentence }),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, sentence }) => {
            // Without stderr there is nobody to tell; the exit code remains.
            drop(writeln!(io::stderr(), "latchkey-key-service: {sentence}"));
            ExitCode::from(code)
        }
    }
}

struct Failure {
    code: u8,
    sentence: String,
}

impl Failure {
    fn unusable(error: impl Error) -> Self {
        Self { code: UNUSABLE, sentence: error.to_string() }
    }

    fn running(error: impl Error) -> Self {
        Self { code: 1, sentence: error.to_string() }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    io::stdout().write_all(text.as_bytes()).map_err(Failure::running)
}

/// Reads and checks everything that the service needs from files.
fn load(file: &Path) -> Result<(Config, Prepared), Failure> {
    let config = Config::load(file).map_err(Failure::unusable)?;
    let master = MasterSecret::load(&config.master_secret).map_err(Failure::unusable)?;
    let acceptor = tls::acceptor(&config.tls).map_err(Failure::unusable)?;
    Ok((config, Prepared { master, acceptor }))
}

fn serve(file: &Path) -> Result<(), Failure> {
    forbid_dumps()?;
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
    let (config, prepared) = load(file)?;
    let mut signals = Signals::new([Signal::Term, Signal::Int]).map_err(Failure::running)?;
    smol::block_on(async {
        let bound = Bound::open(config, prepared).await.map_err(Failure::running)?;
        let (address, admin) = bound.addresses().map_err(Failure::running)?;
        tracing::info!(%address, %admin, version = env!("CARGO_PKG_VERSION"), "Serving");
        let stop = async {
            signals.next().await;
        };
        bound.serve(stop).await.map_err(Failure::running)?;
        tracing::info!("Stopped");
        Ok(())
    })
}

/// The master secret must not end up in a core dump, nor be read by a debugger of the same user.
fn forbid_dumps() -> Result<(), Failure> {
    let behavior = rustix::process::DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(behavior).map_err(Failure::running)
}

/// What the service would do, for `--check`.
fn describe(config: &Config, prepared: &Prepared) -> String {
    let versions: Vec<String> = prepared.master.versions().map(|version| version.to_string()).collect();
    let mut text = format!(
        "The configuration is good. The service would\n\
         - serve keys on {}, over TLS 1.3, to clients with a certificate by {}\n\
         - serve /metrics and /healthz on {}\n\
         - derive from version {} of the master secret ({} held)\n",
        config.listen,
        config.tls.client_ca.display(),
        config.admin_listen,
        prepared.master.current(),
        versions.join(", "),
    );
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
