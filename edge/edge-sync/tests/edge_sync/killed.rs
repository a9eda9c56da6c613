//! `kill -9` after each request that Edge Sync makes, and a new start.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_api_server_rig::gate::Gate;
use latchkey_api_server_rig::proxy::Proxy;
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application::EDGE_DEPLOYMENT;
use latchkey_test_support::until;
use serde_json::{Value, json};

use crate::deployed::{RELEASES, SOURCES};
use crate::edge::Edge;
use crate::front::Front;
use crate::program::Program;
use crate::reported::names;

/// Fewer requests than Edge Sync needs for what a round has for it.
const FEW: usize = 15;
/// Many more than that.
const MOST: usize = 100;

/// An edge that has one deployment all the time, whose values change in each round, and another one in each round.
struct Site {
    edge: Edge,
    front: Front,
    proxy: Proxy,
    kept: Uuid,
    gates: Vec<Gate>,
}

/// A deployment of one round, of a chart that brings a source.
struct Passing {
    deployment: Uuid,
    repository: Uuid,
}

/// What must come to be in a round.
struct Wanted {
    round: usize,
    objects: BTreeSet<String>,
}

impl Site {
    fn start() -> Self {
        let (edge, front) = Edge::new_behind();
        let proxy = edge.proxy();
        let kept = edge.centre.deploy(&edge.entry(None, &json!({})));
        Self { edge, front, proxy, kept, gates: Vec::new() }
    }

    fn program(&self) -> Program {
        Program::start(&self.edge, self.proxy.kubeconfig())
    }

    /// What is to be done in a round: a release changes, a release and its source come, a machine comes, another one goes.
    fn change(&self, round: usize) -> Passing {
        let entry = self.edge.entry(None, &json!({"round": round}));
        self.edge.centre.put(EDGE_DEPLOYMENT, self.kept, &entry);
        if let Some(before) = round.checked_sub(1) {
            self.edge.admin.delete(&format!("/api/v1/nodes/m{before}"), &json!({})).granted();
        }
        self.edge.node(&format!("m{round}"), &json!({}), &json!([]));
        let repository = Uuid::random();
        let mut entry = self.edge.entry(None, &json!({}));
        entry["chart"] = json!(self.edge.custom_chart(repository));
        Passing { deployment: self.edge.centre.deploy(&entry), repository }
    }

    fn remove(&self, passing: &Passing) {
        self.edge.centre.remove(EDGE_DEPLOYMENT, passing.deployment);
    }

    fn wanted(&self, round: usize, passing: Option<&Passing>) -> Wanted {
        let of = |passing: &Passing| {
            [format!("HelmRelease x-{}", passing.deployment), format!("GitRepository helm-{}", passing.repository)]
        };
        let objects = passing.into_iter().flat_map(of).chain([self.kept()]).collect();
        Wanted { round, objects }
    }

    fn kept(&self) -> String {
        format!("HelmRelease edge-agent-{}", self.kept)
    }

    /// Everything of Flux that is there.
    fn objects(&self) -> BTreeMap<String, Value> {
        let all = [RELEASES, SOURCES].map(|path| self.edge.admin.get(path).granted());
        let items = all.iter().flat_map(|list| list["items"].as_array().unwrap());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        items
            .map(|item| (format!("{} {}", text(&item["kind"]), text(&item["metadata"]["name"])), item.clone()))
            .collect()
    }

    /// The uid of each of them.
    fn uids(&self) -> BTreeMap<String, Value> {
        self.objects().into_iter().map(|(name, object)| (name, object["metadata"]["uid"].clone())).collect()
    }

    fn is_right(&self, wanted: &Wanted) -> bool {
        let (objects, status) = (self.objects(), self.edge.centre.status().unwrap_or_default());
        let changed = objects.get(&self.kept()).map(|kept| kept["spec"]["values"]["round"] == json!(wanted.round));
        objects.keys().eq(&wanted.objects)
            && changed == Some(true)
            && names(&status) == [format!("m{}", wanted.round)]
            && status["errors"].is_null()
            && status["heartbeat"].is_u64()
    }

    fn until_right(&self, wanted: &Wanted) {
        until(format_args!("all to be right in round {}", wanted.round), || self.is_right(wanted).then_some(()));
    }

    /// Starts it, and kills it when `requests` of its requests have passed; whether it had done all before.
    fn run_and_kill(&mut self, requests: usize, wanted: &Wanted) -> bool {
        let gate = Gate::close_after(requests, &self.proxy, std::slice::from_ref(&self.front.way));
        let program = self.program();
        let is_done = until(format_args!("{requests} requests"), || {
            if gate.holds_one() { Some(false) } else { self.is_right(wanted).then(|| !gate.is_closed()) }
        });
        program.kill();
        Gate::open(&self.proxy, std::slice::from_ref(&self.front.way));
        self.gates.push(gate);
        is_done
    }

    fn generation(&self) -> u64 {
        self.edge.centre.status().unwrap()["generation"].as_u64().unwrap()
    }
}

/// A round for each number of requests, until it needs no more. `Passing` goes while Edge Sync is dead: before it is started for
/// the first time, or between.
fn kill_after_each_request(goes_between: bool) {
    let mut site = Site::start();
    let mut passing = site.change(0);
    let program = site.program();
    site.until_right(&site.wanted(0, Some(&passing)));
    program.kill();
    if goes_between {
        site.remove(&passing);
    }
    let kept = site.uids()[&site.kept()].clone();
    for requests in 0..MOST {
        let (round, generation) = (requests + 1, site.generation());
        if !goes_between {
            site.remove(&passing);
        }
        passing = site.change(round);
        let is_done = site.run_and_kill(requests, &site.wanted(round, Some(&passing)));
        let at_kill = site.uids();
        if goes_between {
            site.remove(&passing);
        }
        let wanted = site.wanted(round, Some(&passing).filter(|_| !goes_between));
        let program = site.program();
        site.until_right(&wanted);
        program.kill();
        let after = site.uids();
        for (name, uid) in &after {
            // What was made before the kill is not made again.
            assert_eq!(at_kill.get(name).unwrap_or(uid), uid, "{name} after {requests} requests");
        }
        assert_eq!(after[&site.kept()], kept, "{requests}");
        assert!(site.generation() > generation, "{requests}");
        if is_done {
            println!("it was killed after each of {requests} requests");
            assert!(requests > FEW);
            return;
        }
        if goes_between {
            assert_eq!(after.len(), 1, "{after:?}");
        }
    }
    panic!("it makes more than {MOST} requests for two deployments and a machine");
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn after_a_kill_at_any_request_all_is_as_if_there_had_been_none() {
    kill_after_each_request(false);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn what_was_half_made_at_a_kill_and_is_wanted_no_more_is_gone_after_it() {
    kill_after_each_request(true);
}
