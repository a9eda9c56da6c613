//! Clusters, made past the command and looked at, and what an edge reports of one.

use std::fs;
use std::process::Command;

use latchkey_centre_site::Program;
use latchkey_factory_plus::uuids::{application, class, service};
use latchkey_test_support::until;
use serde_json::{Value, json};

use super::Centre;
use crate::error::{HarnessError, io_error};
use crate::process::output;

/// What an edge runs with an account of its own, as principals are called.
pub const ROLES: [&str; 4] = ["flux", "krbkeys", "sync", "monitor"];

impl Centre {
    /// The operator, as [`Self::ask`] wants him.
    pub fn admin(&self) -> (&str, &str) {
        ("admin", &self.password)
    }

    /// The path of an entry.
    pub fn entry(application: impl std::fmt::Display, object: &str) -> String {
        format!("v2/app/{application}/object/{object}")
    }

    /// The Helm chart template that this centre's clusters have.
    pub fn chart(&self) -> Result<Value, HarnessError> {
        let path = Self::entry(application::SERVICE_CONFIG, &service::MANAGER.to_string());
        Ok(self.ask(self.admin(), "GET", Program::ConfigDb, &path)?.json()["helm"]["cluster"].clone())
    }

    /// Makes the object of a cluster, as another client than the command does, and says its UUID.
    pub fn cluster_object(&self) -> Result<String, HarnessError> {
        let class = json!({ "class": class::EDGE_CLUSTER });
        let made = self.send(self.admin(), "POST", Program::ConfigDb, "v2/object", &class)?;
        let uuid = made.json()["uuid"].as_str().map(str::to_owned);
        uuid.ok_or_else(|| HarnessError::Unusable(format!("no object was made: {made:?}")))
    }

    /// Writes the configuration of a cluster past the command: the answer's status.
    pub fn configure(&self, uuid: &str, name: &str) -> Result<u16, HarnessError> {
        let path = Self::entry(application::EDGE_CLUSTER_CONFIGURATION, uuid);
        let configuration = json!({ "chart": self.chart()?, "name": name, "namespace": "fplus-edge" });
        Ok(self.send(self.admin(), "PUT", Program::ConfigDb, &path, &configuration)?.status)
    }

    /// Makes a cluster past the command, and waits until it is ready.
    pub fn made(&self, name: &str) -> Result<String, HarnessError> {
        let uuid = self.cluster_object()?;
        match self.configure(&uuid, name)? {
            200..=299 => {}
            status => return Err(HarnessError::Unusable(format!("the configuration of {name}: {status}"))),
        }
        self.reaches(&uuid, "ready");
        Ok(uuid)
    }

    /// What the cluster manager says of all clusters.
    pub fn clusters(&self) -> Result<Value, HarnessError> {
        Ok(self.ask(self.admin(), "GET", Program::ClusterManager, "v1/cluster")?.json())
    }

    /// Waits until a cluster is in a phase, and says what the cluster manager says of it then.
    ///
    /// # Panics
    /// If it is not in time.
    pub fn reaches(&self, uuid: &str, phase: &str) -> Value {
        let mut last = Value::Null;
        until(format_args!("{uuid} to be {phase}"), || {
            // Nobody answers while the cluster manager starts again.
            let clusters = self.clusters().ok()?;
            if last != clusters[uuid] {
                last.clone_from(&clusters[uuid]);
                eprintln!("{uuid}: {last}");
            }
            let there = last["phase"] == phase && last["error"].is_null();
            (there && (phase != "ready" || last["ready"] == true)).then(|| last.clone())
        })
    }

    /// Reports hosts as the edge of a cluster does.
    pub fn report(&self, user: (&str, &str), uuid: &str, status: &Value) -> Result<u16, HarnessError> {
        let path = Self::entry(application::EDGE_CLUSTER_STATUS, uuid);
        let who = format!("{}:{}", self.upn(user.0), user.1);
        let merge = "content-type: application/merge-patch+json";
        let url = self.url(Program::ConfigDb, &path);
        let body = status.to_string();
        let answer =
            self.curl(&["--user", &who, "--request", "PATCH", "--header", merge, "--data-binary", &body, &url])?;
        Ok(answer.status)
    }

    /// A certificate as a Sealed Secrets controller has, made by openssl.
    pub fn sealing_certificate(&self) -> Result<String, HarnessError> {
        let (key, certificate) = (self.run.file("seal.key"), self.run.file("seal.pem"));
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "30",
            "-subj",
            "/CN=sealed",
            "-keyout",
        ]);
        output(openssl.arg(key).arg("-out").arg(&certificate))?;
        fs::read_to_string(&certificate).map_err(io_error("read", &certificate))
    }

    /// Says which machine registered a cluster, as the enrol service does.
    pub fn register(&self, uuid: &str, record: &Value) -> Result<u16, HarnessError> {
        let path = Self::entry(application::EDGE_CLUSTER_REGISTRATION, uuid);
        let (user, password) = self.admin();
        let who = format!("{}:{password}", self.upn(user));
        let (url, json) = (self.url(Program::ConfigDb, &path), "content-type: application/json");
        let body = record.to_string();
        let answer =
            self.curl(&["--user", &who, "--request", "PUT", "--header", json, "--data-binary", &body, &url])?;
        Ok(answer.status)
    }

    /// What the centre keeps of a cluster's set-up.
    pub fn setup_status(&self, uuid: &str) -> Result<Value, HarnessError> {
        let path = Self::entry(application::EDGE_CLUSTER_SETUP_STATUS, uuid);
        Ok(self.ask(self.admin(), "GET", Program::ConfigDb, &path)?.json())
    }

    /// The principals of a cluster that the KDC has.
    pub fn principals_of(&self, name: &str) -> Result<Vec<String>, HarnessError> {
        let end = format!("/{name}");
        Ok(self.principals()?.into_iter().filter(|principal| principal.ends_with(&end)).collect())
    }

    /// The grants that an account holds itself.
    pub fn grants_of(&self, account: &str) -> Result<Vec<Value>, HarnessError> {
        let pattern = json!({ "principal": account });
        let found = self.send(self.admin(), "POST", Program::Auth, "v2/grant/find", &pattern)?;
        match found.json() {
            Value::Array(grants) if found.status == 200 => Ok(grants),
            _ => Err(HarnessError::Unusable(format!("the grants of {account}: {found:?}"))),
        }
    }

    /// The members of a class.
    pub fn members(&self, class: &str) -> Result<Vec<Value>, HarnessError> {
        let path = format!("v2/class/{class}/member");
        let found = self.ask(self.admin(), "GET", Program::ConfigDb, &path)?;
        match found.json() {
            Value::Array(members) if found.status == 200 => Ok(members),
            _ => Err(HarnessError::Unusable(format!("the members of {class}: {found:?}"))),
        }
    }
}
