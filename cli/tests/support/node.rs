//! A fake node: the agent's services, as their contract says, over the real channel. It has no disk; its TPM is whatever
//! attester it is given.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use latchkey_api::grpc::{Limits, Replies, Request, Server, Status};
use latchkey_api::v1::{
    AttachRequest, AuthorizeRequest, AuthorizeResponse, DescribeRequest, DescribeResponse, Failed, Init, InitEvent,
    InitRequest, InitServer, Locked, NodeStage, Progress, RecoverRequest, RecoverResponse, Recovery, RecoveryServer,
    Succeeded, init_event::Event,
};
use latchkey_attestation::EkDigest;
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_channel::message::{Demand, Evidence, Identity};
use latchkey_channel::{
    Attester, HANDSHAKE_TIME, Kind, Kinds, NoProof, ProofError, ProofRequest, Purpose, Terms, TpmAttester, accept,
};
use latchkey_keys::{ClusterId, Secret, Uuid};
use latchkey_tpm::device::AttestingTpm;
use smol::channel::{Receiver, Sender, unbounded};
use smol::future::FutureExt as _;
use smol::net::TcpListener;

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
    pub settings: Option<latchkey_api::v1::ClusterSettings>,
    pub control_plane_files: Option<latchkey_api::v1::ControlPlaneFiles>,
}

/// What the node proves itself with.
#[derive(Clone)]
pub enum Tpm {
    Fake(Arc<Mutex<FakeTpm>>),
    Real(Arc<Mutex<AttestingTpm>>),
}

impl FakeNode {
    /// A fresh node that booted the good image on a fake TPM.
    pub fn start(init_secret: &[u8]) -> Self {
        let mut tpm = FakeTpm::generate();
        for (index, value) in IMAGE {
            tpm.set_pcr(index, value);
        }
        Self::with_tpm(Tpm::Fake(Arc::new(Mutex::new(tpm))), init_secret)
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
            settings: None,
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
        let Tpm::Fake(tpm) = &self.inner.tpm else { panic!("only of a fake") };
        tpm.lock().unwrap().set_pcr(index, value);
    }
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
            let serves = Arc::clone(&inner);
            let reception = move |role: Purpose| serves.serves(role).then(|| terms.clone());
            let Ok(proven) = accept(stream, &reception, HANDSHAKE_TIME).await else { return };
            let (cut, cutting) = unbounded();
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
                Ok(())
            };
            let _ = services.serve(proven, visit).or(cut).await;
        }));
    }
}

/// A connection.
struct Visit {
    role: Purpose,
    /// Whether it proved the init secret.
    authorized: AtomicBool,
    /// Sent to break it.
    cut: Sender<()>,
}

impl Visit {
    /// Breaks the connection; what the call would say is lost.
    async fn break_off<T>(&self) -> T {
        let _ = self.cut.send(()).await;
        std::future::pending().await
    }
}

struct Services(Arc<Inner>);

impl Inner {
    fn serves(&self, role: Purpose) -> bool {
        let stage = self.state.lock().unwrap().stage;
        match stage {
            Stage::Fresh => matches!(role, Purpose::Init | Purpose::Verify),
            Stage::Existing => matches!(role, Purpose::Recover | Purpose::Verify),
            Stage::Bootstrapping => matches!(role, Purpose::Attach | Purpose::Verify),
        }
    }

    fn describe(&self) -> DescribeResponse {
        let state = self.state.lock().unwrap();
        let (shown, cluster) = match state.stage {
            Stage::Fresh => (NodeStage::Fresh, None),
            Stage::Existing => (NodeStage::Existing, None),
            Stage::Bootstrapping => (NodeStage::Bootstrapping, state.cluster),
        };
        DescribeResponse {
            node_name: "edge-1".into(),
            disk_uuid: state.disk.to_string(),
            stage: shown.into(),
            agent_version: "0.1.0".into(),
            cluster_id: cluster.map(|id| id.to_string()).unwrap_or_default(),
        }
    }

    fn check_secret(&self, secret: &[u8]) -> Result<(), Status> {
        let mut state = self.state.lock().unwrap();
        if let Some(tries) = &mut state.behaviour.tries {
            if *tries == 0 {
                return Err(Status::resource_exhausted("too many wrong init secrets; try again in 10 s"));
            }
            *tries -= 1;
        }
        if state.init_secret == secret { Ok(()) } else { Err(Status::permission_denied("wrong init secret")) }
    }

