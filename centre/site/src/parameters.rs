//! What the operator decides about a centre, once.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use latchkey_factory_plus::{EdgeImages, ImagesError, Realm, Upn, UpnError, Uuid, uuids};
use latchkey_factory_plus_client::BaseUrl;
use latchkey_kerberos::acl::AclError;

use serde::{Deserialize, Serialize};

use crate::EnrolPlace;

/// The services of ours that answer HTTP, each at an origin of its own. [`crate::Service`] has all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// Who is who, and what each may do.
    Auth,
    /// The configuration database.
    ConfigDb,
    /// Where each service is.
    Directory,
    /// Repositories of clusters and charts.
    GitServer,
    /// Sets clusters up; its page is the operator's.
    ClusterManager,
}

impl Program {
    /// All, in the order in which they start.
    pub const ALL: [Self; 5] = [Self::Auth, Self::ConfigDb, Self::Directory, Self::GitServer, Self::ClusterManager];

    /// The name of the directory and of the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::ConfigDb => "config-db",
            Self::Directory => "directory",
            Self::GitServer => "git-server",
            Self::ClusterManager => "cluster-manager",
        }
    }

    /// The program's file name.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Auth => "latchkey-auth",
            Self::ConfigDb => "latchkey-config-db",
            Self::Directory => "latchkey-directory",
            Self::GitServer => "latchkey-git-server",
            Self::ClusterManager => "latchkey-cluster-manager",
        }
    }

    /// Its principal, without realm.
    pub const fn account(self) -> &'static str {
        match self {
            Self::Auth => "sv1auth",
            Self::ConfigDb => "sv1configdb",
            Self::Directory => "sv1directory",
            Self::GitServer => "sv1git",
            Self::ClusterManager => "sv1clustermanager",
        }
    }

    /// What the directory knows it by.
    pub const fn service(self) -> Uuid {
        match self {
            Self::Auth => uuids::service::AUTH,
            Self::ConfigDb => uuids::service::CONFIG_DB,
            Self::Directory => uuids::service::DIRECTORY,
            Self::GitServer => uuids::service::GIT,
            Self::ClusterManager => uuids::service::CLUSTER_MANAGER,
        }
    }
}

/// What `centre.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The form of this file: 1.
    pub schema: u32,
    /// The Kerberos realm, such as `FACTORY.EXAMPLE`.
    pub realm: Realm,
    /// What every cluster's Sparkplug group begins with.
    pub organisation: String,
    /// The host name or address in URLs and certificates: what clients reach this machine by.
    pub host: String,
    /// Serve without TLS.
    #[serde(default)]
    pub insecure: bool,
    /// Where everything listens.
    pub places: Places,
    /// The container images of the programs at edges.
    #[serde(default)]
    pub images: EdgeImages,
}

/// Where everything listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// The authorisation service.
    pub auth: Place,
    /// The configuration database.
    pub config_db: Place,
    /// The directory.
    pub directory: Place,
    /// The git server.
    pub git_server: Place,
    /// The cluster manager and its page.
    pub cluster_manager: Place,
    /// The enrol service, for machines. Centres of before there was one have it on loopback.
    #[serde(default)]
    pub enrol_service: EnrolPlace,
    /// The MQTT broker.
    pub broker: SocketAddr,
    /// The KDC, by TCP and UDP.
    pub kdc: SocketAddr,
    /// The KDC's administration.
    pub kadmin: SocketAddr,
    /// Where passwords are changed.
    pub kpasswd: SocketAddr,
}

/// Where one of our services listens, and what it is reached by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Address and port.
    pub listen: SocketAddr,
    /// `/metrics` and `/healthz`, on a loopback address.
    pub admin: SocketAddr,
    /// The origin that clients reach it by.
    pub url: BaseUrl,
}

