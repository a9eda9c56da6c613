//! The command line.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use latchkey_kubernetes::fetch::Limits;
use latchkey_kubernetes::{ComponentList, Minor, Role, Sha256};

use crate::error::{ComponentsError, at};
use crate::store::{Others, Store};

const HELP: &str = "\
latchkey-components: gets a node's components of Kubernetes, and verifies them

The agent of an image without Kubernetes in it calls this. Nobody else needs to.

Usage:
  latchkey-components fetch --role ROLE [--version MINOR] < LIST
  latchkey-components verify --role ROLE [--keep-others] SHA256

  fetch           gets what a list names, and puts it in place
  verify          holds what is there against the list that has this hash;
                  what is not right is got again

  --role ROLE     control-plane or worker
  --version MINOR refuse a list of another version, such as 1.34
  --keep-others   what other lists name stays, for another fetch
  --store DIR     where components lie [/var/lib/latchkey/components]
  --link PATH     what leads to verified programs [/run/latchkey-components]
  --silence SECS  how long a mirror may say nothing [30]
  --help          print this
";
/// A list has at most this; one byte more is refused as too long.
const MOST: u64 = 64 * 1024 + 1;

struct Arguments {
    task: Task,
    role: Role,
    version: Option<Minor>,
    store: PathBuf,
    link: PathBuf,
    others: Others,
    limits: Limits,
}

enum Task {
    Fetch,
    Verify(Sha256),
}

/// Runs the command: 0 is success, 1 a failure that its last line names with its reason code, 2 a wrong argument.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match parse(arguments) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("latchkey-components: {error}; see --help");
            return ExitCode::from(2);
        }
    };
    match work(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let reason = error.reason();
            eprintln!("failed: {reason}: {error}; {}", reason.remedy);
            ExitCode::FAILURE
        }
    }
}

fn work(arguments: &Arguments) -> Result<(), ComponentsError> {
    let store = Store::new(&arguments.store, &arguments.link, arguments.limits);
    let mut say = |line: &str| println!("{line}");
    match arguments.task {
        Task::Verify(expected) => store.verify(expected, arguments.role, arguments.others, &mut say),
        Task::Fetch => {
            let mut list = Vec::new();
            let input = PathBuf::from("standard input");
            io::stdin().lock().take(MOST).read_to_end(&mut list).map_err(at(&input))?;
            if let Some(version) = arguments.version {
                ComponentList::parse(&list)?.expect(version)?;
            }
            store.fetch(&list, arguments.role, &mut say)
        }
    }
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Option<Arguments>, lexopt::Error> {
    use lexopt::prelude::*;

    let mut parser = lexopt::Parser::from_iter(arguments);
    let (mut task, mut role, mut version) = (None, None, None);
    let (mut store, mut link) = ("/var/lib/latchkey/components".into(), "/run/latchkey-components".into());
    let (mut limits, mut others) = (Limits::default(), Others::Removed);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("help") => return Ok(None),
            Long("role") => {
                role = Some(match parser.value()?.string()?.as_str() {
                    "control-plane" => Role::ControlPlane,
                    "worker" => Role::Worker,
                    other => return Err(format!("--role {other}: it is control-plane or worker").into()),
                });
            }
            Long("version") => version = Some(parser.value()?.parse()?),
            Long("keep-others") => others = Others::Kept,
            Long("store") => store = parser.value()?.into(),
            Long("link") => link = parser.value()?.into(),
            Long("silence") => limits.silence = Duration::from_secs(parser.value()?.parse()?),
            Value(word) if task.is_none() && word == "fetch" => task = Some(Task::Fetch),
            Value(word) if task.is_none() && word == "verify" => {
                let hash = Sha256::try_from(parser.value()?.string()?)?;
                task = Some(Task::Verify(hash));
            }
            other => return Err(other.unexpected()),
        }
    }
    let task = task.ok_or("neither fetch nor verify is said")?;
    let role = role.ok_or("--role is missing")?;
    Ok(Some(Arguments { task, role, version, store, link, others, limits }))
}
