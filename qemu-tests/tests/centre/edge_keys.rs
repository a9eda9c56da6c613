//! The operator of keys of an edge, at a real centre and a real API server.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use latchkey_api_server_rig::is_built_or_skip;
use latchkey_qemu_tests::centre::Centre;
use latchkey_qemu_tests::centre::bootstrapped::{Bootstrapped, NAMESPACE};
use latchkey_test_support::{output, until};
use serde_json::json;

/// Wishes for a new key, one after the other.
const WISHES: usize = 8;

fn start(name: &str) -> Bootstrapped {
    let mut edge = Bootstrapped::at(Centre::started(name).unwrap(), "Nord").unwrap();
    edge.start_operator().unwrap();
    edge
}

fn secrets() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets")
}

#[test]
fn keys_are_made_kept_and_taken_away() {
    if !is_built_or_skip() {
        return;
    }
    let mut rig = start("edge-keys");
    rig.key("node", &json!({ "type": "Random", "principal": "nd1/Nord/a", "additionalPrincipals": ["nd1/Nord/b"], "secret": "node/keytab" }));
    rig.key("sync", &rig.of_chart("sync").unwrap());
    rig.key("monitor", &rig.of_chart("monitor").unwrap());
    rig.reaches("node", "Ready");
    for role in ["sync", "monitor"] {
        rig.reaches(role, "Ready");
        let account = &rig.resource(role)["metadata"]["annotations"]["krbkeys.factoryplus.app.amrc.co.uk/account-uuid"];
        assert_eq!(*account, rig.centre.setup_status(&rig.edge.cluster).unwrap()[role]["uuid"], "the centre made it");
    }
    assert!(rig.serves("node", "keytab", "nd1/Nord/a").unwrap() && rig.serves("node", "keytab", "nd1/Nord/b").unwrap());
    assert!(rig.signs_in("op1sync/Nord", "op1sync", "password").unwrap());

    // What serves stays, whatever restarts.
    let before = (rig.held("node", "keytab"), rig.held("op1sync", "password"), rig.versions("nd1/Nord/a").unwrap());
    rig.start_operator().unwrap();
    rig.key("local", &json!({ "type": "Disabled", "principal": "nd1/Nord/none" }));
    rig.reaches("local", "Ready");
    assert_eq!(
        (rig.held("node", "keytab"), rig.held("op1sync", "password"), rig.versions("nd1/Nord/a").unwrap()),
        before
    );
    rig.write(
        "localsecrets",
        "LocalSecret",
        "shared",
        &json!({ "secret": "shared", "key": "text", "format": "Password" }),
    );
    until("the local secret", || rig.held("shared", "text").filter(|text| text.len() == 43));

    // A new key on request; what was asked for is forgotten then.
    rig.annotate("node", "force-rekey", &json!("now"));
    until("the new keys", || (rig.held("node", "keytab") != before.0).then_some(()));
    until("the end of the wish", || {
        rig.resource("node")["metadata"]["annotations"]["krbkeys.factoryplus.app.amrc.co.uk/force-rekey"]
            .is_null()
            .then_some(())
    });
    assert!(rig.serves("node", "keytab", "nd1/Nord/a").unwrap() && rig.serves("node", "keytab", "nd1/Nord/b").unwrap());

    // Somebody else's Secret, and somebody else's principal.
    let theirs = json!({ "metadata": { "name": "theirs" }, "stringData": { "keytab": "theirs" } });
    rig.admin().post(&secrets(), &theirs).granted();
    rig.key("foreign", &json!({ "type": "Random", "principal": "nd1/Nord/c", "secret": "theirs/keytab" }));
    assert!(rig.reaches("foreign", "Refused").contains("the Secret theirs is not ours"));
    assert_eq!(rig.held("theirs", "keytab").unwrap(), b"theirs");
    assert_eq!(rig.centre.enabled("nd1/Nord/c").unwrap(), None);
    rig.key("other", &json!({ "type": "Password", "principal": "op1sync/Sued", "secret": "other/password" }));
    assert!(rig.reaches("other", "Refused").contains("kerberos-admin-refused"));
    rig.key("rival", &json!({ "type": "Password", "principal": "op1sync/Nord", "secret": "rival/password" }));
    assert!(rig.reaches("rival", "Refused").contains("KerberosKey sync was first"));
    assert!(rig.held("rival", "password").is_none());

    // Removal disables, and the key goes; a rival that waited takes over.
    rig.remove("node");
    assert_eq!(rig.centre.enabled("nd1/Nord/a").unwrap(), Some(false));
    assert_eq!(rig.centre.enabled("nd1/Nord/b").unwrap(), Some(false));
    assert_eq!(rig.admin().get(&format!("{}/node", secrets())).status(), 404);
    rig.remove("sync");
    rig.reaches("rival", "Ready");
    assert!(rig.signs_in("op1sync/Nord", "rival", "password").unwrap());
    // Removed and made again, also while nobody looks.
    rig.stop_operator();
    rig.key("node", &json!({ "type": "Random", "principal": "nd1/Nord/a", "secret": "node/keytab" }));
    rig.start_operator().unwrap();
    rig.reaches("node", "Ready");
    assert!(rig.serves("node", "keytab", "nd1/Nord/a").unwrap());
}

