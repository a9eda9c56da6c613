//! One machine: the real state machine, and a model of its TPM, its disk and its driver.

use std::collections::{BTreeMap, VecDeque};

use latchkey_api::OfferRefusal;

use super::world::CLUSTER;
use crate::lifecycle::*;

/// What a power cut leaves behind.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Disk {
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
pub(super) struct Machine {
    pub(super) boot: u64,
    pub(super) node: Node,
    pub(super) todo: VecDeque<Effect>,
    pub(super) pcr15: Option<Digest>,
    pub(super) disk: Disk,
    pub(super) proposed: u64,
    pub(super) offers: BTreeMap<u32, Offer>,
    pub(super) next_offer: u32,
    pub(super) flows: Vec<Source>,
    pub(super) genuine: bool,
    /// The effect that fails, as [`Effect::name`] begins.
    pub(super) broken: Option<&'static str>,
    pub(super) ended: Option<&'static str>,
    pub(super) stage2: Option<bootstrap::Bootstrap>,
    pub(super) stage2_todo: VecDeque<bootstrap::Effect>,
}

/// The driver's side of an offer: what the machine must not see.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) key_of: u64,
    pub(super) role: NodeRole,
    pub(super) epoch: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Evidence {
    pub(super) genuine: bool,
    pub(super) pcr15: Option<Digest>,
}

impl Evidence {
    pub(super) fn admits(&self) -> bool {
        self.genuine && self.pcr15.is_none()
    }
}

impl Machine {
    pub(super) fn new(genuine: bool) -> Self {
        Self {
            boot: 0,
            node: Node::new(),
            todo: VecDeque::new(),
            pcr15: None,
            disk: Disk::Blank { attempts: 0 },
            proposed: 0,
            offers: BTreeMap::new(),
            next_offer: 0,
            flows: Vec::new(),
            genuine,
            broken: None,
            ended: None,
            stage2: None,
            stage2_todo: VecDeque::new(),
        }
    }

    pub(super) fn boot(&mut self, uuid: u64) {
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

    pub(super) fn saw(&mut self, event: Event) {
        self.todo.extend(self.node.handle(event));
    }

    pub(super) fn saw2(&mut self, event: bootstrap::Event) {
        let effects = self.stage2.as_mut().expect("stage 2 runs").handle(event);
        self.stage2_todo.extend(effects);
    }

    pub(super) fn offer(&mut self, source: Source, cluster_id: Option<Digest>, epoch: Option<u64>, offer: Offer) {
        let id = self.next_offer;
        self.next_offer += 1;
        self.offers.insert(id, offer);
        self.saw(Event::Offered(Grant { id: OfferId(id), source, cluster_id, epoch }));
    }

    pub(super) fn evidence(&self) -> Evidence {
        Evidence { genuine: self.genuine, pcr15: self.pcr15 }
    }

    /// What the driver does when an effect fails. A format may fail before and after it wrote the header; here before.
    pub(super) fn fail(&mut self, effect: &Effect) {
        let (code, message) = (NodeCode::LockNotClean.into(), String::new());
        self.saw(match effect {
            Effect::Start(source) => Event::FlowFailed { source: *source, code, message },
            Effect::CheckKey(id) => Event::KeyWrong { id: *id, code: OfferRefusal::DiskTokenForged },
            _ => Event::Failed { code, message },
        });
    }

    pub(super) fn check_key(&mut self, id: OfferId) {
        let Disk::Formatted { uuid, phase, role, epoch, attempts, .. } = self.disk.clone() else { panic!("no header") };
        let event = if self.offers[&id.0].key_of == uuid {
            Event::KeyFits { id, phase, role, cluster_id: CLUSTER, epoch, attempts }
        } else {
            Event::KeyWrong { id, code: OfferRefusal::DiskWrongKey }
        };
        self.saw(event);
    }

    pub(super) fn open(&mut self, permit: &OpenPermit) {
        assert!(self.pcr15.is_some(), "a permit without a lock");
        let offer = self.offers[&permit.offer().0].clone();
        match (&self.disk, permit.format()) {
            (Disk::Blank { .. }, Some(attempts)) => {
                let phase = DiskPhase::Formatted;
                let Offer { key_of: uuid, role, epoch } = offer;
                self.disk = Disk::Formatted { uuid, phase, role, epoch, attempts, data: None };
            }
            (Disk::Formatted { uuid, .. }, None) => assert_eq!(*uuid, offer.key_of, "opened with another disk's key"),
            (disk, format) => {
                panic!("formatted a disk that was not blank, or opened a blank one: {disk:?}, {format:?}")
            }
        }
        self.saw(Event::DiskOpened);
    }

    pub(super) fn reset(&mut self, attempts: u8) {
        if let Disk::Formatted { data: Some(data), .. } = self.disk {
            panic!("data {data} of a member was lost");
        }
        self.disk = Disk::Blank { attempts };
    }
}

/// PCR 15 once it was extended with the cluster, from zero.
pub(super) fn extended(cluster: Digest) -> [u8; 32] {
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
