//! What the programs of a Factory+ centre and its edges agree on.
//!
//! 1. [`Uuid`]: everything in the configuration database is known by one; [`uuids`]: those that are the same at every site.
//! 2. [`ClusterName`]: what an edge cluster may be called, and why.
//! 3. [`cluster`]: the entries about edge clusters, field by field.
//! 4. [`grants`]: permissions, targets and access control lists, as services ask for them.
//! 5. [`notify`]: the frames of change notification.
//! 6. [`manager`]: what the cluster manager says.
//! 7. [`EdgeImages`]: the container images of the programs at an edge.
//!
//! No I/O. The contract is that of the AMRC Connectivity Stack: its programs work against these, too.

pub mod cluster;
pub mod grants;
mod images;
pub mod manager;
mod name;
pub mod notify;
mod uuid;
pub mod uuids;

pub use images::{EdgeDigests, EdgeImages, EdgeProgram, ImagesError};
pub use name::{ClusterName, NameError};
pub use uuid::{Uuid, UuidError};
