//! `latchkey credentials join-service`: a new client certificate for the join service.

use std::path::Path;

use serde::Serialize;

use crate::api_server::{ApiServer, SERVICE, StoreNote, issue};
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::node::block_on;
use crate::output::{Output, Report, Style, pairs};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let out = arguments.required_path("out")?;
    files::must_be_a_file(out, "it holds a key, and is replaced as a whole")?;
    let api = api_server(arguments)?;
    output.waiting("waiting for the certificate");
    block_on(issue(&api, out))?;
    output.report(&CredentialsReport { user: SERVICE, kubeconfig: out.display().to_string() })
}

fn api_server(arguments: &Arguments) -> Result<ApiServer, CommandError> {
    match (arguments.path("cluster"), arguments.path("kubeconfig")) {
        (None, Some(kubeconfig)) => ApiServer::connect(arguments, kubeconfig),
        (Some(directory), None) => ApiServer::connect(arguments, &noted(directory)?),
        _ => Err(CommandError::usage("name one of --cluster and --kubeconfig")),
    }
}

fn noted(directory: &Path) -> Result<std::path::PathBuf, CommandError> {
    StoreNote::kubeconfig(directory)?.ok_or_else(|| {
        let what = format!("the cluster of {} is kept in that directory, not in an API server", directory.display());
        CommandError::usage(what).fix("the join service needs no kubeconfig for it")
    })
}

/// The join service has new credentials.
#[derive(Serialize)]
struct CredentialsReport {
    user: &'static str,
    kubeconfig: String,
}

impl Report for CredentialsReport {
    fn text(&self, _: Style) -> String {
        let lines = pairs(&[("user", self.user.to_owned()), ("kubeconfig", self.kubeconfig.clone())]);
        format!("{lines}Good for a year. A join service reads it when it starts.\n")
    }
}
