//! Whose cluster it is: evidence, what the operator said, records and time → a decision. No I/O, no clock.

mod decide;
mod record;
mod refusal;

pub use decide::{Candidate, CentresNames, Decision, Said, decide};
pub use record::{By, Image, Record, Records};
pub use refusal::{Refusal, Waiting};
