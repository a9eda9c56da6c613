//! The services of a site's cluster, configured as an operator would.

use std::path::PathBuf;

use serde_json::json;

use crate::error::{HarnessError, io_error};
use crate::fleet::{Fleet, MEMBER, STEP, WAITS};
use crate::machine::Machine;
use crate::pki;
use crate::service::Service;
use crate::vm::Vm;

/// The services of a cluster. Dropping them kills them.
#[derive(Debug)]
pub struct Services {
    /// Derives keys.
    pub keys: Service,
    /// Issues tickets.
    pub join: Service,
}

impl Fleet {
    /// Makes a machine the first of a cluster, and starts the services.
    pub fn found_cluster(&self, first: Machine) -> Result<(Services, Vm), HarnessError> {
        let first = first.start()?;
        first.expect(WAITS, STEP)?;
        self.init(&first)?.success("init")?;
        first.expect(MEMBER, STEP)?;
        Ok((self.services()?, first))
    }

    /// Starts key service and join service for the cluster directory, with rules that let every machine of the authority in as a
    /// worker. Without that word of the operator they are held.
    pub fn services(&self) -> Result<Services, HarnessError> {
        let rules = json!({
            "version": 1, "pinned": [],
            "default": {"role": "worker", "name": "as-requested", "on_new_disk": "admit"},
        });
        let path = PathBuf::from(self.path("cluster")).join("enrolment.json");
        std::fs::write(&path, rules.to_string()).map_err(io_error("write", &path))?;
        self.services_that_hold()
    }

    /// The same with the rules that `latchkey init` made: a machine joins after [`Fleet::admit`].
    pub fn services_that_hold(&self) -> Result<Services, HarnessError> {
        let keys = self.key_service()?;
        let join = self.join_service(&keys)?;
        Ok(Services { keys, join })
    }

    /// Starts the key service.
    pub fn key_service(&self) -> Result<Service, HarnessError> {
        let config = json!({
            "schema": 1,
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "master_secret": self.path("master.json"),
            "tls": {
                "certificate": self.pki.key_service.certificate,
                "private_key": self.pki.key_service.key,
                "client_ca": self.pki.authority,
            },
            "callers": [{"name": pki::JOIN_SERVICE, "key_classes": ["state-disk", "measurement-secret", "secrets-at-rest"]}],
        });
        let path = self.run.write("key-service.json", config.to_string())?;
        let arguments = ["--config", &path.display().to_string()];
        Service::start(&self.run, "key-service", &self.programs.keys, &arguments, "READY")
    }

    /// Starts the join service, which asks this key service. It decides on what is in the cluster's directory, or in the API
    /// server, if `latchkey init` moved the cluster there.
    pub fn join_service(&self, keys: &Service) -> Result<Service, HarnessError> {
        let directory = PathBuf::from(self.path("cluster"));
        let (place, value) = if directory.join("store.json").exists() {
            ("store", json!({"kubernetes": {"kubeconfig": directory.join("join-service.kubeconfig")}}))
        } else {
            ("cluster_directory", json!(&directory))
        };
        let mut config = json!({
            "schema": 1,
            "listen": format!("127.0.0.1:{}", self.join_port.number()),
            "admin_listen": "127.0.0.1:0",
            "identity_key": self.path("join-service.key"),
            place: value,
            "key_service": {
                "address": listen_address(keys)?,
                "server_name": pki::KEY_SERVICE,
                "certificate": self.pki.join_service.certificate,
                "private_key": self.pki.join_service.key,
                "ca": self.pki.authority,
            },
        });
        if let Some(collateral) = &self.collateral {
            config["collateral"] = json!(collateral);
        }
        let shared = directory.join("control-plane.json");
        if shared.exists() {
            config["control_plane_files"] = json!(shared);
        }
        let path = self.run.write("join-service.json", config.to_string())?;
        let arguments = ["--config", &path.display().to_string()];
        Service::start(&self.run, "join-service", &self.programs.join, &arguments, "READY")
    }
}

/// What a service says it listens on: `READY listen=ADDRESS admin=ADDRESS`.
pub fn listen_address(service: &Service) -> Result<String, HarnessError> {
    let line = service.console().value("READY listen=");
    let address = line.as_deref().and_then(|line| line.split(' ').next()).map(str::to_owned);
    address.ok_or_else(|| HarnessError::Unusable("a service does not say where it listens".into()))
}