    /// Takes the keys, as long as nobody else's are taken.
    fn take_keys(&self, message: &InitRequest) -> Result<ClusterId, Status> {
        let mut state = self.state.lock().unwrap();
        state.inits += 1;
        if state.cluster.is_some() {
            let _ = self.refused.0.try_send(());
            return Err(Status::failed_precondition(
                "the node already took another offer in this boot; look at its console to see which",
            ));
        }
        assert_eq!(message.disk_uuid, state.disk.to_string());
        let secret = Secret::from_slice(&message.measurement_secret).unwrap();
        let salt = message.measurement_salt.as_slice().try_into().unwrap();
        let cluster = ClusterId::derive(&secret, &salt).unwrap();
        state.cluster = Some(cluster);
        state.settings.clone_from(&message.settings);
        state.control_plane_files.clone_from(&message.control_plane_files);
        state.keys = Some((Secret::from_slice(&message.state_disk_key).unwrap(), secret, salt));
        let _ = self.happened.0.try_send(Happened::KeysTaken);
        Ok(cluster)
    }

    fn lock(&self, cluster: ClusterId) {
        self.tpm.set_lock(cluster.locked_pcr15());
        if let Tpm::Real(attester) = &self.tpm {
            attester.lock().unwrap().extend_event(15, cluster.lock_event()).unwrap();
        }
        self.state.lock().unwrap().stage = Stage::Bootstrapping;
    }
}

async fn tell(replies: &mut Replies<InitEvent>, elapsed_ms: u64, step: &str, detail: &str) -> Result<(), Status> {
    let progress = Progress { step: step.into(), detail: detail.into(), elapsed_ms };
    replies.send(&InitEvent { event: Some(Event::Progress(progress)) }).await
}

fn failed(code: &str, message: &str, disk_reset: bool) -> InitEvent {
    let failed = Failed {
        code: code.into(),
        message: message.into(),
        log_tail: b"+ kubeadm init\nport 6443 is in use\n".to_vec(),
        disk_reset,
    };
    InitEvent { event: Some(Event::Failed(failed)) }
}

impl Init<Visit> for Services {
    async fn describe(&self, _: Request<Visit, DescribeRequest>) -> Result<DescribeResponse, Status> {
        Ok(self.0.describe())
    }

    async fn authorize(&self, request: Request<Visit, AuthorizeRequest>) -> Result<AuthorizeResponse, Status> {
        assert_eq!(request.context.role, Purpose::Init);
        self.0.state.lock().unwrap().secrets += 1;
        self.0.check_secret(&request.message.init_secret)?;
        request.context.authorized.store(true, Ordering::Relaxed);
        Ok(AuthorizeResponse {})
    }

    async fn init(&self, request: Request<Visit, InitRequest>, mut replies: Replies<InitEvent>) -> Result<(), Status> {
        assert_eq!(request.context.role, Purpose::Init);
        assert!(request.context.authorized.load(Ordering::Relaxed), "keys before the secret was proven");
        let cluster = self.0.take_keys(&request.message)?;
        tell(&mut replies, 12_300, "lock", "extending PCR 15 with the cluster id").await?;
        let (cut, restart, hold, fail) = {
            let behaviour = &mut self.0.state.lock().unwrap().behaviour;
            let Behaviour { cut_init, restart_during_init, hold_init, fail_init, .. } = behaviour;
            (std::mem::take(cut_init), std::mem::take(restart_during_init), *hold_init, fail_init.take())
        };
        if restart {
            self.0.state.lock().unwrap().cluster = None;
            self.0.state.lock().unwrap().disk = Uuid::random().unwrap();
            return request.context.break_off().await;
        }
        if let Some((code, message)) = fail {
            self.0.state.lock().unwrap().cluster = None;
            return replies.send(&failed(code, message, false)).await;
        }
        // Goes on if the connection does not.
        let inner = Arc::clone(&self.0);
        let (done, locked) = unbounded::<()>();
        smol::spawn(async move {
            if hold {
                let _ = inner.refused.1.recv().await;
            }
            inner.lock(cluster);
            drop(done);
        })
        .detach();
        let _ = locked.recv().await;
        if cut {
            return request.context.break_off().await;
        }
        tell(&mut replies, 12_600, "format-disk", "LUKS2, aes-xts-plain64").await?;
        let another = self.0.state.lock().unwrap().behaviour.another_cluster;
        let cluster_id = if another { vec![0xc2; 32] } else { cluster.as_bytes().to_vec() };
        let locked = Locked { cluster_id };
        replies.send(&InitEvent { event: Some(Event::Locked(locked)) }).await
    }

