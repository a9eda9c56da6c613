//! A simulation of nodes for the property tests: TPMs, disks, a join service, an operator and a network that loses, repeats and
//! reorders messages and cuts the power between any two effects. Every effect may fail, somebody with keys of another cluster
//! offers them, and an operator may stay away. The nodes are the real machine; all else is a model.

mod machine;
mod world;

use machine::Disk;
use proptest::prelude::*;
use world::{CLUSTER, NODES, Simulation};

use super::*;

#[derive(Clone, Copy, Debug)]
enum Action {
    Work(usize),
    Deliver(usize),
    Repeat(usize),
    Lose(usize),
    Ask(usize),
    Cut(usize),
    Init(usize),
    Recover(usize, bool),
    BreakSteps(bool),
    /// One effect of this machine fails from now on, or none.
    Break(usize, Option<&'static str>),
    /// Somebody offers a key of another cluster, or the right key with another cluster's secret.
    Stray(usize, bool),
}

/// What may fail; `start-` is a port that does not open.
const EFFECTS: [&str; 7] =
    ["start-init", "start-recovery", "check-key", "lock", "format-disk", "open-disk", "hand-over"];

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        12 => (0..NODES).prop_map(Action::Work),
        6 => (0..16_usize).prop_map(Action::Deliver),
        1 => (0..16_usize).prop_map(Action::Repeat),
        1 => (0..16_usize).prop_map(Action::Lose),
        4 => (0..NODES).prop_map(Action::Ask),
        2 => (0..NODES).prop_map(Action::Cut),
        2 => (0..NODES).prop_map(Action::Init),
        1 => (0..NODES, any::<bool>()).prop_map(|(node, right)| Action::Recover(node, right)),
        1 => prop::bool::weighted(0.2).prop_map(Action::BreakSteps),
        2 => (0..NODES, prop::option::of(prop::sample::select(&EFFECTS[..])))
            .prop_map(|(node, effect)| Action::Break(node, effect)),
        2 => (0..NODES, any::<bool>()).prop_map(|(node, right)| Action::Stray(node, right)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_opened_early_and_every_run_ends(
        impostor in any::<bool>(),
        actions in prop::collection::vec(any_action(), 0..250),
    ) {
        let mut simulation = Simulation::new(impostor);
        for action in actions {
            simulation.act(action);
            simulation.check()?;
        }
        simulation.settle();
        simulation.check()?;
        for machine in &simulation.machines {
            let exhausted = matches!(machine.disk, Disk::Blank { attempts } if attempts >= MAX_ATTEMPTS);
            let end = machine.ended;
            if !machine.genuine {
                prop_assert!(end.is_none(), "an impostor waits for a ticket that never comes: {end:?}");
            } else if exhausted {
                prop_assert_eq!(end, Some("refused"));
            } else if simulation.records.is_some() {
                prop_assert_eq!(end, Some("left"), "{:#?}", machine);
            }
        }
    }

    #[test]
    fn of_all_offers_to_a_fresh_node_exactly_one_wins(sources in prop::collection::vec(any::<bool>(), 1..8)) {
        let mut node = Node::new();
        node.handle(Event::DiskFresh { attempts: 0 });
        let (mut locks, mut stopped) = (0, vec![]);
        for (id, init) in sources.iter().enumerate() {
            let source = if *init { Source::Init } else { Source::Join };
            let id = OfferId(u32::try_from(id).unwrap());
            let grant = Grant { id, source, cluster_id: Some(CLUSTER), epoch: None };
            let effects = node.handle(Event::Offered(grant));
            locks += effects.iter().filter(|effect| matches!(effect, Effect::Lock(_))).count();
            stopped.extend(effects.iter().filter_map(|effect| match effect {
                Effect::Stop(source) => Some(*source),
                _ => None,
            }));
        }
        prop_assert_eq!(locks, 1);
        prop_assert_eq!(stopped, [if sources[0] { Source::Join } else { Source::Init }]);
    }
}
