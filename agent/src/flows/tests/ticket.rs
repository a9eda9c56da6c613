//! The join and rejoin flows against a join service of this test.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use latchkey_api::OfferRefusal;
use latchkey_api::grpc::{Limits, Request, Server, Status};
use latchkey_api::v1::{
    ControlPlaneFile, Join, JoinRequest, JoinServer, JoinTicket, RejoinRequest, RejoinTicket, ReportRequest,
    ReportResponse, Role as ClusterRole,
};
use latchkey_attestation::LockExpectation;
use latchkey_channel::{HANDSHAKE_TIME, PinnedKeyAttester, Purpose, SpkiHash, Terms};
use latchkey_keys::ClusterId;
use latchkey_test_support::Port;
use smol::channel::{Receiver, Sender, unbounded};
use smol::net::{TcpListener, TcpStream};

use super::{DISK, Machine, PATIENCE, node};
use crate::flows::ticket::Asker;
use crate::flows::{Offer, Terms as OfferTerms};
use crate::handover::Task;
use crate::lifecycle::{NodeRole, Source, Verdict};

/// A fake join service: the real channel and gRPC, and tickets from a list; then silence.
struct FakeJoinService {
    tickets: Mutex<VecDeque<Result<JoinTicket, Status>>>,
    asked: Sender<String>,
}

impl Join<()> for FakeJoinService {
    async fn issue_join_ticket(&self, request: Request<(), JoinRequest>) -> Result<JoinTicket, Status> {
        let JoinRequest { disk_uuid, node_name, role, .. } = request.message;
        self.asked.send(format!("{disk_uuid} {node_name} {role}")).await.unwrap();
        let next = self.tickets.lock().unwrap().pop_front();
        match next {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    async fn issue_rejoin_ticket(&self, request: Request<(), RejoinRequest>) -> Result<RejoinTicket, Status> {
        self.asked.send(request.message.disk_uuid).await.unwrap();
        Ok(RejoinTicket { state_disk_key: vec![1; 32], measurement_secret: vec![2; 32], epoch: 4, components: None })
    }

    async fn report(&self, request: Request<(), ReportRequest>) -> Result<ReportResponse, Status> {
        let ReportRequest { disk_uuid, succeeded, code, .. } = request.message;
        self.asked.send(format!("{disk_uuid} {succeeded} {code}")).await.unwrap();
        let refusal = self.tickets.lock().unwrap().pop_front().and_then(Result::err);
        refusal.map_or(Ok(ReportResponse {}), Err)
    }
}

pub(crate) struct Service {
    pub(crate) address: String,
    pub(crate) asked: Receiver<String>,
    /// How each connection ended.
    ended: Receiver<String>,
    _task: smol::Task<()>,
}

/// Serves on `listener` with `key`.
pub(crate) fn serve(
    machine: &Machine,
    listener: TcpListener,
    key: &Arc<PinnedKeyAttester>,
    tickets: impl IntoIterator<Item = Result<JoinTicket, Status>>,
) -> Service {
    let (tell_asked, asked) = unbounded();
    let (tell_ended, ended) = unbounded();
    let address = listener.local_addr().unwrap().to_string();
    let service = FakeJoinService { tickets: Mutex::new(tickets.into_iter().collect()), asked: tell_asked };
    let server = Server::new(Limits::default()).service(JoinServer::new(service));
    let terms = |lock| Terms { attester: key.clone(), verifier: machine.demand(lock) };
    let (open, locked) = (terms(LockExpectation::Unlocked), terms(LockExpectation::Locked));
    let task = smol::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (server, ended) = (server.clone(), tell_ended.clone());
            let (open, locked) = (open.clone(), locked.clone());
            smol::spawn(async move {
                let reception = move |role| match role {
                    Purpose::Join | Purpose::Rejoin => Some(open.clone()),
                    Purpose::Report => Some(locked.clone()),
                    _ => None,
                };
                let end = match latchkey_channel::accept(stream, &reception, PATIENCE).await {
                    Ok(proven) => format!("{:?}", server.serve(proven, ()).await),
                    Err(error) => error.code().to_string(),
                };
                let _ = ended.send(end).await;
            })
            .detach();
        }
    });
    Service { address, asked, ended, _task: task }
}

pub(crate) async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

