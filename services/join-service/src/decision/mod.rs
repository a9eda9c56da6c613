//! Who gets what: the join service's decision as a pure state machine.
//!
//! ```text
//! State::admit(ask) ─→ Admitted ─(keys)→ State::conclude ─→ Plan ─(record written)→ State::commit
//!        │                 └─ anything fails ─→ State::abandon
//!        └─ refused: nothing has changed
//! ```
//!
//! [`Admitted`] is the witness without which there are no keys: role, name and disk rules are satisfied and the
//! control-plane lease is held. A [`Plan`] is decided on the state of the moment it is written, so what other requests or
//! programs wrote in between counts.
//!
//! Whether a kubelet gets a certificate is decided on the same state, by the ticket or the record of its node.

mod admission;
mod ask;
mod certificates;
mod damage;
mod lease;
mod refusal;
mod reports;
mod rules;
mod state;
mod warning;

pub use admission::{Admitted, Grant, Plan};
pub use ask::{Ask, JoinAsk, ReportAsk};
pub use certificates::Serving;
pub use damage::Damage;
pub use lease::{ControlPlaneTurn, LEASE};
pub use refusal::Refusal;
pub use rules::Rules;
pub use state::{Now, State};
pub use warning::Warning;