#[test]
fn old_keys_are_kept_and_trimmed() {
    if !is_built_or_skip() {
        return;
    }
    let rig = start("edge-old-keys");
    rig.key(
        "node",
        &json!({ "type": "Random", "principal": "nd1/Nord/a", "keepOldKeys": true, "secret": "node/keytab" }),
    );
    rig.reaches("node", "Ready");
    let first = rig.versions("nd1/Nord/a").unwrap();
    // Each wish is met once, however late the operator hears that it took the one before away.
    for met in 1..=WISHES {
        rig.annotate("node", "force-rekey", &json!(""));
        until("the wish to be taken away", || {
            rig.resource("node")["metadata"]["annotations"]["krbkeys.factoryplus.app.amrc.co.uk/force-rekey"]
                .is_null()
                .then_some(())
        });
        assert_eq!(rig.versions("nd1/Nord/a").unwrap().len(), first.len() + met);
    }
    until("the label", || {
        (rig.resource("node")["metadata"]["labels"]["krbkeys.factoryplus.app.amrc.co.uk/has-old-keys"] == "true")
            .then_some(())
    });
    assert!(rig.serves("node", "keytab", "nd1/Nord/a").unwrap());
    rig.annotate("node", "rekeyed-at", &json!("1000"));
    until("the end of the old keys", || (rig.versions("nd1/Nord/a").unwrap().len() == 1).then_some(()));
    until("the end of the label", || {
        rig.resource("node")["metadata"]["labels"]["krbkeys.factoryplus.app.amrc.co.uk/has-old-keys"]
            .is_null()
            .then_some(())
    });
    assert!(rig.serves("node", "keytab", "nd1/Nord/a").unwrap());
}

#[test]
fn nothing_is_missed_while_others_are_away() {
    if !is_built_or_skip() {
        return;
    }
    let mut rig = start("edge-away");
    rig.key("one", &json!({ "type": "Password", "principal": "op1sync/Nord", "secret": "one/password" }));
    rig.reaches("one", "Ready");
    // The API server restarts, and a resource is made at once.
    rig.api.kill_api();
    rig.api.start_api();
    rig.key("two", &json!({ "type": "Password", "principal": "op1monitor/Nord", "secret": "two/password" }));
    rig.reaches("two", "Ready");
    // The KDC is away for a while.
    let kadmind = rig.centre.child("kadmind").unwrap();
    let signal = |signal: &str| output(Command::new("kill").args([signal, &kadmind.to_string()])).unwrap();
    signal("-STOP");
    rig.key("three", &json!({ "type": "Random", "principal": "nd1/Nord/a", "secret": "three/keytab" }));
    let why = rig.reaches("three", "Waiting");
    assert!(why.contains("kerberos-"), "{why}");
    signal("-CONT");
    rig.reaches("three", "Ready");
    assert!(rig.serves("three", "keytab", "nd1/Nord/a").unwrap());
}
