//! Stage 1 as one machine: events in, effects out.

use latchkey_api::OfferRefusal;
use latchkey_reason::Reason;

use super::MAX_ATTEMPTS;
use super::code::NodeCode;
use super::event::{Digest, DiskPhase, Effect, Event, Grant, NodeRole, OfferId, Source, Stop, Verdict};
use super::states::{AuthenticToken, Disk, Keyed, Left, Locked, Measured, Opened, Waiting};

/// How many offers wait while one key is tried. More are told to come again.
const QUEUE: usize = 4;

/// A node in stage 1.
#[derive(Debug)]
pub struct Node(State);

#[derive(Debug)]
enum State {
    Measured(Measured),
    Waiting(Waiting),
    Keyed(Keyed),
    Locked(Locked),
    Opened(Opened),
    Left(Left),
    Ended,
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

impl Node {
    /// A node whose measured configuration was accepted.
    pub fn new() -> Self {
        Self(State::Measured(Measured::default()))
    }

    /// True once nothing more can happen in this boot.
    pub fn ended(&self) -> bool {
        matches!(self.0, State::Left(_) | State::Ended)
    }

    /// Takes what a driver saw and says what it must do. Events that mean nothing in the present state change nothing: an
    /// offer is answered, anything else is dropped.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        let state = std::mem::replace(&mut self.0, State::Ended);
        let (next, effects) = step(state, event);
        self.0 = next;
        effects
    }
}

fn step(state: State, event: Event) -> (State, Vec<Effect>) {
    match (state, event) {
        (state @ (State::Left(_) | State::Ended), Event::Offered(grant)) => (state, vec![too_late(grant.id)]),
        (state @ (State::Left(_) | State::Ended), _) => (state, vec![]),
        (state, Event::Failed { code, message }) => failed(&state, code, message),

        (State::Measured(measured), Event::DiskFresh { attempts }) => fresh(measured, attempts),
        (State::Measured(measured), Event::DiskExisting) => {
            (State::Waiting(measured.existing()), vec![Effect::Start(Source::Rejoin), Effect::Start(Source::Recovery)])
        }

        // The key of such a disk is known to the operator only, and nothing on it is of value yet.
        (State::Measured(_), Event::DiskAbandoned { attempts }) => {
            let attempts = attempts.saturating_add(1);
            (State::Ended, vec![Effect::End(Stop::Reset { code: OfferRefusal::BootstrapUnfinished, attempts })])
        }

        (State::Waiting(waiting), Event::Offered(grant)) => offered(waiting, grant),
        (State::Waiting(waiting), Event::KeyFits { id, phase, role, cluster_id, epoch, attempts }) => {
            fits(waiting, id, AuthenticToken { phase, role, cluster_id, epoch, attempts })
        }
        (State::Waiting(waiting), Event::KeyWrong { id, code }) => wrong(waiting, id, code),
        (State::Waiting(mut waiting), Event::FlowFailed { source, code, message }) => {
            waiting.broken.get_or_insert((code, message));
            without(waiting, source)
        }
        (State::Waiting(waiting), Event::FlowIdle { source }) => without(waiting, source),

        (State::Keyed(keyed), Event::Extended { pcr15 }) => extended(keyed, pcr15),
        (State::Locked(locked), Event::DiskOpened) => {
            let opened = locked.opened();
            let grant = opened.keyed().grant();
            (State::Opened(opened), vec![Effect::HandOver(grant)])
        }
        (State::Opened(opened), Event::HandedOver) => {
            let (left, id, cluster_id) = opened.left();
            (State::Left(left), vec![Effect::Answer(id, Verdict::Accepted { cluster_id }), Effect::Leave])
        }

        (state, Event::Offered(grant)) => (state, vec![too_late(grant.id)]),
        (state, _) => (state, vec![]),
    }
}

fn fresh(measured: Measured, attempts: u8) -> (State, Vec<Effect>) {
    if attempts >= MAX_ATTEMPTS {
        let message = format!("{attempts} bootstraps of this disk failed");
        return failed(&State::Measured(measured), NodeCode::AttemptsExhausted.into(), message);
    }
    (State::Waiting(measured.fresh(attempts)), vec![Effect::Start(Source::Init), Effect::Start(Source::Join)])
}

