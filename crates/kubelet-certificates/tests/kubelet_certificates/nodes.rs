//! What nodes ask for with their own certificates: serving certificates and renewals, decided without a cluster.

use super::asker::{Asker, OWN, serving, texts};
use super::csr::Csr;
use latchkey_kubelet_certificates::{
    AttestedNode, CLIENT_SIGNER, CertificateRefusal as Refusal, Holder, MAX_NAMES, Reading,
};

#[test]
fn a_node_gets_serving_certificates_for_its_own_names_and_addresses() {
    for (dns, addresses) in
        [(&["edge-1"][..], &OWN[..]), (&["edge-1", "edge-1.plant.example"], &OWN), (&[], &OWN), (&["edge-1"], &[])]
    {
        assert_eq!(serving(&Csr::node("edge-1").names(dns, addresses)).unwrap().uid(), "uid-1");
    }
}

#[test]
fn a_node_gets_no_serving_certificate_for_foreign_names_or_addresses() {
    for (dns, addresses) in [
        (&["edge-1", "kubernetes.default.svc"][..], &OWN[..]),
        (&["control-1"], &OWN),
        (&["edge-1"], &["192.0.2.7", "192.0.2.8"]),
        (&["edge-1"], &["10.96.0.1"]),
        (&["edge-1"], &["::ffff:192.0.2.7"]),
        (&["EDGE-1"], &[]),
        (&["edge-1."], &[]),
        (&["*.plant.example"], &[]),
        (&["localhost"], &["127.0.0.1"]),
    ] {
        let refusal = serving(&Csr::node("edge-1").names(dns, addresses));
        assert_eq!(refusal, Err(Refusal::ServingNameForeign), "{dns:?} {addresses:?}");
    }
    let nothing = Csr::node("edge-1").names(&[], &[]);
    assert_eq!(serving(&nothing), Err(Refusal::ServingWithoutNames));
    assert_eq!(serving(&Csr::node("edge-1")), Err(Refusal::ServingWithoutNames));
    let many: Vec<String> = (0..=MAX_NAMES).map(|number| format!("name-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(serving(&Csr::node("edge-1").names(&many, &[])), Err(Refusal::Malformed));
}

#[test]
fn a_node_gets_no_serving_certificate_for_another_node_nor_as_an_administrator() {
    let other = Csr::node("control-1").names(&["edge-1"], &OWN);
    assert_eq!(serving(&other), Err(Refusal::NameForeign));
    let masters = Csr::of("system:masters", "system:node:edge-1").names(&["edge-1"], &OWN);
    assert_eq!(serving(&masters), Err(Refusal::GroupRefused));
    let client = Asker { usages: texts(&["digital signature", "client auth"]), ..Asker::node("edge-1") };
    assert_eq!(client.serving(&Csr::node("edge-1").names(&["edge-1"], &[]), None), Err(Refusal::UsageRefused));
}

#[test]
fn a_node_that_was_not_attested_or_was_shut_out_gets_no_serving_certificate() {
    let csr = Csr::node("edge-1").names(&["edge-1"], &[]);
    let node = Asker::node("edge-1");
    assert_eq!(node.serving(&csr, None), Err(Refusal::NodeUnknown));
    let denied = AttestedNode { name: "edge-1", denied: true, dns: &[], addresses: &[], holder: Holder::Worker };
    assert_eq!(node.serving(&csr, Some(&denied)), Err(Refusal::NodeDenied));
    // A record that somebody looked up wrongly is none.
    let another = AttestedNode { name: "edge-2", denied: false, dns: &[], addresses: &[], holder: Holder::Worker };
    assert_eq!(node.serving(&csr, Some(&another)), Err(Refusal::NodeUnknown));
}

#[test]
fn a_node_with_the_name_of_a_service_gets_no_serving_certificate_although_it_is_on_record() {
    for name in ["kubernetes", "kubernetes.default.svc", "localhost", "x.y.svc.cluster.local"] {
        let node = AttestedNode { name, denied: false, dns: &[], addresses: &[], holder: Holder::Worker };
        let refusal = Asker::node(name).serving(&Csr::node(name).names(&[name], &[]), Some(&node));
        assert_eq!(refusal, Err(Refusal::ServingNameReserved), "{name}");
    }
    let addresses = ["127.0.0.1".parse().unwrap()];
    let node = AttestedNode { name: "edge-1", denied: false, dns: &[], addresses: &addresses, holder: Holder::Worker };
    let csr = Csr::node("edge-1").names(&[], &["127.0.0.1"]);
    assert_eq!(Asker::node("edge-1").serving(&csr, Some(&node)), Err(Refusal::ServingNameReserved));
}

#[test]
fn a_worker_gets_no_serving_certificate_of_the_api_server_although_its_record_has_that_name_or_address() {
    let ask = |name: &str, address: &str, holder: Holder| {
        let addresses = [address.parse().unwrap()];
        let node = AttestedNode { name, denied: false, dns: &[], addresses: &addresses, holder };
        Asker::node(name).serving(&Csr::node(name).names(&[name], &[address]), Some(&node)).map(|_| ())
    };
    for (name, address) in [
        ("api.plant.example", "192.0.2.7"),
        ("edge-1", "192.0.2.10"),
        ("edge-1", "10.96.0.1"),
        ("edge-1", "10.96.0.10"),
    ] {
        assert_eq!(ask(name, address, Holder::Worker), Err(Refusal::ServingNameReserved), "{name} {address}");
    }
    assert_eq!(ask("api.plant.example", "192.0.2.10", Holder::ControlPlane), Ok(()));
    assert_eq!(ask("edge-1", "10.96.0.1", Holder::ControlPlane), Err(Refusal::ServingNameReserved));
}

#[test]
fn a_node_renews_its_own_certificate_while_it_is_on_record_and_not_shut_out() {
    let renews = |name: &str, csr: &Csr, node: Option<&AttestedNode<'_>>| {
        let asker =
            Asker { signer: CLIENT_SIGNER, usages: texts(&["digital signature", "client auth"]), ..Asker::node(name) };
        match asker.reads(&csr.pem()) {
            Reading::Renewal(ask) => ask.decide(node).map(|approval| approval.uid().to_owned()),
            Reading::Deny(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    };
    let known = AttestedNode { name: "edge-1", denied: false, dns: &[], addresses: &[], holder: Holder::Worker };
    assert_eq!(renews("edge-1", &Csr::node("edge-1"), Some(&known)), Ok("uid-1".to_owned()));
    let denied = AttestedNode { denied: true, ..known };
    assert_eq!(renews("edge-1", &Csr::node("edge-1"), Some(&denied)), Err(Refusal::NodeDenied));
    assert_eq!(renews("edge-1", &Csr::node("edge-1"), None), Err(Refusal::NodeUnknown));
    assert_eq!(renews("edge-2", &Csr::node("edge-2"), Some(&known)), Err(Refusal::NodeUnknown));
    assert_eq!(renews("edge-1", &Csr::node("edge-2"), Some(&known)), Err(Refusal::NameForeign));
    let masters = Csr::of("system:masters", "system:node:edge-1");
    assert_eq!(renews("edge-1", &masters, Some(&known)), Err(Refusal::GroupRefused));
    assert_eq!(
        renews("edge-1", &Csr::node("edge-1").names(&["edge-1"], &[]), Some(&known)),
        Err(Refusal::ClientWithNames)
    );
    // A member of nodes' group who is none, or of more groups, renews nothing.
    let boss =
        Asker { groups: texts(&["system:nodes", "system:masters", "system:authenticated"]), ..Asker::node("edge-1") };
    let boss = Asker { signer: CLIENT_SIGNER, usages: texts(&["digital signature", "client auth"]), ..boss };
    assert!(matches!(boss.reads(&Csr::node("edge-1").pem()), Reading::Deny(Refusal::RequesterRefused)));
}
