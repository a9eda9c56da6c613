//! What can be asked of the database, and what each needs: section by section the table of the contract.

mod answer;
mod needs;
mod preconditions;
mod read;
mod refusal;
mod write;

pub use answer::{Answer, Outcome};
pub use preconditions::{Preconditions, PreconditionsError, Tag, Tags};
pub use read::Read;
pub use refusal::Refusal;
pub use write::Write;

#[cfg(test)]
mod tests;
