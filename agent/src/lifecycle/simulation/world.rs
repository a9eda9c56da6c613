//! All machines, the network between them, the join service and the operator.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::Action;
use super::machine::{Disk, Evidence, Machine, Offer, extended};
use crate::lifecycle::*;

pub(super) const NODES: usize = 3;
pub(super) const CLUSTER: Digest = Digest([7; 32]);
/// Another cluster, whose tickets and secrets go astray.
const OTHER: Digest = Digest([8; 32]);

#[derive(Clone, Debug)]
enum Message {
    JoinRequest { node: usize, boot: u64, uuid: u64, evidence: Evidence },
    RejoinRequest { node: usize, boot: u64, uuid: u64, evidence: Evidence },
    Ticket { node: usize, boot: u64, source: Source, offer: Offer },
}

#[derive(Debug)]
pub(super) struct Simulation {
    pub(super) machines: Vec<Machine>,
    network: Vec<Message>,
    /// The join service's records: node → its disks as (uuid, epoch), several until a report confirms one. Exists once the
    /// cluster does.
    pub(super) records: Option<BTreeMap<usize, Vec<(u64, u64)>>>,
    pub(super) uuids: u64,
    pub(super) writes: u64,
    pub(super) broken_steps: bool,
}

impl Simulation {
    pub(super) fn new(impostor: bool) -> Self {
        let mut simulation = Self {
            machines: (0..NODES).map(|at| Machine::new(!(impostor && at == NODES - 1))).collect(),
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

    pub(super) fn act(&mut self, action: Action) {
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
                let Some(records) = self.records.as_mut().filter(|_| evidence.admits()) else { return };
                let epoch = epoch_of(records.entry(node).or_default(), uuid);
                let offer = Offer { key_of: uuid, role: NodeRole::Worker, epoch };
                self.network.push(Message::Ticket { node, boot, source: Source::Join, offer });
            }
            Message::RejoinRequest { node, boot, uuid, evidence } => {
                let Some(records) = self.records.as_ref().filter(|_| evidence.admits()) else { return };
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
        if first_is_other || !machine.flows.contains(&Source::Init) || !machine.evidence().admits() {
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
            return machine.fail(&effect);
        }
        match effect {
            Effect::Start(source) => machine.flows.push(source),
            Effect::ResumeJoin => machine.flows.push(Source::Join),
            Effect::Stop(source) => machine.flows.retain(|flow| *flow != source),
            Effect::CheckKey(id) => machine.check_key(id),
            Effect::Answer(..) => {}
            Effect::Lock(order) => {
                let zero = machine.pcr15.map_or([0; 32], |value| value.0);
                let value = Digest(latchkey_tpm::wire::extended(&zero, order.event()));
                machine.pcr15 = Some(value);
                machine.saw(Event::Extended { pcr15: value });
            }
            Effect::OpenDisk(permit) => machine.open(&permit),
            Effect::HandOver(_) => machine.saw(Event::HandedOver),
            Effect::Leave => {
                let Disk::Formatted { phase, attempts, .. } = machine.disk else { panic!("left without a disk") };
                machine.stage2 = Some(bootstrap::Bootstrap::new());
                machine.saw2(bootstrap::Event::Entered { phase, attempts });
            }
            Effect::End(Stop::Refused { .. }) => machine.ended = Some("refused"),
            Effect::End(Stop::Reset { attempts, .. }) => {
                machine.reset(attempts);
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
                machine.reset(attempts);
                machine.saw2(Event::DiskReset);
            }
            Some(Effect::Wipe) => machine.saw2(Event::Wiped),
            Some(Effect::Exit) => machine.ended = Some("left"),
            Some(Effect::ExitFailed) => machine.ended = Some("failed"),
            Some(Effect::Reboot) => machine.ended = Some("reset"),
        }
    }

    /// What must hold after every action.
    pub(super) fn check(&self) -> Result<(), TestCaseError> {
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
    pub(super) fn settle(&mut self) {
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
