//! Passwords and tokens, against a real KDC.

use crate::rig;

use crate::rig::{Rig, kerberos_of, secret, upn};
use latchkey_factory_plus::Upn;
use latchkey_kdc_rig::{Kdc, REALM};
use latchkey_kerberos::KerberosCode;
use latchkey_test_support::block_on;
use std::time::{Duration, Instant};

#[test]
fn the_right_password_is_verified_and_no_other_is() {
    let Some(rig) = Rig::start() else { return };
    rig.kdc.add("alice", "opensesame");
    block_on(async {
        let verified = rig.kerberos.verify_password(&upn("alice"), &secret("opensesame")).await.unwrap();
        assert_eq!(verified.upn().as_str(), format!("alice@{REALM}"));
        for (name, password, code) in [
            ("alice", "opensesam", KerberosCode::WrongPassword),
            ("alice", "", KerberosCode::WrongPassword),
            ("alice", "opensesame\0", KerberosCode::WrongPassword),
            ("nobody", "opensesame", KerberosCode::PrincipalUnknown),
        ] {
            let denied = rig.kerberos.verify_password(&upn(name), &secret(password)).await.unwrap_err();
            assert_eq!(denied.code(), code, "{name} {denied}");
            assert!(!denied.is_outage());
        }
    });
}

#[test]
fn a_principal_without_pre_authentication_needs_its_password_too() {
    let Some(rig) = Rig::start() else { return };
    rig.kdc.kadmin_local("addprinc -requires_preauth -pw opensesame bob");
    block_on(async {
        rig.kerberos.verify_password(&upn("bob"), &secret("opensesame")).await.unwrap();
        let denied = rig.kerberos.verify_password(&upn("bob"), &secret("wrong")).await.unwrap_err();
        assert_eq!(denied.code(), KerberosCode::WrongPassword, "{denied}");
    });
}

#[test]
fn disabled_and_expired_principals_and_expired_passwords_are_told_apart() {
    let Some(rig) = Rig::start() else { return };
    for (name, change, code) in [
        ("disabled", "-allow_tix", KerberosCode::PrincipalRevoked),
        ("expired", "-expire 2020-01-01", KerberosCode::PrincipalExpired),
        ("stale", "-pwexpire 2020-01-01", KerberosCode::PasswordExpired),
    ] {
        rig.kdc.add(name, "opensesame");
        rig.kdc.kadmin_local(&format!("modprinc {change} {name}"));
        let verified = block_on(rig.kerberos.verify_password(&upn(name), &secret("opensesame")));
        let denied = verified.unwrap_err();
        assert_eq!(denied.code(), code, "{denied}");
        assert!(!denied.is_outage());
    }
}

#[test]
fn who_answers_in_the_place_of_the_kdc_is_found_out() {
    let Some(rig) = Rig::start() else { return };
    // A KDC of the same realm that knows a password of the attacker's choice, and not the service's key.
    let other = Kdc::start();
    other.add("alice", "chosen by the attacker");
    other.keytab(&["HTTP/localhost"]);
    let kerberos = kerberos_of(&rig, other.krb5_config(), Duration::from_secs(20));
    let denied = block_on(kerberos.verify_password(&upn("alice"), &secret("chosen by the attacker"))).unwrap_err();
    assert_eq!(denied.code(), KerberosCode::KdcNotGenuine, "{denied}");
}

#[test]
fn an_older_keytab_and_an_unknown_service_are_named() {
    let Some(rig) = Rig::start() else { return };
    rig.kdc.add("alice", "opensesame");
    let verify = || block_on(rig.kerberos.verify_password(&upn("alice"), &secret("opensesame")));
    verify().unwrap();
    // Its key changes in the KDC, and not in the keytab.
    rig.kdc.kadmin_local("cpw -randkey HTTP/localhost");
    let denied = verify().unwrap_err();
    assert_eq!(denied.code(), KerberosCode::KeytabKeyMissing, "{denied}");
    assert!(denied.is_outage());
    // A keytab that is written again counts at once.
    rig.kdc.keytab(&["HTTP/localhost"]);
    verify().unwrap();
    rig.kdc.kadmin_local("delprinc -force HTTP/localhost");
    let denied = verify().unwrap_err();
    assert_eq!(denied.code(), KerberosCode::ServiceUnknown, "{denied}");
}

