//! What every program at an edge has besides its duty: sections of its configuration, and what they make.
//!
//! 1. [`CentreSection`], [`AccountSection`]: where the centre is, and who this program is there: a client of it.
//! 2. [`ClusterSection`], [`Namespace`]: which cluster this is, and where in it the programs live.
//! 3. [`KubernetesSection`], [`connect`]: the way to the cluster's API server.
//! 4. [`work`]: until somebody asks for the end.
//!
//! Programs read their files with [`latchkey_service_runtime::config`], and are started by
//! [`Binary`](latchkey_service_runtime::binary::Binary) with [`RUNNING`].

mod account;
mod centre;
mod cluster;
mod kubernetes;
mod work;

pub use account::{AccountSection, PasswordFile};
pub use centre::{CentreError, CentreSection};
pub use cluster::{ClusterSection, Namespace, NamespaceError};
pub use kubernetes::{KubernetesSection, connect};
pub use work::{RUNNING, work};
