//! Join and key service on control planes, and the balancer to the API servers on every node: plain programs of the verified root,
//! with the units that they come with.

use latchkey_initramfs::executable::check_static;
use latchkey_kubernetes::{Role, Roles, Sha256};

use super::error::KubernetesError;
use crate::image::Source;
use crate::systemd::{Addition, AdditionKind};

const SYSTEM: &str = "usr/lib/systemd/system";
const DROP_IN: &str = include_str!("../../kubernetes/service.conf");
/// Where their configurations are, and what these name: on the state disk alone.
pub(super) const CONFIGURATION: &str = "/etc/latchkey";

/// The balancer's configuration: nothing in it is of one cluster.
const BALANCER: &str = include_str!("../../../services/api-balancer/api-balancer.example.json");

/// A service that nodes carry.
#[derive(Debug, Clone)]
pub struct Service {
    kind: Kind,
    program: Source,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Join,
    Key,
    Balancer,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Join => "join-service",
            Self::Key => "key-service",
            Self::Balancer => "api-balancer",
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Join => include_str!("../../../services/join-service/latchkey-join-service.service"),
            Self::Key => include_str!("../../../services/key-service/latchkey-key-service.service"),
            Self::Balancer => include_str!("../../../services/api-balancer/latchkey-api-balancer.service"),
        }
    }
}

impl Service {
    /// The join service, this program.
    pub const fn join(program: Source) -> Self {
        Self { kind: Kind::Join, program }
    }

    /// The key service, this program.
    pub const fn key(program: Source) -> Self {
        Self { kind: Kind::Key, program }
    }

    /// The balancer to the API servers, this program; on control planes and workers.
    pub const fn balancer(program: Source) -> Self {
        Self { kind: Kind::Balancer, program }
    }

    /// Whether it waits for a configuration, which is on the state disk.
    pub(super) const fn is_configured_later(&self) -> bool {
        matches!(self.kind, Kind::Join | Kind::Key)
    }

    /// Whether machines of these roles run it, and its program needs nothing that a root may lack.
    pub(super) fn check(&self, roles: &Roles) -> Result<(), KubernetesError> {
        if self.is_configured_later() && roles.iter().all(|role| role != Role::ControlPlane) {
            return Err(KubernetesError::NotForWorkers(self.kind.name()));
        }
        let program = self.program.read().map_err(Box::new)?;
        check_static(&program).map_err(|error| KubernetesError::Service(self.kind.name(), error))
    }

    /// What it is, and what it hashes to.
    pub(super) fn source(&self) -> Result<(String, Sha256), KubernetesError> {
        Ok((self.kind.name().to_owned(), Sha256::of(&self.program.read().map_err(Box::new)?)))
    }

    /// Its program, its unit, and its configuration or what makes the unit wait for it.
    pub(super) fn additions(&self) -> Result<Vec<Addition>, KubernetesError> {
        let name = self.kind.name();
        let file = |path: String, mode, content: Vec<u8>| Addition { path, what: AdditionKind::File(mode, content) };
        let unit = format!("latchkey-{name}.service");
        let configuration = if self.is_configured_later() {
            file(format!("{SYSTEM}/{unit}.d/latchkey.conf"), 0o644, DROP_IN.replace("@SERVICE@", name).into_bytes())
        } else {
            file(format!("usr/lib/latchkey/{name}.json"), 0o644, BALANCER.as_bytes().to_vec())
        };
        Ok(vec![
            file(format!("usr/bin/latchkey-{name}"), 0o755, self.program.read().map_err(Box::new)?.into_owned()),
            file(format!("{SYSTEM}/{unit}"), 0o644, self.kind.unit().as_bytes().to_vec()),
            configuration,
            Addition {
                path: format!("{SYSTEM}/multi-user.target.wants/{unit}"),
                what: AdditionKind::Link(format!("../{unit}")),
            },
        ])
    }
}
