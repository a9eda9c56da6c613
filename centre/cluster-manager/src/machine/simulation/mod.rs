//! Clusters that come, change and go, while requests and answers are lost and the manager dies between any two effects.

mod laws;
mod world;

use std::collections::{BTreeMap, VecDeque};

use latchkey_factory_plus::Uuid;
use proptest::prelude::*;
use serde_json::{Value, json};

use self::world::{Fate, World};
use super::{Answer, Classes, Effect, Event, Fleet, Moment, Names, Order, Phase, RANDOM_BYTES, Site};
use crate::manifests::fixture;

const CHARTS: [&str; 2] = ["aaaaaaaa-0000-4000-8000-000000000000", "bbbbbbbb-0000-4000-8000-000000000000"];

/// Longer than anything else takes here.
const HELD_MS: u64 = 10_000_000_000;

/// The site of the tests.
pub(super) fn site() -> Site {
    let class = |number: u8| Uuid::from_random([number; 16]);
    let classes = Classes { cluster: class(1), flux: class(2), krbkeys: class(3), sync: class(4), monitor: class(5) };
    Site {
        realm: "EXAMPLE.ORG".parse().unwrap(),
        prefix: "ACME".into(),
        classes,
        repositories: fixture::repositories(),
        names_held_ms: HELD_MS,
    }
}

pub(super) fn names() -> Names {
    Names::new(&"EXAMPLE.ORG".parse().unwrap(), ["git.example.org", "kdc.example.org"], ["admin", "Anna"])
}

pub(super) fn cluster(number: usize) -> Uuid {
    Uuid::from_random([0xc0 + u8::try_from(number).unwrap(); 16])
}

/// Configurations that are carried out, and one that is not.
fn configuration(name: &str, variant: usize) -> Value {
    match variant {
        0 => json!({"chart": CHARTS[0], "name": name, "namespace": "fplus-edge"}),
        1 => json!({"chart": CHARTS[1], "name": name, "namespace": "fplus-edge", "bare": true}),
        2 => json!({"chart": CHARTS[0], "name": name, "namespace": "fplus-edge", "values": {"a": null, "b": {"c": 1}}}),
        _ => json!({"chart": CHARTS[0], "name": name, "namespace": "kube-system"}),
    }
}

/// The manager's process, and what it has in flight.
struct Process {
    world: World,
    fleet: Fleet,
    orders: VecDeque<(Uuid, Order)>,
    /// Each with when it runs out.
    timers: VecDeque<(Uuid, u64, u64)>,
    /// When the principals of a name were deleted.
    freed: BTreeMap<String, u64>,
    now: u64,
    seed: u64,
}

impl Process {
    fn new() -> Self {
        let (orders, timers) = (VecDeque::new(), VecDeque::new());
        let (world, fleet) = (World::default(), Fleet::new(site(), names()));
        Self { world, fleet, orders, timers, freed: BTreeMap::new(), now: 0, seed: 1 }
    }

    fn moment(&mut self) -> Moment {
        self.now += 7;
        let mut random = [0; RANDOM_BYTES];
        for byte in &mut random {
            // A linear congruential generator (Knuth's MMIX): all that matters is that no two UUIDs are equal.
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (self.seed >> 56) as u8;
        }
        Moment { now: self.now, random }
    }

    fn tell(&mut self, cluster: Uuid, event: Event) {
        let moment = self.moment();
        let told = self.fleet.handle(cluster, &moment, event);
        for order in told.orders {
            match order.effect {
                Effect::SetTimer { after_ms } => self.timers.push_back((cluster, order.id, moment.now + after_ms)),
                _ => self.orders.push_back((cluster, order)),
            }
        }
        for other in told.again {
            self.tell(other, Event::Again);
        }
        let in_flight = self.orders.iter().filter(|(of, _)| *of == cluster).count();
        assert!(in_flight <= 1, "{in_flight} effects of one cluster at once");
    }

    fn configure(&mut self, cluster: Uuid, entry: Option<Value>) {
        match &entry {
            Some(entry) => drop(self.world.configurations.insert(cluster, entry.clone())),
            None => drop(self.world.configurations.remove(&cluster)),
        }
        self.tell(cluster, Event::Configuration(entry));
    }

