//! `kubernetes.json`: how a node finds the API server of its cluster.

use crate::cluster::{VERSION, check_version};
use crate::error::ContentError;
use crate::record::Role;
use latchkey_kubelet_certificates::{Network, Reserved};
use latchkey_node_config::{Endpoint, Host, is_subdomain};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// What the operator says of the cluster's API server. Nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesFile {
    /// Schema: 1.
    pub version: u64,
    /// Where nodes find the API server: `HOST:PORT`, an IPv6 address in brackets. Need not be where a join service finds it.
    pub api_server: String,
    /// The cluster's minor version, e.g. `1.34`.
    pub kubernetes_version: String,
    /// Whether nodes reach the API servers by the balancer that their image carries. `api_server` is then the first of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub api_balancer: bool,
    /// Whether control planes get no taint: pods may run on them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untainted: bool,
    /// What nodes of images without components get for themselves: the JSON of a list that `latchkey init` made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_list: Option<String>,
    /// What control planes go to before all others, while the cluster is on its way there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextComponents>,
    /// The networks of its services: no node has an address there. kubeadm's by default.
    #[serde(default = "kubeadms", skip_serializing_if = "is_kubeadms")]
    pub service_networks: Vec<String>,
    /// Further names and addresses by which the API server is found: no worker has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_server_hosts: Vec<String>,
}

/// The components of a minor version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextComponents {
    /// E.g. `1.35`.
    pub kubernetes_version: String,
    /// As [`KubernetesFile::component_list`].
    pub component_list: String,
}

/// What a ticket has room for.
const MAX_API_SERVERS: usize = 16;
/// What a ticket has room for.
const MAX_COMPONENT_LIST: usize = 64 * 1024;
/// More than any cluster has.
const MAX_RESERVED: usize = 16;

fn kubeadms() -> Vec<String> {
    vec!["10.96.0.0/12".to_owned()]
}

fn is_kubeadms(networks: &Vec<String>) -> bool {
    *networks == kubeadms()
}

/// What a node joins by, beside its token: [`KubernetesFile`], and the authority that the cluster itself publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMaterial {
    /// The operator's word.
    pub file: KubernetesFile,
    /// The certificates of the cluster's authority (PEM).
    pub authority: Vec<u8>,
}

impl KubernetesFile {
    /// The file of a cluster.
    pub fn new(api_server: impl Into<String>, kubernetes_version: impl Into<String>) -> Self {
        Self {
            version: VERSION,
            api_server: api_server.into(),
            kubernetes_version: kubernetes_version.into(),
            api_balancer: false,
            untainted: false,
            component_list: None,
            next: None,
            service_networks: kubeadms(),
            api_server_hosts: Vec::new(),
        }
    }

    /// Reads the file's JSON.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(json: &[u8]) -> Result<Self, ContentError> {
        check_version(json)?;
        let file: Self = serde_json::from_slice(json).map_err(ContentError::Syntax)?;
        file.check()?;
        Ok(file)
    }

    /// Whether it may be written.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn check(&self) -> Result<(), ContentError> {
        let rule = |sentence: &str| Err(ContentError::Rule(sentence.to_owned()));
        if self.version != VERSION {
            return Err(ContentError::Version { got: self.version, known: VERSION });
        }
        if !is_endpoint(&self.api_server) {
            return rule("`api_server` must be HOST:PORT, an IPv6 address in brackets, and no address of loopback");
        }
        if self.api_balancer && self.api_server.parse::<SocketAddr>().is_err() {
            return rule("`api_server` must be an address, with a port, where `api_balancer` is true");
        }
        let next = self.next.as_ref();
        let mut versions = [&self.kubernetes_version].into_iter().chain(next.map(|next| &next.kubernetes_version));
        if !versions.all(|version| is_minor(version)) {
            return rule("`kubernetes_version` must be a minor version, like 1.34");
        }
        let mut lists = self.component_list.iter().chain(next.map(|next| &next.component_list));
        if lists.any(|list| !(1..=MAX_COMPONENT_LIST).contains(&list.len())) {
            return rule("`component_list` must have at least one byte, and at most 65536");
        }
        if self.service_networks.len() > MAX_RESERVED || self.networks().is_none() {
            return rule("`service_networks` must be at most 16 networks in CIDR notation, like 10.96.0.0/12");
        }
        let is_host = |host: &String| host.parse::<IpAddr>().is_ok() || is_subdomain(host);
        if self.api_server_hosts.len() > MAX_RESERVED || !self.api_server_hosts.iter().all(is_host) {
            return rule("`api_server_hosts` must be at most 16 names or addresses");
        }
        Ok(())
    }

    /// Where a node's balancer finds the API servers at first: this file's, and those of control planes at these addresses. Empty
    /// where nodes have no balancer.
    pub fn api_servers(&self, control_planes: impl IntoIterator<Item = IpAddr>) -> Vec<SocketAddr> {
        let first: Option<SocketAddr> = self.api_server.parse().ok().filter(|_| self.api_balancer);
        let Some(first) = first else { return Vec::new() };
        let mut all = vec![first];
        for address in control_planes {
            let server = SocketAddr::new(address, first.port());
            if all.len() < MAX_API_SERVERS && is_elsewhere(address) && !all.contains(&server) {
                all.push(server);
            }
        }
        all
    }

    /// The components that a member has, or goes to when it starts again; nothing where nodes have theirs from their image.
    pub fn components(&self, role: Role) -> Option<(&str, &str)> {
        let next = self.next.as_ref().filter(|_| role == Role::ControlPlane);
        let next = next.map(|next| (&*next.kubernetes_version, &*next.component_list));
        next.or_else(|| Some((&*self.kubernetes_version, self.component_list.as_deref()?)))
    }

    fn networks(&self) -> Option<Vec<Network>> {
        self.service_networks.iter().map(|network| network.parse().ok()).collect()
    }

    /// What is no node's by this file.
    pub fn reserved(&self) -> Reserved {
        let host = self.api_server.rsplit_once(':').map(|(host, _)| host.trim_matches(['[', ']']));
        let hosts = host.into_iter().chain(self.api_server_hosts.iter().map(String::as_str));
        Reserved::new(self.networks().unwrap_or_default(), hosts)
    }

    /// Its JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

