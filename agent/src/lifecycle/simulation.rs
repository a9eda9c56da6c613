//! A simulation of nodes for the property tests: TPMs, disks, a join service, an operator and a network that loses, repeats and
//! reorders messages and cuts the power between any two effects. Every effect may fail, somebody with keys of another cluster
//! offers them, and an operator may stay away. The nodes are the real machine; all else is a model.

use std::collections::{BTreeMap, VecDeque};

use latchkey_api::OfferRefusal;
use proptest::prelude::*;

use super::*;

const NODES: usize = 3;
const CLUSTER: Digest = Digest([7; 32]);
/// Another cluster, whose tickets and secrets go astray.
const OTHER: Digest = Digest([8; 32]);

/// What a power cut leaves behind.
#[derive(Clone, Debug, PartialEq)]
enum Disk {
    Blank {
        attempts: u8,
    },
    /// Formatted under the key of its uuid; `data` is what the OS wrote once it was a member.
    Formatted {
        uuid: u64,
        phase: DiskPhase,
        role: NodeRole,
        epoch: u64,
        attempts: u8,
        data: Option<u64>,
    },
}

#[derive(Debug)]
struct Machine {
    boot: u64,
    node: Node,
    todo: VecDeque<Effect>,
    pcr15: Option<Digest>,
    disk: Disk,
    proposed: u64,
    offers: BTreeMap<u32, Offer>,
    next_offer: u32,
    flows: Vec<Source>,
    genuine: bool,
    /// The effect that fails, as [`Effect::name`] begins.
    broken: Option<&'static str>,
    ended: Option<&'static str>,
    stage2: Option<bootstrap::Bootstrap>,
    stage2_todo: VecDeque<bootstrap::Effect>,
}

/// The driver's side of an offer: what the machine must not see.
#[derive(Clone, Debug)]
struct Offer {
    key_of: u64,
    role: NodeRole,
    epoch: u64,
}

#[derive(Clone, Debug)]
enum Message {
    JoinRequest { node: usize, boot: u64, uuid: u64, evidence: Evidence },
    RejoinRequest { node: usize, boot: u64, uuid: u64, evidence: Evidence },
    Ticket { node: usize, boot: u64, source: Source, offer: Offer },
}

#[derive(Clone, Debug)]
struct Evidence {
    genuine: bool,
    pcr15: Option<Digest>,
}

#[derive(Debug)]
struct Simulation {
    machines: Vec<Machine>,
    network: Vec<Message>,
    /// The join service's records: node → its disks as (uuid, epoch), several until a report confirms one. Exists once the
    /// cluster does.
    records: Option<BTreeMap<usize, Vec<(u64, u64)>>>,
    uuids: u64,
    writes: u64,
    broken_steps: bool,
}

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

impl Machine {
    fn boot(&mut self, uuid: u64) {
        self.boot += 1;
        self.node = Node::new();
        self.todo.clear();
        self.stage2 = None;
        self.stage2_todo.clear();
        self.pcr15 = None;
        self.offers.clear();
        self.flows.clear();
        self.ended = None;
        self.proposed = uuid;
        let seen = match &self.disk {
            Disk::Blank { attempts } => Event::DiskFresh { attempts: *attempts },
            Disk::Formatted { phase: DiskPhase::Formatted, role: NodeRole::First, attempts, .. } => {
                Event::DiskAbandoned { attempts: *attempts }
            }
            Disk::Formatted { .. } => Event::DiskExisting,
        };
        self.saw(seen);
    }

    fn saw(&mut self, event: Event) {
        self.todo.extend(self.node.handle(event));
    }

    fn saw2(&mut self, event: bootstrap::Event) {
        let effects = self.stage2.as_mut().expect("stage 2 runs").handle(event);
        self.stage2_todo.extend(effects);
    }

    fn offer(&mut self, source: Source, cluster_id: Option<Digest>, epoch: Option<u64>, offer: Offer) {
        let id = self.next_offer;
        self.next_offer += 1;
        self.offers.insert(id, offer);
        self.saw(Event::Offered(Grant { id: OfferId(id), source, cluster_id, epoch }));
    }

    fn evidence(&self) -> Evidence {
        Evidence { genuine: self.genuine, pcr15: self.pcr15 }
    }
}

