//! How a joining node finds its cluster: a kubeconfig with what the ticket says.
//!
//! kubeadm could also ask the API server for the cluster's CA, anonymously, and compare it with a hash. The ticket came over
//! the attested channel: it brings the CA itself, and no API server has to answer strangers. The kubeconfig has the token in
//! it: kubeadm would ask without one otherwise, and takes nothing but 403 for the answer that there is nothing to be read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api::v1::ClusterJoin;
use serde::Serialize;
use zeroize::Zeroizing;

use super::{StepCode, StepError};

/// What cluster, user and context are called.
const NAME: &str = "latchkey";

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Config<'a> {
    #[serde(rename = "apiVersion")]
    api_version: &'a str,
    kind: &'a str,
    clusters: [NamedCluster<'a>; 1],
    users: [NamedUser<'a>; 1],
    contexts: [NamedContext<'a>; 1],
    current_context: &'a str,
}

#[derive(Serialize)]
struct NamedCluster<'a> {
    name: &'a str,
    cluster: Cluster,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority_data: String,
}

#[derive(Serialize)]
struct NamedUser<'a> {
    name: &'a str,
    user: User<'a>,
}

#[derive(Serialize)]
struct User<'a> {
    token: &'a str,
}

#[derive(Serialize)]
struct NamedContext<'a> {
    name: &'a str,
    context: Context<'a>,
}

#[derive(Serialize)]
struct Context<'a> {
    cluster: &'a str,
    user: &'a str,
}

/// The kubeconfig of a checked ticket, for the API server at `server` (`HOST:PORT`).
pub(super) fn kubeconfig(ticket: &ClusterJoin, server: &str) -> Result<Zeroizing<Vec<u8>>, StepError> {
    let cluster = Cluster {
        server: format!("https://{server}"),
        certificate_authority_data: STANDARD.encode(&ticket.ca_certificates),
    };
    let config = Config {
        api_version: "v1",
        kind: "Config",
        clusters: [NamedCluster { name: NAME, cluster }],
        users: [NamedUser { name: NAME, user: User { token: &ticket.bootstrap_token } }],
        contexts: [NamedContext { name: NAME, context: Context { cluster: NAME, user: NAME } }],
        current_context: NAME,
    };
    let text = serde_json::to_vec_pretty(&config).map_err(|e| StepError::new(StepCode::Input, e.to_string()))?;
    Ok(Zeroizing::new(text))
}
