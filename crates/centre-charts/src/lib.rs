//! What a centre's repository of charts has: our own chart, and what others make, imported.
//!
//! Flux's manifests and the chart of Sealed Secrets are other people's. An operator gets them where they are published, and imports
//! the files; what was imported is recorded by SHA-256 ([`Inputs`]). No I/O but reading those files ([`Input::read`]):
//!
//! 1. [`Input`]: Flux's manifests or a chart, looked into.
//! 2. [`Definitions`]: which versions of its resources a set of manifests knows, and which of them a new set drops.
//! 3. [`Import`]: the files that go into the repository.

mod chart;
mod definitions;
mod edge_cluster;
mod flux;
mod import;
mod input;

#[cfg(test)]
mod tests;

pub use chart::ChartFiles;
pub use definitions::{Definitions, Dropped};
pub use edge_cluster::{CHART_VERSION, edge_cluster};
pub use flux::FluxSet;
pub use import::{Change, Import, ImportError, Inputs, Recorded};
pub use input::{Content, Input, InputError};
