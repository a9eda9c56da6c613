//! `latchkey`, the human's command.
//!
//! In the order of a run:
//!
//! 1. [`spec`] is one table of all commands and flags; arguments are read by it, `--help` is printed from it.
//! 2. The command's own module (`init`, `recover`, `verify`, …) does the work, and computes a typed [`output::Report`].
//! 3. [`node`] reaches nodes: every connection is attested before a byte of a request is sent.
//!    What concerns a Kubernetes cluster, stock kubectl and helm do, which [`stock`] runs.
//! 4. [`output`] is the only module that prints: reports for humans, as JSON, or nearly nothing. The report says how the run ends.
//! 5. An [`error`] says what went wrong, because of what, and how to mend it; its kind is the exit code.
//!
//! Secrets come from files or standard input, never from arguments or the environment, and go to files of mode 0600.

mod admission;
mod api_server;
mod arguments;
mod backup;
mod centre;
mod charts;
mod client_certificate;
mod clock;
mod cluster_dir;
mod clusters;
mod codes;
mod collateral;
mod collateral_install;
mod credentials;
mod documents;
mod ek_file;
mod error;
mod exit;
mod files;
mod firmware;
mod image;
mod init;
mod init_secret;
mod kubernetes;
mod lock;
mod machines;
mod measure;
mod mistaken;
mod node;
mod nodes;
mod output;
mod owner;
mod pinned_key;
mod policy;
mod printable;
mod record;
mod recover;
mod reference;
mod sealed;
mod secret;
mod seen;
mod spec;
mod status;
mod stock;
mod store_error;
mod tpm;
mod trust;
mod upgrade;
mod upload;
mod verify;
mod which_machine;

use std::ffi::OsString;

pub use codes::CommandCode;
pub use exit::Exit;
pub use stock::StockCode;

use output::{Format, Output};
use spec::Parsed;

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_reason::reasons::<CommandCode>().chain(latchkey_reason::reasons::<StockCode>())
}

/// Runs one command; `arguments` are those behind the program's name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match spec::parse(&arguments) {
        Ok(Parsed::Help(text)) => {
            let output = Output::new(Format::Human, false);
            output.text(&text).unwrap_or_else(|failure| output.failed(&failure))
        }
        Ok(Parsed::Nothing(text)) => {
            Output::new(Format::Human, false).explain(&text);
            Exit::Usage
        }
        Ok(Parsed::Command(command, arguments)) => {
            let output = Output::new(arguments.format(), arguments.quiet());
            let done = (command.run)(&arguments, &output).map_err(|failure| failure.of_command(&command.name()));
            done.unwrap_or_else(|failure| output.failed(&failure))
        }
        Err((format, failure)) => Output::new(format, false).failed(&failure),
    }
}