    /// Carries out an order; whether there was one.
    fn deliver(&mut self, fate: Fate) -> bool {
        let Some((cluster, order)) = self.orders.pop_front() else { return false };
        let answer = self.carry_out(cluster, &order.effect, fate);
        self.tell(cluster, Event::Answer { id: order.id, answer });
        true
    }

    /// No account gets a principal of a name for which others may still have tickets.
    fn carry_out(&mut self, cluster: Uuid, effect: &Effect, fate: Fate) -> Answer {
        match effect {
            Effect::DeletePrincipals { name } => drop(self.freed.insert(name.folded(), self.now)),
            Effect::PutIdentity { upn, .. } => {
                let name = upn.components().nth(1).unwrap().to_ascii_lowercase();
                let freed = self.freed.get(&name);
                assert!(
                    freed.is_none_or(|freed| self.now >= freed + HELD_MS),
                    "{upn} at {}, freed at {freed:?}",
                    self.now
                );
            }
            _ => {}
        }
        self.world.carry_out(cluster, effect, fate)
    }

    /// Lets a timer run out; whether there was one.
    fn wake(&mut self) -> bool {
        let Some((cluster, id, due)) = self.timers.pop_front() else { return false };
        self.now = self.now.max(due);
        self.tell(cluster, Event::Timer { id });
        true
    }

    /// The process dies; another one starts from what is stored.
    fn restart(&mut self) {
        self.orders.clear();
        self.timers.clear();
        self.fleet = Fleet::new(site(), names());
        for (cluster, status) in &self.world.statuses {
            self.fleet.restore(*cluster, status);
        }
        let known: std::collections::BTreeSet<Uuid> =
            self.world.statuses.keys().chain(self.world.configurations.keys()).copied().collect();
        for cluster in known {
            let entry = self.world.configurations.get(&cluster).cloned();
            self.tell(cluster, Event::Configuration(entry));
        }
    }

    fn settle(&mut self) {
        let mut steps = 0;
        while self.deliver(Fate::Done) || self.wake() {
            steps += 1;
            assert!(steps < 2_000, "it does not come to rest");
        }
    }
}

#[derive(Debug, Clone)]
enum Happening {
    Deliver(Fate),
    Wake,
    Die,
    /// The manager dies after an effect was done, before it hears so.
    DieUnheard,
    Configure(usize, usize),
    Unconfigure(usize),
    Decommission(usize),
    Bootstrap(usize),
    Refresh(usize),
}

/// Three clusters; the first two want one name.
const WANTED: [&str; 3] = ["North", "nORTH", "South"];

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        24 => Just(Happening::Deliver(Fate::Done)),
        3 => Just(Happening::Deliver(Fate::AnswerLost)),
        2 => Just(Happening::Deliver(Fate::RequestLost)),
        2 => Just(Happening::Deliver(Fate::Refused)),
        4 => Just(Happening::Wake),
        2 => Just(Happening::Die),
        2 => Just(Happening::DieUnheard),
        5 => (0..3_usize, 0..4_usize).prop_map(|(cluster, variant)| Happening::Configure(cluster, variant)),
        3 => (0..3_usize).prop_map(Happening::Unconfigure),
        1 => (0..3_usize).prop_map(Happening::Decommission),
        1 => (0..3_usize).prop_map(Happening::Bootstrap),
        1 => (0..3_usize).prop_map(Happening::Refresh),
    ]
}

