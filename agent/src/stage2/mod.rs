//! Stage 2: the same binary as a oneshot of the OS. Makes the node a member of its cluster, tells whoever waits, wipes the
//! hand-over, exits.
//!
//! In code order: [`run`] reads the hand-over and the measured configuration; the loop performs the effects of
//! [`Bootstrap`]; [`attach`] serves the operator who follows a first node; [`report`] tells the join service.

mod attach;
#[cfg(test)]
mod crash_tests;
mod ended;
mod renew;
mod report;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use latchkey_api::control_plane::ControlPlaneFiles;
use latchkey_api::v1::{self, ClusterJoin, ClusterSettings};
use latchkey_channel::{Attester, TpmAttester};
use latchkey_disk::{Disk, KernelRandom, NodeState, Phase, Probe, ResetMarker, TokenKey, probe, reset, update_state};
use latchkey_keys::{Secret, SecretVec};
use latchkey_reason::{Reason, reason_codes};
use latchkey_tpm::device::{AttestingTpm, CharDevice, Tpm, TpmError};
use prost::Message as _;

use crate::cluster::{ClusterStep, Done, Hook, Kubeadm, Member, Seal, StepError, Work};
use crate::enrol::{self, Wanted};
use crate::flows::progress::Broadcast;
use crate::handover::{self, HandOver, HandOverError, SecretText, Task};
use crate::lifecycle::bootstrap::{Bootstrap, Effect, Event, Outcome};
use crate::platform::processor::KernelReports;
use crate::platform::timeline::Timeline;
use crate::platform::{clock, console, power};
use crate::stage1::BootCode;
use attach::{Attached, Ending, Waits};
use latchkey_node_config::{self as config, Config, ConfigError};

static TIMELINE: Timeline = Timeline::new();

pub use ended::run as ended;
pub use renew::run as renew_certificates;

/// Runs stage 2 to its end. Success is 0; a step that failed is 1; a hand-over or configuration that is not usable is 2.
/// Whatever happens, the hand-over is gone afterwards: what could not be used now is no use later. A node that cannot become
/// a member in this boot does not stay up: the machine restarts, and the next boot goes on or begins anew.
pub fn run() -> ExitCode {
    let path = Path::new(handover::PATH);
    restart_on_panic(path, Arc::new(restart_soon));
    match prepare(path, 0, Config::from_kernel) {
        Ok(stage) => {
            let code = smol::block_on(stage.drive(|_| {}));
            TIMELINE.print();
            code
        }
        Err(Stage2Error { code, message, restart }) => {
            console::failure("stage2", code, &message);
            if restart {
                restart_soon();
            }
            ExitCode::from(2)
        }
    }
}

/// Restarts the machine. It does not return, or failed.
type Restart = Arc<dyn Fn() + Send + Sync>;

/// Time to read the console, then a restart.
fn restart_soon() {
    power::linger(power::READING_TIME);
    power::restart();
}

/// Makes every panic, of whatever thread, print its place, wipe the hand-over at `path` and restart the machine: what is
/// half done is not gone on with. Release builds abort after that.
fn restart_on_panic(path: &Path, restart: Restart) {
    let path = path.to_owned();
    std::panic::set_hook(Box::new(move |info| {
        power::report_panic(info);
        wipe(&path);
        restart();
    }));
}

reason_codes! {
    /// What fails in stage 2 that is of no other list.
    pub enum Stage2Code {
        /// The hand-over cannot be used, or not be wiped.
        HandOver = "hand-over": "reboot the node, with one agent for both stages";
        /// The disk does not say that the node is a member.
        MarkFailed = "mark-failed": "replace the disk";
        /// The disk could not be reset after a bootstrap that failed.
        ResetFailed = "reset-failed": "nothing: the next boot finds the bootstrap unfinished and decides anew";
        /// Why the disk was reset, as its marker says.
        ClusterStepFailed = "cluster-step-failed": "fix what the failed step named on the console";
        /// Stage 2 was ended by something else.
        Died = "stage2-died": "see in the journal of latchkey-agent.service what ended it";
        /// A command that only the service manager gives.
        Usage = "usage": "let systemd call it: ExecStopPost= sets SERVICE_RESULT";
    }
}