#[test]
fn without_a_keytab_each_error_says_so_and_none_takes_long() {
    let Some(rig) = Rig::start() else { return };
    rig.kdc.add("alice", "opensesame");
    std::fs::remove_file(&rig.keytab).unwrap();
    let verify = || block_on(rig.kerberos.verify_password(&upn("alice"), &secret("opensesame")));
    let began = Instant::now();
    for _ in 0..40 {
        let denied = verify().unwrap_err();
        assert_eq!(denied.code(), KerberosCode::KeytabMissing, "{denied}");
        assert!(denied.is_outage());
    }
    // Each would be a helper's start without the pauses, and a wait of seconds with them alone.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    rig.kdc.keytab(&["HTTP/localhost"]);
    latchkey_test_support::until("the keytab to count", || verify().ok());
}

#[test]
fn a_principal_that_is_locked_out_is_refused_with_the_right_password() {
    let Some(rig) = Rig::start() else { return };
    rig.kdc.kadmin_local("addpol -maxfailure 2 strict");
    rig.kdc.add("alice", "opensesame");
    rig.kdc.kadmin_local("modprinc -policy strict alice");
    let verify = |password| block_on(rig.kerberos.verify_password(&upn("alice"), &secret(password)));
    for _ in 0..2 {
        assert_eq!(verify("wrong").unwrap_err().code(), KerberosCode::WrongPassword);
    }
    assert_eq!(verify("opensesame").unwrap_err().code(), KerberosCode::PrincipalRevoked);
}

#[test]
fn a_kdc_that_is_gone_is_an_outage_and_one_that_is_back_counts_at_once() {
    let Some(mut rig) = Rig::start() else { return };
    rig.kdc.add("alice", "opensesame");
    rig.kdc.stop_kdc();
    let denied = block_on(rig.kerberos.verify_password(&upn("alice"), &secret("opensesame"))).unwrap_err();
    assert_eq!(denied.code(), KerberosCode::KdcUnreachable, "{denied}");
    assert!(denied.is_outage());
    rig.kdc.start_kdc();
    block_on(rig.kerberos.verify_password(&upn("alice"), &secret("opensesame"))).unwrap();
}

#[test]
fn a_kdc_that_hangs_costs_a_call_its_deadline_and_delays_no_token() {
    let Some(rig) = Rig::start() else { return };
    rig.kdc.add("alice", "opensesame");
    rig.kdc.kinit("alice", "opensesame");
    let token = rig.token();
    let deadline = Duration::from_secs(5);
    let kerberos = kerberos_of(&rig, rig.kdc.krb5_config(), deadline);
    rig.kdc.freeze_kdc();
    let began = Instant::now();
    let hanging =
        async { kerberos.verify_password(&upn("alice"), &secret("opensesame")).await.map_err(|denied| denied.code()) };
    // The KDC has no part in accepting.
    let accepted = async {
        let who = kerberos.accept(&token).await.unwrap().0;
        (who, began.elapsed())
    };
    let (late, (who, took)) = block_on(smol::future::zip(hanging, accepted));
    assert_eq!(late, Err(KerberosCode::TimedOut));
    assert!(began.elapsed() >= deadline && took < deadline, "{took:?}");
    assert_eq!(who.upn(), &upn("alice"));
    rig.kdc.thaw_kdc();
    block_on(kerberos.verify_password(&upn("alice"), &secret("opensesame"))).unwrap();
}

#[test]
fn a_token_of_curl_is_accepted_once() {
    let Some(rig) = Rig::start() else { return };
    rig.kdc.add("nd1/Test/Agent1", "opensesame");
    rig.kdc.kinit("nd1/Test/Agent1", "opensesame");
    let token = rig.token();
    block_on(async {
        let (who, reply) = rig.kerberos.accept(&token).await.unwrap();
        assert_eq!(who.upn(), &upn("nd1/Test/Agent1"));
        assert!(!reply.is_empty());
        let denied = rig.kerberos.accept(&token).await.unwrap_err();
        assert_eq!(denied.code(), KerberosCode::TokenReplayed, "{denied}");
        assert!(!denied.is_outage());
    });
}

