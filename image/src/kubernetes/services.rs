//! Join and key service on control planes, and the balancer to the API servers on every node: plain programs of the verified root,
//! with the units that they come with.

use latchkey_initramfs::executable::check_static;
use latchkey_kubernetes::{Role, Roles, Sha256};

use super::error::KubernetesError;
use crate::image::Source;
use crate::systemd::{Addition, AdditionKind};

const SYSTEM: &str = "usr/lib/systemd/system";
/// Where what join and key service read is: on the state disk alone. The agent writes it there.
pub(super) const SECRETS: &str = "/etc/latchkey";

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

    /// Nothing in it is of one cluster.
    const fn configuration(self) -> &'static str {
        match self {
            Self::Join => include_str!("../../kubernetes/join-service.json"),
            Self::Key => include_str!("../../kubernetes/key-service.json"),
            Self::Balancer => include_str!("../../../services/api-balancer/api-balancer.example.json"),
        }
    }

    /// What its unit is on a control plane beyond what it is elsewhere.
    const fn drop_in(self) -> Option<&'static str> {
        match self {
            Self::Join => Some(include_str!("../../kubernetes/join-service.conf")),
            Self::Key => Some(include_str!("../../kubernetes/key-service.conf")),
            Self::Balancer => None,
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

    /// Whether it waits for secrets of the cluster, which are on the state disk.
    pub(super) const fn has_secrets(&self) -> bool {
        matches!(self.kind, Kind::Join | Kind::Key)
    }

    /// Whether machines of these roles run it, and its program needs nothing that a root may lack.
    pub(super) fn check(&self, roles: &Roles) -> Result<(), KubernetesError> {
        if self.has_secrets() && roles.iter().all(|role| role != Role::ControlPlane) {
            return Err(KubernetesError::NotForWorkers(self.kind.name()));
        }
        let program = self.program.read().map_err(Box::new)?;
        check_static(&program).map_err(|error| KubernetesError::Service(self.kind.name(), error))
    }

    /// What it is, and what it hashes to.
    pub(super) fn source(&self) -> Result<(String, Sha256), KubernetesError> {
        Ok((self.kind.name().to_owned(), Sha256::of(&self.program.read().map_err(Box::new)?)))
    }

    /// Its program, its configuration, its unit, and what makes the unit wait for secrets.
    pub(super) fn additions(&self) -> Result<Vec<Addition>, KubernetesError> {
        let name = self.kind.name();
        let file = |path: String, mode, content: Vec<u8>| Addition { path, what: AdditionKind::File(mode, content) };
        let unit = format!("latchkey-{name}.service");
        let drop_in = self.kind.drop_in();
        let drop_in =
            drop_in.map(|text| file(format!("{SYSTEM}/{unit}.d/latchkey.conf"), 0o644, text.as_bytes().to_vec()));
        let mut additions = vec![
            file(format!("usr/bin/latchkey-{name}"), 0o755, self.program.read().map_err(Box::new)?.into_owned()),
            file(format!("{SYSTEM}/{unit}"), 0o644, self.kind.unit().as_bytes().to_vec()),
            file(format!("usr/lib/latchkey/{name}.json"), 0o644, self.kind.configuration().as_bytes().to_vec()),
            Addition {
                path: format!("{SYSTEM}/multi-user.target.wants/{unit}"),
                what: AdditionKind::Link(format!("../{unit}")),
            },
        ];
        additions.extend(drop_in);
        Ok(additions)
    }
}
