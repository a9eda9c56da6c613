//! Keys that somebody has, at a real KDC.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use crate::rig::{HELPER, Rig, secret, upn};
use latchkey_kdc_rig::{ADMIN, Kdc, REALM};
use latchkey_kerberos::acl::Acl;
use latchkey_kerberos::keytab::Keytab;
use latchkey_kerberos::{Admin, AdminKey, AdminSettings, Denied, Holder, HolderSettings, KerberosCode};
use latchkey_test_support::{block_on, output};
use std::io::Write as _;
use std::time::{Duration, SystemTime};

const DEADLINE: Duration = Duration::from_secs(30);

fn holder(kdc: &Kdc) -> Holder {
    let krb5_config = Some(kdc.krb5_config().to_owned());
    Holder::new(HolderSettings { helper: HELPER.into(), krb5_config, helpers: 1, deadline: DEADLINE })
}

fn admin(kdc: &Kdc, name: &str, key: AdminKey) -> Admin {
    let krb5_config = Some(kdc.krb5_config().to_owned());
    Admin::new(AdminSettings { helper: HELPER.into(), krb5_config, principal: upn(name), key, deadline: DEADLINE })
}

fn password(text: &str) -> AdminKey {
    AdminKey::Password(secret(text))
}

fn bytes(keytab: &Keytab) -> AdminKey {
    AdminKey::KeytabBytes(keytab.to_bytes())
}

fn code(result: Result<(), Denied>) -> KerberosCode {
    result.expect_err("it is refused").code()
}

fn in_seconds(seconds: i64) -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    u32::try_from(now.saturating_add_signed(seconds)).unwrap()
}

/// A KDC with the list of a centre.
fn rig() -> Option<Rig> {
    let mut rig = Rig::start()?;
    rig.kdc.acl(&Acl::of_centre(&REALM.parse().unwrap(), &[upn(ADMIN.0)], &[]).unwrap().to_string());
    rig.kdc.start_kadmind();
    Some(rig)
}

#[test]
fn a_key_serves_or_it_is_told_why_not() {
    let Some(rig) = rig() else { return };
    let (holder, root) = (holder(&rig.kdc), admin(&rig.kdc, ADMIN.0, password(ADMIN.1)));
    let flux = upn("op1flux/Test");
    let tried = |key: &AdminKey| block_on(holder.authenticate(&flux, key));
    assert_eq!(code(tried(&password("any"))), KerberosCode::PrincipalUnknown);
    block_on(root.create_with_password(&flux, &secret("right"), None, None)).unwrap();
    tried(&password("right")).unwrap();
    assert_eq!(code(tried(&password("wrong"))), KerberosCode::WrongPassword);
    let first = block_on(root.new_keys(&flux)).unwrap();
    tried(&bytes(&first)).unwrap();
    let second = block_on(root.new_keys(&flux)).unwrap();
    assert_eq!(code(tried(&bytes(&first))), KerberosCode::WrongPassword);
    tried(&bytes(&second)).unwrap();
    let path = rig.kdc.path("flux.keytab");
    second.write(&path).unwrap();
    tried(&AdminKey::Keytab(path)).unwrap();
    let other = block_on(async {
        root.create_random(&upn("op1sync/Test")).await?;
        root.new_keys(&upn("op1sync/Test")).await
    });
    assert_eq!(code(tried(&bytes(&other.unwrap()))), KerberosCode::KeytabKeyMissing);
    assert_eq!(code(tried(&AdminKey::KeytabBytes(secret("no keytab")))), KerberosCode::KeytabMissing);
    assert_eq!(code(tried(&AdminKey::KeytabBytes(secret("")))), KerberosCode::KeytabMissing);
    block_on(root.disable(&flux)).unwrap();
    assert_eq!(code(tried(&bytes(&second))), KerberosCode::PrincipalRevoked);
    block_on(root.enable(&flux)).unwrap();
    block_on(root.set_expiry(&flux, Some(in_seconds(-60)))).unwrap();
    assert_eq!(code(tried(&bytes(&second))), KerberosCode::PrincipalExpired);
}

