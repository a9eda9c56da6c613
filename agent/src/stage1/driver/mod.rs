//! Performs what the life machine orders, and tells it what happens.

use std::collections::HashMap;
use std::sync::Arc;

use latchkey_api::OfferRefusal;
use latchkey_api::v1::{InitServer, RecoveryServer, Role as ClusterRole};
use latchkey_channel::{NoProof, Purpose, SpkiHash, Terms as ChannelTerms};
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt as _;

use super::disk::{OpenDisk, phase, role};
use super::event_queue::EventQueue;
use super::machine::Machine;
use super::prepare::Prepared;
use super::{BootCode, BootError, TIMELINE, now_ms};
use crate::flows::init::InitFlow;
use crate::flows::init_auth::InitAuth;
use crate::flows::listener::{Closing, Listener};
use crate::flows::progress::Broadcast;
use crate::flows::recovery::RecoveryFlow;
use crate::flows::ticket::Asker;
use crate::flows::{Node as FlowNode, Offer, Terms};
use crate::handover::{HandOver, SecretText, Task};
use crate::lifecycle::{Effect, Event, LockOrder, OfferId, OpenPermit, Record, Source, Stop};
use crate::platform::console;
use latchkey_node_config::{RoleHint, StateIntegrity};

#[cfg(test)]
mod tests;

/// How stage 1 ends.
#[derive(Debug)]
pub(super) enum Ended {
    Leaves,
    Stopped(Stop),
}

/// Runs until the node leaves or its boot ends.
pub(super) async fn drive(prepared: Prepared, machine: impl Machine) -> Ended {
    let (sender, offers) = bounded(16);
    Driver::new(prepared, machine, sender).run(&offers).await
}

struct Driver<M> {
    prepared: Prepared,
    machine: M,
    queue: EventQueue,
    node: FlowNode,
    progress: Broadcast,
    asking: HashMap<Source, smol::Task<()>>,
    open_door: Option<(Source, Listener)>,
    closing: Option<Closing>,
    open_disk: Option<OpenDisk>,
}

enum Next {
    Go,
    Saw(Event),
    End(Ended),
}

impl<M: Machine> Driver<M> {
    fn new(prepared: Prepared, machine: M, offers: Sender<Box<Offer>>) -> Self {
        let node = FlowNode { name: prepared.node_name.clone(), disk_uuid: machine.disk_uuid(), offers };
        Self {
            prepared,
            machine,
            queue: EventQueue::new(record),
            node,
            progress: Broadcast::default(),
            asking: HashMap::new(),
            open_door: None,
            closing: None,
            open_disk: None,
        }
    }

    async fn run(mut self, offers: &Receiver<Box<Offer>>) -> Ended {
        let network = self.hold_network();
        self.queue.saw(self.machine.disk_event());
        loop {
            while let Some(effect) = self.queue.next() {
                match self.perform(effect).await {
                    Next::Go => {}
                    Next::Saw(event) => self.queue.saw(event),
                    Next::End(ended) => {
                        self.drain(offers).await;
                        drop(network);
                        return ended;
                    }
                }
            }
            // The driver holds a sender, so the queue never closes.
            if let Ok(offer) = offers.recv().await {
                self.queue.keep(*offer);
            }
        }
    }

    /// Renews the lease in the background. A lost lease is said; the flows notice by themselves.
    fn hold_network(&mut self) -> smol::Task<()> {
        let network = self.prepared.network.take();
        smol::spawn(async move {
            let Some(mut network) = network else { return };
            let error = network.hold().await;
            console::failure("network", error.code(), &error.to_string());
        })
    }

    async fn perform(&mut self, effect: Effect) -> Next {
        match effect {
            Effect::Start(source @ (Source::Init | Source::Recovery)) => self.listen(source).await,
            Effect::Start(source @ (Source::Join | Source::Rejoin)) => self.ask(source),
            Effect::ResumeJoin => self.ask(Source::Join),
            Effect::Stop(source) => {
                self.stop(source);
                Next::Go
            }
            Effect::CheckKey(id) => match self.queue.offer(id) {
                Some(offer) => Next::Saw(self.machine.check_key(id, offer)),
                None => Next::Saw(Event::KeyWrong { id, code: OfferRefusal::OfferGone }),
            },
            Effect::Answer(id, verdict) => {
                self.queue.answer(id, verdict);
                Next::Go
            }
            Effect::Lock(order) => next(self.lock(order).await),
            Effect::OpenDisk(permit) => next(self.open(permit)),
            Effect::HandOver(id) => next(self.hand_over(id)),
            Effect::Leave => Next::End(Ended::Leaves),
            Effect::End(stop) => Next::End(Ended::Stopped(self.end(stop))),
        }
    }

