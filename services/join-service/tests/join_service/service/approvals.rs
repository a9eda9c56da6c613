//! Requests for certificates where the API server, the network or the records are not as they should be: `./dev e2e api-server`.

use crate::service::api_server::{assert_on_cluster, assert_on_machine, event};
use crate::service::certificates::{CLIENT, REQUESTS, Site, csr, node_csr, post, ticket};
use crate::service::rig::Machine;
use latchkey_api_server_rig::proxy::{Fault, Proxy, status};
use latchkey_api_server_rig::{Client, Credentials};
use latchkey_test_support::until;
use serde_json::{Value, json};

/// Puts a network that does harm before the services that are started from now on.
fn proxied(site: &mut Site) -> Proxy {
    let proxy = Proxy::before(&site.server, &site.server.admin());
    site.rig.config["store"]["kubernetes"]["kubeconfig"] = json!(proxy.kubeconfig());
    proxy
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn an_answer_of_which_nothing_came_back_has_its_line_once() {
    let machine = Machine::new();
    let mut site = Site::new(&[&machine]);
    let proxy = proxied(&mut site);
    let mut service = site.rig.start();
    let holder = site.holder(&ticket(&service, &machine, 1, "edge-1"));
    let cases = [
        (["PUT", "/good/approval"], "good", "edge-1", "outcome=\"approved\""),
        (["PUT", "/bad/approval"], "bad", "control-1", "code=\"certificate-of-another-node\""),
    ];
    for (words, name, node, outcome) in cases {
        proxy.arm(words, Fault::LoseAnswer, 1);
        post(&holder, name, CLIENT, &node_csr(node, &[], &[]).0);
        let request = format!("request=\"{name}\"");
        service.next_line(&["could not be answered", &request]);
        assert!(!proxy.is_armed());
        // It stands already; the line comes when the service has looked.
        site.answer(name).map_or_else(drop, drop);
        service.next_line(&["Certificate", &request, outcome]);
    }
    assert_eq!(service.metric("certificates_total{signer=\"client\",outcome=\"approved\"}"), 1);
    assert_eq!(service.metric("certificates_total{signer=\"client\",outcome=\"certificate-of-another-node\"}"), 1);
    assert_on_machine(&event(&site.admin, "certificate-of-another-node"), &machine);
    let (_, log) = service.stop();
    for outcome in ["outcome=\"approved\"", "outcome=\"denied\""] {
        let lines = log.lines().filter(|line| line.contains("Certificate") && line.contains(outcome));
        assert_eq!(lines.count(), 1, "{log}");
    }
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn a_denial_is_an_event_with_its_reason_code_and_stands_without_one() {
    let machine = Machine::new();
    let mut site = Site::new(&[&machine]);
    let proxy = proxied(&mut site);
    let mut service = site.rig.start();
    let holder = site.holder(&ticket(&service, &machine, 1, "edge-1"));
    // The first Event is not answered at all. Neither that denial nor what follows depends on it.
    proxy.arm(["POST", "/events"], Fault::Silence, 1);
    let (foreign, used) = (node_csr("control-1", &[], &[]).0, node_csr("edge-1", &[], &[]).0);
    assert_eq!(site.denied(&holder, "foreign", CLIENT, &foreign), "certificate-of-another-node");
    until("the Event to be sent", || (!proxy.is_armed()).then_some(()));
    let (masters, _) = csr("system:masters", "system:node:edge-1", &[], &[]);
    assert_eq!(site.denied(&holder, "masters", CLIENT, &masters), "certificate-group-refused");
    post(&holder, "joins", CLIENT, &used);
    site.answer("joins").unwrap();
    assert_eq!(site.denied(&holder, "again", CLIENT, &used), "ticket-used");
    service.next_line(&["could not be told as an Event", "certificate-of-another-node"]);

    // No record was looked at for a request that no record can make right.
    let group = event(&site.admin, "certificate-group-refused");
    assert_on_cluster(&group, None);
    let again = event(&site.admin, "ticket-used");
    assert_on_machine(&again, &machine);
    for event in [group, again] {
        assert_eq!((&event["action"], &event["type"]), (&json!("certificate"), &json!("Warning")), "{event}");
    }
}

/// Whoever may delete requests has all the time that an approval is on its way.
#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn an_approval_on_its_way_is_not_for_the_request_that_was_put_in_place_of_its_own() {
    let machine = Machine::new();
    let mut site = Site::new(&[&machine]);
    let proxy = proxied(&mut site);
    let service = site.rig.start();
    let holder = site.holder(&ticket(&service, &machine, 1, "edge-1"));
    let (go, held) = smol::channel::bounded(1);
    proxy.arm(["PUT", "/anew/approval"], Fault::Held(held), 1);
    post(&holder, "anew", CLIENT, &node_csr("edge-1", &[], &[]).0);
    until("the approval to be on its way", || (!proxy.is_armed()).then_some(()));
    site.admin.delete(&format!("{REQUESTS}/anew"), &json!({})).granted();
    post(&holder, "anew", CLIENT, &node_csr("control-1", &[], &[]).0);
    go.try_send(()).unwrap();
    assert_eq!(site.answer("anew").unwrap_err(), "certificate-of-another-node");
    let now = site.admin.get(&format!("{REQUESTS}/anew")).granted();
    let conditions = now["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|condition| condition["type"] == "Denied"), "{now}");
    assert_eq!(now["status"]["certificate"], Value::Null, "{now}");
}

/// More than are looked at of one requester at a time.
const FLOOD: usize = 17;

#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn requests_that_find_no_room_are_named_in_healthz_until_they_do() {
    let machine = Machine::new();
    let mut site = Site::new(&[&machine]);
    let proxy = proxied(&mut site);
    let service = site.rig.start();
    let holder = site.holder(&ticket(&service, &machine, 1, "edge-1"));
    proxy.arm(["PUT", "/approval"], Fault::Answer(status(503)), usize::MAX);
    let (foreign, _) = node_csr("control-1", &[], &[]);
    for number in 0..FLOOD {
        post(&holder, &format!("a-{number}"), CLIENT, &foreign);
    }
    let note = format!("certificate-requests-left-out: more requests for {CLIENT} wait than are looked at at a time");
    let page = until("the page to say so", || {
        let page = service.page("/healthz");
        page.1.contains(&note).then_some(page)
    });
    assert_eq!(page.0, "HTTP/1.1 200 OK", "{}", page.1);
    proxy.disarm();
    for number in 0..FLOOD {
        assert_eq!(site.answer(&format!("a-{number}")).unwrap_err(), "certificate-of-another-node", "{number}");
    }
    until("the page to say it no more", || (!service.page("/healthz").1.contains(&note)).then_some(()));
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kube-controller-manager: ./dev e2e api-server"]
fn who_has_a_name_of_two_records_is_neither_approved_nor_denied_until_they_agree() {
    let (one, other) = (Machine::new(), Machine::new());
    let site = Site::new(&[&one, &other]);
    let mut service = site.rig.start();
    let holders = [(&one, 1, "edge-1"), (&other, 2, "edge-2")]
        .map(|(machine, number, name)| site.holder(&ticket(&service, machine, number, name)));
    let (request, key) = node_csr("edge-1", &[], &[]);
    post(&holders[0], "joins", CLIENT, &request);
    let node: Client = site.server.client(&Credentials::new(site.answer("joins").unwrap(), &key));

    site.by_hand(&other, |record| record["name"] = "edge-1".into());
    service.next_line(&["the name edge-1 is also in"]);
    // By its ticket, whose name is contested, and by the contested name itself.
    let waiting = [(&holders[1], "asks", "edge-2"), (&node, "renews", "edge-1")];
    for (asker, name, node) in waiting {
        post(asker, name, CLIENT, &node_csr(node, &[], &[]).0);
        service.next_line(&["could not be answered", &format!("request=\"{name}\""), "records-damaged"]);
    }
    assert!(service.page("/healthz").1.contains("the name edge-1 is also in"));
    let undecided = |name: &str| site.admin.get(&format!("{REQUESTS}/{name}")).granted()["status"] == json!({});
    assert!(undecided("asks") && undecided("renews"));
    assert_eq!(service.metric("certificates_waiting"), 2);

    site.by_hand(&other, |record| record["name"] = Value::from("edge-2"));
    for (_, name, _) in waiting {
        site.answer(name).unwrap();
    }
}
