//! A helper that dies. A program of its own: it looks for helpers among its children.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

#[path = "kerberos_helper/rig/mod.rs"]
mod rig;

use latchkey_kerberos::KerberosCode;
use latchkey_test_support::block_on;
use rig::{Rig, secret, upn};
use smol::future::FutureExt as _;
use std::time::{Duration, Instant};

#[test]
fn a_helper_that_dies_fails_its_call_and_is_replaced() {
    let Some(rig) = Rig::start() else { return };
    rig.kdc.add("alice", "opensesame");
    rig.kdc.freeze_kdc();
    let verify = async || rig.kerberos.verify_password(&upn("alice"), &secret("opensesame")).await;
    let began = Instant::now();
    block_on(async {
        let kill = async {
            Rig::kill_helper().await;
            std::future::pending().await
        };
        let denied = Box::pin(verify()).or(kill).await.unwrap_err();
        assert_eq!(denied.code(), KerberosCode::HelperFailed, "{denied}");
        assert!(began.elapsed() < Duration::from_secs(20), "not by the deadline");
        rig.kdc.thaw_kdc();
        verify().await.unwrap();
    });
}
