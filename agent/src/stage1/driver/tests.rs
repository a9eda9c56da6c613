//! The driver over a machine whose parts fail: what an offer that was taken ends in.

use latchkey_disk::{NodeState, Phase, Role, TokenKey};
use latchkey_keys::{ClusterId, Secret, Uuid};
use latchkey_test_support::Port;
use latchkey_tpm::wire::extended;

use super::*;
use crate::flows::Membership;
use crate::flows::tests::disk as uuid;
use crate::lifecycle::{Digest, DiskPhase, NodeRole, Verdict};
use crate::platform::metadata::InstanceMetadata;
use latchkey_node_config::Config;

/// The steps of a machine after an offer was taken, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Lock,
    Open,
    HandOver,
}

/// A fake machine: its disk is said to be so or so, and one of its steps fails.
struct FakeMachine {
    disk: Event,
    phase: DiskPhase,
    fails: Option<Step>,
    did: Vec<Step>,
}

impl FakeMachine {
    fn step(&mut self, step: Step) -> Result<(), BootError> {
        self.did.push(step);
        if self.fails == Some(step) {
            Err(BootError::new("test", BootCode::TpmBroken, "the test says so"))
        } else {
            Ok(())
        }
    }
}

fn cluster_id() -> ClusterId {
    ClusterId::derive(&Secret::from_slice(&[2; 32]).unwrap(), &[3; 32]).unwrap()
}

impl Machine for &mut FakeMachine {
    fn disk_uuid(&self) -> Uuid {
        uuid()
    }

    fn disk_event(&self) -> Event {
        self.disk.clone()
    }

    fn check_key(&mut self, id: OfferId, _: &Offer) -> Event {
        let cluster_id = Digest(*cluster_id().as_bytes());
        Event::KeyFits { id, phase: self.phase, role: NodeRole::Worker, cluster_id, epoch: 1, attempts: 0 }
    }

    async fn lock(&mut self, order: LockOrder) -> Result<Digest, BootError> {
        self.step(Step::Lock)?;
        Ok(Digest(extended(&[0; 32], order.event())))
    }

    fn open(&mut self, permit: OpenPermit, _: &Offer, _: Option<&Membership>) -> Result<OpenDisk, BootError> {
        self.step(Step::Open)?;
        permit.redeem();
        Ok(OpenDisk {
            device: "/dev/vda".into(),
            mapping: "/dev/mapper/state".into(),
            token_key: TokenKey::from_secret(Secret::from_slice(&[4; 32]).unwrap()),
            uuid: uuid(),
            state: NodeState {
                role: Role::Worker,
                node_name: "node-1".parse().unwrap(),
                cluster_id: cluster_id(),
                measurement_salt: [3; 32],
                phase: Phase::Formatted,
                epoch: 1,
                attempt: 0,
            },
        })
    }

    fn hand_over(&mut self, _: &HandOver) -> Result<(), BootError> {
        self.step(Step::HandOver)
    }

    fn reset(&mut self, _: &str, _: u8) -> Result<(), BootError> {
        panic!("no test of this file resets a disk");
    }
}

fn prepared(port: u16, more: &str) -> Prepared {
    let line = format!("latchkey.network=none latchkey.cluster_step=kubeadm latchkey.listen_port={port} {more}");
    Prepared {
        config: Config::parse(line.as_bytes()).unwrap(),
        attester: Arc::new(NoProof),
        network: None,
        metadata: InstanceMetadata { node_name: None, role: None, init_secret_hash: None, peers: Vec::new() },
        node_name: "node-1".into(),
    }
}

fn terms(source: Source) -> Terms {
    match source {
        Source::Init | Source::Join => Terms::Member(Box::new(Membership {
            cluster_id: cluster_id(),
            measurement_salt: [3; 32],
            cluster_name: "plant".into(),
            node_name: "node-1".into(),
            role: NodeRole::Worker,
            epoch: 1,
            task: Task::start(None),
        })),
        Source::Rejoin | Source::Recovery => Terms::Known { epoch: None, components: None },
    }
}