impl Simulation {
    fn new(impostor: bool) -> Self {
        let machine = |at: usize| Machine {
            boot: 0,
            node: Node::new(),
            todo: VecDeque::new(),
            pcr15: None,
            disk: Disk::Blank { attempts: 0 },
            proposed: 0,
            offers: BTreeMap::new(),
            next_offer: 0,
            flows: Vec::new(),
            genuine: !(impostor && at == NODES - 1),
            broken: None,
            ended: None,
            stage2: None,
            stage2_todo: VecDeque::new(),
        };
        let mut simulation = Self {
            machines: (0..NODES).map(machine).collect(),
            network: Vec::new(),
            records: None,
            uuids: 0,
            writes: 0,
            broken_steps: false,
        };
        (0..NODES).for_each(|at| simulation.cut(at));
        simulation
    }

    fn cut(&mut self, at: usize) {
        self.uuids += 1;
        let uuid = self.uuids;
        self.machines[at].boot(uuid);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Work(at) => self.work(at),
            Action::Deliver(at) if !self.network.is_empty() => {
                let message = self.network.remove(at % self.network.len());
                self.deliver(message);
            }
            Action::Repeat(at) if !self.network.is_empty() => {
                let message = self.network[at % self.network.len()].clone();
                self.deliver(message);
            }
            Action::Lose(at) if !self.network.is_empty() => {
                self.network.remove(at % self.network.len());
            }
            Action::Ask(at) => self.ask(at),
            Action::Cut(at) => self.cut(at),
            Action::Init(at) => self.init(at),
            Action::Recover(at, right) => self.recover(at, right),
            Action::BreakSteps(broken) => self.broken_steps = broken,
            Action::Break(at, effect) => self.machines[at].broken = effect,
            Action::Stray(at, right) => self.stray(at, right),
            Action::Deliver(_) | Action::Repeat(_) | Action::Lose(_) => {}
        }
    }

    /// A client flow sends its request, with evidence of this very moment.
    fn ask(&mut self, at: usize) {
        let machine = &self.machines[at];
        let (boot, evidence) = (machine.boot, machine.evidence());
        let uuid = match machine.disk {
            Disk::Blank { .. } => machine.proposed,
            Disk::Formatted { uuid, .. } => uuid,
        };
        if machine.flows.contains(&Source::Join) {
            self.network.push(Message::JoinRequest { node: at, boot, uuid, evidence });
        } else if machine.flows.contains(&Source::Rejoin) {
            self.network.push(Message::RejoinRequest { node: at, boot, uuid, evidence });
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::JoinRequest { node, boot, uuid, evidence } => {
                let Some(records) = self.records.as_mut().filter(|_| admitted(&evidence)) else { return };
                let epoch = epoch_of(records.entry(node).or_default(), uuid);
                let offer = Offer { key_of: uuid, role: NodeRole::Worker, epoch };
                self.network.push(Message::Ticket { node, boot, source: Source::Join, offer });
            }
            Message::RejoinRequest { node, boot, uuid, evidence } => {
                let Some(records) = self.records.as_ref().filter(|_| admitted(&evidence)) else { return };
                let Some(disks) = records.get(&node) else { return };
                let Some((_, epoch)) = disks.iter().find(|(known, _)| *known == uuid) else { return };
                let offer = Offer { key_of: uuid, role: NodeRole::Worker, epoch: *epoch };
                self.network.push(Message::Ticket { node, boot, source: Source::Rejoin, offer });
            }
            Message::Ticket { node, boot, source, offer } => {
                // The channel is bound to one session of one boot; a stopped flow brings nothing.
                let machine = &mut self.machines[node];
                if machine.boot == boot && machine.flows.contains(&source) {
                    let epoch = (source == Source::Rejoin).then_some(offer.epoch);
                    machine.offer(source, Some(CLUSTER), epoch, offer);
                }
            }
        }
    }

    /// `latchkey init`: the operator verifies the node and keeps to one first node, whatever became of it.
    fn init(&mut self, at: usize) {
        let first_is_other = self.records.as_ref().is_some_and(|records| !records.contains_key(&at));
        let machine = &mut self.machines[at];
        if first_is_other || !machine.flows.contains(&Source::Init) || !admitted(&machine.evidence()) {
            return;
        }
        let uuid = machine.proposed;
        let epoch = epoch_of(self.records.get_or_insert_default().entry(at).or_default(), uuid);
        machine.offer(Source::Init, Some(CLUSTER), None, Offer { key_of: uuid, role: NodeRole::First, epoch });
    }

    fn recover(&mut self, at: usize, right: bool) {
        let machine = &mut self.machines[at];
        if let (Disk::Formatted { uuid, .. }, true) = (&machine.disk, machine.flows.contains(&Source::Recovery)) {
            let key_of = if right { *uuid } else { 0 };
            let offer = Offer { key_of, role: NodeRole::Worker, epoch: 0 };
            machine.offer(Source::Recovery, right.then_some(CLUSTER), None, offer);
        }
    }

    /// A ticket of another cluster for an unfinished disk, or the right key of an existing one with another cluster's secret.
    /// On a fresh disk the channel keeps such tickets out: its service is pinned.
    fn stray(&mut self, at: usize, right: bool) {
        let machine = &mut self.machines[at];
        let Disk::Formatted { uuid, .. } = machine.disk else { return };
        let key_of = if right { uuid } else { 0 };
        let offer = Offer { key_of, role: NodeRole::Worker, epoch: 1 };
        for source in machine.flows.clone() {
            machine.offer(source, Some(OTHER), None, offer.clone());
        }
    }

    /// One effect, one step of the driver; the power may go before and after.
    fn work(&mut self, at: usize) {
        if self.machines[at].stage2.is_some() {
            return self.work2(at);
        }
        let Some(effect) = self.machines[at].todo.pop_front() else { return };
        let machine = &mut self.machines[at];
        if machine.broken.is_some_and(|broken| effect.name().starts_with(broken)) {
            return fail(machine, &effect);
        }
        match effect {
            Effect::Start(source) => machine.flows.push(source),
            Effect::ResumeJoin => machine.flows.push(Source::Join),
            Effect::Stop(source) => machine.flows.retain(|flow| *flow != source),
            Effect::CheckKey(id) => check_key(machine, id),
            Effect::Answer(..) => {}
            Effect::Lock(order) => {
                let zero = machine.pcr15.map_or([0; 32], |value| value.0);
                let value = Digest(latchkey_tpm::wire::extended(&zero, order.event()));
                machine.pcr15 = Some(value);
                machine.saw(Event::Extended { pcr15: value });
            }
            Effect::OpenDisk(permit) => open(machine, &permit),
            Effect::HandOver(_) => machine.saw(Event::HandedOver),
            Effect::Leave => {
                let Disk::Formatted { phase, attempts, .. } = machine.disk else { panic!("left without a disk") };
                machine.stage2 = Some(bootstrap::Bootstrap::new());
                machine.saw2(bootstrap::Event::Entered { phase, attempts });
            }
            Effect::End(Stop::Refused { .. }) => machine.ended = Some("refused"),
            Effect::End(Stop::Reset { attempts, .. }) => {
                reset(machine, attempts);
                machine.ended = Some("reset");
            }
        }
    }

    fn work2(&mut self, at: usize) {
        use bootstrap::{Effect, Event};
        let broken = self.broken_steps;
        self.writes += 1;
        let write = self.writes;
        let machine = &mut self.machines[at];
        match machine.stage2_todo.pop_front() {
            None => {}
            Some(Effect::RunStep) if broken => {
                machine.saw2(Event::StepFailed {
                    code: crate::cluster::StepCode::Failed.into(),
                    message: String::new(),
                    disk_stays: false,
                });
            }
            Some(Effect::RunStep | Effect::StartMember) => machine.saw2(Event::StepDone),
            Some(Effect::Mark) => {
                let Disk::Formatted { phase, data, .. } = &mut machine.disk else { panic!("marked no disk") };
                *phase = DiskPhase::Bootstrapped;
                *data = Some(write);
                machine.saw2(Event::Marked);
            }
            Some(Effect::Report(outcome)) => {
                if let (bootstrap::Outcome::Succeeded, Disk::Formatted { uuid, .. }, Some(records)) =
                    (outcome, &machine.disk, &mut self.records)
                {
                    records.entry(at).or_default().retain(|(known, _)| known == uuid);
                }
                machine.saw2(Event::Reported);
            }
            Some(Effect::ResetDisk { attempts }) => {
                reset(machine, attempts);
                machine.saw2(Event::DiskReset);
            }
            Some(Effect::Wipe) => machine.saw2(Event::Wiped),
            Some(Effect::Exit) => machine.ended = Some("left"),
            Some(Effect::ExitFailed) => machine.ended = Some("failed"),
            Some(Effect::Reboot) => machine.ended = Some("reset"),
        }
    }

    /// What must hold after every action.
    fn check(&self) -> Result<(), TestCaseError> {
        for machine in &self.machines {
            prop_assert!(machine.genuine || matches!(machine.disk, Disk::Blank { .. }), "a key without evidence");
            let opened = machine.stage2.is_some() || matches!(machine.todo.front(), Some(Effect::HandOver(_)));
            prop_assert!(!opened || machine.pcr15.is_some(), "a disk opened before the lock");
            let ours = Digest(extended(CLUSTER));
            prop_assert!(machine.pcr15.is_none_or(|value| value == ours), "locked on another cluster");
        }
        Ok(())
    }

    /// A quiet network and an operator who does what is asked: every boot must come to an end.
    fn settle(&mut self) {
        self.broken_steps = false;
        self.machines.iter_mut().for_each(|machine| machine.broken = None);
        for round in 0..400 {
            for at in 0..NODES {
                // Whatever ends a boot restarts the machine; one whose step failed too often says so at every boot.
                if matches!(self.machines[at].ended, Some("reset" | "refused")) {
                    self.cut(at);
                }
                (0..12).for_each(|_| self.work(at));
                self.ask(at);
                if self.records.is_none() && self.machines[at].genuine {
                    self.init(at);
                }
                // The first node's disk was reset: the operator runs `latchkey init --resume`.
                if round > 20 && self.machines[at].flows.contains(&Source::Init) && self.is_first(at) {
                    self.init(at);
                }
                if round > 20 {
                    self.recover(at, true);
                }
            }
            for message in std::mem::take(&mut self.network) {
                self.deliver(message);
            }
        }
    }

    fn is_first(&self, at: usize) -> bool {
        self.records.as_ref().is_some_and(|records| records.contains_key(&at))
    }
}