#[test]
fn the_keys_of_a_password_are_those_that_the_kdc_has() {
    let Some(rig) = rig() else { return };
    let (holder, root) = (holder(&rig.kdc), admin(&rig.kdc, ADMIN.0, password(ADMIN.1)));
    let node = upn("nd1/Test/Agent_1");
    block_on(async {
        root.create_with_password(&node, &secret("the first"), None, None).await.unwrap();
        root.set_password(&node, &secret("the password"), None).await.unwrap();
        let version = root.show(&node).await.unwrap().unwrap().version;
        assert_eq!(version, 2);
        let keytab = holder.derive(&node, &secret("the password"), version).await.unwrap();
        holder.authenticate(&node, &bytes(&keytab)).await.unwrap();
        let path = rig.kdc.path("node.keytab");
        keytab.write(&path).unwrap();
        let got = output(rig.kdc.command("kinit").arg("-kt").arg(&path).arg(node.as_str())).unwrap();
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        // The same keys as in the KDC's own database, of each kind that it has.
        let theirs = rig.kdc.path("theirs.keytab");
        rig.kdc.kadmin_local(&format!("ktadd -norandkey -k {} {node}", theirs.display()));
        let theirs = Keytab::parse(&std::fs::read(theirs).unwrap()).unwrap();
        assert!(theirs.entries().len() >= 2);
        for entry in theirs.entries() {
            let same = |other: &&latchkey_kerberos::keytab::Entry| other.kind == entry.kind;
            let ours = keytab.entries().iter().find(same).unwrap();
            assert!(ours.key == entry.key && ours.version == entry.version, "kind {}", entry.kind);
        }
        let wrong = holder.derive(&node, &secret("another"), version).await.unwrap();
        assert_eq!(code(holder.authenticate(&node, &bytes(&wrong)).await), KerberosCode::WrongPassword);
    });
}

/// How an edge takes its principal over: by a password that ends, which it replaces itself.
#[test]
fn a_one_time_password_is_replaced_by_who_has_it_and_ends_for_everybody_else() {
    let Some(rig) = rig() else { return };
    let (holder, root) = (holder(&rig.kdc), admin(&rig.kdc, ADMIN.0, password(ADMIN.1)));
    let own = upn("op1krbkeys/Test");
    block_on(async {
        let ends = Some(in_seconds(600));
        root.create_with_password(&own, &secret("used once"), ends, ends).await.unwrap();
        let edge = admin(&rig.kdc, "op1krbkeys/Test", password("used once"));
        edge.set_password(&own, &secret("its own"), None).await.unwrap();
        let shown = edge.show(&own).await.unwrap().unwrap();
        assert_eq!((shown.version, shown.password_expires, shown.expires), (2, None, ends));
        let keytab = holder.derive(&own, &secret("its own"), shown.version).await.unwrap();
        holder.authenticate(&own, &bytes(&keytab)).await.unwrap();
        edge.set_expiry(&own, None).await.unwrap();
        assert_eq!(root.show(&own).await.unwrap().unwrap().expires, None);
        assert_eq!(code(holder.authenticate(&own, &password("used once")).await), KerberosCode::WrongPassword);
        // From now on by the keytab, which is in no file.
        let edge = admin(&rig.kdc, "op1krbkeys/Test", bytes(&keytab));
        edge.create_with_password(&upn("op1flux/Test"), &secret("of flux"), None, None).await.unwrap();
        assert_eq!(code(edge.create_random(&upn("op1flux/Other")).await), KerberosCode::AdminRefused);
    });
}

/// Why the principal has to end, and not its password alone.
#[test]
fn a_password_that_has_ended_still_changes_itself_unless_its_principal_has_ended_too() {
    let Some(rig) = rig() else { return };
    let root = admin(&rig.kdc, ADMIN.0, password(ADMIN.1));
    let change = |name: &str| {
        let mut kpasswd = rig.kdc.command("kpasswd");
        kpasswd.arg(name).stdin(std::process::Stdio::piped());
        kpasswd.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = latchkey_test_support::spawn(kpasswd).unwrap();
        write!(child.stdin.take().unwrap(), "known\nstolen one\nstolen one\n").unwrap();
        latchkey_test_support::finish("kpasswd", child).status.success()
    };
    let past = Some(in_seconds(-60));
    block_on(root.create_with_password(&upn("op1krbkeys/One"), &secret("known"), past, None)).unwrap();
    block_on(root.create_with_password(&upn("op1krbkeys/Two"), &secret("known"), past, past)).unwrap();
    assert!(change("op1krbkeys/One"), "MIT lets a password that has ended be changed");
    assert!(!change("op1krbkeys/Two"));
}

#[test]
fn old_keys_stay_good_for_tickets_until_they_are_trimmed() {
    let Some(rig) = rig() else { return };
    let root = admin(&rig.kdc, ADMIN.0, password(ADMIN.1));
    let service = upn("nd1/Test/Service");
    let versions = || {
        let said = rig.kdc.kadmin_local(&format!("getprinc {service}"));
        let mut versions: Vec<u32> =
            said.lines().filter_map(|line| line.strip_prefix("Key: vno ")?.split(',').next()?.parse().ok()).collect();
        versions.dedup();
        versions
    };
    block_on(async {
        root.create_random(&service).await.unwrap();
        root.new_keys(&service).await.unwrap();
        assert_eq!(versions(), [2]);
        let keytab = root.new_keys_beside_old(&service).await.unwrap();
        assert_eq!((versions(), keytab.entries()[0].version), (vec![3, 2], 3));
        root.trim(&service).await.unwrap();
        assert_eq!(versions(), [3]);
        root.new_keys(&service).await.unwrap();
        assert_eq!(versions(), [4], "without the old ones, unless that is asked for");
    });
}
