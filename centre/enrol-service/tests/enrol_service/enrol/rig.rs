//! A directory, a configuration, a centre, the running service, and machines that ask it.

use super::centre;
use super::machine::{IMAGE, Machine};
use latchkey_api::grpc::{Channel, Limits, Status};
use latchkey_api::v1::enrol_response::Outcome;
use latchkey_api::v1::{EnrolRequest, EnrolmentClient};
use latchkey_attestation::reference::PlatformProfile as MachineType;
use latchkey_attestation::reference::{Description, ManifestName, Origin, Reference, Revocation};
use latchkey_attestation::{Digest, ReferenceValues};
use latchkey_channel::{Attester, ChannelError, PinnedKeyVerifier, Purpose, SpkiHash, Terms, connect};
use latchkey_cluster_store::registration::{Invitation, InvitationToken, RegistrationStore, Rules, Wanted};
use latchkey_factory_plus::uuids::service;
use latchkey_test_support::Lines;
use serde_json::{Value, json};
use smol::future::FutureExt;
use smol::net::TcpStream;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Longer than anything takes here.
const TIME: Duration = Duration::from_mins(2);
/// Who the service is to the centre.
const PRINCIPAL: &str = "sv1enrol@EXAMPLE.ORG";

/// Files and a centre, before the service runs.
pub(crate) struct Rig {
    pub(crate) centre: centre::Rig,
    pub(crate) store: RegistrationStore,
    /// Of the configuration.
    pub(crate) limits: Value,
    files: TempDir,
}

/// What an operator's rule file has beside the defaults.
pub(crate) fn rule(per_day: u32) -> Value {
    json!([{
        "name": "line", "manifest": "test", "minimum_version": "1.0.0", "cluster_names": "Line_{n}", "per_day": per_day,
    }])
}

impl Rig {
    /// A service that trusts these machines, and holds whoever is not invited.
    pub(crate) fn new(machines: &[&Machine]) -> Self {
        let files = tempfile::tempdir().unwrap();
        fs::create_dir(files.path().join("enrol")).unwrap();
        let store = RegistrationStore::make(files.path().join("enrol")).unwrap();
        let rig = Self { centre: centre::Rig::new(), store, limits: json!({}), files };
        let eks: Vec<String> = machines.iter().map(|machine| machine.ek().to_string()).collect();
        rig.trust(&eks);
        rig.store.documents().write_reference(&reference("1.0.0", IMAGE)).unwrap();
        rig.rules(&json!([]));
        latchkey_enrol_service::identity::create(&rig.path("identity.key")).unwrap();
        fs::write(rig.path("password"), "right").unwrap();
        fs::set_permissions(rig.path("password"), fs::Permissions::from_mode(0o600)).unwrap();
        rig
    }

    pub(crate) fn trust(&self, eks: &[String]) {
        let policy = json!({
            "version": 3, "ek_templates": ["ecc-p256"],
            "ak_trust": [{ "kind": "pinned-ek", "ek_sha256": eks }], "ak_algorithms": ["ecdsa-p256-sha256"],
            "pcrs": { "enforce": [11], "warn": [] }, "lock": "pcr-15",
            "references": [{ "manifest": "test", "minimum_version": "1.0.0", "unsigned": "trust-local-file" }],
        });
        self.store.documents().write_policy(&policy.to_string()).unwrap();
    }

    pub(crate) fn rules(&self, rules: &Value) {
        let chart = self.centre.local.cluster_chart;
        let all = json!({"version": 1, "chart": chart, "namespace": "fplus-edge", "bare": true, "rules": rules});
        self.store.write_rules(&Rules::parse(all.to_string().as_bytes()).unwrap()).unwrap();
    }

    /// An invitation for a cluster of this name that lasts an hour from `made` on.
    pub(crate) fn invite_at(&self, name: &str, made: u64) -> InvitationToken {
        let token = InvitationToken::random().unwrap();
        let cluster = Wanted::called(name.parse().unwrap());
        self.store.invite(&Invitation::new(token.hash(), cluster, made, made + 3600)).unwrap();
        token
    }

