use std::sync::Arc;

use latchkey_factory_plus::cluster::Host;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn host(name: &str) -> Arc<Host> {
    Arc::new(Host {
        hostname: name.into(),
        control_plane: false,
        k8s_version: "v1".into(),
        arch: "amd64".into(),
        specialised: None,
        os_version: Some("os".into()),
        ready: Some(true),
    })
}

/// RFC 7396, section 2, of what patches have here.
fn merge(entry: &mut Option<Value>, patch: &Value) {
    let entry = entry.get_or_insert_with(|| json!({})).as_object_mut().unwrap();
    for (name, value) in patch.as_object().unwrap() {
        if value.is_null() {
            entry.remove(name);
        } else {
            entry.insert(name.clone(), value.clone());
        }
    }
}

/// The configuration database, as far as one entry goes, and the time.
#[derive(Default)]
struct World {
    entry: Option<Value>,
    patches: Vec<Value>,
    now: u64,
}

/// The clock at the start.
const CLOCK: u64 = 1_800_000_000_000;

impl World {
    /// Does what the reporter says until it waits; until when.
    fn settle(&mut self, reporter: &mut Reporter) -> u64 {
        loop {
            match reporter.next(self.now, CLOCK + self.now) {
                Step::Wait(until) => return until,
                Step::Read => reporter.read(self.entry.as_ref()),
                Step::Patch(patch) => {
                    merge(&mut self.entry, &patch);
                    reporter.wrote(&patch, self.now);
                    self.patches.push(patch);
                }
            }
        }
    }

    /// The same until this time is over.
    fn pass(&mut self, reporter: &mut Reporter, time: u64) {
        let end = self.now + time;
        loop {
            let until = self.settle(reporter);
            assert!(until > self.now, "it waits for what is over");
            if until > end {
                self.now = end;
                return;
            }
            self.now = until;
        }
    }
}

#[test]
fn nothing_is_written_where_nothing_changed_but_the_heartbeat() {
    let (mut world, mut reporter) = (World::default(), Reporter::default());
    reporter.set_hosts(vec![host("a")]);
    world.pass(&mut reporter, 1000);
    let wanted = json!({"hosts": [*host("a")], "generation": 1, "heartbeat": CLOCK + 20});
    assert_eq!(world.patches, std::slice::from_ref(&wanted));
    assert_eq!(world.entry, Some(wanted));
    world.patches.clear();
    reporter.set_hosts(vec![host("a")]);
    world.pass(&mut reporter, 3 * HEARTBEAT);
    assert_eq!(world.patches.len(), 3);
    for patch in &world.patches {
        assert_eq!(patch.as_object().unwrap().keys().collect::<Vec<_>>(), ["heartbeat"]);
    }
}

#[test]
fn a_program_that_starts_again_says_nothing_new_of_what_it_said_before() {
    let (mut world, mut first) = (World::default(), Reporter::default());
    first.set_hosts(vec![host("a")]);
    first.set_certificate("c");
    world.pass(&mut first, 1000);
    world.patches.clear();
    let mut second = Reporter::default();
    second.set_hosts(vec![host("a")]);
    second.set_certificate("c");
    world.pass(&mut second, 5000);
    assert_eq!(world.patches, [json!({"heartbeat": CLOCK + 2000})]);
    // Before machines are listed, nothing is said of them.
    world.patches.clear();
    let mut third = Reporter::default();
    world.pass(&mut third, 5000);
    assert_eq!(world.patches.len(), 1);
    assert_eq!(world.entry.as_ref().unwrap()["generation"], 1);
    third.set_hosts(vec![]);
    world.pass(&mut third, 1000);
    assert_eq!(
        (&world.entry.as_ref().unwrap()["hosts"], world.entry.as_ref().unwrap()["generation"].as_u64()),
        (&json!([]), Some(2))
    );
}

#[test]
fn changes_are_told_together_and_apart_from_the_last_ones_and_each_at_once_otherwise() {
    let (mut world, mut reporter) = (World::default(), Reporter::default());
    reporter.set_hosts(vec![]);
    world.pass(&mut reporter, 1000);
    reporter.set_hosts(vec![host("a")]);
    let until = world.settle(&mut reporter);
    assert_eq!(until, world.now + 20);
    reporter.set_certificate("c");
    world.now = until;
    world.settle(&mut reporter);
    let last = world.patches.last().unwrap();
    assert!(last["kubeseal_cert"] == "c" && last["hosts"].is_array());
    reporter.set_hosts(vec![host("b")]);
    assert_eq!(world.settle(&mut reporter), world.now + 50);
    // It changed back meanwhile.
    reporter.set_hosts(vec![host("a")]);
    assert!(world.settle(&mut reporter) > world.now + 1000);
}

#[test]
fn what_others_wrote_into_our_fields_is_put_right_with_the_next_heartbeat_and_other_fields_stay() {
    let (mut world, mut reporter) = (World::default(), Reporter::default());
    reporter.set_hosts(vec![host("a")]);
    world.pass(&mut reporter, 1000);
    world.entry = Some(json!({"hosts": [], "other": 1, "generation": 7}));
    world.pass(&mut reporter, HEARTBEAT);
    let entry = world.entry.take().unwrap();
    assert_eq!(entry["hosts"], json!([*host("a")]));
    assert_eq!((entry["other"].as_u64(), entry["generation"].as_u64()), (Some(1), Some(8)));
    // The entry was deleted.
    world.pass(&mut reporter, HEARTBEAT);
    assert_eq!(world.entry.unwrap()["hosts"], json!([*host("a")]));
}