/// A new disk of a known node counts one up; the old one stays until the report, because a late request of an earlier boot
/// must not lock out the disk that is in use.
fn epoch_of(disks: &mut Vec<(u64, u64)>, uuid: u64) -> u64 {
    if let Some((_, epoch)) = disks.iter().find(|(known, _)| *known == uuid) {
        return *epoch;
    }
    let epoch = disks.iter().map(|(_, epoch)| epoch + 1).max().unwrap_or(1);
    disks.push((uuid, epoch));
    epoch
}

fn admitted(evidence: &Evidence) -> bool {
    evidence.genuine && evidence.pcr15.is_none()
}

/// What the driver does when an effect fails. A format may fail before and after it wrote the header; here before.
fn fail(machine: &mut Machine, effect: &Effect) {
    let (code, message) = (NodeCode::LockNotClean.into(), String::new());
    machine.saw(match effect {
        Effect::Start(source) => Event::FlowFailed { source: *source, code, message },
        Effect::CheckKey(id) => Event::KeyWrong { id: *id, code: OfferRefusal::DiskTokenForged },
        _ => Event::Failed { code, message },
    });
}

/// PCR 15 once it was extended with the cluster, from zero.
fn extended(cluster: Digest) -> [u8; 32] {
    let mut node = Node::new();
    node.handle(Event::DiskFresh { attempts: 0 });
    let grant = Grant { id: OfferId(0), source: Source::Init, cluster_id: Some(cluster), epoch: None };
    let effects = node.handle(Event::Offered(grant));
    let order = effects.into_iter().find_map(|effect| match effect {
        Effect::Lock(order) => Some(order),
        _ => None,
    });
    order.unwrap().expected().0
}