/// Why stage 2 cannot begin.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
struct Stage2Error {
    code: Reason,
    message: String,
    /// The node is locked and no member: it must not stay up. Not so where stage 1 did not run at all.
    restart: bool,
}

/// Reads what stage 1 left, as `owner`. What is of no use is wiped.
fn prepare(
    path: &Path,
    owner: u32,
    config: impl FnOnce() -> Result<Config, ConfigError>,
) -> Result<Stage2, Stage2Error> {
    let unusable = |code: Reason, message| Stage2Error { code, message, restart: true };
    let read = || {
        let handover = HandOver::read(path, owner).map_err(|error| {
            let restart = !matches!(error, HandOverError::Missing);
            Stage2Error { code: Stage2Code::HandOver.into(), message: error.to_string(), restart }
        })?;
        let refused = |error: ConfigError| unusable(error.code().into(), error.to_string());
        let config = config().map_err(refused)?;
        let step = config.cluster_step().map_err(refused)?;
        let machine = Machine::real(&config, step, path);
        Stage2::new(handover, config, machine).map_err(|message| unusable(Stage2Code::HandOver.into(), message))
    };
    read().inspect_err(|_| wipe(path))
}

fn wipe(path: &Path) {
    match handover::wipe(path) {
        Ok(()) => console::line("stage2", "hand-over wiped"),
        Err(error) => console::failure("wipe", Stage2Code::HandOver, &error.to_string()),
    }
}

/// What stage 2 uses of the machine it runs on.
struct Machine {
    handover: PathBuf,
    /// Where is noted that the cluster is to be registered.
    enrolment: PathBuf,
    step: Box<dyn ClusterStep>,
    /// Opens the TPM; takes as long as the TPM takes.
    attester: Arc<dyn Fn() -> Result<Arc<dyn Attester>, TpmError> + Send + Sync>,
    restart: Restart,
    waits: Waits,
}

impl Machine {
    fn real(config: &Config, step: &config::ClusterStep, handover: &Path) -> Self {
        let open = config.clone();
        Self {
            handover: handover.into(),
            enrolment: enrol::PATH.into(),
            step: match step {
                config::ClusterStep::Kubeadm => Box::new(Kubeadm::default()),
                config::ClusterStep::Command(program) => Box::new(Hook { program: program.display().to_string() }),
            },
            attester: Arc::new(move || tpm_attester(&open)),
            restart: Arc::new(power::restart),
            waits: Waits::default(),
        }
    }
}

/// The node's TPM, with the keys that its configuration names.
pub(crate) fn tpm_attester(config: &Config) -> Result<Arc<dyn Attester>, TpmError> {
    let (ek, ak) = (crate::ek_template(config.ek), crate::attestation_key(config.ak));
    let tpm = Tpm::new(CharDevice::open(CharDevice::DEFAULT).map_err(TpmError::Io)?);
    let attester = AttestingTpm::with_key_of(tpm, ek, ak)?;
    let attester = TpmAttester::new(Arc::new(Mutex::new(attester)));
    Ok(Arc::new(attester.with_processor_reports(Arc::new(KernelReports::default()))))
}

struct Stage2 {
    handover: HandOver,
    member: Member,
    work: Work,
    machine: Machine,
    token_key: TokenKey,
    progress: Broadcast,
    attached: Option<Attached>,
    attester: Option<Arc<dyn Attester>>,
    config: Config,
    admin_config: SecretVec,
    addresses: Vec<IpAddr>,
    /// Of a member's start: whether the join service is told.
    news: bool,
}

/// The files that came with an init, if any did. The error says what is malformed.
fn shared_files(encoded: &SecretText) -> Result<Option<ControlPlaneFiles>, &'static str> {
    const MALFORMED: &str = "the control planes' files";
    if encoded.expose().is_empty() {
        return Ok(None);
    }
    let message = v1::ControlPlaneFiles::decode(encoded.expose()).map_err(|_| MALFORMED)?;
    ControlPlaneFiles::new(message.files).map(Some).map_err(|_| MALFORMED)
}

enum Next {
    Saw(Event),
    Exit(ExitCode),
}

