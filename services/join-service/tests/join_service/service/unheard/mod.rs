//! The API server freezes, is cut off, loses what was written last, or somebody on the way swallows what it tells: what was denied,
//! revoked or changed meanwhile counts within half a minute of the end, and nobody gets anything by what is too old.

mod etcd;
mod first_tickets;

use super::api_server::{MAPS, moved_into};
use super::rig::{Answer, Machine, Rig, Service, Socket, policy, reference};
use latchkey_api_server_rig::proxy::{Fault, Proxy, status};
use latchkey_api_server_rig::{ApiServer, Client, is_built_or_skip};
use latchkey_cluster_store::objects::node_object;
use latchkey_cluster_store::{CountedDenials, DenialAsk, DenialOutcome, NodeRecord, Role};
use latchkey_test_support::until;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const NODES: &str = "/apis/latchkey.dev/v1alpha1/attestednodes";
/// What is written counts by then.
const IN_FORCE: Duration = Duration::from_secs(30);
/// The shortest time that may be configured.
const UNHEARD: u64 = 15;

fn disk(number: u8) -> String {
    format!("0a0a0a0a-0000-4000-8000-0000000000{number:02x}")
}

/// A cluster in its API server, and a service that asks by a network of ours.
struct Site {
    rig: Rig,
    server: ApiServer,
    admin: Client,
    proxy: Proxy,
    socket: Socket,
}

impl Site {
    fn new(machines: &[&Machine]) -> Self {
        Self::of(ApiServer::start(), machines)
    }

    fn of(server: ApiServer, machines: &[&Machine]) -> Self {
        let mut rig = Rig::new(machines);
        let socket = rig.with_denial_socket();
        let admin = moved_into(&server, &mut rig);
        let proxy = Proxy::before(&server, &server.admin());
        rig.config["store"]["kubernetes"] = json!({ "kubeconfig": proxy.kubeconfig(), "unheard_seconds": UNHEARD });
        Self { rig, server, admin, proxy, socket }
    }

    fn change(&self, map: &str, data: &Value) {
        change_at(&self.admin, map, data);
    }

    fn deny(&self, machine: &Machine) {
        self.change("latchkey-denied", &json!({ machine.ek().to_string(): "stolen" }));
    }

    /// Puts a machine on record past all services.
    fn on_record(&self, machine: &Machine, name: &str, role: Role, number: u8) {
        let uuid = disk(number).parse().unwrap();
        let record = NodeRecord::first(machine.ek(), name.parse().unwrap(), role, uuid, 1, 1_800_000_000);
        self.admin.post(NODES, &node_object(&record)).granted();
    }

