//! `latchkey policy …`.

mod accept;
mod check;
mod install;
mod new;
mod snp;
mod snp_section;
mod tdx_section;
mod trust_rules;

pub(crate) use accept::run as accept_firmware;
pub(crate) use check::run as check;
pub(crate) use install::run as install;
pub(crate) use new::{Draft, manifest_name, run as new};
pub(crate) use snp_section::floor;
