//! Join and key service on control planes: plain programs of the verified root, with the units that the services come with.

use latchkey_initramfs::executable::check_static;
use latchkey_kubernetes::{Role, Roles, Sha256};

use super::error::KubernetesError;
use crate::image::Source;
use crate::systemd::{Addition, AdditionKind};

const SYSTEM: &str = "usr/lib/systemd/system";
const DROP_IN: &str = include_str!("../../kubernetes/service.conf");
/// Where their configurations are, and what these name: on the state disk alone.
pub(super) const CONFIGURATION: &str = "/etc/latchkey";

/// A service that control planes carry.
#[derive(Debug, Clone)]
pub struct Service {
    kind: Kind,
    program: Source,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Join,
    Key,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Join => "join-service",
            Self::Key => "key-service",
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Join => include_str!("../../../services/join-service/latchkey-join-service.service"),
            Self::Key => include_str!("../../../services/key-service/latchkey-key-service.service"),
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

    /// Whether machines of these roles run it, and its program needs nothing that a root may lack.
    pub(super) fn check(&self, roles: &Roles) -> Result<(), KubernetesError> {
        if roles.iter().all(|role| role != Role::ControlPlane) {
            return Err(KubernetesError::NotForWorkers(self.kind.name()));
        }
        let program = self.program.read().map_err(Box::new)?;
        check_static(&program).map_err(|error| KubernetesError::Service(self.kind.name(), error))
    }

    /// What it is, and what it hashes to.
    pub(super) fn source(&self) -> Result<(String, Sha256), KubernetesError> {
        Ok((self.kind.name().to_owned(), Sha256::of(&self.program.read().map_err(Box::new)?)))
    }

    /// Its program, its unit, and what makes the unit wait for its configuration.
    pub(super) fn additions(&self) -> Result<Vec<Addition>, KubernetesError> {
        let name = self.kind.name();
        let file = |path: String, mode, content: Vec<u8>| Addition { path, what: AdditionKind::File(mode, content) };
        let unit = format!("latchkey-{name}.service");
        Ok(vec![
            file(format!("usr/bin/latchkey-{name}"), 0o755, self.program.read().map_err(Box::new)?.into_owned()),
            file(format!("{SYSTEM}/{unit}"), 0o644, self.kind.unit().as_bytes().to_vec()),
            file(format!("{SYSTEM}/{unit}.d/latchkey.conf"), 0o644, DROP_IN.replace("@SERVICE@", name).into_bytes()),
            Addition {
                path: format!("{SYSTEM}/multi-user.target.wants/{unit}"),
                what: AdditionKind::Link(format!("../{unit}")),
            },
        ])
    }
}
