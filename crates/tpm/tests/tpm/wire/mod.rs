//! The wire structures: what is accepted, what is refused, and that both are exact.

mod properties;
mod quotes;
mod templates;