/// An offer while the node waits. On a fresh disk the first one wins; on an existing one it must first prove itself.
fn offered(mut waiting: Waiting, grant: Grant) -> (State, Vec<Effect>) {
    match (waiting.disk, grant.source, grant.cluster_id) {
        (Disk::Fresh { attempts }, Source::Init | Source::Join, Some(cluster_id)) => {
            keyed(waiting.granted_fresh(&grant, cluster_id, attempts), other(grant.source))
        }
        (Disk::Unfinished { cluster_id }, Source::Join, Some(offered)) if offered == cluster_id => {
            keyed(waiting.granted_unfinished(&grant, cluster_id), Source::Recovery)
        }
        (Disk::Unfinished { .. }, Source::Join, _) => refuse_offer(
            waiting,
            grant.id,
            OfferRefusal::WrongCluster,
            "the ticket is for another cluster than the one this disk belongs to",
        ),
        (Disk::Existing, Source::Rejoin | Source::Recovery, _) => {
            if waiting.checking.is_none() {
                let check = Effect::CheckKey(grant.id);
                waiting.checking = Some(grant);
                (State::Waiting(waiting), vec![check])
            } else if waiting.queue.len() < QUEUE {
                waiting.queue.push(grant);
                (State::Waiting(waiting), vec![])
            } else {
                refuse_offer(waiting, grant.id, OfferRefusal::Busy, "other keys are being tried")
            }
        }
        _ => {
            refuse_offer(waiting, grant.id, OfferRefusal::WrongFlow, "this node's disk does not wait for such an offer")
        }
    }
}

/// A flow brings nothing. The boot ends only when no other flow can: a port that does not open must not cost a node that
/// rejoins by itself its cluster.
fn without(mut waiting: Waiting, source: Source) -> (State, Vec<Effect>) {
    waiting.flows.retain(|flow| *flow != source);
    if !waiting.flows.is_empty() {
        return (State::Waiting(waiting), vec![]);
    }
    let (code, message) = waiting.broken.take().unwrap_or_else(|| {
        let message = "this node's disk waits for a join ticket, and the measured command line names no join service";
        (NodeCode::NoJoinService.into(), message.into())
    });
    failed(&State::Waiting(waiting), code, message)
}

/// The key opens the disk and its token is authentic: what the token says decides.
fn fits(waiting: Waiting, id: OfferId, token: AuthenticToken) -> (State, Vec<Effect>) {
    let Some(grant) = waiting.checking.clone().filter(|grant| grant.id == id) else {
        return (State::Waiting(waiting), vec![]);
    };
    if grant.cluster_id.is_some_and(|id| id != token.cluster_id) {
        let message = "the secret that came with the key gives another cluster id";
        return next_offer(waiting, id, OfferRefusal::WrongCluster, message);
    }
    if let Some(recorded) = grant.epoch.filter(|recorded| *recorded > token.epoch) {
        let found = token.epoch;
        let message = format!("the join service has epoch {recorded} on record and the disk says {found}");
        return failed(&State::Waiting(waiting), NodeCode::OldCopy.into(), message);
    }
    match (token.phase, token.role) {
        (DiskPhase::Bootstrapped, _) => {
            let late = waiting.queue.iter().map(|grant| too_late(grant.id)).collect::<Vec<_>>();
            let (state, mut effects) = keyed(waiting.granted_existing(&grant, token), other(grant.source));
            effects.extend(late);
            (state, effects)
        }
        (DiskPhase::Formatted, NodeRole::First) => {
            let message =
                "the cluster's first bootstrap never finished; the disk is wiped and waits for `latchkey init`";
            let verdict = Verdict::Refused { code: OfferRefusal::BootstrapUnfinished, message: message.into() };
            let mut effects = answers(&waiting, &verdict);
            let attempts = token.attempts.saturating_add(1);
            effects.push(Effect::End(Stop::Reset { code: OfferRefusal::BootstrapUnfinished, attempts }));
            (State::Ended, effects)
        }
        (DiskPhase::Formatted, NodeRole::ControlPlane | NodeRole::Worker) => {
            let cluster_id = token.cluster_id;
            let mut effects = vec![Effect::Answer(id, Verdict::Accepted { cluster_id })];
            effects.extend(waiting.queue.iter().map(|grant| too_late(grant.id)));
            effects.extend([Effect::Stop(Source::Rejoin), Effect::ResumeJoin]);
            (State::Waiting(Waiting::unfinished(cluster_id)), effects)
        }
    }
}

