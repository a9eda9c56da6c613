//! Rights that are taken away while `krb-keys run` works: said plainly, and all is well by itself when they are back.

use latchkey_kdc_rig::REALM;
use latchkey_test_support::until;
use serde_json::{Value, json};

use crate::edge::{Edge, OWN};

fn random(name: &str) -> Value {
    json!({"type": "Random", "principal": format!("nd1/Bolt/{name}"), "secret": format!("{name}/key")})
}

fn is_right(edge: &Edge, name: &str) {
    edge.reaches(name, "Ready");
    assert!(edge.serves(name, &format!("nd1/Bolt/{name}")), "{name}");
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn rights_to_secrets_that_are_revoked_stand_in_the_status_until_they_are_back() {
    let Some(edge) = Edge::start_or_skip() else { return };
    let _program = edge.program();
    edge.make("KerberosKey", "a", &random("a"));
    is_right(&edge, "a");
    let before = edge.held("a");
    edge.grant("[secrets]");
    edge.make("KerberosKey", "b", &random("b"));
    edge.annotate("a", "force-rekey", "");
    for name in ["a", "b"] {
        let said = edge.reaches(name, "Refused");
        let right = "User \"krb-keys\" cannot get resource \"secrets\"";
        assert!(said.contains(right) && said.contains("(api-server-forbids); "), "{said}");
    }
    assert_eq!(edge.held("a"), before, "what was there is as it was");
    assert!(edge.serves("a", "nd1/Bolt/a"), "no key is made that cannot be written");
    assert_eq!(edge.known("nd1/Bolt/b"), None);
    edge.grant("");
    is_right(&edge, "a");
    is_right(&edge, "b");
    assert_ne!(edge.held("a"), before);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn rights_to_everything_that_are_revoked_stand_in_the_log_until_they_are_back() {
    let Some(edge) = Edge::start_or_skip() else { return };
    let mut program = edge.program();
    edge.make("KerberosKey", "a", &random("a"));
    is_right(&edge, "a");
    edge.grant("apiGroups");
    // The API server lets a watch go on that was allowed when it began.
    edge.proxy.cut();
    let right = "cannot list resource \\\"kerberos-keys\\\"";
    program.says(&["What is known of the API server's objects is not up to date", right, "api-server-forbids"]);
    edge.make("KerberosKey", "b", &random("b"));
    assert!(edge.serves("a", "nd1/Bolt/a"));
    edge.grant("");
    is_right(&edge, "b");
    program.says(&["The API server's objects are followed again"]);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_status_that_may_not_be_written_costs_the_status_alone() {
    let Some(edge) = Edge::start_or_skip() else { return };
    edge.grant("/status");
    let mut program = edge.program();
    edge.make("KerberosKey", "a", &random("a"));
    program.says(&["The status was not written", "api-server-forbids"]);
    assert!(edge.serves("a", "nd1/Bolt/a"));
    let before = edge.held("a");
    edge.grant("");
    is_right(&edge, "a");
    assert_eq!(edge.held("a"), before);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn rights_at_kadmind_that_are_revoked_stand_in_the_status_until_they_are_back() {
    let Some(mut edge) = Edge::start_or_skip() else { return };
    let _program = edge.program();
    edge.make("KerberosKey", "a", &random("a"));
    is_right(&edge, "a");
    let list = edge.rights_at_kadmind();
    edge.set_rights_at_kadmind(&format!("{OWN}@{REALM} i nd9/Bolt/none@{REALM}\n"));
    edge.make("KerberosKey", "b", &random("b"));
    let said = edge.reaches("b", "Refused");
    assert!(said.contains("kerberos-admin-refused"), "{said}");
    edge.set_rights_at_kadmind(&list);
    is_right(&edge, "b");
    until("nothing to be wrong with the other one", || edge.is_in("kerberos-keys", "a", "Ready").then_some(()));
}
