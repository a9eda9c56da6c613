//! Drives one init to its end, over as many connections as it takes.
//!
//! | the node is | seen by | what is done |
//! |---|---|---|
//! | fresh | role `init` is served | send the keys, follow stage 1 |
//! | bootstrapping on our cluster | role `attach` is served, PCR 15 is ours | follow stage 2, fetch the credentials |
//! | waiting for its disk's key | role `recover` is served | the same keys again, if this init made that disk |
//! | anything else | | say so and stop |
//!
//! Which of these it is, is tried in the order of likelihood; [`Drive::look`] asks where that fails.

mod outcome;
mod request;

use std::net::IpAddr;
use std::time::Duration;

use latchkey_api::OfferRefusal;
use latchkey_api::v1::{AttachRequest, AuthorizeRequest, NodeStage};
use latchkey_attestation::{EkDigest, LockExpectation, Policy, ReasonCode};
use latchkey_channel::Purpose;
use latchkey_cluster_store::{BootSeen, NodeStatus, Outcome, TpmBoot};
use latchkey_keys::{ClusterId, Uuid};

use super::follow::{End, Follower};
use super::job::Job;
use super::journal::{Journal, Proved, Stage};
use crate::clock::now;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::node::{self, CALL, ConnectError, Description, Node, Patience, refused_call, waiting_for};
use crate::output::{Output, Tone};
use crate::recover;
use crate::verify::proven_in_words;
use crate::which_machine::{Meant, MeantMachine};

pub(super) struct Drive<'a> {
    job: &'a Job,
    journal: Journal,
    output: &'a Output,
    goal: Goal,
    meant: Meant,
    node_name: String,
    /// What the machine showed before its lock.
    seen: Option<BootSeen>,
    /// The boot in which it proved its lock.
    locked_boot: Option<TpmBoot>,
    /// Where its kubelet serves, if it became a member in this run.
    addresses: Vec<IpAddr>,
    follower: Follower<'a>,
}

/// What the next connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Init,
    Attach,
    Recover,
    Look,
}

/// How it ended.
pub(super) struct Ending {
    pub(super) node_name: String,
    pub(super) ek: EkDigest,
    pub(super) disk: Uuid,
    pub(super) cluster_id: ClusterId,
    pub(super) admin_config: AdminConfig,
    pub(super) took: Duration,
}

/// Where the cluster's credentials are.
pub(super) enum AdminConfig {
    Written(std::path::PathBuf),
    /// The cluster step made none.
    None,
    /// The node had finished before anybody fetched them.
    NotFetched,
}

type Attempt<T> = Result<T, ConnectError>;

impl<'a> Drive<'a> {
    pub(super) fn new(job: &'a Job, journal: Journal, output: &'a Output) -> Self {
        let goal = match journal.stage {
            Stage::Prepared | Stage::Sent { .. } => Goal::Init,
            Stage::Locked { .. } | Stage::Done { .. } => Goal::Attach,
        };
        let (meant, node_name) = (job.meant, String::new());
        let follower = Follower::new(output);
        Self {
            job,
            journal,
            output,
            goal,
            meant,
            node_name,
            seen: None,
            locked_boot: None,
            addresses: Vec::new(),
            follower,
        }
    }

    /// Connects until it is done, or cannot be done.
    pub(super) async fn run(mut self, mut patience: Patience) -> Result<Ending, CommandError> {
        // A machine that does not answer at all takes a while to be known as one.
        self.output.waiting(&format!("connecting to {}", self.job.address));
        let mut unreached = false;
        loop {
            match patience.limit(Box::pin(self.step())).await {
                Ok(None) => patience.renewed(),
                Ok(Some(admin_config)) => return self.ending(admin_config, patience.elapsed()),
                Err(ConnectError::Lost(failure)) => {
                    if failure.exit == Exit::Unreachable && !std::mem::replace(&mut unreached, true) {
                        let until = format!("{}; tried again until it answers", waiting_for(&failure));
                        self.output.say(Tone::Warning, "no answer", &until);
                    }
                    self.output.waiting(&waiting_for(&failure));
                    patience.after(failure).await.map_err(|failure| self.may_be_resumed(failure))?;
                }
                Err(ConnectError::OtherStage(failure)) => {
                    self.goal = Goal::Look;
                    patience.after(failure).await?;
                }
                Err(ConnectError::Fatal(failure)) => return Err(self.may_be_resumed(failure)),
            }
        }
    }

    fn ending(&self, admin_config: AdminConfig, took: Duration) -> Result<Ending, CommandError> {
        let gone = || CommandError::local(CommandCode::JournalLost, "the journal names no machine");
        let (ek, disk) = self.journal.stage.machine().ok_or_else(gone)?;
        let node_name = self.node_name.clone();
        Ok(Ending { node_name, ek, disk, cluster_id: self.journal.cluster_id, admin_config, took })
    }

    fn may_be_resumed(&self, failure: CommandError) -> CommandError {
        if self.journal.stage.machine().is_none() || failure.exit != Exit::Unreachable {
            return failure;
        }
        failure.fix(
            "look at the node's console; nothing is lost: run the same command again to go on, and restart a machine that \
             waited for it in vain",
        )
    }

