//! Gets a node's components of Kubernetes onto its state disk, and holds them against their hashes in each boot.
//!
//! For images without Kubernetes in them. The agent downloads nothing: it calls this program with the list that the operator, a join
//! ticket or the disk's authenticated token gave it, before anything of Kubernetes runs. What is in the [`Store`] counts only after
//! that: units name programs below a link in memory (`/run`), which is made when every file was read and is right.

mod command;
mod error;
mod store;

pub use command::run;
pub use error::{ComponentsCode, ComponentsError};
pub use store::{Others, Store};
