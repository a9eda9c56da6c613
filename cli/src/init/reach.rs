//! Where the operator's machine reaches the API server: through a forwarded port or a bastion it is another address than nodes use.
//!
//! The kubeconfig says the address, and the name that the API server's certificate has: the host that the node itself wrote there.

use std::path::Path;

use serde::Deserialize;

use crate::error::CommandError;
use crate::files::{self, Readers};
use crate::node::Address;
use crate::stock::Stock;

/// More than a kubeconfig of one user.
const MAX: usize = 1024 * 1024;

#[derive(Deserialize)]
struct Named {
    name: String,
    cluster: Known,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Known {
    server: String,
    tls_server_name: Option<String>,
}

/// Changes the kubeconfig, unless it says so already. It is whole at every moment: what changes is a copy.
pub(super) async fn at(stock: &Stock, kubeconfig: &Path, address: &Address) -> Result<(), CommandError> {
    let Named { name, cluster } = stock.kubectl_alone(kubeconfig)?.named_cluster_of_kubeconfig().await?;
    let server = format!("https://{address}");
    if cluster.server == server {
        return Ok(());
    }
    let tls_name = cluster.tls_server_name.unwrap_or_else(|| host(&cluster.server).to_owned());
    let draft = Draft(kubeconfig.with_extension("changed"));
    files::replace(&draft.0, files::read_secret(kubeconfig, MAX)?.expose(), Readers::OwnerOnly)?;
    stock.kubectl_alone(&draft.0)?.set_cluster(&name, &server, &tls_name).await?;
    files::replace(kubeconfig, files::read_secret(&draft.0, MAX)?.expose(), Readers::OwnerOnly)
}

/// A file that goes with this value.
struct Draft(std::path::PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        // Nobody asks for it any more, and the next run writes over it.
        drop(std::fs::remove_file(&self.0));
    }
}

/// The host of an address such as `https://[fd00::1]:6443`, as certificates have it.
fn host(server: &str) -> &str {
    let authority = server.split_once("://").map_or(server, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    if let Some((address, _)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_what_a_certificate_has() {
        for (server, name) in [
            ("https://10.1.1.1:6443", "10.1.1.1"),
            ("https://api.example", "api.example"),
            ("https://api.example:443/prefix", "api.example"),
            ("https://[fd00::1]:6443", "fd00::1"),
            ("https://[fd00::1]", "fd00::1"),
        ] {
            assert_eq!(host(server), name);
        }
    }
}