    /// Opens the one port, for what this disk waits for.
    async fn listen(&mut self, source: Source) -> Next {
        let terms = ChannelTerms { attester: Arc::clone(&self.prepared.attester), verifier: Arc::new(NoProof) };
        let reception = |purpose: Purpose| {
            move |asked: Purpose| (asked == purpose || asked == Purpose::Verify).then(|| terms.clone())
        };
        let (port, node) = (self.prepared.config.listen_port, self.node.clone());
        let registers = self.prepared.config.centre.is_some();
        let opened = if source == Source::Recovery {
            Listener::open(port, reception(Purpose::Recover), RecoveryServer::new(RecoveryFlow::new(node))).await
        } else {
            let flow = InitFlow::new(node, self.init_auth(), self.progress.clone(), registers);
            Listener::open(port, reception(Purpose::Init), InitServer::new(flow)).await
        };
        match opened {
            Ok(listener) => {
                let (port, disk) = (listener.address().port(), self.node.disk_uuid);
                console::line(&source.to_string(), &format!("waiting on port {port}, disk {disk}"));
                self.open_door = Some((source, listener));
                Next::Go
            }
            Err(error) => {
                let message = format!("port {port} cannot be opened: {error}");
                console::failure(&source.to_string(), BootCode::ListenFailed, &message);
                Next::Saw(Event::FlowFailed { source, code: BootCode::ListenFailed.into(), message })
            }
        }
    }

    /// A hash in metadata that cannot be used is said, and refuses only `Init`: the node may still join.
    fn init_auth(&self) -> Option<InitAuth> {
        let hash = self.prepared.metadata.init_secret_hash.as_ref()?;
        InitAuth::new(hash.as_str())
            .inspect_err(|error| console::failure("init", BootCode::InitSecretHash, &error.to_string()))
            .ok()
    }

    fn ask(&mut self, source: Source) -> Next {
        let config = &self.prepared.config;
        let services = join_services(&self.prepared);
        let (false, Some(pin)) = (services.is_empty(), config.join_service_key) else {
            let why = "no latchkey.join_service and latchkey.join_service_key on the measured command line";
            console::line(&source.to_string(), &format!("{why}: this node waits for an operator"));
            return Next::Saw(Event::FlowIdle { source });
        };
        let asker = Asker {
            node: self.node.clone(),
            services,
            pin: SpkiHash(pin.0),
            attester: Arc::clone(&self.prepared.attester),
            role: match self.prepared.metadata.role.or(config.role_hint) {
                Some(RoleHint::ControlPlane) => ClusterRole::ControlPlane,
                Some(RoleHint::Worker) => ClusterRole::Worker,
                None => ClusterRole::Unspecified,
            },
        };
        console::line(&source.to_string(), &format!("asking {}", asker.services.join(", ")));
        let task = if source == Source::Join { smol::spawn(asker.join()) } else { smol::spawn(asker.rejoin()) };
        self.asking.insert(source, task);
        Next::Go
    }

    /// Extends PCR 15 with the cluster id and reads it back. Whatever goes wrong ends this boot: a lock that may or may not
    /// be there is none.
    async fn lock(&mut self, order: LockOrder) -> Result<Event, BootError> {
        let step = TIMELINE.begin("lock");
        self.tell("lock", "extending PCR 15 with the cluster id");
        let pcr15 = self.machine.lock(order).await?;
        step.note(format_args!("PCR 15 is {pcr15:?}"));
        step.done();
        Ok(Event::Extended { pcr15 })
    }

