//! From the command line to an exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use latchkey_edge_service::RUNNING;
use latchkey_service_runtime::binary::Binary;
use latchkey_service_runtime::program::{self, ProgramError, print};

use crate::operator;
use crate::redeem::command;

const NAME: &str = "krb-keys";
const VERSION: &str = env!("CARGO_PKG_VERSION");

const REDEEM: Binary<command::Prepared> = Binary {
    name: "krb-keys redeem",
    version: VERSION,
    about: "Redeems the bootstrap link of an edge cluster: makes the keys of its operator of keys and of its Flux,\nand writes them into Secrets. It can be run again, and then changes what is not as it is to be.",
    running: "What is away, the centre, the KDC or the API server, is asked again for a while.\n",
    load: command::Prepared::load,
    describe: command::Prepared::describe,
    serve: command::run,
};

const RUN: Binary<operator::command::Prepared> = Binary {
    name: "krb-keys run",
    version: VERSION,
    about: "Keeps the Kerberos keys of an edge cluster: of each KerberosKey and LocalSecret, the key in its Secret and\nat the KDC.",
    running: RUNNING,
    load: operator::command::Prepared::load,
    describe: operator::command::Prepared::describe,
    serve: operator::command::run,
};

const USAGE: &str = "krb-keys redeem --config FILE [--log text|json | --check]
krb-keys [run] --config FILE [--log text|json | --check]
krb-keys --version | --help

An edge cluster's operator of keys.

  redeem          redeem the cluster's bootstrap link, once
  run             keep the keys that KerberosKeys ask for

`krb-keys redeem --help` and `krb-keys run --help` say more.
";

/// Runs the program. `arguments` begin with the program's name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter().skip(1);
    let command = arguments.next().unwrap_or_default();
    let rest = std::iter::once(OsString::from(NAME)).chain(arguments);
    let outcome = match command.to_str() {
        Some("redeem") => return REDEEM.run(rest),
        Some("run") => return RUN.run(rest),
        // As all programs of an edge are started.
        Some("--config") => {
            let whole = [OsString::from(NAME), command];
            return RUN.run(whole.into_iter().chain(rest.skip(1)));
        }
        Some("--help") => print(USAGE),
        Some("--version") => print(&format!("{NAME} {VERSION}\n")),
        _ => Err(ProgramError::unusable(
            "say what to do: `krb-keys redeem --config FILE`, or `krb-keys run --config FILE`; --help says more",
        )),
    };
    program::exit(NAME, outcome)
}