fn check_key(machine: &mut Machine, id: OfferId) {
    let Disk::Formatted { uuid, phase, role, epoch, attempts, .. } = machine.disk.clone() else { panic!("no header") };
    let event = if machine.offers[&id.0].key_of == uuid {
        Event::KeyFits { id, phase, role, cluster_id: CLUSTER, epoch, attempts }
    } else {
        Event::KeyWrong { id, code: OfferRefusal::DiskWrongKey }
    };
    machine.saw(event);
}

fn open(machine: &mut Machine, permit: &OpenPermit) {
    assert!(machine.pcr15.is_some(), "a permit without a lock");
    let offer = machine.offers[&permit.offer().0].clone();
    match (&machine.disk, permit.format()) {
        (Disk::Blank { .. }, Some(attempts)) => {
            let phase = DiskPhase::Formatted;
            let Offer { key_of: uuid, role, epoch } = offer;
            machine.disk = Disk::Formatted { uuid, phase, role, epoch, attempts, data: None };
        }
        (Disk::Formatted { uuid, .. }, None) => assert_eq!(*uuid, offer.key_of, "opened with another disk's key"),
        (disk, format) => panic!("formatted a disk that was not blank, or opened a blank one: {disk:?}, {format:?}"),
    }
    machine.saw(Event::DiskOpened);
}

fn reset(machine: &mut Machine, attempts: u8) {
    if let Disk::Formatted { data: Some(data), .. } = machine.disk {
        panic!("data {data} of a member was lost");
    }
    machine.disk = Disk::Blank { attempts };
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
