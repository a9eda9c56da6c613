//! What the centre wants deployed to this cluster, and what that comes to in Kubernetes: decided without I/O or clock.
//!
//! 1. [`Entry`]: an entry of the application "Edge deployment".
//! 2. [`plan`]: entries and templates as manifests, `HelmRelease`s and the `GitRepository`s of their charts; what cannot be made is
//!    said, and what stands of it in the cluster is left alone.
//! 3. [`Applies`]: which manifests are applied when, and which objects are deleted.

mod applies;
mod entry;
mod object;
mod plan;
#[cfg(test)]
mod tests;

pub use applies::{Applies, Step};
pub use entry::Entry;
pub use object::{Have, Kind, MANAGED_BY, MANAGER, Managed, Name};
pub use plan::{MOST, Plan, Site, Templates, plan};
