//! A fake node: the agent's services, as their contract says, over the real channel. It has no disk; its TPM is whatever
//! attester it is given.

mod services;
mod tpm;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use latchkey_api::grpc::{Limits, Server};
use latchkey_api::v1::{InitServer, RecoveryServer};
use latchkey_attestation::EkDigest;
use latchkey_attestation::fake_amd::FakeAmd;
use latchkey_attestation::fake_intel::FakeIntel;
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_channel::{HANDSHAKE_TIME, NoProof, Purpose, Terms, accept};
use latchkey_keys::{ClusterId, Secret, Uuid};
use services::{Services, Visit};
use smol::channel::{Receiver, Sender, unbounded};
use smol::future::FutureExt as _;
use smol::io::{AsyncRead, AsyncWrite};
use smol::net::TcpListener;
pub use tpm::Tpm;

/// The registers of the good image.
pub const IMAGE: [(u8, [u8; 32]); 6] =
    [(4, [4; 32]), (7, [7; 32]), (9, [9; 32]), (11, [11; 32]), (12, [12; 32]), (13, [13; 32])];
pub const ADMIN_CONFIG: &[u8] = b"apiVersion: v1\nkind: Config\n";
/// Where the node's kubelet serves, as it says it: each address counts once.
pub const ADDRESSES: [&str; 3] = ["192.0.2.7", "fd00::7", "192.0.2.7"];

/// A node on a port of this machine, gone when dropped.
pub struct FakeNode {
    pub address: SocketAddr,
    inner: Arc<Inner>,
    _server: smol::Task<()>,
}

/// What the node is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Fresh,
    Existing,
    Bootstrapping,
}

/// What shall go wrong.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "a list of things that can go wrong")]
pub struct Behaviour {
    /// The connection breaks during `Init`, after the keys have arrived.
    pub cut_init: bool,
    /// The connection breaks during `Attach`, before the end.
    pub cut_attach: bool,
    /// The keys arrive, and the machine restarts before it did anything about them.
    pub restart_during_init: bool,
    /// `Init` waits until another one was refused.
    pub hold_init: bool,
    /// `Attach` tells nothing more.
    pub hold_attach: bool,
    pub fail_init: Option<(&'static str, &'static str)>,
    pub fail_bootstrap: Option<(&'static str, &'static str)>,
    /// The cluster's credentials, if others than [`ADMIN_CONFIG`].
    pub admin_config: Option<Vec<u8>>,
    /// Connections that break at once: the node is between its stages.
    pub away: usize,
    /// The first bootstrap on the existing disk never finished.
    pub bootstrap_unfinished: bool,
    /// It says that it locked itself on another cluster than the one it was given.
    pub another_cluster: bool,
    /// Wrong secrets that are tolerated.
    pub tries: Option<usize>,
    /// Done before the end of the bootstrap is told.
    pub before_the_end: Option<Box<dyn FnOnce() + Send>>,
}

pub struct Inner {
    tpm: Tpm,
    pub state: Mutex<State>,
    refused: (Sender<()>, Receiver<()>),
    happened: (Sender<Happened>, Receiver<Happened>),
}

/// What tests wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The keys of an `Init` were taken.
    KeysTaken,
    /// Somebody follows the bootstrap.
    Attached,
}

pub struct State {
    pub stage: Stage,
    pub disk: Uuid,
    pub init_secret: Vec<u8>,
    pub behaviour: Behaviour,
    pub cluster: Option<ClusterId>,
    /// Disk key, measurement secret and salt that the disk was made with.
    pub keys: Option<(Secret<32>, Secret<32>, [u8; 32])>,
    pub inits: usize,
    /// How often an init secret was shown.
    pub secrets: usize,
    /// How often keys for an existing disk were offered.
    pub recoveries: usize,
    /// What the last of them named of Kubernetes.
    pub components: Option<latchkey_api::v1::Components>,
    pub settings: Option<latchkey_api::v1::ClusterSettings>,
    pub invitation: Vec<u8>,
    /// Whether a connection of somebody who follows the bootstrap ended in order: then a node takes it that all was heard.
    pub heard: bool,
    pub control_plane_files: Option<latchkey_api::v1::ControlPlaneFiles>,
}

impl FakeNode {
    /// A fresh node that booted the good image on a fake TPM.
    pub fn start(init_secret: &[u8]) -> Self {
        Self::with_tpm(Tpm::Fake(booted()), init_secret)
    }

    /// The same in a guest that this AMD vouches for.
    pub fn guest(amd: &Arc<FakeAmd>, init_secret: &[u8]) -> Self {
        Self::with_tpm(Tpm::Guest(booted(), Arc::clone(amd)), init_secret)
    }

    /// The same in a guest that this Intel vouches for.
    pub fn tdx_guest(intel: &Arc<FakeIntel>, init_secret: &[u8]) -> Self {
        Self::with_tpm(Tpm::TdxGuest(booted(), Arc::clone(intel)), init_secret)
    }

