//! What the programs of a Factory+ centre and its edges agree on.
//!
//! 1. [`Uuid`]: everything in the configuration database is known by one; [`uuids`]: those that are the same at every site.
//! 2. [`ClusterName`]: what an edge cluster may be called, and why.
//! 3. [`Upn`]: what Kerberos calls a principal; [`Role`]: the accounts of an edge cluster.
//! 4. [`cluster`]: the entries about edge clusters, field by field.
//! 5. [`grants`]: permissions, targets and access control lists, as services ask for them.
//! 6. [`notify`]: the frames of change notification.
//! 7. [`manager`]: what the cluster manager says.
//! 8. [`EdgeImages`]: the container images of the programs at an edge.
//! 9. [`template`], [`release`], [`kubernetes_names`]: manifests for Kubernetes, from templates of the configuration database.
//!
//! No I/O. The contract is that of the AMRC Connectivity Stack: its programs work against these, too.

pub mod cluster;
pub mod grants;
mod images;
pub mod kubernetes_names;
pub mod manager;
mod name;
pub mod notify;
pub mod release;
mod role;
pub mod template;
mod upn;
mod uuid;
pub mod uuids;

pub use images::{EdgeDigests, EdgeImages, EdgeProgram, ImagesError};
pub use name::{ClusterName, NameError};
pub use role::{NODE_ACCOUNT, Role};
pub use upn::{Realm, Upn, UpnError};
pub use uuid::{Uuid, UuidError};