    /// One connection; the credentials once there are some.
    async fn step(&mut self) -> Attempt<Option<AdminConfig>> {
        match self.goal {
            Goal::Init => self.init().await.map(|()| None),
            Goal::Look => self.look().await.map(|()| None),
            Goal::Attach => self.attach().await.map(Some),
            Goal::Recover => self.recover().await,
        }
    }

    async fn init(&mut self) -> Attempt<()> {
        let node = self.connect(Purpose::Init, LockExpectation::Unlocked).await?;
        let described = node.describe(&self.job.address).await?;
        let ek = node.admission.ek_digest();
        self.introduce(&node, &described);
        let machine = self.same_machine(ek)?;
        self.hold_against_record(&node)?;
        // Another machine of this image and of the same vendor does not know the secret: it is asked before any key is derived.
        let authorize = AuthorizeRequest { init_secret: self.job.init_secret.expose().to_vec() };
        let authorized = node.init().authorize(&authorize, CALL).await;
        authorized.map_err(|status| refused_call(&self.job.address, &status).into_connect_error())?;
        let before = self.journal.stage;
        let image = node.admission.image();
        let (image, image_version) = (image.name.as_str().to_owned(), image.version.to_string());
        let agent_version = NodeStatus::agent_version(&described.agent_version);
        self.journal.proved = Some(Proved { image, image_version, agent_version, at: now() });
        self.enter(Stage::Sent { ek: machine.ek(), disk: described.disk })?;
        let request = self.request(ek, described.disk).map_err(ConnectError::Fatal)?;
        let ended = match node.init().init(&request, None).await {
            Ok(mut events) => self.follower.follow(&mut events).await,
            Err(status) => Err(status),
        };
        match ended {
            Ok(End::Locked(cluster_id)) => {
                self.ours(&cluster_id)?;
                self.locked(ek, described.disk)
            }
            Ok(End::Failed(failed)) => {
                self.enter(Stage::Prepared)?;
                Err(self.failed("the node could not become the first of a cluster", &failed))
            }
            Ok(End::Succeeded(_)) => Err(self.out_of_turn("`succeeded` before `locked`")),
            Ok(End::Silent) => Err(self.silent()),
            Err(status) => Err(self.not_taken(refused_call(&self.job.address, &status), before)?),
        }
    }

    /// The node took nothing, or nobody knows. If an earlier connection may have brought the keys, "too late" may be about
    /// ourselves.
    fn not_taken(&mut self, refused: node::RefusedCall, before: Stage) -> Attempt<ConnectError> {
        let may_be_ours = before.machine().is_some();
        Ok(match refused.kind {
            node::CallKind::Lost => refused.into_connect_error(),
            node::CallKind::State if may_be_ours => ConnectError::Lost(refused.into_connect_error().into_error()),
            _ => {
                self.enter(before)?;
                refused.into_connect_error()
            }
        })
    }

    /// Asks what the node is waiting for.
    async fn look(&mut self) -> Attempt<()> {
        let node = self.connect(Purpose::Verify, LockExpectation::Any).await?;
        let described = node.describe_any(&self.job.address).await?;
        let ek = node.admission.ek_digest();
        self.introduce(&node, &described);
        let ours = self.journal.stage.machine().is_some_and(|(machine, _)| machine == ek);
        let lock = node.admission.pcrs().value(Policy::LOCK_PCR);
        let on_our_cluster = lock.is_some_and(|lock| *lock.as_bytes() == self.journal.cluster_id.locked_pcr15());
        match described.stage {
            NodeStage::Fresh => self.goal = Goal::Init,
            NodeStage::Bootstrapping if ours && on_our_cluster => self.locked(ek, described.disk)?,
            NodeStage::Existing if ours => self.goal = Goal::Recover,
            NodeStage::Bootstrapping => {
                let what = "the node is being made a member of another cluster, or of this one by somebody else";
                let failure = CommandError::new(Exit::Node, CommandCode::AlreadyActivating, what);
                let cluster = format!("it says that its cluster is {}", described.cluster_id);
                return Err(ConnectError::Fatal(failure.because(cluster).fix("choose another node")));
            }
            NodeStage::Existing => {
                let failure = CommandError::new(
                    Exit::Node,
                    CommandCode::DiskInUse,
                    "the node's disk belongs to a cluster already",
                );
                let fix = "choose another node, or wipe the first 16 MiB and the last MiB of its state disk \
                           (in a built image the partition `state`, never the whole disk); \
                           if it is yours and waits for its key, run `latchkey recover`";
                return Err(ConnectError::Fatal(failure.fix(fix)));
            }
            NodeStage::Unspecified => return Err(self.out_of_turn("a stage that this release does not know")),
        }
        Ok(())
    }

