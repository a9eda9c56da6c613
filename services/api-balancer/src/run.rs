//! From the command line to an exit code.

use crate::config::Config;
use crate::serve::{Balancer, Pace};
use crate::targets::Targets;
use latchkey_service_runtime::config::ConfigFile as _;
use latchkey_service_runtime::pages::Pages;
use latchkey_service_runtime::program::{self, Command, ProgramError, print};
use latchkey_service_runtime::signals::{Asked, SignalStream};
use smol::future::FutureExt as _;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

const NAME: &str = "latchkey-api-balancer";

const HELP: &str = "\
latchkey-api-balancer --config FILE [--log text|json | --check]

Leads this node's programs to the API server of a control plane that is up.

  --config FILE   the configuration, JSON; api-balancer.example.json shows every field
  --check         read and check the configuration and the list of API servers, say
                  what it would do, and exit without listening
  --log FORMAT    how the log on stderr is written: text (the default), or json, one
                  object per line
  --version       print the version
  --help          print this

Prints a line that begins with READY once it listens.
Exit codes: 0 stopped as asked, or checked and good; 1 failed while running;
2 wrong arguments, or a configuration or list that cannot be used.
SIGTERM and SIGINT stop it; connections end then.
";

/// Runs the program. `arguments` begin with the program's name.
///
/// Exit codes: 0 stopped as asked, or checked and good; 1 failed while running; 2 wrong arguments or an unusable configuration.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let outcome = match program::parse(arguments.into_iter().skip(1), &["check"], &[]) {
        Ok(Command::Help) => print(HELP),
        Ok(Command::Version) => print(concat!("latchkey-api-balancer ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Command::Serve(file, format)) => program::serve(format, || serve(&file)),
        Ok(Command::With(file, _) | Command::Do(_, file)) => check(&file),
        Err(sentence) => Err(ProgramError::unusable(sentence)),
    };
    program::exit(NAME, outcome)
}

fn check(file: &Path) -> Result<(), ProgramError> {
    let config = Config::load(file).map_err(ProgramError::unusable)?;
    let targets = Targets::read(&config.api_servers).map_err(ProgramError::unusable)?;
    let list: Vec<String> = targets.iter().map(|target| target.to_string()).collect();
    print(&format!(
        "The configuration is good. The balancer would lead from {} to {}\n",
        config.listen,
        list.join(", ")
    ))
}

fn serve(file: &Path) -> Result<(), ProgramError> {
    let config = Config::load(file).map_err(ProgramError::unusable)?;
    let mut signals = SignalStream::catch()?;
    let pages = Pages::open(config.pages.clone())?;
    smol::block_on(async {
        let balancer = Balancer::bind(config, Pace::default()).await?;
        print(&format!("READY listen={}{}\n", balancer.address()?, pages.in_ready_line()?))?;
        let telling = pages.answer(balancer.page());
        let stopped = async {
            while signals.next().await != Asked::Stop {}
            Ok(())
        };
        let serving = async {
            balancer.serve().await;
            Ok(())
        };
        serving.or(telling).or(stopped).await.map_err(ProgramError::running)
    })
}
