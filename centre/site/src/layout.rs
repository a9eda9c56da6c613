//! Where everything stands in a centre's directory.

use std::path::{Path, PathBuf};

use crate::{Program, Service};

/// A centre's directory. Paths are absolute.
#[derive(Debug, Clone)]
pub struct Layout(PathBuf);

impl Layout {
    /// The directory; an absolute path.
    pub fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// The operator's parameters.
    pub fn parameters(&self) -> PathBuf {
        self.0.join("centre.json")
    }

    /// Held by whoever runs this centre.
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// The UUIDs that this centre made for itself.
    pub fn local(&self) -> PathBuf {
        self.0.join("local.json")
    }

    /// How far the centre was set up.
    pub fn set_up(&self) -> PathBuf {
        self.0.join("set-up.json")
    }

    /// What the command line reads to reach this centre.
    pub fn operator(&self) -> PathBuf {
        self.0.join("operator.json")
    }

    /// The directories, in the order in which they are made.
    pub fn directories(&self) -> Vec<PathBuf> {
        let mut directories = vec![self.kdc(), self.secrets(), self.tls(), self.logs(), self.broker()];
        directories.extend(Service::ALL.map(|service| self.of(service)));
        directories.extend([self.repositories(), self.registrations()]);
        directories
    }

    /// The KDC's files.
    pub fn kdc(&self) -> PathBuf {
        self.0.join("kdc")
    }

    /// MIT's configuration of clients.
    pub fn krb5_conf(&self) -> PathBuf {
        self.kdc().join("krb5.conf")
    }

    /// The KDC's own.
    pub fn kdc_conf(&self) -> PathBuf {
        self.kdc().join("kdc.conf")
    }

    /// Who may administrate which principals.
    pub fn kadm5_acl(&self) -> PathBuf {
        self.kdc().join("kadm5.acl")
    }

    /// The KDC's database.
    pub fn kdc_database(&self) -> PathBuf {
        self.kdc().join("principal")
    }

    /// The file with the KDC's master key.
    pub fn kdc_stash(&self) -> PathBuf {
        self.kdc().join("stash")
    }

    /// Where MIT's programs write the master key first. They refuse to start over one that is there.
    pub fn kdc_stash_begun(&self) -> PathBuf {
        self.kdc().join("stash_tmp")
    }

    /// There while the KDC's database is made.
    pub fn kdc_database_begun(&self) -> PathBuf {
        self.kdc().join("principal-begun")
    }

    /// Passwords and keys of services.
    pub fn secrets(&self) -> PathBuf {
        self.0.join("secrets")
    }

    /// The password of a principal.
    pub fn password(&self, account: &str) -> PathBuf {
        self.secrets().join(format!("{account}.password"))
    }

    /// The keys of what clients get tickets for.
    pub fn http_keytab(&self) -> PathBuf {
        self.secrets().join("http.keytab")
    }

    /// The key that the enrol service proves itself with to machines.
    pub fn enrol_key(&self) -> PathBuf {
        self.secrets().join("enrol-service.key")
    }

    /// The keys of the KDC's administrator.
    pub fn admin_keytab(&self) -> PathBuf {
        self.secrets().join("kdc-administrator.keytab")
    }

    /// Certificates and their keys.
    pub fn tls(&self) -> PathBuf {
        self.0.join("tls")
    }

    /// The centre's own authority.
    pub fn authority(&self) -> PathBuf {
        self.tls().join("authority.pem")
    }

    /// The services' certificate.
    pub fn certificate(&self) -> PathBuf {
        self.tls().join("server.pem")
    }

    /// Its key.
    pub fn private_key(&self) -> PathBuf {
        self.tls().join("server.key")
    }

    /// What each program prints.
    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// The log of a program.
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    /// The broker's files.
    pub fn broker(&self) -> PathBuf {
        self.0.join("broker")
    }

    /// The broker's configuration.
    pub fn mosquitto_conf(&self) -> PathBuf {
        self.broker().join("mosquitto.conf")
    }

    /// Where the broker asks the authorisation service.
    pub fn broker_socket(&self) -> PathBuf {
        self.of(Program::Auth).join("broker.socket")
    }

    /// One of our services' files.
    pub fn of(&self, service: impl Into<Service>) -> PathBuf {
        self.0.join(service.into().name())
    }

    /// Its configuration.
    pub fn config(&self, service: impl Into<Service>) -> PathBuf {
        self.of(service).join("config.json")
    }

    /// What it keeps.
    pub fn data(&self, program: Program) -> PathBuf {
        self.of(program).join("data")
    }

    /// The repositories.
    pub fn repositories(&self) -> PathBuf {
        self.of(Program::GitServer).join("repositories")
    }

    /// The enrol service's directory: policy, manifests, rules and invitations are the operator's, the records its own.
    pub fn registrations(&self) -> PathBuf {
        self.of(Service::Enrol).join("directory")
    }
}
