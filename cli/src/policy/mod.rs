//! `latchkey policy new` and `latchkey policy check`.

mod check;
mod new;

pub(crate) use check::{run as check, source as source_in_words};
pub(crate) use new::{Draft, manifest_name, run as new};