    fn open(&mut self, permit: OpenPermit) -> Result<Event, BootError> {
        let name = if permit.format().is_some() { "format-disk" } else { "open-disk" };
        let step = TIMELINE.begin(name);
        self.tell(
            name,
            match self.prepared.config.state_integrity {
                StateIntegrity::None => "LUKS2, aes-xts",
                StateIntegrity::HmacSha256 => "LUKS2, aes-xts with hmac-sha256",
            },
        );
        let offer = self
            .queue
            .offer(permit.offer())
            .ok_or_else(|| BootError::new(name, BootCode::Bug, "the permit names an offer that is gone"))?;
        let membership = match &offer.terms {
            Terms::Member(membership) => Some(&**membership),
            Terms::Known { .. } => None,
        };
        self.open_disk = Some(self.machine.open(permit, offer, membership)?);
        step.done();
        Ok(Event::DiskOpened)
    }

    /// Writes what stage 2 needs, and forgets every key.
    fn hand_over(&mut self, id: OfferId) -> Result<Event, BootError> {
        let step = TIMELINE.begin("hand-over");
        let gone = || BootError::new("hand-over", BootCode::Bug, "nothing is open to hand over");
        let disk = self.open_disk.take().ok_or_else(gone)?;
        let offer = self.queue.offer_mut(id).ok_or_else(gone)?;
        let (task, cluster_name) = match &mut offer.terms {
            Terms::Member(membership) => (
                std::mem::replace(&mut membership.task, Task::start(None)),
                std::mem::take(&mut membership.cluster_name),
            ),
            Terms::Known { components, .. } => (Task::start(components.as_deref()), String::new()),
        };
        let handover = HandOver {
            version: 1,
            node_name: disk.state.node_name.as_str().into(),
            role: role(disk.state.role),
            cluster_id: disk.state.cluster_id.to_string(),
            cluster_name,
            disk_uuid: disk.uuid.to_string(),
            phase: phase(disk.state.phase),
            attempts: u8::try_from(disk.state.attempt).unwrap_or(u8::MAX),
            device: disk.device,
            mapping: disk.mapping,
            token_key: SecretText::new(disk.token_key.expose()),
            task,
            join_services: join_services(&self.prepared),
            left_at_ms: now_ms(),
        };
        self.machine.hand_over(&handover)?;
        self.tell("hand-over", "the operating system takes over");
        step.done();
        Ok(Event::HandedOver)
    }

    /// What the end of a boot still has to do.
    fn end(&mut self, stop: Stop) -> Stop {
        if let Stop::Reset { code, attempts } = &stop {
            let running = TIMELINE.begin("reset");
            if let Err(BootError { code, message, .. }) = self.machine.reset(code.as_str(), *attempts) {
                return Stop::Refused { code, message };
            }
            running.done();
        }
        stop
    }

    fn tell(&self, step: &str, detail: &str) {
        self.progress.tell(step, detail, now_ms());
    }

    /// Ends a flow. Nothing it still brings counts, so nobody waits for it here.
    fn stop(&mut self, source: Source) {
        self.asking.remove(&source);
        if let Some((_, listener)) = self.open_door.take_if(|(open, _)| *open == source) {
            self.closing = Some(listener.close());
        }
    }

    /// Closes everything. Whoever asked gets its answer, and who comes late is told so.
    async fn drain(&mut self, offers: &Receiver<Box<Offer>>) {
        self.asking.clear();
        if let Some((_, listener)) = self.open_door.take() {
            self.closing = Some(listener.close());
        }
        let queue = &mut self.queue;
        let turn_away = async {
            while let Ok(offer) = offers.recv().await {
                queue.turn_away(*offer);
            }
        };
        if let Some(closing) = self.closing.take() {
            closing.drain().or(turn_away).await;
        }
    }
}

fn next(result: Result<Event, BootError>) -> Next {
    Next::Saw(result.unwrap_or_else(|BootError { step, code, message }| {
        console::failure(step, code, &message);
        Event::Failed { code, message }
    }))
}

/// The measured ones first, then those that metadata names: every one of them must prove itself.
fn join_services(prepared: &Prepared) -> Vec<String> {
    let mut services = Vec::new();
    for service in prepared.config.join_services.iter().chain(&prepared.metadata.peers).map(ToString::to_string) {
        if !services.contains(&service) {
            services.push(service);
        }
    }
    services
}

fn record(record: &Record) {
    // Plain enums of strings and numbers: serialising them cannot fail.
    if let Ok(line) = serde_json::to_string(record) {
        console::line(Record::MARK.trim_end_matches(": "), &line);
    }
}