/// Why there is no centre with these parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParametersError {
    /// A form that this program does not know.
    #[error("`schema` is {0}; this program knows schema 1")]
    Schema(u32),
    /// No realm.
    #[error("`realm` is {0:?}; a realm is written in capitals, such as FACTORY.EXAMPLE")]
    Realm(String),
    /// What one of the centre's principals would be called is no UPN.
    #[error("`realm`: {0}")]
    Upn(#[from] UpnError),
    /// The access control list of kadmind.
    #[error("kadm5.acl: {0}")]
    Acl(#[from] AclError),
    /// No prefix of Sparkplug groups.
    #[error("`organisation` is {0:?}; it has letters, digits, `_` and `-`, and 1 to 31 of them")]
    Organisation(String),
    /// No host.
    #[error("`host` is {0:?}; it is a host name or an IP address")]
    Host(String),
    /// TLS or not, and a URL says otherwise.
    #[error("{url} does not fit `\"insecure\": {insecure}`")]
    Scheme {
        /// The URL.
        url: BaseUrl,
        /// What the file says.
        insecure: bool,
    },
    /// No container images.
    #[error("{0}")]
    Images(#[from] ImagesError),
    /// No port is left for all that listens.
    #[error("the first port is {0}; it must be between 1024 and 65400")]
    Port(u16),
}

impl Parameters {
    /// The first port of a centre on a laptop, where nobody says otherwise.
    pub const FIRST_PORT: u16 = 8440;

    /// A centre on the loopback address of this machine, on ports from `first` on.
    pub fn on_loopback(realm: &str, organisation: &str, insecure: bool, first: u16) -> Result<Self, ParametersError> {
        if !(1024..=65400).contains(&first) {
            return Err(ParametersError::Port(first));
        }
        let at = |offset: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), first + offset);
        let host = "localhost";
        let scheme = if insecure { "http" } else { "https" };
        let place = |offset: u16| -> Result<Place, ParametersError> {
            let url = format!("{scheme}://{host}:{}", first + offset);
            let url = url.parse().map_err(|_| ParametersError::Host(host.into()))?;
            Ok(Place { listen: at(offset), admin: at(offset + 10), url })
        };
        let places = Places {
            cluster_manager: place(0)?,
            directory: place(1)?,
            config_db: place(2)?,
            auth: place(3)?,
            git_server: place(4)?,
            enrol_service: EnrolPlace::on_loopback(first),
            broker: at(5),
            kdc: at(6),
            kadmin: at(7),
            kpasswd: at(8),
        };
        let parameters = Self {
            schema: 1,
            realm: realm.parse().map_err(|_| ParametersError::Realm(realm.into()))?,
            organisation: organisation.into(),
            host: host.into(),
            insecure,
            places,
            images: EdgeImages::default(),
        };
        parameters.check()?;
        Ok(parameters)
    }

    /// Whether there can be a centre with these.
    pub fn check(&self) -> Result<(), ParametersError> {
        if self.schema != 1 {
            return Err(ParametersError::Schema(self.schema));
        }
        if self.realm.as_str().bytes().any(|byte| byte.is_ascii_lowercase()) {
            return Err(ParametersError::Realm(self.realm.to_string()));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=31).contains(&self.organisation.len()) || !self.organisation.bytes().all(plain) {
            return Err(ParametersError::Organisation(self.organisation.clone()));
        }
        let host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':');
        if !(1..=253).contains(&self.host.len()) || !self.host.bytes().all(host) {
            return Err(ParametersError::Host(self.host.clone()));
        }
        self.images.check()?;
        let odd = Program::ALL
            .into_iter()
            .map(|program| &self.place(program).url)
            .find(|url| url.is_secure() == self.insecure);
        match odd {
            Some(url) => Err(ParametersError::Scheme { url: url.clone(), insecure: self.insecure }),
            None => Ok(()),
        }
    }

    /// Where a service of ours is.
    pub const fn place(&self, program: Program) -> &Place {
        match program {
            Program::Auth => &self.places.auth,
            Program::ConfigDb => &self.places.config_db,
            Program::Directory => &self.places.directory,
            Program::GitServer => &self.places.git_server,
            Program::ClusterManager => &self.places.cluster_manager,
        }
    }

    /// What Kerberos calls a principal of this realm.
    ///
    /// # Errors
    /// `name` is none of a principal; the accounts of services and operators are.
    pub fn upn(&self, name: &str) -> Result<Upn, UpnError> {
        Upn::in_realm(name, &self.realm)
    }

    /// Where edges find the KDC and its administration: `HOST:PORT` each.
    pub fn kdc(&self) -> [String; 2] {
        [self.places.kdc, self.places.kadmin].map(|place| self.reached(place))
    }

    /// Where machines find the enrol service: `HOST:PORT`, as `latchkey.centre` says it.
    pub fn enrol_service(&self) -> String {
        self.reached(self.places.enrol_service.listen)
    }

    /// What others reach by that listens here: `HOST:PORT`.
    fn reached(&self, place: SocketAddr) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", place.port())
    }

    /// The hosts that our services' certificate is for, each once.
    pub fn hosts(&self) -> Vec<String> {
        let mut hosts = vec![self.host.clone()];
        hosts.extend(Program::ALL.into_iter().map(|program| self.place(program).url.host().to_owned()));
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Service;

    #[test]
    fn a_centre_on_a_laptop_listens_on_loopback_alone() {
        let parameters = Parameters::on_loopback("FACTORY.EXAMPLE", "ACME", false, Parameters::FIRST_PORT).unwrap();
        for program in Program::ALL {
            let place = parameters.place(program);
            assert!(place.listen.ip().is_loopback() && place.admin.ip().is_loopback() && place.url.is_secure());
        }
        for service in Service::ALL {
            assert!(service.listens(&parameters).iter().all(|address| address.ip().is_loopback()));
        }
        let mut all: Vec<_> = Service::ALL.iter().flat_map(|service| service.listens(&parameters)).collect();
        let Places { broker, kdc, kadmin, kpasswd, .. } = parameters.places;
        all.extend([broker, kdc, kadmin, kpasswd]);
        let many = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), many, "each port once");
        assert_eq!(parameters.hosts(), ["localhost"]);
        assert_eq!(parameters.enrol_service(), "localhost:8449");
        let text = serde_json::to_string(&parameters).unwrap();
        assert_eq!(serde_json::from_str::<Parameters>(&text).unwrap(), parameters);
        let mut before: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(before["places"].as_object_mut().unwrap().remove("enrol_service").is_some());
        assert_eq!(serde_json::from_value::<Parameters>(before).unwrap(), parameters, "of before there was one");
    }

    #[test]
    fn what_cannot_work_is_refused_by_field() {
        let refused = |realm: &str, organisation: &str, port| {
            Parameters::on_loopback(realm, organisation, true, port).unwrap_err()
        };
        assert!(matches!(refused("factory", "A", 8440), ParametersError::Realm(_)));
        assert!(matches!(refused("A B", "A", 8440), ParametersError::Realm(_)));
        for organisation in ["", "a b", "a/b", "a+", "#", &"a".repeat(32)] {
            assert!(matches!(refused("R", organisation, 8440), ParametersError::Organisation(_)));
        }
        assert_eq!(refused("R", "A", 80), ParametersError::Port(80));
        let mut parameters = Parameters::on_loopback("R", "A", true, 8440).unwrap();
        parameters.insecure = false;
        assert!(matches!(parameters.check(), Err(ParametersError::Scheme { .. })));
    }
}
