//! An edge whose clock is an hour off that of its centre, by libfaketime, and tokens that are refused. Skipped, and says so, where
//! libfaketime is not installed.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use latchkey_test_support::until;
use serde_json::json;

use crate::deployed::RELEASES;
use crate::edge::Edge;
use crate::program::Program;
use crate::reported::{names, pem_from};

const HOUR: u64 = 60 * 60;
/// What clock readings of one test may be apart.
const SOON: u64 = 10 * 60;

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Everything works, with one token; and with one more when the centre has forgotten that one.
fn works_with_a_clock_that_is_off(off: &str, its_clock: impl Fn(u64) -> u64) {
    let (mut edge, front) = Edge::new_behind();
    // By a clock that is an hour ahead, they are over when they come.
    front.say_tokens_end_in(Duration::from_secs(HOUR / 2));
    let key = pem_from(1970, 1, 1, now());
    edge.key("new", "active", &key);
    let uuid = edge.centre.deploy(&edge.entry(None, &json!({})));
    let Some(program) = Program::start_off(&edge, &edge.kubeconfig(), off) else { return };
    until("the release", || edge.object(RELEASES, &format!("edge-agent-{uuid}")));
    let mut machines = Vec::new();
    for number in 0..5 {
        machines.push(format!("m{number}"));
        edge.node(&machines[number], &json!({}), &json!([]));
        edge.centre.until("the machine", |status| (names(status) == machines).then_some(()));
    }
    let told = |name: &str| edge.centre.until(name, |status| status.get(name).cloned());
    assert_eq!(told("kubeseal_cert").as_str().unwrap().trim(), key.trim(), "a key that was made a moment ago");
    let told = told("heartbeat").as_u64().unwrap() / 1000;
    assert!(told.abs_diff(its_clock(now().as_secs())) < SOON, "its clock is off, and says {told}");
    assert_eq!(front.tokens(), 1);
    edge.centre.start_config_db();
    edge.node("more", &json!({}), &json!([]));
    machines.push("more".into());
    edge.centre.until("the next machine", |status| names(status).iter().any(|name| name == "more").then_some(()));
    // Changes are followed again as well.
    edge.centre.remove(latchkey_factory_plus::uuids::application::EDGE_DEPLOYMENT, uuid);
    until("the release to be gone", || edge.object(RELEASES, &format!("edge-agent-{uuid}")).is_none().then_some(()));
    assert_eq!(front.tokens(), 2, "the first was refused, although it was good by any clock");
    program.stop();
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn an_edge_whose_clock_is_an_hour_ahead_works_with_tokens_that_seem_to_be_over() {
    works_with_a_clock_that_is_off("+1h", |now| now + HOUR);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn an_edge_whose_clock_is_an_hour_behind_works_with_a_key_that_seems_to_begin_later() {
    works_with_a_clock_that_is_off("-1h", |now| now - HOUR);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn who_is_refused_with_each_token_asks_for_others_after_longer_and_longer_pauses() {
    let (edge, front) = Edge::new_behind();
    edge.node("a", &json!({}), &json!([]));
    front.refuse(true);
    let program = Program::start(&edge, &edge.kubeconfig());
    // Two for the first call, and one for each later one.
    until("two tokens", || (front.tokens() >= 2).then_some(()));
    let begun = Instant::now();
    until("three more", || (front.tokens() >= 5).then_some(()));
    let took = begun.elapsed();
    // Half a second, one second, two seconds at least.
    assert!(took > Duration::from_secs(3), "{took:?}");
    front.refuse(false);
    edge.centre.until("the machine", |status| (names(status) == ["a"]).then_some(()));
    let log = program.kill();
    let said = log.iter().filter(|line| line.contains("The centre cannot be told of this cluster")).count();
    assert_eq!(said, 1, "{log:#?}");
}
