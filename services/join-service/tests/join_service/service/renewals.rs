//! A node renews its client certificate while it is on record and let in, before a real API server and a real signer that approves
//! nothing by itself: `./dev e2e api-server`.

use crate::service::api_server::MAPS;
use crate::service::certificates::{ADDRESS, CLIENT, NODES, REQUESTS, SERVING, Site, node_csr, post, report, ticket};
use crate::service::rig::{Machine, Service};
use latchkey_api_server_rig::{Client, Credentials};
use serde_json::json;

/// A machine that has joined, with its client certificate.
fn node(site: &Site, service: &Service, machine: Machine, number: u8, name: &str) -> (Machine, Client) {
    let holder = site.holder(&ticket(service, &machine, number, name));
    let (request, key) = node_csr(name, &[], &[]);
    post(&holder, &format!("joins-{name}"), CLIENT, &request);
    let certificate = site.answer(&format!("joins-{name}")).unwrap();
    let machine = machine.locked(&site.rig);
    report(service, &machine, number, &[]).unwrap();
    (machine, site.server.client(&Credentials::new(certificate, &key)))
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn a_node_renews_its_own_certificate_until_it_is_shut_out_or_removed() {
    let (one, other) = (Machine::new(), Machine::new());
    let site = Site::new(&[&one, &other]);
    let mut service = site.rig.start();
    let (one, shut_out) = node(&site, &service, one, 1, "edge-1");
    let (other, removed) = node(&site, &service, other, 2, "edge-2");
    let (own, key) = node_csr("edge-1", &[], &[]);
    post(&shut_out, "renews", CLIENT, &own);
    let renewed = site.server.client(&Credentials::new(site.answer("renews").unwrap(), &key));
    // The new certificate is as good as the old one.
    post(&renewed, "renews-2", CLIENT, &own);
    site.answer("renews-2").unwrap();
    service.next_line(&["Certificate", "outcome=\"approved\"", "request=\"renews-2\"", &one.ek().to_string()]);
    // Another node's name, with a client certificate of its own or as what it serves with.
    use_of_another_name(&site, &shut_out);

    let deny = json!({ "data": { one.ek().to_string(): "" } });
    site.admin.patch(&format!("{MAPS}/latchkey-denied"), &deny).granted();
    service.next_line(&["Machines are shut out"]);
    assert_eq!(site.denied(&shut_out, "shut-out", CLIENT, &own), "machine-denied");
    assert_eq!(site.denied(&renewed, "shut-out-2", CLIENT, &own), "machine-denied");

    site.admin.delete(&format!("{NODES}/{}", other.ek()), &json!({})).granted();
    assert_eq!(site.denied(&removed, "removed", CLIENT, &node_csr("edge-2", &[], &[]).0), "node-unknown");
}

/// The API server itself refuses it.
fn use_of_another_name(site: &Site, node: &Client) {
    for (signer, (csr, _)) in
        [(CLIENT, node_csr("edge-2", &[], &[])), (SERVING, node_csr("edge-2", &["edge-2"], &[ADDRESS]))]
    {
        node.post(REQUESTS, &crate::service::certificates::request("foreign", signer, &csr)).forbidden();
    }
    assert_eq!(site.admin.get(&format!("{REQUESTS}/foreign")).status(), 404);
}
