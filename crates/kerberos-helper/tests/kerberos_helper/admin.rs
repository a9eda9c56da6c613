//! Principals, against a real kadmind.

use crate::rig::{HELPER, Rig, secret, upn};
use latchkey_factory_plus::Upn;
use latchkey_kdc_rig::{ADMIN, Kdc, REALM};
use latchkey_kerberos::acl::{Acl, Right};
use latchkey_kerberos::{Admin, AdminKey, AdminSettings, Denied, KerberosCode};
use latchkey_test_support::block_on;
use std::time::{Duration, SystemTime};

fn admin_as(kdc: &Kdc, name: &str, key: AdminKey) -> Admin {
    Admin::new(AdminSettings {
        helper: HELPER.into(),
        krb5_config: Some(kdc.krb5_config().to_owned()),
        principal: upn(name),
        key,
        deadline: Duration::from_secs(30),
    })
}

fn admin_of(kdc: &Kdc) -> Admin {
    admin_as(kdc, ADMIN.0, AdminKey::Password(secret(ADMIN.1)))
}

fn in_seconds(seconds: i64) -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    u32::try_from(now.saturating_add_signed(seconds)).expect("before 2106")
}

fn code<T>(result: Result<T, Denied>) -> KerberosCode {
    result.err().expect("it is refused").code()
}

#[test]
fn a_principal_is_made_changed_disabled_enabled_and_deleted() {
    let Some(rig) = Rig::start() else { return };
    let (admin, flux) = (admin_of(&rig.kdc), upn("op1flux/Test"));
    block_on(async {
        assert_eq!(admin.show(&flux).await.unwrap(), None);
        admin.create_with_password(&flux, &secret("first one"), None, None).await.unwrap();
        assert_eq!(code(admin.create_random(&flux).await), KerberosCode::PrincipalExists);
        rig.kerberos.verify_password(&flux, &secret("first one")).await.unwrap();
        admin.set_password(&flux, &secret("second one"), None).await.unwrap();
        assert_eq!(code(rig.kerberos.verify_password(&flux, &secret("first one")).await), KerberosCode::WrongPassword);
        rig.kerberos.verify_password(&flux, &secret("second one")).await.unwrap();

        admin.disable(&flux).await.unwrap();
        assert!(!admin.show(&flux).await.unwrap().unwrap().enabled);
        let refused = rig.kerberos.verify_password(&flux, &secret("second one")).await;
        assert_eq!(code(refused), KerberosCode::PrincipalRevoked);
        admin.enable(&flux).await.unwrap();
        rig.kerberos.verify_password(&flux, &secret("second one")).await.unwrap();

        admin.set_expiry(&flux, Some(in_seconds(-60))).await.unwrap();
        let refused = rig.kerberos.verify_password(&flux, &secret("second one")).await;
        assert_eq!(code(refused), KerberosCode::PrincipalExpired);
        admin.set_expiry(&flux, None).await.unwrap();
        rig.kerberos.verify_password(&flux, &secret("second one")).await.unwrap();

        let names = admin.list("*/Test@*").await.unwrap();
        assert_eq!(names, std::slice::from_ref(&flux));
        admin.delete(&flux).await.unwrap();
        assert_eq!(code(admin.delete(&flux).await), KerberosCode::PrincipalUnknown);
        assert_eq!(code(admin.enable(&flux).await), KerberosCode::PrincipalUnknown);
    });
    // What was made here wants pre-authentication, so nobody is given something to guess its password on.
    block_on(admin.create_random(&flux)).unwrap();
    assert!(rig.kdc.kadmin_local("getprinc op1flux/Test").contains("REQUIRES_PRE_AUTH"));
}

#[test]
fn a_password_that_ends_serves_until_then_and_new_keys_take_its_place() {
    let Some(rig) = Rig::start() else { return };
    let (admin, operator) = (admin_of(&rig.kdc), upn("op1krbkeys/Test"));
    rig.kdc.acl(&Acl::of_centre(&REALM.parse().unwrap(), &[upn(ADMIN.0)], &[]).unwrap().to_string());
    let mut rig = rig;
    rig.kdc.start_kadmind();
    block_on(async {
        admin.create_with_password(&operator, &secret("used once"), Some(in_seconds(3600)), None).await.unwrap();
        assert!(admin.show(&operator).await.unwrap().unwrap().password_expires.is_some());
        // The edge replaces it, by itself.
        let edge = admin_as(&rig.kdc, "op1krbkeys/Test", AdminKey::Password(secret("used once")));
        let keytab = edge.new_keys(&operator).await.unwrap();
        let shown = admin.show(&operator).await.unwrap().unwrap();
        assert_eq!(shown.password_expires, None);
        assert_eq!(
            code(rig.kerberos.verify_password(&operator, &secret("used once")).await),
            KerberosCode::WrongPassword
        );
        // Its keytab opens kadmind from now on.
        let path = rig.kdc.path("operator.keytab");
        keytab.write(&path).unwrap();
        let edge = admin_as(&rig.kdc, "op1krbkeys/Test", AdminKey::Keytab(path));
        edge.create_random(&upn("op1sync/Test")).await.unwrap();
        assert_eq!(code(edge.create_random(&upn("op1sync/Other")).await), KerberosCode::AdminRefused);

        let stale = upn("op1krbkeys/Late");
        admin.create_with_password(&stale, &secret("too late"), Some(in_seconds(-60)), None).await.unwrap();
        let refused = rig.kerberos.verify_password(&stale, &secret("too late")).await;
        assert_eq!(code(refused), KerberosCode::PasswordExpired);
    });
}