/// Runs a boot in which `source` offers a key; how it ended, and what the offer was answered.
fn boot(machine: &mut FakeMachine, prepared: Prepared, source: Source) -> (Ended, Verdict) {
    let (sender, offers) = bounded(16);
    let driver = Driver::new(prepared, machine, sender);
    let node = driver.node.clone();
    let secret = |byte: u8| Secret::from_slice(&[byte; 32]).unwrap();
    latchkey_test_support::block_on(async move {
        let verdict = node.offer(source, secret(1), secret(2), terms(source));
        let ended = driver.run(&offers).await;
        (ended, verdict.try_recv().expect("the offer was answered"))
    })
}

fn existing(fails: Option<Step>) -> FakeMachine {
    FakeMachine { disk: Event::DiskExisting, phase: DiskPhase::Bootstrapped, fails, did: Vec::new() }
}

fn fresh(fails: Option<Step>) -> FakeMachine {
    FakeMachine { disk: Event::DiskFresh { attempts: 0 }, ..existing(fails) }
}

type Make = fn(Option<Step>) -> FakeMachine;

const SOURCES: [(Make, Source); 4] =
    [(fresh, Source::Init), (fresh, Source::Join), (existing, Source::Rejoin), (existing, Source::Recovery)];

#[test]
fn whatever_fails_after_an_offer_was_taken_ends_the_boot_tells_the_asker_and_does_nothing_more() {
    let steps = [Step::Lock, Step::Open, Step::HandOver];
    for (make, source) in SOURCES {
        for fails in steps {
            let mut machine = make(Some(fails));
            let (ended, verdict) = boot(&mut machine, prepared(Port::reserve().number(), ""), source);
            let Ended::Stopped(Stop::Refused { code, .. }) = ended else { panic!("{source} {fails:?}: {ended:?}") };
            assert_eq!(code, BootCode::TpmBroken);
            assert!(matches!(&verdict, Verdict::Failed { code, .. } if *code == BootCode::TpmBroken), "{verdict:?}");
            let begun: Vec<_> = steps.into_iter().filter(|step| *step <= fails).collect();
            assert_eq!(machine.did, begun, "{source}");
        }
    }
}

#[test]
fn without_a_failure_the_same_machine_leaves_for_the_os() {
    for (make, source) in SOURCES {
        let mut machine = make(None);
        let (ended, verdict) = boot(&mut machine, prepared(Port::reserve().number(), ""), source);
        assert!(matches!(ended, Ended::Leaves), "{ended:?}");
        assert!(matches!(verdict, Verdict::Accepted { .. }), "{verdict:?}");
    }
}

/// The port is taken by somebody else for as long as the test runs.
#[test]
fn a_port_that_cannot_be_opened_does_not_end_a_join_or_a_rejoin() {
    let taken = std::net::TcpListener::bind("[::]:0").or_else(|_| std::net::TcpListener::bind("0.0.0.0:0")).unwrap();
    let port = taken.local_addr().unwrap().port();
    // A service that takes connections and says nothing: the offer comes from the test.
    let service = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let key = "00".repeat(32);
    let service =
        format!("latchkey.join_service={} latchkey.join_service_key=sha256:{key}", service.local_addr().unwrap());
    for (make, source) in [(fresh as Make, Source::Join), (existing, Source::Rejoin)] {
        let mut machine = make(None);
        let (ended, verdict) = boot(&mut machine, prepared(port, &service), source);
        assert!(matches!(ended, Ended::Leaves), "{source}: {ended:?}");
        assert!(matches!(verdict, Verdict::Accepted { .. }), "{source}: {verdict:?}");
    }
}

#[test]
fn without_a_port_and_without_a_join_service_the_boot_ends_and_says_why() {
    let taken = std::net::TcpListener::bind("[::]:0").or_else(|_| std::net::TcpListener::bind("0.0.0.0:0")).unwrap();
    let port = taken.local_addr().unwrap().port();
    for make in [fresh, existing] {
        let mut machine = make(None);
        let (sender, offers) = bounded(16);
        let driver = Driver::new(prepared(port, ""), &mut machine, sender);
        let ended = latchkey_test_support::block_on(driver.run(&offers));
        assert!(
            matches!(&ended, Ended::Stopped(Stop::Refused { code, .. }) if *code == BootCode::ListenFailed),
            "{ended:?}"
        );
    }
}
