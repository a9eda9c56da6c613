//! `latchkey policy new` and `latchkey policy check`.

mod check;
mod new;
mod snp;

pub(crate) use check::run as check;
pub(crate) use new::{Draft, manifest_name, run as new};