#[test]
fn a_keytab_of_new_keys_is_read_by_klist_and_used_by_kinit() {
    let Some(rig) = Rig::start() else { return };
    let (admin, sync) = (admin_of(&rig.kdc), upn("op1sync/Test"));
    let path = rig.kdc.path("sync.keytab");
    block_on(async {
        admin.create_random(&sync).await.unwrap();
        admin.new_keys(&sync).await.unwrap().write(&path).unwrap();
    });
    let said = latchkey_test_support::output(rig.kdc.command("klist").args(["-ekt"]).arg(&path)).unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains(sync.as_str()) && said.contains("aes256-cts"), "{said}");
    let got = latchkey_test_support::output(rig.kdc.command("kinit").arg("-kt").arg(&path).arg(sync.as_str())).unwrap();
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
}

#[test]
fn the_written_list_is_what_kadmind_makes_of_it() {
    let Some(rig) = Rig::start() else { return };
    let mut rig = rig;
    let acl = Acl::of_centre(&REALM.parse().unwrap(), &[upn(ADMIN.0)], &[]).unwrap();
    rig.kdc.acl(&acl.to_string());
    rig.kdc.start_kadmind();
    for name in ["op1krbkeys/Test", "op1krbkeys/admin", "op1sync/Test"] {
        rig.kdc.add(name, "its password");
    }
    let others = [
        "op1sync/Test",
        "op1sync/Other",
        "op1sync/admin",
        "nd1/Test/Agent1",
        "nd1/Other/Agent1",
        "nd1/Test",
        "alice/admin",
        "kadmin/admin",
        ADMIN.0,
        "alice",
    ];
    for name in others.iter().filter(|name| ![ADMIN.0, "kadmin/admin", "op1sync/Test"].contains(name)) {
        rig.kdc.add(name, "another password");
    }
    for who in ["op1krbkeys/Test", "op1krbkeys/admin", "op1sync/Test"] {
        let admin = admin_as(&rig.kdc, who, AdminKey::Password(secret("its password")));
        for about in others.iter().filter(|about| **about != who) {
            let allowed = acl.allows(&upn(who), Right::Modify, Some(&upn(about)));
            let done = block_on(admin.set_expiry(&upn(about), None));
            match done {
                Ok(()) => assert!(allowed, "{who} changed {about}"),
                Err(denied) => {
                    assert_eq!(denied.code(), KerberosCode::AdminRefused, "{who} {about}: {denied}");
                    assert!(!allowed, "{who} may not change {about}");
                }
            }
        }
        assert_eq!(code(block_on(admin.list("*"))), KerberosCode::AdminRefused);
    }
}

#[test]
fn a_cluster_called_admin_gets_no_administrators_password_from_a_real_kadmind() {
    let Some(rig) = Rig::start() else { return };
    let mut rig = rig;
    rig.kdc.add("op1krbkeys/admin", "its password");
    rig.kdc.add("alice/admin", "hers");
    let try_it = |rig: &Rig| {
        let admin = admin_as(&rig.kdc, "op1krbkeys/admin", AdminKey::Password(secret("its password")));
        block_on(admin.set_password(&upn("alice/admin"), &secret("taken over"), None))
    };
    // The original's rule, to see that the test can fail.
    rig.kdc.acl("op1krbkeys/* x */*1\n");
    rig.kdc.start_kadmind();
    try_it(&rig).unwrap();
    rig.kdc.acl(&Acl::of_centre(&REALM.parse().unwrap(), &[upn(ADMIN.0)], &[]).unwrap().to_string());
    rig.kdc.start_kadmind();
    assert_eq!(code(try_it(&rig)), KerberosCode::AdminRefused);
}

#[test]
fn a_kadmind_that_was_away_is_found_again() {
    let Some(mut rig) = Rig::start() else { return };
    let admin = admin_of(&rig.kdc);
    let alice: Upn = upn("alice");
    block_on(admin.create_random(&alice)).unwrap();
    rig.kdc.stop_kadmind();
    assert_eq!(code(block_on(admin.show(&alice))), KerberosCode::KadmindUnreachable);
    rig.kdc.start_kadmind();
    assert!(block_on(admin.show(&alice)).unwrap().is_some());
}

#[test]
fn a_wrong_password_of_the_administrator_is_told() {
    let Some(rig) = Rig::start() else { return };
    let admin = admin_as(&rig.kdc, ADMIN.0, AdminKey::Password(secret("wrong")));
    for _ in 0..2 {
        assert_eq!(code(block_on(admin.show(&upn("alice")))), KerberosCode::WrongPassword);
    }
    let admin = admin_as(&rig.kdc, ADMIN.0, AdminKey::Keytab("/does/not/exist".into()));
    assert_eq!(code(block_on(admin.show(&upn("alice")))), KerberosCode::KeytabMissing);
}