    /// Swallows these requests from now on, also of those that are under way, until [`Self::pass`].
    fn swallow(&self, words: [&'static str; 2]) {
        self.spoil(words, Fault::Silence);
    }

    fn spoil(&self, words: [&'static str; 2], fault: Fault) {
        self.proxy.arm(words, fault, usize::MAX);
        self.proxy.cut();
    }

    fn pass(&self) {
        self.proxy.disarm();
        self.proxy.cut();
    }
}

fn change_at(api: &Client, map: &str, data: &Value) {
    api.patch(&format!("{MAPS}/{map}"), &json!({ "data": data })).granted();
}

/// What an operator writes in a bad hour: a denial, a policy that trusts a machine no more, and a manifest without the image that all
/// of them run.
struct BadHour {
    kept: Machine,
    denied: Machine,
    distrusted: Machine,
}

/// PCR 11 of the image that may run afterwards.
const NEXT_IMAGE: [u8; 32] = [0x0c; 32];

impl BadHour {
    fn new() -> Self {
        Self { kept: Machine::new(), denied: Machine::new(), distrusted: Machine::new() }
    }

    fn machines(&self) -> [&Machine; 3] {
        [&self.kept, &self.denied, &self.distrusted]
    }

    fn on_record(&self, site: &Site) {
        for (machine, number) in self.machines().into_iter().zip(1..) {
            site.on_record(machine, &format!("edge-{number}"), Role::Worker, number);
        }
    }

    /// Through this API server.
    fn is_written(&self, api: &Client) {
        change_at(api, "latchkey-denied", &json!({ self.denied.ek().to_string(): "stolen" }));
        let trusted = [self.kept.ek(), self.denied.ek()].map(|ek| ek.to_string());
        let policy = policy(&json!([{ "kind": "pinned-ek", "ek_sha256": trusted }]));
        change_at(api, "latchkey-policy", &json!({ "policy.json": policy.to_string() }));
        let reference = String::from_utf8(reference("2.0.0", NEXT_IMAGE).to_json().into()).unwrap();
        change_at(api, "latchkey-references", &json!({ "reference.json": reference }));
    }

    /// All of it counts within half a minute of the end.
    fn counts(self, service: &Service, end: Instant) {
        let is_refused = |machine: &Machine, number| {
            matches!(service.rejoin(machine, &disk(number)), Err(Answer::Refused(_))).then_some(())
        };
        until("the image to be revoked", || is_refused(&self.kept, 1));
        let [kept, denied, distrusted] =
            [self.kept, self.denied, self.distrusted].map(|machine| machine.rebooted(NEXT_IMAGE));
        told_within(service, &denied, 2, Some("machine-denied"));
        until("the policy to be in force", || is_refused(&distrusted, 3));
        told_within(service, &kept, 1, None);
        until("the service to be healthy", || is_healthy(service).then_some(()));
        assert!(end.elapsed() < IN_FORCE, "{:?}", end.elapsed());
    }
}

/// What a machine on record that asks for its key is told: nothing, if it gets it.
fn told(service: &Service, machine: &Machine, number: u8) -> Option<String> {
    service.rejoin(machine, &disk(number)).err().map(|refused| refused.code())
}

/// Until it is told so; it gets its key, or waits, until then. Not later than what is written counts.
fn told_within(service: &Service, machine: &Machine, number: u8, code: Option<&str>) {
    let begun = Instant::now();
    until(format!("{code:?}"), || (told(service, machine, number).as_deref() == code).then_some(()));
    assert!(begun.elapsed() < IN_FORCE, "{code:?} after {:?}", begun.elapsed());
}

fn is_healthy(service: &Service) -> bool {
    service.page("/healthz").0.contains("200")
}

#[test]
fn a_denial_is_heard_although_every_watch_is_swallowed() {
    if !is_built_or_skip() {
        return;
    }
    let node = Machine::new();
    let site = Site::new(&[&node]);
    site.on_record(&node, "edge-1", Role::Worker, 1);
    let service = site.rig.start();
    assert_eq!(told(&service, &node, 1), None);
    site.swallow(["watch=true", ""]);
    site.deny(&node);
    told_within(&service, &node, 1, Some("machine-denied"));
    assert!(site.proxy.is_armed(), "it still swallows them");
}

#[test]
fn after_a_network_that_was_cut_for_twelve_seconds_everything_that_was_written_counts() {
    if !is_built_or_skip() {
        return;
    }
    let hour = BadHour::new();
    let site = Site::new(&hour.machines());
    hour.on_record(&site);
    let service = site.rig.start();
    site.swallow(["", ""]);
    hour.is_written(&site.admin);
    until("twelve seconds without a word", || (service.metric("unheard_seconds") >= 12).then_some(()));
    site.pass();
    hour.counts(&service, Instant::now());
}

#[test]
fn while_the_api_server_stands_still_only_control_planes_get_their_keys_and_not_where_the_policy_forbids_it() {
    if !is_built_or_skip() {
        return;
    }
    let (worker, control_plane, new) = (Machine::new(), Machine::new(), Machine::new());
    let machines = [&worker, &control_plane, &new];
    let site = Site::new(&machines);
    site.on_record(&worker, "edge-1", Role::Worker, 1);
    site.on_record(&control_plane, "cp-1", Role::ControlPlane, 2);
    let mut service = site.rig.start();
    let freeze = |service: &Service| {
        site.server.freeze_api();
        // Not all of it is listed at the same time.
        until("nothing to be heard", || (service.metric("unheard_seconds") > UNHEARD + 12).then_some(()));
    };

    freeze(&service);
    assert_eq!(told(&service, &worker, 1).as_deref(), Some("cluster-unheard"));
    assert_eq!(service.join(&new, &disk(3), "edge-3").unwrap_err().code(), "cluster-unheard");
    until("all of it to be unanswered", || told(&service, &control_plane, 2).is_none().then_some(()));
    service.next_line(&["audit", "cluster-unheard", "cp-1"]);
    assert!(service.metric("rejoins_unheard_total") > 0);
    let (status, page) = service.page("/healthz");
    assert!(status.contains("503") && page.contains("cluster-unheard"), "{status} {page}");
    // Root's word is heard all the same, and not lost when the store is, which does not have it.
    assert_eq!(site.socket.ask(DenialAsk::Deny(control_plane.ek())), DenialOutcome::Denied);
    assert_eq!(told(&service, &control_plane, 2).as_deref(), Some("machine-denied"));
    // What is answered after a denial is answered by it.
    site.server.thaw_api();
    let begun = Instant::now();
    told_within(&service, &worker, 1, None);
    assert_eq!((service.metric("denied_here"), service.metric("denied")), (1, 1));
    assert_eq!(told(&service, &control_plane, 2).as_deref(), Some("machine-denied"));
    let taken_back = site.socket.ask(DenialAsk::Allow(control_plane.ek()));
    assert_eq!(taken_back, DenialOutcome::Allowed { was_denied: true });
    site.deny(&control_plane);
    told_within(&service, &control_plane, 2, Some("machine-denied"));
    assert!(begun.elapsed() < IN_FORCE, "{:?}", begun.elapsed());
    until("the service to be healthy", || is_healthy(&service).then_some(()));
    freeze(&service);
    assert_eq!(told(&service, &control_plane, 2).as_deref(), Some("machine-denied"), "also by what was known last");

    site.server.thaw_api();
    site.change("latchkey-denied", &json!({ control_plane.ek().to_string(): null }));
    let eks: Vec<String> = machines.iter().map(|machine| machine.ek().to_string()).collect();
    let mut strict = policy(&json!([{ "kind": "pinned-ek", "ek_sha256": eks }]));
    strict["rejoin_unheard"] = "never".into();
    site.change("latchkey-policy", &json!({ "policy.json": strict.to_string() }));
    service.next_line(&["Configuration reloaded", "attestation"]);
    told_within(&service, &control_plane, 2, None);
    let released = service.metric("rejoins_unheard_total");
    freeze(&service);
    assert_eq!(told(&service, &worker, 1).as_deref(), Some("cluster-unheard"));
    assert_eq!(told(&service, &control_plane, 2).as_deref(), Some("cluster-unheard"));
    assert_eq!(service.metric("rejoins_unheard_total"), released);
}

/// A right that was taken away, say, or a service that asks too much: the API server is there, and who is denied could be known.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn an_api_server_that_refuses_has_nobody_let_in_by_what_was_known_last() {
    let control_plane = Machine::new();
    let site = Site::new(&[&control_plane]);
    site.on_record(&control_plane, "cp-1", Role::ControlPlane, 1);
    let service = site.rig.start();
    for answer in [403, 429, 500] {
        told_within(&service, &control_plane, 1, None);
        site.spoil(["", ""], Fault::Answer(status(answer)));
        // Not all of it was listed at the same time.
        until("nothing to be heard", || (service.metric("unheard_seconds") > UNHEARD + 12).then_some(()));
        assert_eq!(told(&service, &control_plane, 1).as_deref(), Some("cluster-unheard"), "{answer}");
        assert_eq!(service.metric("rejoins_unheard_total"), 0);
        site.pass();
    }
}

/// The documents are heard, the records are not: one that is gone by now would be gone by.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_record_that_is_known_as_of_long_ago_is_read_before_its_machine_gets_a_key() {
    let (kept, removed) = (Machine::new(), Machine::new());
    let site = Site::new(&[&kept, &removed]);
    site.on_record(&kept, "edge-1", Role::Worker, 1);
    site.on_record(&removed, "edge-2", Role::Worker, 2);
    let service = site.rig.start();
    assert_eq!(told(&service, &removed, 2), None);
    // Listings and watches; one that is read has its name in the path.
    site.swallow(["GET ", "/attestednodes?"]);
    site.admin.delete(&format!("{NODES}/{}", removed.ek()), &json!({})).granted();
    until("the records to be old", || (service.metric("unheard_seconds") > UNHEARD).then_some(()));
    assert_eq!(told(&service, &removed, 2).as_deref(), Some("node-unknown"));
    assert_eq!(told(&service, &kept, 1), None);
}

