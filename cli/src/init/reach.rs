//! Where the operator's machine reaches the API server: through a forwarded port or a bastion it is another address than nodes use.
//!
//! The kubeconfig says the address, and the name that the API server's certificate has: the host that the node itself wrote there.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::config::{Config, malformed};
use crate::api_server::Kubeconfig;
use crate::error::CommandError;
use crate::node::Address;
use crate::stock::Stock;

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
pub(super) async fn at(stock: &Stock, kubeconfig: Kubeconfig, address: &Address) -> Result<Kubeconfig, CommandError> {
    let kubectl = stock.kubectl_alone(&kubeconfig.path())?;
    let Named { name, cluster } = kubectl.named_cluster_of_kubeconfig().await?;
    let server = format!("https://{address}");
    if cluster.server == server {
        return Ok(kubeconfig);
    }
    let tls_name = cluster.tls_server_name.unwrap_or_else(|| host(&cluster.server).to_owned());
    let unusable = |error: serde_json::Error| malformed(kubeconfig.named(), &error.to_string());
    let text = kubectl.whole_kubeconfig(false).await?;
    let mut config = Config::parse(&text, kubeconfig.named())?;
    let known = config.clusters.iter_mut().flatten().find(|known| known.name == name);
    let known = known.ok_or_else(|| malformed(kubeconfig.named(), &format!("it has no cluster {name}")))?;
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(known.cluster.get()).map_err(unusable)?;
    for (field, value) in [("server", server), ("tls-server-name", tls_name)] {
        fields.insert(field.to_owned(), to_raw_value(&value).map_err(unusable)?);
    }
    let changed = to_raw_value(&fields).map_err(unusable)?;
    known.cluster = &changed;
    let text = config.in_its_form(stock, kubeconfig.named()).await?;
    kubeconfig.replaced_by(&text)
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