impl Stage2 {
    /// The error says what in the hand-over is malformed.
    fn new(mut handover: HandOver, config: Config, machine: Machine) -> Result<Self, String> {
        let malformed = |what: &str| format!("{what} in the hand-over is malformed");
        let work = match &handover.task {
            Task::Init { settings, control_plane_files, .. } => Work::Init(
                ClusterSettings::decode(settings.expose()).map_err(|_| malformed("the cluster's settings"))?,
                shared_files(control_plane_files).map_err(malformed)?,
            ),
            Task::Join { cluster } => {
                Work::Join(ClusterJoin::decode(cluster.expose()).map_err(|_| malformed("the ticket"))?)
            }
            Task::Start { components } if components.expose().is_empty() => Work::Start(None),
            Task::Start { components } => {
                Work::Start(Some(v1::Components::decode(components.expose()).map_err(|_| malformed("the components"))?))
            }
        };
        let token_key = Secret::from_slice(handover.token_key.expose()).map_err(|_| malformed("the token key"))?;
        let member = Member {
            node_name: handover.node_name.clone(),
            role: handover.role,
            cluster_id: handover.cluster_id.clone(),
            cluster_name: std::mem::take(&mut handover.cluster_name),
            disk: handover.mapping.clone(),
            seal: Seal::new(token_key.expose()),
        };
        Ok(Self {
            handover,
            member,
            work,
            machine,
            token_key: TokenKey::from_secret(token_key),
            progress: Broadcast::default(),
            attached: None,
            attester: None,
            config,
            admin_config: SecretVec::from_slice(&[]),
            addresses: Vec::new(),
            news: false,
        })
    }

    /// `about_to` is called before each effect; tests end the process there.
    async fn drive(mut self, about_to: impl Fn(&Effect)) -> ExitCode {
        let mut machine = Bootstrap::new();
        let entered = Event::Entered { phase: self.handover.phase, attempts: self.handover.attempts };
        let mut todo = VecDeque::from(machine.handle(entered));
        while let Some(effect) = todo.pop_front() {
            about_to(&effect);
            match self.perform(effect).await {
                Next::Saw(event) => todo.extend(machine.handle(event)),
                Next::Exit(code) => return code,
            }
        }
        // The machine always ends with an exit; should it not, that is a failure.
        ExitCode::FAILURE
    }

    async fn perform(&mut self, effect: Effect) -> Next {
        match effect {
            Effect::StartMember => self.run_step("start-member").await,
            Effect::RunStep => {
                if let Task::Init { init_secret_hash, .. } = &self.handover.task {
                    let hash = init_secret_hash.clone();
                    self.open_door(&hash).await;
                }
                self.run_step("cluster-step").await
            }
            Effect::Mark => Next::Saw(self.mark()),
            Effect::Report(outcome) => {
                self.report(outcome).await;
                Next::Saw(Event::Reported)
            }
            Effect::ResetDisk { attempts } => {
                let step = TIMELINE.begin("reset-disk");
                match self.reset(attempts) {
                    Ok(()) => step.done(),
                    // The next boot finds an unfinished bootstrap and decides anew.
                    Err(error) => step.failed(Stage2Code::ResetFailed, &error),
                }
                Next::Saw(Event::DiskReset)
            }
            Effect::Wipe => {
                wipe(&self.machine.handover);
                Next::Saw(Event::Wiped)
            }
            Effect::Exit => Next::Exit(ExitCode::SUCCESS),
            Effect::ExitFailed => Next::Exit(ExitCode::FAILURE),
            Effect::Reboot => {
                console::line("stage2", "rebooting into a fresh start");
                (self.machine.restart)();
                Next::Exit(ExitCode::FAILURE)
            }
        }
    }

    async fn run_step(&mut self, name: &'static str) -> Next {
        let step = TIMELINE.begin(name);
        let broadcast = self.progress.clone();
        let mut progress = |line: &str| {
            console::line(name, line);
            broadcast.tell(name, line, crate::flows::init::millis(clock::uptime()));
        };
        match self.machine.step.run(&self.member, &self.work, &mut progress).await {
            Ok(Done { admin_config, addresses, news }) => {
                (self.admin_config, self.addresses, self.news) = (admin_config, addresses, news);
                step.done();
                Next::Saw(Event::StepDone)
            }
            Err(StepError { code, message, log_tail, disk_stays }) => {
                step.failed(code, &message);
                self.news = code.is_of_an_upgrade();
                if let Some(attached) = &mut self.attached {
                    attached.keep_log(log_tail);
                }
                Next::Saw(Event::StepFailed { code: code.into(), message, disk_stays })
            }
        }
    }