/// Counted in one object and listed in another, which are heard of one after the other.
#[test]
fn a_denial_that_is_counted_and_gone_from_the_api_server_stops_all_keys_until_it_is_back() {
    if !is_built_or_skip() {
        return;
    }
    let (node, stolen) = (Machine::new(), Machine::new());
    let site = Site::new(&[&node, &stolen]);
    site.on_record(&node, "edge-1", Role::Worker, 1);
    site.on_record(&stolen, "edge-2", Role::Worker, 2);
    let service = site.rig.start();
    assert_eq!([told(&service, &node, 1), told(&service, &stolen, 2)], [None, None]);
    let count = |count: u64, last: Option<&Machine>| {
        let last = last.map(Machine::ek);
        let cluster = site.rig.cluster.clone().counting(CountedDenials { count, last, ..CountedDenials::default() });
        site.change("latchkey-cluster", &json!({ "cluster.json": cluster.to_json() }));
    };
    // Whoever denied it was cut in between: it is in force, and nobody gets a key for long.
    count(1, Some(&stolen));
    told_within(&service, &stolen, 2, Some("machine-denied"));
    told_within(&service, &node, 1, Some("denials-lost"));
    let (status, page) = service.page("/healthz");
    assert!(status.contains("503") && page.contains("denials-lost"), "{status} {page}");
    site.deny(&stolen);
    told_within(&service, &node, 1, None);
    assert_eq!(told(&service, &stolen, 2).as_deref(), Some("machine-denied"));
    // All of them are gone: those that were known stay in force.
    site.admin.delete(&format!("{MAPS}/latchkey-denied"), &json!({})).granted();
    until("it to be told", || service.page("/healthz").1.contains("cluster-place-missing").then_some(()));
    assert_eq!(told(&service, &stolen, 2).as_deref(), Some("machine-denied"));
    drop(service);
    let ended = site.rig.check();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && said.contains("cluster-place-missing"), "{said}");
}

