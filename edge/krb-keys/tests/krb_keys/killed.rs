//! `kill -9` after each request that `krb-keys run` makes, to the API server, to the KDC or to kadmind, and a new start.

use std::collections::BTreeSet;

use latchkey_api_server_rig::gate::Gate;
use latchkey_kdc_rig::REALM;
use latchkey_test_support::until;

use crate::cases::Case;
use crate::edge::Edge;

/// Fewer requests than krb-keys makes for anything: it lists two kinds, watches both, reads a resource, and says how it stands.
const FEW: usize = 6;
/// Many more than it makes for one thing.
const MOST: usize = 150;

/// A round for each number of requests, until it needs no more; whether it was killed so often.
fn kill_after_each_request(edge: &Edge, case: Case) -> (usize, Vec<String>) {
    let mut made = Vec::new();
    // Whoever is held up at one stays so.
    let mut gates = Vec::new();
    let mut program = edge.program();
    for requests in 0..MOST {
        let name = format!("{}-{requests}", format!("{case:?}").to_lowercase());
        case.prepare(edge, &name);
        program.kill();
        let before = case.seen(edge, &name);
        case.happen(edge, &name);
        let gate = Gate::close_after(requests, &edge.proxy, &edge.front.ways);
        let killed = edge.program();
        let whole = until(format_args!("{requests} requests for {name}"), || {
            if gate.holds_one() { Some(false) } else { case.is_met(edge, &name).then(|| !gate.is_closed()) }
        });
        killed.kill();
        Gate::open(&edge.proxy, &edge.front.ways);
        gates.push(gate);
        let at = case.seen(edge, &name);
        program = edge.program();
        until(format_args!("{name} to be done"), || case.is_met(edge, &name).then_some(()));
        case.check(edge, &name, &before, &at, whole);
        made.extend(case.principals(&name).iter().map(|principal| format!("{principal}@{REALM}")));
        if case != Case::Remove {
            edge.delete(case.plural(), &name);
            until(format_args!("{name} to go"), || edge.is_gone(case.plural(), &name).then_some(()));
        }
        if whole {
            program.kill();
            println!("{case:?}: it was killed after each of {requests} requests");
            assert!(requests > FEW);
            return (requests, made);
        }
    }
    panic!("it makes more than {MOST} requests for {case:?}");
}

fn kill_in(cases: &[Case]) {
    let Some(edge) = Edge::start_or_skip() else { return };
    let mut expected: BTreeSet<String> = edge.principals().into_iter().collect();
    let mut kills = 0;
    for case in cases {
        let (killed, made) = kill_after_each_request(&edge, *case);
        kills += killed;
        expected.extend(made);
    }
    println!("it was killed {kills} times");
    assert!(edge.principals().iter().eq(&expected), "no principal is there that nobody asked for");
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn after_a_kill_at_any_request_a_keytab_serves() {
    kill_in(&[Case::Keytab, Case::Rekey, Case::Enable]);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn after_a_kill_at_any_request_old_keys_are_kept_and_dropped_some_day() {
    kill_in(&[Case::RekeyBesideOld, Case::LostSecret, Case::Trim]);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn after_a_kill_at_any_request_a_password_is_the_one_that_the_kdc_has() {
    kill_in(&[Case::Password, Case::NewPassword, Case::Preset, Case::Local]);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn after_a_kill_at_any_request_nobody_is_let_in_who_is_disabled_or_removed() {
    kill_in(&[Case::Disable, Case::Remove]);
}