    /// Opens the port for the operator. A node that cannot is a member all the same.
    async fn open_door(&mut self, init_secret_hash: &str) {
        let Some(attester) = self.attester().await else { return };
        let (port, progress) = (self.config.listen_port, self.progress.clone());
        match Attached::open(port, attester, &self.handover, init_secret_hash, progress).await {
            Ok(attached) => self.attached = Some(attached),
            Err(error) => console::failure("attach", BootCode::ListenFailed, &error),
        }
    }

    async fn attester(&mut self) -> Option<Arc<dyn Attester>> {
        if self.attester.is_none() {
            let open = Arc::clone(&self.machine.attester);
            match smol::unblock(move || open()).await {
                Ok(attester) => self.attester = Some(attester),
                Err(error) => console::failure("tpm", error.code(), &error.to_string()),
            }
        }
        self.attester.clone()
    }

    fn mark(&self) -> Event {
        let step = TIMELINE.begin("mark-disk");
        let noted = self.note_enrolment().map_err(|error| error.to_string());
        let marked = noted
            .and_then(|()| Disk::open_shared(Path::new(&self.handover.device)).map_err(|e| e.to_string()))
            .and_then(|mut disk| {
                let done = |state: &NodeState| NodeState { phase: Phase::Bootstrapped, ..state.clone() };
                update_state(&mut disk, &self.token_key, done, &mut KernelRandom).map_err(|e| e.to_string())
            });
        match marked {
            Ok(_) => {
                step.done();
                Event::Marked
            }
            Err(why) => {
                let message = format!("{why}: the node is a member in this boot, but its disk does not say so");
                step.failed(Stage2Code::MarkFailed, &message);
                Event::MarkFailed { code: Stage2Code::MarkFailed.into(), message }
            }
        }
    }

    /// Before the disk says that the node is a member: afterwards no boot would note it.
    fn note_enrolment(&self) -> Result<(), StepError> {
        match &self.handover.task {
            Task::Init { invitation, .. } if self.config.centre.is_some() => {
                let HandOver { disk_uuid, node_name, .. } = &self.handover;
                Wanted::new(disk_uuid, node_name, invitation).keep(&self.machine.enrolment)
            }
            _ => Ok(()),
        }
    }

    async fn report(&mut self, outcome: Outcome) {
        if matches!(self.handover.task, Task::Start { .. }) && !self.news {
            return;
        }
        let step = TIMELINE.begin("report");
        if !matches!(self.handover.task, Task::Init { .. })
            && let Some(attester) = self.attester().await
        {
            match report::report(&self.handover, &self.config, attester, &outcome, &self.addresses).await {
                Ok(()) => step.note("the join service knows"),
                Err(error) => step.note(format_args!("the join service was not told: {error}")),
            }
        }
        if let Some(attached) = self.attached.take() {
            let admin_config = std::mem::replace(&mut self.admin_config, SecretVec::from_slice(&[]));
            let addresses = self.addresses.clone();
            if attached.finish(Ending { outcome, admin_config, addresses }, self.machine.waits).await {
                step.note("the operator has the result");
            } else {
                step.note("nobody came for the result");
            }
        }
        step.done();
    }

    fn reset(&self, attempts: u8) -> Result<(), String> {
        let mut disk = Disk::open_shared(Path::new(&self.handover.device)).map_err(|e| e.to_string())?;
        let Probe::Existing(header) = probe(&disk).map_err(|e| e.to_string())? else {
            return Err("the disk has no header".into());
        };
        let header = header.check_either_mode().map_err(|e| e.to_string())?;
        header.authenticate(&self.token_key).map_err(|e| e.to_string())?;
        let permit = header.claims_unfinished_bootstrap().ok_or("the disk belongs to a member")?;
        let reason = Stage2Code::ClusterStepFailed.as_str().parse().unwrap_or_default();
        let marker = ResetMarker { attempts: attempts.into(), reason };
        reset(&mut disk, permit, &marker).map_err(|e| e.to_string())
    }
}
