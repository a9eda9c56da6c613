//! All services of ours: those that clients reach by a URL, and the one that meets nodes.

use std::net::SocketAddr;

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
