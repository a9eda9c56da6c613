//! All services of ours: those that clients reach by a URL, and the one that meets nodes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Parameters, Program};

/// A service of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// One that answers HTTP at an origin of its own.
    Http(Program),
    /// The enrol service: machines prove to it what they run, over the attested channel.
    Enrol,
}

impl Service {
    /// All, in the order in which they start.
    pub const ALL: [Self; 6] = [
        Self::Http(Program::Auth),
        Self::Http(Program::ConfigDb),
        Self::Http(Program::Directory),
        Self::Http(Program::GitServer),
        Self::Http(Program::ClusterManager),
        Self::Enrol,
    ];

    /// The name of the directory and of the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http(program) => program.name(),
            Self::Enrol => "enrol-service",
        }
    }

    /// The program's file name.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Http(program) => program.file_name(),
            Self::Enrol => "latchkey-enrol-service",
        }
    }

    /// Its principal, without realm.
    pub const fn account(self) -> &'static str {
        match self {
            Self::Http(program) => program.account(),
            Self::Enrol => "sv1enrol",
        }
    }

    /// Where it listens: first for its clients, then with `/metrics` and `/healthz`.
    pub const fn listens(self, parameters: &Parameters) -> [SocketAddr; 2] {
        match self {
            Self::Http(program) => {
                let place = parameters.place(program);
                [place.listen, place.admin]
            }
            Self::Enrol => [parameters.places.enrol_service.listen, parameters.places.enrol_service.admin],
        }
    }

    /// What its clients reach it by: a URL, or `HOST:PORT`.
    pub fn address(self, parameters: &Parameters) -> String {
        match self {
            Self::Http(program) => parameters.place(program).url.to_string(),
            Self::Enrol => parameters.enrol_service(),
        }
    }
}

impl From<Program> for Service {
    fn from(program: Program) -> Self {
        Self::Http(program)
    }
}

/// Where the enrol service listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolPlace {
    /// Address and port for machines.
    pub listen: SocketAddr,
    /// `/metrics` and `/healthz`, on a loopback address.
    pub admin: SocketAddr,
    /// The directory with what vendors of confidential hardware publish, as `latchkey collateral fetch` makes it; an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collateral: Option<PathBuf>,
}

impl EnrolPlace {
    /// On the loopback address, of a centre whose ports begin at `first`.
    pub(crate) fn on_loopback(first: u16) -> Self {
        let at = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Self { listen: at(first + 9), admin: at(first + 19), collateral: None }
    }
}

impl Default for EnrolPlace {
    fn default() -> Self {
        Self::on_loopback(Parameters::FIRST_PORT)
    }
}
