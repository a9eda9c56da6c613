//! The decision core: what holds whatever happens ([`world`]), and what single requests get.
#![expect(clippy::unwrap_used, reason = "constants of the test are well-formed")]

mod admission;
mod certificates;
mod world;

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{Denials, Enrolment, NotDenied, TpmBoot};
use latchkey_join_service::decision::{Ask, JoinAsk, Now, Rules};
use latchkey_keys::Uuid;
use std::time::{Duration, Instant};

pub(crate) fn given(rules: &Enrolment) -> Rules {
    rules.clone().into()
}

pub(crate) fn not_denied(ek: EkDigest) -> NotDenied {
    Denials::default().check(&ek, Instant::now()).unwrap()
}

pub(crate) fn boot(reset_count: u32) -> TpmBoot {
    TpmBoot { reset_count, restart_count: 0 }
}

pub(crate) fn ek(tpm: u8) -> EkDigest {
    EkDigest::from_hex(&format!("{tpm:02x}").repeat(32)).unwrap()
}

pub(crate) fn disk_of(disk: u8) -> Uuid {
    format!("0a0a0a0a-0000-4000-8000-{disk:012}").parse().unwrap()
}

pub(crate) fn name_of(name: u8) -> String {
    format!("node-{name}")
}

pub(crate) fn now(seconds: u64) -> Now {
    Now { unix: 1_800_000_000 + seconds, uptime: Duration::from_secs(seconds) }
}

pub(crate) fn join(tpm: u8) -> Ask {
    Ask::Join(JoinAsk { disk: disk_of(tpm), name: name_of(tpm), role: None })
}