    async fn attach(
        &self,
        request: Request<Visit, AttachRequest>,
        mut replies: Replies<InitEvent>,
    ) -> Result<(), Status> {
        assert_eq!(request.context.role, Purpose::Attach);
        self.0.check_secret(&request.message.init_secret)?;
        tell(&mut replies, 20_100, "cluster-step", "certificates").await?;
        let (cut, hold, fail) = {
            let behaviour = &mut self.0.state.lock().unwrap().behaviour;
            (std::mem::take(&mut behaviour.cut_attach), behaviour.hold_attach, behaviour.fail_bootstrap.take())
        };
        let _ = self.0.happened.0.try_send(Happened::Attached);
        if hold {
            return std::future::pending().await;
        }
        if cut {
            return request.context.break_off().await;
        }
        if let Some((code, message)) = fail {
            self.0.state.lock().unwrap().cluster = None;
            return replies.send(&failed(code, message, true)).await;
        }
        tell(&mut replies, 25_000, "cluster-step", "control plane is up\x1b[2J").await?;
        let config = self.0.state.lock().unwrap().behaviour.admin_config.clone();
        let succeeded = Succeeded {
            cluster_id: request.message.cluster_id.clone(),
            admin_config: config.unwrap_or_else(|| ADMIN_CONFIG.to_vec()),
            addresses: ADDRESSES.map(str::to_owned).to_vec(),
        };
        replies.send(&InitEvent { event: Some(Event::Succeeded(succeeded)) }).await
    }
}

impl Recovery<Visit> for Services {
    async fn describe(&self, _: Request<Visit, DescribeRequest>) -> Result<DescribeResponse, Status> {
        Ok(self.0.describe())
    }

    async fn recover(&self, request: Request<Visit, RecoverRequest>) -> Result<RecoverResponse, Status> {
        assert_eq!(request.context.role, Purpose::Recover);
        let mut state = self.0.state.lock().unwrap();
        state.recoveries += 1;
        assert_eq!(request.message.disk_uuid, state.disk.to_string());
        let (key, secret, salt) = state.keys.as_ref().unwrap();
        if request.message.state_disk_key != key.expose() || request.message.measurement_secret != secret.expose() {
            let message = "disk-wrong-key: the key does not open this disk; use the master secret of its cluster";
            return Err(Status::invalid_argument(message));
        }
        let cluster = ClusterId::derive(secret, salt).unwrap();
        if std::mem::take(&mut state.behaviour.bootstrap_unfinished) {
            state.stage = Stage::Fresh;
            state.cluster = None;
            state.disk = Uuid::random().unwrap();
            let message = "bootstrap-unfinished: the cluster's first bootstrap never finished";
            return Err(Status::failed_precondition(message));
        }
        Ok(RecoverResponse { cluster_id: cluster.as_bytes().to_vec() })
    }
}

impl Tpm {
    fn ek(&self) -> EkDigest {
        let public = match self {
            Self::Fake(tpm) => tpm.lock().unwrap().ek_public().marshal(),
            Self::Real(attester) => attester.lock().unwrap().ek_public().marshal(),
        };
        EkDigest::of_public_area(&public).unwrap()
    }

    fn set_lock(&self, value: [u8; 32]) {
        self.fake(|tpm| tpm.set_pcr(15, value));
    }

    fn fake(&self, change: impl FnOnce(&mut FakeTpm)) {
        if let Self::Fake(tpm) = self {
            change(&mut tpm.lock().unwrap());
        }
    }
}

impl Attester for Tpm {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Tpm])
    }

    fn is_slow(&self) -> bool {
        matches!(self, Self::Real(_))
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        match self {
            Self::Fake(tpm) => Ok(Identity::Tpm(tpm.lock().unwrap().identity())),
            Self::Real(attester) => TpmAttester::new(Arc::clone(attester)).identity(kind),
        }
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let tpm = match self {
            Self::Fake(tpm) => tpm.lock().unwrap(),
            Self::Real(attester) => return TpmAttester::new(Arc::clone(attester)).prove(request),
        };
        let Demand::Tpm(challenge) = request.demand() else { panic!("a TPM is what it has") };
        let evidence = tpm.evidence(challenge, request.binding().as_bytes()).expect("the challenge is for this TPM");
        Ok(Evidence::Tpm(Box::new(evidence)))
    }
}
