//! The running service, and what a machine asks it.

use super::{Machine, TIME, page};
use latchkey_api::grpc::{Channel, Limits, Status};
use latchkey_api::v1::Role as ApiRole;
use latchkey_api::v1::{
    JoinClient, JoinRequest, JoinTicket, RejoinRequest, RejoinTicket, ReportRequest, ReportResponse,
};
use latchkey_channel::{Attester, ChannelError, PinnedKeyVerifier, Purpose, SpkiHash, Terms, connect};
use latchkey_test_support::Lines;
use rustix::process::{Pid, Signal, kill_process};
use smol::future::FutureExt;
use smol::net::TcpStream;
use std::net::SocketAddr;
use std::ops::Deref;
use std::process::{Child, ExitStatus};
use std::sync::Arc;

/// What every machine's agent says of itself.
pub(crate) const AGENT: &str = "0.3.0";

/// The running binary; killed when dropped.
pub(crate) struct Service {
    pub(crate) process: Child,
    pub(super) lines: Lines,
    pub(super) log: Vec<String>,
    pub(super) admin: SocketAddr,
    pub(super) client: Client,
}

/// Where machines ask, and the keys that they take there.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(super) keys: [SpkiHash; 2],
}

impl Deref for Service {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Service {
    /// Blocks until the log gets a line with all these texts, not counting lines seen by earlier calls; fails when the
    /// service ends before.
    pub(crate) fn next_line(&mut self, texts: &[&str]) -> String {
        let wanted = |line: &str| texts.iter().all(|text| line.contains(text));
        let line = self.lines.find(&format!("{texts:?}"), &mut self.log, wanted);
        line.unwrap_or_else(|| panic!("the service ended without {texts:?}:\n{}", self.log.join("\n")))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// SIGTERM, then everything it logged and how it ended.
    pub(crate) fn stop(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        self.ended()
    }

    pub(super) fn ended(&mut self) -> (ExitStatus, String) {
        let status = latchkey_test_support::wait("the join service", &mut self.process);
        self.lines.rest("the end of the join service's log", &mut self.log);
        (status, self.log.join("\n"))
    }

    /// A page on the admin port: status line and body.
    pub(crate) fn page(&self, path: &str) -> (String, String) {
        page(self.admin, path)
    }

    /// The value of a metric, given with its labels and without its prefix.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = self.page("/metrics").1;
        let line = page.lines().find_map(|line| line.strip_prefix("latchkey_join_service_")?.strip_prefix(name));
        line.map_or(0, |value| value.trim().parse().unwrap())
    }
}

impl Client {
    /// The same, expecting this key alone.
    pub(crate) fn trusting(self, key: SpkiHash) -> Self {
        Self { keys: [key; 2], ..self }
    }

    /// The same, taking this key as well.
    pub(crate) fn trusting_too(self, key: SpkiHash) -> Self {
        Self { keys: [self.keys[0], key], ..self }
    }

    /// Calls over one attested connection.
    pub(crate) fn call<T>(
        &self,
        machine: &Machine,
        purpose: Purpose,
        ask: impl AsyncFnOnce(JoinClient) -> Result<T, Status>,
    ) -> Result<T, Answer> {
        self.call_with(Arc::new(machine.clone()), purpose, ask)
    }

    pub(crate) fn call_with<T>(
        &self,
        attester: Arc<dyn Attester>,
        purpose: Purpose,
        ask: impl AsyncFnOnce(JoinClient) -> Result<T, Status>,
    ) -> Result<T, Answer> {
        let terms = Terms { attester, verifier: Arc::new(PinnedKeyVerifier::new(self.keys)) };
        latchkey_test_support::block_on(async {
            let stream = TcpStream::connect(self.address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let proven = connect(stream, purpose, terms, TIME).await.map_err(Answer::Refused)?;
            let (channel, driver) =
                Channel::open(proven, Limits::default()).await.map_err(|error| Answer::Lost(error.to_string()))?;
            let connection = async {
                drop(driver.await);
                std::future::pending().await
            };
            ask(JoinClient::new(channel)).or(connection).await.map_err(Answer::Status)
        })
    }

    pub(crate) fn join(&self, machine: &Machine, disk: &str, name: &str) -> Result<JoinTicket, Answer> {
        self.join_as(machine, disk, name, ApiRole::Unspecified)
    }

    pub(crate) fn join_as(
        &self,
        machine: &Machine,
        disk: &str,
        name: &str,
        role: ApiRole,
    ) -> Result<JoinTicket, Answer> {
        let request = join_request(disk, name, role);
        self.call(machine, Purpose::Join, async |client| client.issue_join_ticket(&request, TIME).await)
    }

    pub(crate) fn rejoin(&self, machine: &Machine, disk: &str) -> Result<RejoinTicket, Answer> {
        let request = RejoinRequest { disk_uuid: disk.to_owned(), agent_version: AGENT.to_owned() };
        self.call(machine, Purpose::Rejoin, async |client| client.issue_rejoin_ticket(&request, TIME).await)
    }

    /// The machine must show the lock on the cluster.
    pub(crate) fn report(&self, machine: &Machine, disk: &str, failure: &str) -> Result<ReportResponse, Answer> {
        let request = ReportRequest {
            disk_uuid: disk.to_owned(),
            succeeded: failure.is_empty(),
            code: failure.to_owned(),
            message: String::new(),
            addresses: Vec::new(),
            agent_version: AGENT.to_owned(),
        };
        self.call(machine, Purpose::Report, async |client| client.report(&request, TIME).await)
    }
}

pub(crate) fn join_request(disk: &str, name: &str, role: ApiRole) -> JoinRequest {
    JoinRequest {
        disk_uuid: disk.to_owned(),
        node_name: name.to_owned(),
        role: role.into(),
        certificate_request: Vec::new(),
        agent_version: AGENT.to_owned(),
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Already gone after `stop`.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// What a machine got instead of a ticket.
#[derive(Debug)]
pub(crate) enum Answer {
    /// No channel.
    Refused(ChannelError),
    /// The connection ended before anything could be asked, as a machine of the storm sees it.
    Lost(String),
    /// No ticket.
    Status(Status),
}

impl Answer {
    /// The reason code as the machine sees it.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Refused(error) => error.code().to_string(),
            Self::Lost(error) => error.clone(),
            Self::Status(status) => status.message().split(':').next().unwrap().to_owned(),
        }
    }
}