pub(crate) fn key() -> Arc<PinnedKeyAttester> {
    Arc::new(PinnedKeyAttester::generate().unwrap())
}

fn asker(machine: &Machine, pin: SpkiHash, services: &[&str]) -> (Asker, Receiver<Box<Offer>>) {
    let (node, offers) = node();
    let services = services.iter().map(ToString::to_string).collect();
    (Asker { node, services, pin, attester: machine.attester(), role: ClusterRole::Worker }, offers)
}

fn ticket() -> JoinTicket {
    JoinTicket {
        state_disk_key: vec![1; 32],
        measurement_secret: vec![2; 32],
        measurement_salt: vec![3; 32],
        node_name: "worker-7".into(),
        role: ClusterRole::Worker.into(),
        epoch: 3,
        cluster: None,
    }
}

fn membership(offer: &Offer) -> &crate::flows::Membership {
    match &offer.terms {
        OfferTerms::Member(membership) => membership,
        OfferTerms::Known { .. } => panic!("not a join ticket"),
    }
}

fn refused(code: OfferRefusal) -> Verdict {
    Verdict::Refused { code, message: "the test says so".into() }
}

#[test]
fn what_the_service_decides_counts_and_an_accepted_ticket_ends_the_asking() {
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let key = key();
        let service = serve(&machine, listen().await, &key, [Ok(ticket())]);
        let (asker, offers) = asker(&machine, key.hash(), &[&service.address]);
        let asking = smol::spawn(asker.join());
        let offer = offers.recv().await.unwrap();
        assert_eq!(service.asked.recv().await.unwrap(), format!("{DISK} node-1 {}", ClusterRole::Worker as i32));
        assert_eq!((offer.source, offer.disk_key.expose()), (Source::Join, &[1; 32]));
        let membership = membership(&offer);
        assert_eq!(
            (membership.node_name.as_str(), membership.role, membership.epoch),
            ("worker-7", NodeRole::Worker, 3)
        );
        assert_eq!(membership.cluster_id, ClusterId::derive(&offer.measurement_secret, &[3; 32]).unwrap());
        assert!(matches!(membership.task, Task::Join { .. }));
        let cluster_id = crate::lifecycle::Digest(*membership.cluster_id.as_bytes());
        offer.answer.try_send(Verdict::Accepted { cluster_id }).unwrap();
        asking.await;
    });
}

#[test]
fn a_rejoin_brings_the_key_and_the_epoch_on_record() {
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let key = key();
        let service = serve(&machine, listen().await, &key, []);
        let (asker, offers) = asker(&machine, key.hash(), &[&service.address]);
        let asking = smol::spawn(asker.rejoin());
        let offer = offers.recv().await.unwrap();
        assert_eq!(service.asked.recv().await.unwrap(), DISK);
        assert_eq!(offer.source, Source::Rejoin);
        assert!(matches!(offer.terms, OfferTerms::Known { epoch: Some(4), components: None }));
        offer.answer.try_send(refused(OfferRefusal::AlreadyActivating)).unwrap();
        asking.await;
    });
}

#[test]
fn a_service_with_another_key_is_never_asked_and_its_ticket_never_offered() {
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let impostor = serve(&machine, listen().await, &key(), [Ok(ticket())]);
        let (asker, offers) = asker(&machine, key().hash(), &[&impostor.address]);
        let asking = smol::spawn(asker.join());
        // Twice, so that the first is over in every respect.
        for _ in 0..2 {
            let ended = impostor.ended.recv().await.unwrap();
            assert!(!ended.starts_with("Ok"), "{ended}");
        }
        assert!(impostor.asked.is_empty() && offers.is_empty());
        asking.cancel().await;
    });
}

#[test]
fn a_malformed_ticket_is_not_offered_and_the_next_one_is() {
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let key = key();
        let mut short = ticket();
        short.state_disk_key.pop();
        let tickets = [Ok(short), Err(Status::permission_denied("not yet")), Ok(ticket())];
        let service = serve(&machine, listen().await, &key, tickets);
        let (asker, offers) = asker(&machine, key.hash(), &[&service.address]);
        let _asking = smol::spawn(asker.join());
        let offer = offers.recv().await.unwrap();
        assert_eq!(offer.disk_key.expose(), &[1; 32]);
        assert_eq!(service.asked.len(), 3);
    });
}