#[test]
fn a_problem_is_told_when_it_lasts_and_taken_back_at_once() {
    let (mut world, mut reporter) = (World::default(), Reporter::default());
    reporter.set_hosts(vec![]);
    world.pass(&mut reporter, 3000);
    reporter.problems.set(Source::Nodes, ["the API server\nis away".to_owned()], world.now);
    world.pass(&mut reporter, 4000);
    assert_eq!(world.entry.as_ref().unwrap().get("errors"), None);
    // Said again while it lasts, and beside another one.
    reporter.problems.set(Source::Nodes, ["the API server\nis away".to_owned()], world.now);
    reporter.problems.set(Source::Wanted, [], world.now);
    world.pass(&mut reporter, 2000);
    assert_eq!(world.entry.as_ref().unwrap()["errors"], json!(["the API server is away"]));
    reporter.problems.set(Source::Nodes, [], world.now);
    world.pass(&mut reporter, 200);
    assert_eq!(world.entry.as_ref().unwrap().get("errors"), None);
}

#[test]
fn problems_have_bounds() {
    let mut problems = Problems::default();
    problems.set(Source::Applies, (0..10_000).map(|number| format!("{number:05} {}", "x".repeat(10_000))), 0);
    let (told, later) = problems.told(10_000);
    assert_eq!((told.len(), later), (32, None));
    assert!(told.iter().all(|sentence| sentence.chars().count() == 1000));
}

#[test]
fn a_centre_that_is_away_is_asked_ever_more_rarely_and_told_the_newest_when_it_is_back() {
    let (mut world, mut reporter) = (World::default(), Reporter::default());
    reporter.set_hosts(vec![host("a")]);
    world.pass(&mut reporter, 1000);
    let mut pauses = Vec::new();
    for name in ["b", "c", "d", "e", "f", "g", "h"] {
        reporter.set_hosts(vec![host(name)]);
        let Step::Wait(until) = reporter.next(world.now, CLOCK) else { panic!("too soon") };
        world.now = until;
        assert!(!matches!(reporter.next(world.now, CLOCK), Step::Wait(_)));
        reporter.failed(world.now, u64::MAX);
        let Step::Wait(until) = reporter.next(world.now, CLOCK) else { panic!("at once") };
        pauses.push(until - world.now);
    }
    assert!(pauses.windows(2).all(|two| two[0] <= two[1]) && *pauses.last().unwrap() <= 32_000, "{pauses:?}");
    let patches = world.patches.len();
    world.pass(&mut reporter, 33_000);
    assert_eq!(world.patches.len(), patches + 1);
    assert_eq!(world.entry.unwrap()["hosts"][0]["hostname"], "h");
}

proptest! {
    /// Whatever happens in whatever order, with calls that fail and answers that get lost: in the end the entry says what is so, and
    /// in between it was never written without need.
    #[test]
    fn the_entry_says_what_is_so_in_the_end(events in prop::collection::vec((0u8..7, 0u8..4, 0u64..2000), 0..60)) {
        let (mut world, mut reporter) = (World::default(), Reporter::default());
        let (mut hosts, mut certificate) = (Vec::new(), None);
        for (what, which, wait) in events {
            match what {
                0 => {
                    hosts = (0..which).map(|number| host(&number.to_string())).collect();
                    reporter.set_hosts(hosts.clone());
                }
                1 => {
                    reporter.set_certificate(&which.to_string());
                    certificate = Some(which.to_string());
                }
                2 => reporter.problems.set(Source::Keys, (0..which).map(|number| number.to_string()), world.now),
                3 => world.entry = [None, Some(json!({"hosts": 1})), Some(json!({"errors": [], "x": 1}))][usize::from(which % 3)].clone(),
                4 | 5 => {
                    // A call that fails; every other one was done all the same.
                    if let Step::Patch(patch) = reporter.next(world.now, CLOCK) {
                        if what == 5 {
                            merge(&mut world.entry, &patch);
                        }
                        reporter.failed(world.now, u64::from(which));
                    }
                }
                _ => world.pass(&mut reporter, wait),
            }
        }
        reporter.set_hosts(hosts.clone());
        reporter.problems.set(Source::Keys, [], world.now);
        world.pass(&mut reporter, 2 * HEARTBEAT);
        let entry = world.entry.clone().unwrap();
        let hosts: Vec<&Host> = hosts.iter().map(|host| &**host).collect();
        prop_assert_eq!(&entry["hosts"], &json!(hosts));
        prop_assert_eq!(entry.get("kubeseal_cert").and_then(Value::as_str), certificate.as_deref());
        prop_assert_eq!(entry.get("errors"), None);
        world.patches.clear();
        world.pass(&mut reporter, 2 * HEARTBEAT);
        for patch in &world.patches {
            prop_assert_eq!(patch.as_object().unwrap().len(), 1);
        }
    }
}
