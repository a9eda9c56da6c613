//! The way to the API server that every pod has: its address in the environment, and a service account's files.

use crate::kubeconfig::{MAX_KUBECONFIG, TokenSource, Way, certificates};
use crate::mounted::read_service_account;
use std::env;
use std::net::IpAddr;
use std::path::Path;
use zeroize::Zeroizing;

/// Where the kubelet mounts them.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl Way {
    /// That of this pod. The error says what a pod has and this process has not.
    pub(crate) fn of_pod() -> Result<Self, String> {
        let variable =
            |name: &str| env::var(name).map_err(|_| format!("the environment has no {name}: this is no pod"));
        let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
        Self::of_service_account(&host, &port, Path::new(SERVICE_ACCOUNT))
    }

    fn of_service_account(host: &str, port: &str, directory: &Path) -> Result<Self, String> {
        let host = match host.parse() {
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            _ => host.to_owned(),
        };
        let number = port.parse::<u16>().ok();
        let server = number.and_then(|port| format!("https://{host}:{port}").parse().ok());
        let server = server.ok_or_else(|| format!("{host:?} and {port:?} are no host and port of an API server"))?;
        let authority = read_service_account(&directory.join("ca.crt"), MAX_KUBECONFIG)?;
        let token = directory.join("token");
        text(&token)?;
        Ok(Self {
            server,
            name: None,
            authorities: certificates("ca.crt", &authority)?,
            certificate: None,
            token: Some(TokenSource::Mounted(token)),
        })
    }
}

/// The text of a file of a service account.
pub(crate) fn text(path: &Path) -> Result<Zeroizing<String>, String> {
    let bytes = read_service_account(path, MAX_KUBECONFIG)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| format!("{}: not UTF-8", path.display()))?;
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_api_server_rig::Authority;
    use std::fs;

    #[test]
    fn a_pods_way_is_that_of_its_service_account() {
        let directory = tempfile::tempdir().unwrap();
        let refusal = |host: &str, port: &str| Way::of_service_account(host, port, directory.path()).err().unwrap();
        assert!(refusal("10.0.0.1", "443").contains("ca.crt"));
        fs::write(directory.path().join("ca.crt"), Authority::make().certificate()).unwrap();
        assert!(refusal("10.0.0.1", "443").contains("token"));
        fs::write(directory.path().join("token"), "id").unwrap();
        assert!(refusal("a b", "443").contains("no host"));
        assert!(refusal("10.0.0.1", "x").contains("no host"));
        for (host, server) in [("10.0.0.1", "https://10.0.0.1:443/"), ("fd00::1", "https://[fd00::1]:443/")] {
            let way = Way::of_service_account(host, "443", directory.path()).unwrap();
            assert_eq!(way.server.to_string(), server);
            assert_eq!(way.token.unwrap().read().unwrap().0.as_str(), "id");
        }
    }
}
