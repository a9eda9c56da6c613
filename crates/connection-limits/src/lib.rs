//! Who may hold a connection, and how often one may come.
//!
//! One mechanism for everything that listens: the join service, the key service and the waiting node. Nothing here does I/O
//! or reads a clock: `now` is the time since any fixed moment, the same one for all calls.
//!
//! * [`PeerNetwork`]: what counts as one peer, and which peers count together.
//! * [`ConnectionSlots`]: who is served at once; who gives way when all slots are taken.
//! * [`TokenBucket`], [`Rates`], [`PeerRates`], [`SharedRate`]: how often one of many, a peer and its site, and everybody together may
//!   come.
//! * [`Backoff`]: how long who was not served waits until it comes again.

mod backoff;
mod network;
mod rate;
mod slots;

pub use backoff::Backoff;
pub use network::PeerNetwork;
pub use rate::{PeerRates, Rate, Rates, SharedRate, TokenBucket, Wait};
pub use slots::{Arrival, ConnectionSlots, Full, SlotId, SlotLimits, Standing, Usage};