    pub(crate) fn invite(&self, name: &str) -> InvitationToken {
        self.invite_at(name, now())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    pub(crate) fn command(&self) -> Command {
        let url = |of| self.centre.url(of);
        let config = json!({
            "schema": 1, "listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0", "directory": "enrol",
            "identity_key": "identity.key", "limits": self.limits,
            "centre": {
                "principal": PRINCIPAL, "password_file": "password", "insecure": true,
                "services": {"config_db": url(service::CONFIG_DB), "cluster_manager": url(service::CLUSTER_MANAGER)},
            },
        });
        let file = self.path("config.json");
        fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey-enrol-service"));
        command.arg("--config").arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the service and waits until it serves.
    pub(crate) fn start(&self) -> Service {
        let mut process = self.command().spawn().unwrap();
        let lines = Lines::of(process.stderr.take().unwrap());
        let ready = Lines::of(process.stdout.take().unwrap()).next("READY of the enrol service");
        let peer = Peer { address: SocketAddr::from(([0; 4], 0)), key: self.key() };
        let mut service = Service { process, lines, log: Vec::new(), peer };
        let Some(ready) = ready else { panic!("it ended without READY: {}", service.ended()) };
        let listen = ready.split(' ').find_map(|word| word.strip_prefix("listen=")).unwrap();
        service.peer.address = listen.parse().unwrap();
        service
    }

    fn key(&self) -> SpkiHash {
        latchkey_enrol_service::identity::load(&self.path("identity.key")).unwrap().hash()
    }
}

/// Seconds since the Unix epoch.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The manifest of one image; its serial grows with each call.
pub(crate) fn reference(version: &str, pcr_11: [u8; 32]) -> ReferenceValues {
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    let (manifest, serial) = (ManifestName::new("test").unwrap(), SERIAL.fetch_add(1, Relaxed));
    let version = version.parse().unwrap();
    let about = Description { manifest, serial, image: "image", version, by: "test", at: Some(0) };
    let value = Digest(pcr_11);
    let origin = Origin { products: [("image.raw".to_owned(), value)].into(), ..Origin::default() };
    let machine = MachineType::new("test", [(11, Reference::enforced(value))].into());
    ReferenceValues::predicted(&about, origin, vec![machine]).unwrap()
}

/// The next revision of a manifest, which revokes its image.
pub(crate) fn revoked(manifest: &ReferenceValues) -> ReferenceValues {
    let image = &manifest.images()[0];
    let (name, version) = (image.name().to_owned(), image.version());
    let revocation = Revocation { name, version, why: "a hole in its kernel".to_owned() };
    manifest.edited(manifest.serial() + 1, |_, revoked| revoked.push(revocation)).unwrap()
}

/// The running binary; killed when dropped.
pub(crate) struct Service {
    pub(crate) process: Child,
    lines: Lines,
    log: Vec<String>,
    pub(crate) peer: Peer,
}

/// Where machines ask, and the key that they take there.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) key: SpkiHash,
}

impl std::ops::Deref for Service {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.peer
    }
}

/// What a machine got instead of an answer.
#[derive(Debug)]
pub(crate) enum Refused {
    /// No connection.
    Connection(std::io::Error),
    /// No channel.
    Channel(ChannelError),
    /// No answer.
    Call(Status),
}

impl Refused {
    /// The reason code as the machine sees it.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Connection(error) => error.to_string(),
            Self::Channel(error) => error.code().to_string(),
            Self::Call(status) => status.message().split(':').next().unwrap().to_owned(),
        }
    }
}

impl Peer {
    /// What the service says to this machine over one attested connection of its own.
    pub(crate) fn enrol(&self, machine: &Machine, invitation: Option<&InvitationToken>) -> Result<Outcome, Refused> {
        let invitation = invitation.map(|token| token.expose().to_vec()).unwrap_or_default();
        self.ask(Arc::new(machine.clone()), Purpose::Enrol, &request(machine, invitation), None)
    }

    /// The same, with everything chosen; `between` is done once the channel stands.
    pub(crate) fn ask(
        &self,
        attester: Arc<dyn Attester>,
        purpose: Purpose,
        request: &EnrolRequest,
        between: Option<&mut dyn FnMut()>,
    ) -> Result<Outcome, Refused> {
        let terms = Terms { attester, verifier: Arc::new(PinnedKeyVerifier::new([self.key])) };
        latchkey_test_support::block_on(async {
            let stream = TcpStream::connect(self.address).await.map_err(Refused::Connection)?;
            // As the agent does.
            stream.set_nodelay(true).map_err(Refused::Connection)?;
            let proven = connect(stream, purpose, terms, TIME).await.map_err(Refused::Channel)?;
            if let Some(between) = between {
                between();
            }
            let limits = Limits { inbound_message: 5 << 20, ..Limits::default() };
            let (channel, driver) = Channel::open(proven, limits).await.unwrap();
            let connection = async {
                drop(driver.await);
                std::future::pending().await
            };
            let client = EnrolmentClient::new(channel);
            let answer = client.enrol(request, TIME).or(connection).await.map_err(Refused::Call)?;
            Ok(answer.outcome.unwrap())
        })
    }
}

impl Service {
    /// Blocks until the log gets a line with all these texts, not counting lines seen by earlier calls.
    pub(crate) fn next_line(&mut self, texts: &[&str]) -> String {
        let wanted = |line: &str| texts.iter().all(|text| line.contains(text));
        let line = self.lines.find(&format!("{texts:?}"), &mut self.log, wanted);
        line.unwrap_or_else(|| panic!("the service ended without {texts:?}:\n{}", self.log.join("\n")))
    }

    fn ended(&mut self) -> String {
        latchkey_test_support::wait("the enrol service", &mut self.process);
        self.lines.rest("the end of the enrol service's log", &mut self.log);
        self.log.join("\n")
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Already gone after `kill`.
        drop(self.process.kill());
        drop(self.process.wait());
        if std::thread::panicking() {
            self.lines.rest("the enrol service's log", &mut self.log);
            eprintln!("the enrol service's log:\n{}", self.log.join("\n"));
        }
    }
}

pub(crate) fn request(machine: &Machine, invitation: Vec<u8>) -> EnrolRequest {
    EnrolRequest {
        invitation,
        disk_uuid: machine.disk.clone(),
        // Wishes are no orders.
        node_name: "administrator".to_owned(),
        kubernetes_version: "v1.34.4".to_owned(),
    }
}
