//! `latchkey credentials`: new client certificates for the join service, and for the cluster's administrator.

use std::time::Duration;

use serde::Serialize;

use crate::api_server::{ApiServer, KUBEADM_PORT, SERVICE, issue};
use crate::arguments::Arguments;
use crate::client_certificate::Client;
use crate::cluster_dir::ClusterDir;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::init::authorities;
use crate::machines;
use crate::node::{Address, block_on};
use crate::output::{Output, Report, Style, pairs};

pub(crate) fn join_service(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let out = arguments.required_path("out")?;
    files::must_be_a_file(out, "it holds a key, and is replaced as a whole")?;
    let api = api_server(arguments)?;
    output.waiting("waiting for the certificate");
    files::replace(out, &block_on(issue(&api))?, Readers::OwnerOnly)?;
    output.report(&CredentialsReport { user: SERVICE, kubeconfig: out.display().to_string() })
}

/// Whom kubeadm's clusters give every right, by a group; `kubectl auth whoami` shows both.
const ADMINISTRATOR: Client = Client {
    user: "kubernetes-admin",
    group: Some("kubeadm:cluster-admins"),
    lifetime: Duration::from_hours(365 * 24),
};

/// `latchkey credentials admin`: for a kubeconfig that was lost, or ends. Nobody is asked: the directory has the cluster's authority.
pub(crate) fn admin(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let out = arguments.required_path("out")?;
    files::must_be_a_file(out, "it holds a key, and is replaced as a whole")?;
    let said = arguments.required_text("api-server")?;
    let address = Address::parse(said, KUBEADM_PORT).map_err(CommandError::usage)?;
    let directory = ClusterDir::open(arguments.required_path("cluster")?)?;
    let shared = authorities::kept(&directory)?.ok_or_else(|| {
        let what = "the directory has no control-plane.json: this cluster's authority was made on its first machine";
        CommandError::new(Exit::Missing, CommandCode::AuthorityMissing, what)
    })?;
    let unusable = |why: String| CommandError::local(CommandCode::SecretUnusable, "control-plane.json").because(why);
    let kubeconfig = ADMINISTRATOR.kubeconfig(&shared, &address.to_string()).map_err(unusable)?;
    files::replace(out, &kubeconfig, Readers::OwnerOnly)?;
    output.report(&CredentialsReport { user: ADMINISTRATOR.user, kubeconfig: out.display().to_string() })
}

fn api_server(arguments: &Arguments) -> Result<ApiServer, CommandError> {
    if let Some(api) = machines::api_server(arguments)? {
        return Ok(api);
    }
    let directory = ClusterDir::open_lacking(arguments.required_path("cluster")?)?;
    let what = format!("the cluster of {} is kept in that directory, not in an API server", directory.shown());
    Err(CommandError::usage(what).fix("the join service needs no kubeconfig for it"))
}

/// Somebody has new credentials.
#[derive(Serialize)]
struct CredentialsReport {
    user: &'static str,
    kubeconfig: String,
}

impl Report for CredentialsReport {
    fn text(&self, _: Style) -> String {
        let lines = pairs(&[("user", self.user.to_owned()), ("kubeconfig", self.kubeconfig.clone())]);
        let read = if self.user == SERVICE { " A join service reads it when it starts." } else { "" };
        format!("{lines}Good for a year.{read}\n")
    }
}