    async fn attach(&mut self) -> Attempt<AdminConfig> {
        let cluster_id = self.journal.cluster_id;
        let node = self.connect(Purpose::Attach, LockExpectation::LockedTo(cluster_id.locked_pcr15())).await?;
        let ek = node.admission.ek_digest();
        self.same_machine(ek)?;
        self.locked_boot = Some(TpmBoot::of(&node.admission));
        let request = AttachRequest {
            init_secret: self.job.init_secret.expose().to_vec(),
            cluster_id: cluster_id.as_bytes().to_vec(),
        };
        if self.node_name.is_empty() {
            let described = node.describe(&self.job.address).await?;
            self.introduce(&node, &described);
        }
        self.output.say(Tone::Good, "attached", "the node proves its lock on this cluster; its bootstrap goes on");
        let ended = match node.init().attach(&request, None).await {
            Ok(mut events) => self.follower.follow(&mut events).await,
            Err(status) => Err(status),
        };
        let done = match ended {
            // Written down before the node knows that it was heard: then it tells nobody any more.
            Ok(End::Succeeded(succeeded)) => Ok(self.succeeded(succeeded)?),
            Ok(End::Failed(failed)) => Err(self.bootstrap_failed(&failed)),
            Ok(End::Locked(_)) => Err(self.out_of_turn("`locked` in stage 2")),
            Ok(End::Silent) => Err(self.silent()),
            Err(status) => Err(refused_call(&self.job.address, &status).into_connect_error()),
        };
        node.goodbye().await;
        done
    }

    /// The disk that this init made waits for its key: the node was restarted.
    async fn recover(&mut self) -> Attempt<Option<AdminConfig>> {
        let node = self.connect(Purpose::Recover, LockExpectation::Unlocked).await?;
        let described = node.describe_recovery(&self.job.address).await?;
        let ek = node.admission.ek_digest();
        self.same_machine(ek)?;
        self.hold_against_record(&node)?;
        let keys = self.keys(ek, described.disk).map_err(ConnectError::Fatal)?;
        match recover::push(&node, &self.job.address, &keys, None).await {
            Ok(cluster_id) => {
                self.ours(cluster_id.as_bytes())?;
                self.locked(ek, described.disk)?;
                self.note(Outcome::Succeeded)?;
                self.enter(Stage::Done { ek, disk: described.disk })?;
                Ok(Some(AdminConfig::NotFetched))
            }
            // Its first bootstrap never finished: it resets its disk and is fresh again.
            Err(refused) if refused.known == Some(OfferRefusal::BootstrapUnfinished) => {
                self.goal = Goal::Init;
                Err(ConnectError::Lost(refused.into_connect_error().into_error()))
            }
            Err(refused) => Err(refused.into_connect_error()),
        }
    }

    async fn connect(&self, role: Purpose, lock: LockExpectation) -> Attempt<Node> {
        self.output.waiting(&format!("connecting to {}", self.job.address));
        let connected = node::connect(&self.job.address, role, &self.job.trust, lock, None).await;
        connected.map_err(|error| {
            if error.reason() != Some(ReasonCode::AlreadyLocked) {
                return error;
            }
            // Locked since a moment ago, and about to change its stage: by keys that an earlier connection brought, or by
            // somebody else's.
            if self.journal.stage.machine().is_some() {
                return ConnectError::Lost(error.into_error());
            }
            let what = format!("the node at {} is locked in this boot: somebody else was first", self.job.address);
            let failure = CommandError::new(Exit::Node, CommandCode::AlreadyActivating, what);
            ConnectError::Fatal(failure.fix("look at the node's console, or restart the node and try again"))
        })
    }

    /// Says what was proven, once.
    fn introduce(&mut self, node: &Node, described: &Description) {
        if self.node_name.is_empty() {
            self.output.say(Tone::Good, "proven", &proven_in_words(&node.admission));
            let Description { node_name, disk, agent_version, .. } = described;
            self.output.say(Tone::Plain, "node", &format!("{node_name}, disk {disk}, agent {agent_version}"));
        }
        self.node_name.clone_from(&described.node_name);
    }

    /// One directory, one cluster, one first machine: the one that is meant.
    fn same_machine(&mut self, ek: EkDigest) -> Attempt<MeantMachine> {
        match self.journal.stage.machine() {
            Some((machine, _)) if machine != ek => {
                let what = format!("the cluster in {} was begun on another machine", self.job.directory.shown());
                let failure = CommandError::new(Exit::Failed, CommandCode::AnotherMachine, what);
                let causes = format!("it was begun on the TPM {machine}, and this is the TPM {ek}");
                return Err(ConnectError::Fatal(
                    failure.because(causes).fix("use that machine's address, or another directory"),
                ));
            }
            // The journal names it; a flag may still name another.
            Some(_) if self.meant == Meant::NotNamed => self.meant = Meant::named(ek, "the journal"),
            _ => {}
        }
        self.meant.check(ek, self.output).map_err(ConnectError::Fatal)
    }

    fn ours(&self, cluster_id: &[u8]) -> Attempt<()> {
        if cluster_id == self.journal.cluster_id.as_bytes() {
            return Ok(());
        }
        let failure =
            CommandError::new(Exit::Node, CommandCode::WrongCluster, "the node says that it is in another cluster");
        Err(ConnectError::Fatal(
            failure.because(format!("it says {}", hex::encode(cluster_id.get(..32).unwrap_or(cluster_id)))),
        ))
    }
}