fn is_minor(version: &str) -> bool {
    let number = |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    version.split_once('.').is_some_and(|(major, minor)| number(major) && number(minor))
}

/// An address of loopback is another machine for every node.
fn is_endpoint(text: &str) -> bool {
    Endpoint::of_api_server(text).is_some_and(|endpoint| match endpoint.host {
        Host::Address(address) => is_elsewhere(address),
        Host::Name(name) => name != "localhost",
    })
}

fn is_elsewhere(address: IpAddr) -> bool {
    !address.is_loopback() && !address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_kubelet_certificates::Holder;

    #[test]
    fn an_api_server_is_named_so_that_another_machine_finds_it() {
        for good in ["192.0.2.1:6443", "[2001:db8::1]:6443", "api.plant.example:443", "api:6443"] {
            let file = KubernetesFile::new(good, "1.34");
            assert_eq!(KubernetesFile::parse(file.to_json().as_bytes()).unwrap(), file, "{good}");
        }
        for bad in [
            "",
            "192.0.2.1",
            "192.0.2.1:",
            "192.0.2.1:0",
            "192.0.2.1:+1",
            "192.0.2.1:65536",
            "127.0.0.1:6443",
            "[::1]:6443",
            "::1:6443",
            "0.0.0.0:6443",
            "localhost:6443",
            "API.example:6443",
            "a b:6443",
            "-a:6443",
            "https://api:6443",
        ] {
            assert!(KubernetesFile::new(bad, "1.34").check().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_version_is_a_minor_one_and_nothing_else_is_in_the_file() {
        for bad in ["", "1", "1.", "v1.34", "1.34.4", "1.3456"] {
            assert!(KubernetesFile::new("api:6443", bad).check().is_err(), "{bad}");
        }
        let more = br#"{"version": 1, "api_server": "api:6443", "kubernetes_version": "1.34", "token": ""}"#;
        assert!(KubernetesFile::parse(more).is_err());
    }

    #[test]
    fn control_planes_hear_of_the_next_components_before_all_others() {
        let mut file = KubernetesFile::new("api:6443", "1.34");
        assert_eq!(file.components(Role::ControlPlane), None);
        file.component_list = Some("now".to_owned());
        let next = |version: &str, list: &str| {
            Some(NextComponents { kubernetes_version: version.to_owned(), component_list: list.to_owned() })
        };
        file.next = next("1.35", "next");
        assert_eq!(KubernetesFile::parse(file.to_json().as_bytes()).unwrap(), file);
        assert_eq!(file.components(Role::ControlPlane), Some(("1.35", "next")));
        assert_eq!(file.components(Role::Worker), Some(("1.34", "now")));
        for bad in [next("1.35.4", "next"), next("1.35", ""), next("1.35", &"x".repeat(MAX_COMPONENT_LIST + 1))] {
            file.next = bad;
            assert!(file.check().is_err());
        }
    }

    #[test]
    fn a_balancer_is_told_of_the_control_planes_on_record_and_of_no_more_than_a_ticket_holds() {
        let mut file = KubernetesFile::new("192.0.2.1:6443", "1.34");
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        assert!(file.api_servers([address(2)]).is_empty(), "nodes have no balancer");
        file.api_balancer = true;
        assert_eq!(KubernetesFile::parse(file.to_json().as_bytes()).unwrap(), file);
        let listed = file.api_servers([address(2), address(1), IpAddr::from([127, 0, 0, 1]), address(2)]);
        assert_eq!(listed, ["192.0.2.1:6443".parse().unwrap(), "192.0.2.2:6443".parse().unwrap()]);
        assert_eq!(file.api_servers((1..100).map(address)).len(), 16);
        file.api_server = "api.plant.example:6443".to_owned();
        assert!(file.check().is_err(), "a balancer asks addresses");
    }

    #[test]
    fn what_is_reserved_is_the_api_server_s_host_and_what_the_operator_says() {
        let worker = Holder::Worker;
        let file = br#"{"version": 1, "api_server": "[2001:db8::1]:6443", "kubernetes_version": "1.34",
            "service_networks": ["172.30.0.0/16"], "api_server_hosts": ["api.plant.example", "192.0.2.10"]}"#;
        let reserved = KubernetesFile::parse(file).unwrap().reserved();
        for address in ["2001:db8::1", "172.30.0.1", "192.0.2.10"] {
            assert!(reserved.is_address(address.parse().unwrap(), worker), "{address}");
        }
        assert!(reserved.is_name("api.plant.example", worker));
        assert!(!reserved.is_address("10.96.0.1".parse().unwrap(), worker), "another network was said");
        let usual = KubernetesFile::new("control-1:6443", "1.34");
        assert!(usual.reserved().is_name("control-1", worker));
        assert!(usual.reserved().is_address("10.96.0.1".parse().unwrap(), worker));
        assert!(!usual.to_json().contains("service_networks"), "as older releases write it");
        for bad in [r#""service_networks": ["10.96.0.0"]"#, r#""api_server_hosts": ["a b"]"#] {
            let file = format!(r#"{{"version": 1, "api_server": "api:6443", "kubernetes_version": "1.34", {bad}}}"#);
            assert!(KubernetesFile::parse(file.as_bytes()).is_err(), "{bad}");
        }
    }
}