fn wrong(waiting: Waiting, id: OfferId, code: OfferRefusal) -> (State, Vec<Effect>) {
    if waiting.checking.as_ref().is_none_or(|grant| grant.id != id) {
        return (State::Waiting(waiting), vec![]);
    }
    next_offer(waiting, id, code, "the key does not open this disk")
}

/// Refuses the offer that was being checked and takes the next in the queue.
fn next_offer(mut waiting: Waiting, id: OfferId, code: OfferRefusal, message: &str) -> (State, Vec<Effect>) {
    let mut effects = vec![Effect::Answer(id, Verdict::Refused { code, message: message.into() })];
    waiting.checking = (!waiting.queue.is_empty()).then(|| waiting.queue.remove(0));
    effects.extend(waiting.checking.iter().map(|grant| Effect::CheckKey(grant.id)));
    (State::Waiting(waiting), effects)
}

fn keyed(keyed: Keyed, loser: Source) -> (State, Vec<Effect>) {
    let effects = vec![Effect::Stop(loser), Effect::Lock(keyed.order())];
    (State::Keyed(keyed), effects)
}

fn extended(keyed: Keyed, pcr15: Digest) -> (State, Vec<Effect>) {
    match keyed.locked(pcr15) {
        Ok(locked) => {
            let permit = locked.permit();
            (State::Locked(locked), vec![Effect::OpenDisk(permit)])
        }
        Err(keyed) => failed(
            &State::Keyed(keyed),
            NodeCode::LockNotClean.into(),
            "PCR 15 does not read as it must after the lock: something extended it before".into(),
        ),
    }
}

/// Any failure ends the boot. Whoever waits for an answer gets the reason.
fn failed(state: &State, code: Reason, message: String) -> (State, Vec<Effect>) {
    let verdict = Verdict::Failed { code, message: message.clone() };
    let refused = |id| Effect::Answer(id, verdict.clone());
    let mut effects = match state {
        State::Waiting(waiting) => answers(waiting, &verdict),
        State::Keyed(keyed) => vec![refused(keyed.grant())],
        State::Locked(locked) => vec![refused(locked.keyed().grant())],
        State::Opened(opened) => vec![refused(opened.keyed().grant())],
        State::Measured(_) | State::Left(_) | State::Ended => vec![],
    };
    effects.push(Effect::End(Stop::Refused { code, message }));
    (State::Ended, effects)
}

/// One verdict for everybody who waits for one.
fn answers(waiting: &Waiting, verdict: &Verdict) -> Vec<Effect> {
    waiting.checking.iter().chain(&waiting.queue).map(|grant| Effect::Answer(grant.id, verdict.clone())).collect()
}

fn refuse_offer(waiting: Waiting, id: OfferId, code: OfferRefusal, message: &str) -> (State, Vec<Effect>) {
    let verdict = Verdict::Refused { code, message: message.into() };
    (State::Waiting(waiting), vec![Effect::Answer(id, verdict)])
}

fn too_late(id: OfferId) -> Effect {
    Effect::Answer(
        id,
        Verdict::Refused {
            code: OfferRefusal::AlreadyActivating,
            message: "the node already took another offer in this boot".into(),
        },
    )
}

fn other(source: Source) -> Source {
    match source {
        Source::Init => Source::Join,
        Source::Join => Source::Init,
        Source::Rejoin => Source::Recovery,
        Source::Recovery => Source::Rejoin,
    }
}
