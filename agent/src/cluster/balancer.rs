//! The way to the API servers where nodes have a balancer (`services/api-balancer`): who is asked first, and that it runs.
//!
//! It listens on loopback, keeps the list itself from then on, and starts at each boot before the kubelet. The list decides nothing:
//! whoever is behind an address has to have a certificate of the cluster's authority.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use latchkey_api::v1::{ClusterJoin, ClusterSettings};
use latchkey_keys::SecretVec;
use latchkey_node_config::Endpoint;
use serde::Serialize;
use zeroize::Zeroizing;

use super::config::{self, API_SERVER_PORT};
use super::{StepCode, StepError, files};

/// Where it listens, by the configuration that images give it.
pub(super) const ADDRESS: &str = "127.0.0.1:7445";
/// Its unit.
pub(super) const UNIT: &str = "latchkey-api-balancer.service";
/// `ClusterJoin.api_servers`: "at most 16".
const MAX_API_SERVERS: usize = 16;

/// The balancer's first list, checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ApiServers(BTreeSet<SocketAddr>);

impl ApiServers {
    /// For the first node, whose API server is its own; `None` where the operator wants no balancer.
    pub(super) fn of_settings(settings: &ClusterSettings) -> Result<Option<Self>, StepError> {
        if !settings.api_balancer {
            return Ok(None);
        }
        let endpoint = &settings.control_plane_endpoint;
        let own = config::local_address(endpoint).map(|address| SocketAddr::new(address, API_SERVER_PORT));
        let is_own = |own: &SocketAddr| match Endpoint::of_api_server_or(endpoint, API_SERVER_PORT) {
            None => endpoint.is_empty(),
            Some(said) => said.address() == Some(own.ip()) && said.port == own.port(),
        };
        own.filter(is_own).map(|own| Some(Self([own].into()))).ok_or_else(|| {
            let message = format!(
                "control_plane_endpoint is {endpoint:?}; with a balancer it is empty, or an address of this machine \
                 that the others reach, with the port {API_SERVER_PORT}"
            );
            StepError::new(StepCode::SettingsRefused, message)
        })
    }

    /// For a node that joins; `None` where nodes have no balancer.
    pub(super) fn of_ticket(ticket: &ClusterJoin) -> Result<Option<Self>, StepError> {
        let listed = &ticket.api_servers;
        if listed.is_empty() {
            return Ok(None);
        }
        let is_elsewhere = |address: &SocketAddr| {
            let ip = address.ip();
            address.port() != 0 && !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast()
        };
        let parsed = listed.iter().take(MAX_API_SERVERS + 1).map(|text| text.parse().ok().filter(is_elsewhere));
        match parsed.collect::<Option<BTreeSet<_>>>() {
            Some(addresses) if listed.len() <= MAX_API_SERVERS => Ok(Some(Self(addresses))),
            _ => {
                let message =
                    "the join ticket is not acceptable: its API servers are not at most 16 addresses with ports";
                Err(StepError::new(StepCode::TicketRefused, message))
            }
        }
    }

    /// Writes the list into kubeadm's directory.
    pub(super) fn write(&self, kubernetes: &Path) -> Result<(), StepError> {
        #[derive(Serialize)]
        struct Content<'a> {
            version: u8,
            api_servers: &'a BTreeSet<SocketAddr>,
        }
        let text = serde_json::to_vec(&Content { version: 1, api_servers: &self.0 });
        let text = text.map_err(|error| StepError::new(StepCode::Input, error.to_string()))?;
        files::write(&kubernetes.join("latchkey/api-servers.json"), &text)
    }

    /// The operator's credentials as kubeadm made them, for machines that have no balancer: this node's API server.
    pub(super) fn lead_past_the_balancer(&self, admin_config: &SecretVec) -> SecretVec {
        let (Ok(text), Some(own)) = (std::str::from_utf8(admin_config.expose()), self.0.first()) else {
            return SecretVec::from_slice(admin_config.expose());
        };
        let text = Zeroizing::new(text.replace(&format!("https://{ADDRESS}"), &format!("https://{own}")));
        SecretVec::from_slice(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(listed: &[&str]) -> ClusterJoin {
        let mut ticket = ClusterJoin::default();
        ticket.api_servers = listed.iter().map(|text| (*text).to_owned()).collect();
        ticket
    }

    #[test]
    fn a_list_is_a_few_addresses_where_control_planes_can_be() {
        assert_eq!(ApiServers::of_ticket(&ticket(&[])).unwrap(), None);
        let good = ApiServers::of_ticket(&ticket(&["10.0.0.2:6443", "[fd00::2]:6443", "10.0.0.2:6443"])).unwrap();
        assert_eq!(good.unwrap().0.len(), 2);
        let many: Vec<String> = (0..=MAX_API_SERVERS).map(|last| format!("10.0.0.{last}:6443")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(ApiServers::of_ticket(&ticket(&many[1..])).is_ok());
        let bad =
            ["10.0.0.2", "api.plant.example:6443", "127.0.0.1:6443", "0.0.0.0:6443", "10.0.0.2:0", "224.0.0.1:6443"];
        for bad in bad.iter().map(std::slice::from_ref).chain([&many[..]]) {
            assert_eq!(ApiServers::of_ticket(&ticket(bad)).unwrap_err().code, StepCode::TicketRefused, "{bad:?}");
        }
    }

    #[test]
    fn the_endpoint_beside_a_balancer_is_the_first_node_s_own() {
        let settings = |endpoint: &str| {
            let endpoint = endpoint.to_owned();
            ClusterSettings { control_plane_endpoint: endpoint, api_balancer: true, ..ClusterSettings::default() }
        };
        for bad in ["api.plant.example:6443", "192.0.2.1:6443", "127.0.0.1:6443"] {
            assert_eq!(ApiServers::of_settings(&settings(bad)).unwrap_err().code, StepCode::SettingsRefused, "{bad}");
        }
        let without = ClusterSettings { api_balancer: false, ..settings("api.plant.example") };
        assert_eq!(ApiServers::of_settings(&without).unwrap(), None);
        // Only a machine with a network has an address of its own.
        if let Some(own) = config::local_address("") {
            let listed = ApiServers([SocketAddr::new(own, API_SERVER_PORT)].into());
            for good in [String::new(), own.to_string(), SocketAddr::new(own, API_SERVER_PORT).to_string()] {
                assert_eq!(ApiServers::of_settings(&settings(&good)).unwrap().as_ref(), Some(&listed), "{good}");
            }
            assert!(ApiServers::of_settings(&settings(&SocketAddr::new(own, 443).to_string())).is_err());
        }
    }

    #[test]
    fn the_operator_s_credentials_lead_to_the_node_and_not_to_loopback() {
        let own = ApiServers(["[fd00::1]:6443".parse().unwrap()].into());
        let made = SecretVec::from_slice(b"clusters:\n- cluster:\n    server: https://127.0.0.1:7445\n  name: plant\n");
        let led = own.lead_past_the_balancer(&made);
        assert_eq!(led.expose(), b"clusters:\n- cluster:\n    server: https://[fd00::1]:6443\n  name: plant\n");
    }
}
