//! What a service stands on that nodes prove themselves to, before it decides anything of its own.
//!
//! 1. [`reception`] takes the steps of the attested handshake, with terms from the snapshot of the moment: policy, reference
//!    values, and the node lock that the service demands for the purpose. Verification holds no lock of ours.
//! 2. [`snapshot`] and [`follow`] follow the documents that evidence is judged by, and those of the service's own: a good one is
//!    swapped in, a bad one keeps the old one and says so.
//! 3. [`identity`] is the key that the service proves itself with; nodes have its hash on their measured command line.
//! 4. [`handshakes`] counts.

pub mod clock;
pub mod ending;
pub mod follow;
pub mod freshness;
pub mod handshakes;
pub mod identity;
pub mod limits;
pub mod reception;
pub mod snapshot;
pub mod unhandled;

pub use follow::{Watch, follow, watched};
pub use freshness::Behind;
pub use handshakes::Handshakes;
pub use limits::Limits;
pub use reception::{Connection, Node, ReceptionError};
pub use snapshot::{Current, Follower, LoadError, NO_COLLATERAL, Snapshot, Source, TooManyTold};