    pub fn with_tpm(tpm: Tpm, init_secret: &[u8]) -> Self {
        let state = State {
            stage: Stage::Fresh,
            disk: Uuid::random().unwrap(),
            init_secret: init_secret.to_vec(),
            behaviour: Behaviour::default(),
            cluster: None,
            keys: None,
            inits: 0,
            secrets: 0,
            recoveries: 0,
            components: None,
            heard: false,
            settings: None,
            invitation: Vec::new(),
            control_plane_files: None,
        };
        let inner = Arc::new(Inner { tpm, state: Mutex::new(state), refused: unbounded(), happened: unbounded() });
        let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let server = smol::spawn(serve(listener, Arc::clone(&inner)));
        Self { address, inner, _server: server }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap()
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// How often it was shown an init secret, and keys of a fresh disk.
    pub fn shown(&self) -> (usize, usize) {
        let state = self.state();
        (state.secrets, state.inits)
    }

    /// Waits until it has happened.
    pub fn wait_for(&self, what: Happened) {
        let happened = async { while self.inner.happened.1.recv().await.unwrap() != what {} };
        smol::block_on(latchkey_test_support::within(format_args!("{what:?} of the fake node"), happened));
    }

    pub fn behave(&self, behaviour: Behaviour) {
        self.state().behaviour = behaviour;
    }

    pub fn ek(&self) -> EkDigest {
        self.inner.tpm.ek()
    }

    /// The machine restarts: its lock is gone, and it waits for what its disk needs.
    pub fn restart(&self, stage: Stage) {
        self.state().stage = stage;
        self.inner.tpm.set_lock([0; 32]);
        self.inner.tpm.fake(FakeTpm::count_reset);
    }

    /// Something is done to its TPM, which is a fake.
    pub fn tpm(&self, change: impl FnOnce(&mut FakeTpm)) {
        self.inner.tpm.fake(change);
    }

    /// The disk of that node is in this machine now, or a copy of it.
    pub fn take_disk_of(&self, other: &Self) {
        let copy = {
            let other = other.state();
            let (key, secret, salt) = other.keys.as_ref().unwrap();
            let keys = (Secret::from_slice(key.expose()).unwrap(), Secret::from_slice(secret.expose()).unwrap(), *salt);
            (other.disk, keys)
        };
        let mut state = self.state();
        (state.disk, state.keys, state.stage) = (copy.0, Some(copy.1), Stage::Existing);
    }

    /// It is a member of a cluster.
    pub fn join(&self, cluster: ClusterId) {
        self.inner.lock(cluster);
        self.state().cluster = Some(cluster);
    }

    /// Boots something else.
    pub fn set_pcr(&self, index: u8, value: [u8; 32]) {
        let (Tpm::Fake(tpm) | Tpm::Guest(tpm, _) | Tpm::TdxGuest(tpm, _)) = &self.inner.tpm else {
            panic!("only of a fake")
        };
        tpm.lock().unwrap().set_pcr(index, value);
    }
}

/// A TPM of a machine that booted the good image.
fn booted() -> Arc<Mutex<FakeTpm>> {
    let mut tpm = FakeTpm::generate();
    for (index, value) in IMAGE {
        tpm.set_pcr(index, value);
    }
    Arc::new(Mutex::new(tpm))
}

async fn serve(listener: TcpListener, inner: Arc<Inner>) {
    let mut guests = Vec::new();
    while let Ok((stream, _)) = listener.accept().await {
        {
            let away = &mut inner.state.lock().unwrap().behaviour.away;
            if *away > 0 {
                *away -= 1;
                continue;
            }
        }
        let inner = Arc::clone(&inner);
        guests.push(smol::spawn(async move {
            let terms = Terms { attester: Arc::new(inner.tpm.clone()), verifier: Arc::new(NoProof) };
            let (serves, told) = (Arc::clone(&inner), Arc::clone(&inner));
            let reception = move |role: Purpose| serves.serves(role).then(|| terms.clone());
            let Ok(proven) = accept(stream, &reception, HANDSHAKE_TIME).await else { return };
            let (cut, cutting) = unbounded();
            let follows = proven.purpose() == Purpose::Attach;
            let visit = Visit { role: proven.purpose(), authorized: AtomicBool::new(false), cut };
            let bare = Server::new(Limits::default());
            let existing = inner.state.lock().unwrap().stage == Stage::Existing;
            let services = if existing {
                bare.service(RecoveryServer::new(Services(inner)))
            } else {
                bare.service(InitServer::new(Services(inner)))
            };
            let cut = async {
                let _ = cutting.recv().await;
                false
            };
            let broken = Arc::new(AtomicBool::new(false));
            let stream = Noticed { stream: proven, broken: Arc::clone(&broken) };
            let visited = async { services.serve(stream, visit).await.is_ok() };
            let left = visited.or(cut).await;
            if follows && left && !broken.load(Ordering::Relaxed) {
                told.state.lock().unwrap().heard = true;
            }
        }));
    }
}

/// A stream that notices when its peer leaves without a word, as the agent's does.
struct Noticed<S> {
    stream: S,
    broken: Arc<AtomicBool>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Noticed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Poll::Ready(Err(_)) = &polled {
            self.broken.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noticed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}