#[test]
fn the_reply_proves_the_service_to_a_client_that_demands_it() {
    let Some(rig) = Rig::start() else { return };
    if !std::path::Path::new("/usr/lib/python3/dist-packages/gssapi").exists() {
        return latchkey_test_support::skip("the Debian package python3-gssapi is not installed");
    }
    rig.kdc.add("alice", "opensesame");
    rig.kdc.kinit("alice", "opensesame");
    for mechanism in ["spnego", "kerberos"] {
        assert!(rig.exchange(mechanism, |token| block_on(rig.kerberos.accept(&token)).unwrap().1), "{mechanism}");
        // To see that the client looks: another reply does not satisfy it.
        assert!(!rig.exchange(mechanism, |token| {
            let mut reply = block_on(rig.kerberos.accept(&token)).unwrap().1;
            *reply.last_mut().unwrap() ^= 1;
            reply
        }));
    }
}

#[test]
fn what_is_no_token_or_for_another_service_is_refused() {
    let Some(rig) = Rig::start() else { return };
    rig.kdc.add("alice", "opensesame");
    rig.kdc.kinit("alice", "opensesame");
    let (token, later) = (rig.token(), rig.token());
    block_on(rig.kerberos.accept(&token)).unwrap();
    // The service's name is the same, the key another one.
    let denied_other = {
        let other = Kdc::start();
        let keytab = other.keytab(&["HTTP/localhost"]);
        std::fs::copy(keytab, &rig.keytab).unwrap();
        block_on(rig.kerberos.accept(&later)).unwrap_err()
    };
    assert_eq!(denied_other.code(), KerberosCode::KeytabKeyMissing, "{denied_other}");
    block_on(async {
        // NTLM's first message, and bytes.
        for token in [&b"NTLMSSP\0\x01\0\0\0"[..], &[0x60, 0x82, 0xff], &[0; 1000], &vec![0x60; 65_537]] {
            let denied = rig.kerberos.accept(token).await.unwrap_err();
            assert_eq!(denied.code(), KerberosCode::TokenMalformed, "{denied}");
        }
    });
}

#[test]
fn a_program_that_is_no_helper_and_one_that_is_missing_fail_each_call() {
    let Some(rig) = Rig::start() else { return };
    for (program, code) in [("/bin/cat", KerberosCode::HelperFailed), ("/does/not/exist", KerberosCode::HelperMissing)]
    {
        let kerberos = rig::with_helper(&rig, program.as_ref());
        for _ in 0..3 {
            let denied = block_on(kerberos.verify_password(&upn("alice"), &secret("x"))).unwrap_err();
            assert_eq!(denied.code(), code, "{denied}");
        }
    }
}

#[test]
fn a_user_is_of_the_services_realm_where_none_is_named() {
    assert_eq!(Upn::in_realm("alice", &REALM.parse().unwrap()).unwrap(), upn("alice"));
}

#[test]
fn a_token_of_a_client_whose_clock_is_wrong_is_told_as_that() {
    let Some(rig) = Rig::start() else { return };
    rig.kdc.add("alice", "opensesame");
    rig.kdc.kinit("alice", "opensesame");
    // Its ticket for the service is from before its clock went wrong: the KDC would have told it.
    rig.token();
    let mut date = std::process::Command::new("date");
    let date = latchkey_test_support::output(date.args(["-u", "-d", "+10 minutes", "+%F %T"])).unwrap();
    let mut curl = std::process::Command::new("curl");
    let time = String::from_utf8(date.stdout).unwrap();
    if latchkey_test_support::wrong_clock(&mut curl, time.trim()).is_none() {
        return;
    }
    let denied = block_on(rig.kerberos.accept(&rig.token_of(curl))).unwrap_err();
    assert_eq!(denied.code(), KerberosCode::ClockSkew, "{denied}");
}