/// Who removes a machine denies it first; what is decided anew in the middle of a call is decided by that.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_machine_that_is_removed_in_the_middle_of_its_call_gets_no_ticket_and_no_record() {
    let node = Machine::new();
    let site = Site::new(&[&node]);
    site.on_record(&node, "edge-1", Role::Worker, 1);
    let service = site.rig.start();
    // It comes with another disk, which is put on its record.
    let (go_on, held) = smol::channel::bounded(1);
    site.proxy.arm(["PUT", "/attestednodes"], Fault::Held(held), 1);
    let client = *service;
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| client.join(&node, &disk(2), "edge-1"));
        until("the record to be on its way", || (!site.proxy.is_armed()).then_some(()));
        site.deny(&node);
        site.admin.delete(&format!("{NODES}/{}", node.ek()), &json!({})).granted();
        until("the denial to be heard", || (service.metric("denied") == 1).then_some(()));
        go_on.try_send(()).unwrap();
        let refused = joining.join().unwrap().unwrap_err();
        assert_eq!(refused.code(), "machine-denied", "{refused:?}");
    });
    assert_eq!(site.admin.get(&format!("{NODES}/{}", node.ek())).status(), 404, "it has no record again");
}

/// Writing may take seconds.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_machine_that_is_denied_while_its_record_is_written_gets_no_ticket() {
    let node = Machine::new();
    let site = Site::new(&[&node]);
    site.on_record(&node, "edge-1", Role::Worker, 1);
    let service = site.rig.start();
    let (go_on, held) = smol::channel::bounded(1);
    site.proxy.arm(["PUT", "/attestednodes"], Fault::Held(held), 1);
    let client = *service;
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| client.join(&node, &disk(2), "edge-1"));
        until("the record to be on its way", || (!site.proxy.is_armed()).then_some(()));
        site.deny(&node);
        until("the denial to be heard", || (service.metric("denied") == 1).then_some(()));
        go_on.try_send(()).unwrap();
        let refused = joining.join().unwrap().unwrap_err();
        assert_eq!(refused.code(), "machine-denied", "{refused:?}");
    });
    let kept = site.admin.get(&format!("{NODES}/{}", node.ek())).granted();
    assert!(kept.to_string().contains(&disk(2)), "its record was written: {kept}");
}
