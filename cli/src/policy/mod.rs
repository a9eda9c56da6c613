//! `latchkey policy new`, `latchkey policy check` and `latchkey policy accept-firmware`.

mod accept;
mod check;
mod new;
mod snp;

pub(crate) use accept::run as accept_firmware;
pub(crate) use check::run as check;
pub(crate) use new::{Draft, manifest_name, run as new};