fn happen(process: &mut Process, happening: &Happening) {
    match *happening {
        Happening::Deliver(fate) => drop(process.deliver(fate)),
        Happening::Wake => drop(process.wake()),
        Happening::Die => process.restart(),
        Happening::DieUnheard => {
            if let Some((cluster, order)) = process.orders.pop_front() {
                process.carry_out(cluster, &order.effect, Fate::Done);
            }
            process.restart();
        }
        Happening::Configure(number, variant) => {
            process.configure(cluster(number), Some(configuration(WANTED[number], variant)));
        }
        Happening::Unconfigure(number) => process.configure(cluster(number), None),
        Happening::Decommission(number) => process.tell(cluster(number), Event::Decommission),
        Happening::Bootstrap(number) => process.world.bootstrap(cluster(number)),
        Happening::Refresh(number) => process.tell(cluster(number), Event::Refresh),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_world_ends_as_the_configurations_say(
        happenings in proptest::collection::vec(happening(), 0..200),
    ) {
        let mut process = Process::new();
        for one in &happenings {
            happen(&mut process, one);
        }
        process.settle();
        laws::hold(&process);
        // What rests stays at rest, also for the next process, which writes nothing anew.
        let commits = process.world.commits.clone();
        process.restart();
        process.settle();
        laws::hold(&process);
        prop_assert_eq!(&process.world.commits, &commits);
        // And all can be removed.
        for number in 0..3 {
            process.configure(cluster(number), None);
        }
        process.settle();
        laws::hold(&process);
        for number in 0..3 {
            process.tell(cluster(number), Event::Decommission);
        }
        process.settle();
        laws::nothing_is_left(&process);
    }
}

/// Runs a story with the manager dying once, `before` or after the effect number `place`; whether the story had so
/// many.
fn dies_at(place: usize, before: bool, story: &[Happening]) -> bool {
    let mut process = Process::new();
    let mut effects = 0;
    let mut died = false;
    for one in story {
        happen(&mut process, one);
        loop {
            if process.orders.is_empty() && !process.wake() {
                break;
            }
            if effects == place && !died {
                died = true;
                happen(&mut process, if before { &Happening::Die } else { &Happening::DieUnheard });
            } else {
                process.deliver(Fate::Done);
            }
            effects += 1;
        }
        laws::hold(&process);
    }
    died
}

#[test]
fn a_death_before_or_after_any_effect_changes_nothing_in_the_end() {
    let story = [
        Happening::Configure(0, 0),
        Happening::Bootstrap(0),
        Happening::Configure(0, 2),
        Happening::Unconfigure(0),
        Happening::Configure(0, 1),
        Happening::Unconfigure(0),
        Happening::Decommission(0),
    ];
    for before in [true, false] {
        let mut place = 0;
        while dies_at(place, before, &story) {
            place += 1;
        }
        assert!(place > 100, "the story has {place} effects");
    }
}

#[test]
fn deleting_disables_and_writing_again_enables_the_same_accounts() {
    let mut process = Process::new();
    let north = cluster(0);
    process.configure(north, Some(configuration("North", 0)));
    process.settle();
    process.world.bootstrap(north);
    let before = world::accounts(&process.world.status(north).unwrap());
    process.configure(north, None);
    process.settle();
    assert_eq!(process.world.status(north).unwrap().phase, Phase::Deleted);
    assert!(process.world.principals.len() == 5 && process.world.principals.values().all(|enabled| !enabled));
    process.configure(north, Some(configuration("North", 1)));
    process.settle();
    assert_eq!(world::accounts(&process.world.status(north).unwrap()), before);
    // The edge made the agent's principal, and enables it again when it sees its resource.
    let disabled: Vec<_> = process.world.principals.iter().filter(|(_, enabled)| !**enabled).collect();
    assert_eq!(disabled, [(&"nd1/North/Agent@EXAMPLE.ORG".parse().unwrap(), &false)]);
}

#[test]
fn of_two_clusters_with_one_name_the_second_waits_until_the_first_is_gone() {
    let mut process = Process::new();
    process.configure(cluster(0), Some(configuration("North", 0)));
    process.configure(cluster(1), Some(configuration("nORTH", 0)));
    process.settle();
    let error = process.world.status(cluster(1)).unwrap().error.unwrap();
    assert!(error.message.contains(&cluster(0).to_string()) && error.message.contains("North"), "{}", error.message);
    process.configure(cluster(0), None);
    process.settle();
    assert!(!process.world.status(cluster(1)).unwrap().ready, "the principals of the first still exist");
    process.tell(cluster(0), Event::Decommission);
    while process.deliver(Fate::Done) {}
    assert_eq!(process.world.status(cluster(0)).unwrap().phase, Phase::Decommissioned);
    let error = process.world.status(cluster(1)).unwrap().error.unwrap();
    assert!(error.message.contains("decommissioned") && error.fix.contains("wait"), "{error:?}");
    // Nor does it come back itself before.
    process.configure(cluster(0), Some(configuration("North", 0)));
    while process.deliver(Fate::Done) {}
    assert!(process.world.status(cluster(0)).unwrap().error.unwrap().message.contains("decommissioned"));
    process.configure(cluster(0), None);
    process.settle();
    assert!(process.world.status(cluster(0)).is_none() && process.world.status(cluster(1)).unwrap().ready);
    laws::hold(&process);
}