#[test]
fn services_that_hang_lie_or_are_down_cost_the_good_one_nothing() {
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let key = key();
        // In the kernel's queue for ever.
        let silent = listen().await;
        let nobody = Port::reserve();
        let gone = nobody.address().to_string();
        let impostor = serve(&machine, listen().await, &self::key(), [Ok(ticket())]);
        // Proven, and then silent in the call.
        let good = serve(&machine, listen().await, &key, [Ok(ticket())]);
        let silent_address = silent.local_addr().unwrap().to_string();
        let services = [silent_address.as_str(), &gone, &impostor.address, &good.address];
        let (asker, offers) = asker(&machine, key.hash(), &services);
        let _asking = smol::spawn(asker.join());
        let late = async {
            smol::Timer::after(HANDSHAKE_TIME * 2 / 3).await;
            panic!("the hanging service holds the join up");
        };
        let offer = smol::future::or(async { offers.recv().await.unwrap() }, late).await;
        assert_eq!(membership(&offer).node_name, "worker-7");
        assert!(impostor.asked.is_empty());
    });
}

#[test]
fn a_service_that_comes_late_is_found() {
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let key = key();
        let port = Port::reserve();
        let address = port.address();
        let (asker, offers) = asker(&machine, key.hash(), &[&address.to_string()]);
        let _asking = smol::spawn(asker.join());
        // It was refused at least once before the service is there: a refusal on loopback takes no time.
        assert!(TcpStream::connect(address).await.is_err());
        let _service = serve(&machine, TcpListener::bind(address).await.unwrap(), &key, [Ok(ticket())]);
        assert_eq!(offers.recv().await.unwrap().source, Source::Join);
    });
}

#[test]
fn a_stopped_flow_hangs_up_at_once_and_leaves_no_task() {
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let key = key();
        let service = serve(&machine, listen().await, &key, []);
        let (asker, offers) = asker(&machine, key.hash(), &[&service.address]);
        let asking = smol::spawn(asker.join());
        // It is in the middle of a call that never ends.
        service.asked.recv().await.unwrap();
        drop(asking);
        service.ended.recv().await.unwrap();
        // The asker held the only way to offer.
        assert!(offers.recv().await.is_err());
    });
}

#[test]
fn a_ticket_that_is_refused_is_asked_for_again() {
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let key = key();
        let service = serve(&machine, listen().await, &key, [Ok(ticket()), Ok(ticket())]);
        let (asker, offers) = asker(&machine, key.hash(), &[&service.address]);
        let _asking = smol::spawn(asker.join());
        offers.recv().await.unwrap().answer.try_send(refused(OfferRefusal::WrongCluster)).unwrap();
        assert_eq!(offers.recv().await.unwrap().source, Source::Join);
    });
}

#[test]
fn every_field_of_a_ticket_is_checked() {
    type Spoil = fn(&mut JoinTicket);
    let spoils: [(&str, Spoil); 11] = [
        ("state_disk_key", |ticket| ticket.state_disk_key.push(0)),
        ("measurement_secret", |ticket| ticket.measurement_secret.clear()),
        ("measurement_salt", |ticket| ticket.measurement_salt = vec![3; 31]),
        ("name", |ticket| ticket.node_name = "Worker_7".into()),
        ("name", |ticket| ticket.node_name.clear()),
        ("role", |ticket| ticket.role = 0),
        ("role", |ticket| ticket.role = 99),
        ("epoch", |ticket| ticket.epoch = 0),
        ("cluster material", |ticket| ticket.cluster.get_or_insert_default().payload = vec![0; 513 << 10]),
        ("control plane", |ticket| {
            let file = ControlPlaneFile { name: "ca.key".into(), data: vec![1] };
            ticket.cluster.get_or_insert_default().control_plane_files.push(file);
        }),
        ("control plane", |ticket| {
            let file = ControlPlaneFile { name: "master.json".into(), data: vec![1] };
            ticket.cluster.get_or_insert_default().service_files.push(file);
        }),
    ];
    for (named, spoil) in spoils {
        let mut ticket = ticket();
        spoil(&mut ticket);
        let why = crate::flows::ticket::member(ticket).err().expect("refused");
        assert!(why.to_string().starts_with("ticket-malformed") && why.to_string().contains(named), "{why}");
    }
    assert!(crate::flows::ticket::member(ticket()).is_ok());
}
