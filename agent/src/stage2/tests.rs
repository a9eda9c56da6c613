//! Stage 2 over a real LUKS2 disk in a file and the real channel, with a real TPM 2.0 (swtpm); the cluster step is a fake.
//! Skipped, and says so, where swtpm is not installed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use latchkey_api::grpc::{Code, Status};
use latchkey_api::v1::{AttachRequest, DescribeRequest, InitEvent, NodeStage, init_event};
use latchkey_channel::Purpose as ChannelRole;
use latchkey_disk::{DiskError, Role, SegmentMode};
use latchkey_keys::ClusterId;
use latchkey_test_support::Port;
use smol::channel::{Receiver, Sender, bounded};
use tempfile::TempDir;

use super::*;
use crate::cluster::{Progress, Running, StepCode};
use crate::flows::tests::ticket::{key, listen, serve};
use crate::flows::tests::{Caller, DISK, Machine as Tpm2, PATIENCE, disk as uuid, events};
use crate::handover::SecretText;
use crate::lifecycle::{DiskPhase, NodeRole};

const SECRET: &[u8] = b"an init secret of the test";
pub(super) const CLUSTER: [u8; 32] = [0xc1; 32];

/// A fake cluster step: says that it began, and ends as it is told.
struct FakeStep {
    began: Sender<()>,
    end: Receiver<Result<Done, StepError>>,
}

impl ClusterStep for FakeStep {
    fn run<'a>(&'a self, _: &'a Member, _: &'a Work, progress: Progress<'a>) -> Running<'a> {
        Box::pin(async move {
            progress("the step begins");
            self.began.send(()).await.unwrap();
            self.end.recv().await.unwrap()
        })
    }
}

/// A node in stage 2, and what the test holds of it.
struct Booted {
    tpm: Tpm2,
    directory: TempDir,
    port: Port,
    began: Receiver<()>,
    end: Sender<Result<Done, StepError>>,
    reboots: Arc<AtomicUsize>,
    stage: Option<Stage2>,
}

fn init() -> Task {
    Task::Init {
        settings: SecretText::new(&[]),
        control_plane_files: SecretText::new(&[]),
        init_secret_hash: bcrypt::hash(SECRET, 8).unwrap(),
        invitation: SecretText::new(&[]),
    }
}

fn boot(task: Task, phase: DiskPhase, change: impl FnOnce(&mut HandOver, &mut Config, &mut Machine)) -> Option<Booted> {
    let tpm = Tpm2::start()?;
    tpm.attester.lock().unwrap().extend_event(15, &CLUSTER).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let role = if matches!(task, Task::Init { .. }) { Role::First } else { Role::Worker };
    let token_key = format(&directory, role, phase);
    let mut handover = HandOver {
        version: 1,
        node_name: "node-1".into(),
        role: if role == Role::First { NodeRole::First } else { NodeRole::Worker },
        cluster_id: hex::encode(CLUSTER),
        cluster_name: "plant".into(),
        disk_uuid: DISK.into(),
        phase,
        attempts: 0,
        device: directory.path().join("disk").display().to_string(),
        mapping: "/dev/mapper/state".into(),
        token_key: SecretText::new(token_key.expose()),
        task,
        join_services: Vec::new(),
        left_at_ms: 1,
    };
    let port = Port::reserve();
    let mut config = Config::parse(b"latchkey.network=none").unwrap();
    config.listen_port = port.number();
    let (tell_began, began) = bounded(1);
    let (end, told_end) = bounded(1);
    let reboots = Arc::new(AtomicUsize::new(0));
    let (count, attester) = (Arc::clone(&reboots), tpm.attester());
    let mut machine = Machine {
        handover: directory.path().join("handover.json"),
        enrolment: directory.path().join("enrolment.json"),
        step: Box::new(FakeStep { began: tell_began, end: told_end }),
        attester: Arc::new(move || Ok(Arc::clone(&attester))),
        restart: Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }),
        // An operator that is expected has all the time; the other tests say how little.
        waits: Waits { patience: PATIENCE, linger: PATIENCE },
    };
    change(&mut handover, &mut config, &mut machine);
    handover.write(&machine.handover).unwrap();
    let stage = Some(Stage2::new(handover, config, machine).unwrap());
    Some(Booted { tpm, directory, port, began, end, reboots, stage })
}

/// Formats the disk as stage 1 does.
pub(super) fn format(directory: &TempDir, role: Role, phase: DiskPhase) -> TokenKey {
    let path = directory.path().join("disk");
    std::fs::File::create(&path).unwrap().set_len(32 << 20).unwrap();
    let mut disk = Disk::open_shared(&path).unwrap();
    let Probe::Fresh(fresh) = probe(&disk).unwrap() else { panic!("not fresh") };
    let state = NodeState {
        role,
        node_name: "node-1".parse().unwrap(),
        cluster_id: ClusterId::from_bytes(CLUSTER),
        measurement_salt: [3; 32],
        phase: Phase::Formatted,
        epoch: 1,
        attempt: 0,
    };
    let disk_key = Secret::from_slice(&[1; 32]).unwrap();
    let unlocked = fresh.format(&mut disk, uuid(), &disk_key, state, &mut KernelRandom).unwrap();
    let token_key = unlocked.into_token_key();
    if phase == DiskPhase::Bootstrapped {
        let done = |state: &NodeState| NodeState { phase: Phase::Bootstrapped, ..state.clone() };
        let marked: Result<_, DiskError> = update_state(&mut disk, &token_key, done, &mut KernelRandom);
        marked.unwrap();
    }
    token_key
}

impl Booted {
    /// Runs stage 2; true if it ends well.
    fn run(&mut self) -> smol::Task<bool> {
        let stage = self.stage.take().unwrap();
        smol::spawn(async move { format!("{:?}", stage.drive(|_| {}).await) == format!("{:?}", ExitCode::SUCCESS) })
    }

    async fn attach(&self) -> Caller {
        self.tpm.caller(self.port.address(), ChannelRole::Attach).await.unwrap()
    }

    async fn succeed(&self) {
        let addresses = vec![[192, 0, 2, 7].into()];
        self.end_with(addresses, false).await;
    }

    async fn end_with(&self, addresses: Vec<IpAddr>, news: bool) {
        let admin_config = SecretVec::from_slice(b"kubeconfig");
        self.end.send(Ok(Done { admin_config, addresses, news })).await.unwrap();
    }

    async fn fail(&self) {
        self.fail_with(StepCode::Failed).await;
    }

    async fn fail_with(&self, code: StepCode) {
        let error = StepError {
            code,
            message: "exit status 1".into(),
            log_tail: "the last line of the step".into(),
            disk_stays: false,
        };
        self.end.send(Err(error)).await.unwrap();
    }

    fn disk(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    fn phase(&self) -> Option<Phase> {
        match probe(&Disk::open_shared(&self.disk()).unwrap()).unwrap() {
            Probe::Existing(header) => {
                Some(header.check(SegmentMode::Confidential).unwrap().claimed_state().unwrap().phase)
            }
            Probe::Fresh(_) | Probe::Refused(_) => None,
        }
    }

    fn attempts(&self) -> u32 {
        match probe(&Disk::open_shared(&self.disk()).unwrap()).unwrap() {
            Probe::Fresh(fresh) => fresh.reset_marker().unwrap().attempts,
            other => panic!("not reset: {other:?}"),
        }
    }

    fn wiped(&self) -> bool {
        !self.directory.path().join("handover.json").exists()
    }
}

fn request(secret: &[u8], cluster_id: &[u8]) -> AttachRequest {
    AttachRequest { init_secret: secret.into(), cluster_id: cluster_id.into() }
}

async fn follow(caller: &Caller) -> Vec<InitEvent> {
    let (events, ended) = events(caller.init().attach(&request(SECRET, &CLUSTER), PATIENCE).await).await;
    ended.unwrap();
    events
}

async fn denial(caller: &Caller, request: AttachRequest) -> Status {
    let (_, ended) = events(caller.init().attach(&request, PATIENCE).await).await;
    ended.unwrap_err()
}

fn admin_config(events: &[InitEvent]) -> &[u8] {
    match &events.last().unwrap().event {
        Some(init_event::Event::Succeeded(succeeded)) => &succeeded.admin_config,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_operator_who_follows_gets_progress_and_the_result_and_nobody_waits_longer() {
    let Some(mut node) = boot(init(), DiskPhase::Formatted, |_, _, _| {}) else { return };
    latchkey_test_support::block_on(async {
        let stage = node.run();
        node.began.recv().await.unwrap();
        let operator = node.attach().await;
        let described = operator.init().describe(&DescribeRequest {}, PATIENCE).await.unwrap();
        assert_eq!((described.stage(), described.cluster_id), (NodeStage::Bootstrapping, hex::encode(CLUSTER)));
        let following = smol::spawn(async move { (follow(&operator).await, operator) });
        node.succeed().await;
        let (events, operator) = following.await;
        assert_eq!(admin_config(&events), b"kubeconfig");
        let said = |event: &InitEvent| matches!(&event.event, Some(init_event::Event::Progress(line)) if line.detail == "the step begins");
        assert!(events.iter().any(said), "{events:?}");
        let began = Instant::now();
        operator.closed().await;
        assert!(stage.await);
        assert!(began.elapsed() < PATIENCE / 2, "the closed was not heard: {:?}", began.elapsed());
    });
    assert_eq!((node.phase(), node.wiped()), (Some(Phase::Bootstrapped), true));
    assert_eq!(node.reboots.load(Ordering::Relaxed), 0);
}

#[test]
fn an_operator_who_comes_after_the_end_still_gets_the_result() {
    let Some(mut node) = boot(init(), DiskPhase::Formatted, |_, _, _| {}) else { return };
    latchkey_test_support::block_on(async {
        let stage = node.run();
        node.began.recv().await.unwrap();
        node.succeed().await;
        while node.phase() != Some(Phase::Bootstrapped) {
            smol::future::yield_now().await;
        }
        let operator = node.attach().await;
        assert_eq!(admin_config(&follow(&operator).await), b"kubeconfig");
        operator.closed().await;
        assert!(stage.await);
    });
    assert!(node.wiped());
}

#[test]
fn a_result_that_was_lost_with_its_connection_can_be_fetched_again() {
    let Some(mut node) = boot(init(), DiskPhase::Formatted, |_, _, _| {}) else { return };
    latchkey_test_support::block_on(async {
        let stage = node.run();
        node.began.recv().await.unwrap();
        node.succeed().await;
        let lost = node.attach().await;
        assert_eq!(admin_config(&follow(&lost).await), b"kubeconfig");
        lost.cut().await;
        let operator = node.attach().await;
        assert_eq!(admin_config(&follow(&operator).await), b"kubeconfig");
        operator.closed().await;
        assert!(stage.await);
    });
}

#[test]
fn two_operators_both_hear_it() {
    let Some(mut node) = boot(init(), DiskPhase::Formatted, |_, _, _| {}) else { return };
    latchkey_test_support::block_on(async {
        let stage = node.run();
        node.began.recv().await.unwrap();
        let (one, two) = (node.attach().await, node.attach().await);
        let both = smol::future::zip(follow(&one), follow(&two));
        let ((one_heard, two_heard), ()) = smol::future::zip(both, node.succeed()).await;
        assert_eq!(admin_config(&one_heard), admin_config(&two_heard));
        one.closed().await;
        two.closed().await;
        assert!(stage.await);
    });
}

#[test]
fn an_operator_who_never_comes_does_not_keep_the_node_from_its_work() {
    let brief = |_: &mut HandOver, _: &mut Config, machine: &mut Machine| machine.waits.patience = Duration::ZERO;
    let Some(mut node) = boot(init(), DiskPhase::Formatted, brief) else { return };
    latchkey_test_support::block_on(async {
        let stage = node.run();
        node.succeed().await;
        assert!(stage.await);
    });
    assert_eq!((node.phase(), node.wiped()), (Some(Phase::Bootstrapped), true));
    assert!(std::net::TcpStream::connect(node.port.address()).is_err(), "the port is closed");
}

#[test]
fn nobody_follows_with_a_wrong_secret_or_for_another_cluster_or_for_another_purpose() {
    let Some(mut node) = boot(init(), DiskPhase::Formatted, |_, _, _| {}) else { return };
    latchkey_test_support::block_on(async {
        let stage = node.run();
        node.began.recv().await.unwrap();
        node.succeed().await;
        let operator = node.attach().await;
        let wrong_secret = denial(&operator, request(b"an init secret of a guess", &CLUSTER)).await;
        assert_eq!(wrong_secret.code(), Code::PermissionDenied);
        for cluster_id in [&[0; 32][..], &CLUSTER[..31], &[]] {
            assert_eq!(denial(&operator, request(SECRET, cluster_id)).await.code(), Code::FailedPrecondition);
        }
        let address = node.port.address();
        assert!(node.tpm.caller(address, ChannelRole::Init).await.is_err());
        let verifier = node.tpm.caller(address, ChannelRole::Verify).await.unwrap();
        assert_eq!(denial(&verifier, request(SECRET, &CLUSTER)).await.code(), Code::PermissionDenied);
        assert_eq!(admin_config(&follow(&operator).await), b"kubeconfig");
        operator.closed().await;
        drop(verifier);
        assert!(stage.await);
    });
}

#[test]
fn a_failed_step_is_told_resets_the_disk_counts_and_reboots() {
    let twice = |handover: &mut HandOver, _: &mut Config, _: &mut Machine| handover.attempts = 1;
    let Some(mut node) = boot(init(), DiskPhase::Formatted, twice) else { return };
    latchkey_test_support::block_on(async {
        let stage = node.run();
        node.began.recv().await.unwrap();
        node.fail().await;
        let operator = node.attach().await;
        let events = follow(&operator).await;
        let Some(init_event::Event::Failed(failed)) = &events.last().unwrap().event else { panic!("{events:?}") };
        assert_eq!((failed.code.as_str(), failed.disk_reset), ("step-failed", true));
        assert_eq!(failed.log_tail, b"the last line of the step");
        operator.closed().await;
        assert!(!stage.await);
    });
    assert_eq!((node.attempts(), node.wiped()), (2, true));
    assert_eq!(node.reboots.load(Ordering::Relaxed), 1);
}

/// Noted before the disk is marked: a node that could not note it is no member, and begins anew.
#[test]
fn a_founded_cluster_is_noted_for_its_centre_where_the_command_line_names_one() {
    let line = format!("latchkey.network=none latchkey.centre=a:1 latchkey.centre_key=sha256:{}", "ab".repeat(32));
    let named = |config: &mut Config| config.centre = Config::parse(line.as_bytes()).unwrap().centre;
    let hurry = |machine: &mut Machine| machine.waits.patience = Duration::ZERO;
    for (names, taken) in [(true, false), (false, false), (true, true)] {
        let change = |_: &mut HandOver, config: &mut Config, machine: &mut Machine| {
            if names {
                named(config);
            }
            if taken {
                // Nothing can be written there.
                machine.enrolment = "/proc/latchkey/enrolment.json".into();
            }
            hurry(machine);
        };
        let Some(mut node) = boot(init(), DiskPhase::Formatted, change) else { return };
        let ended = latchkey_test_support::block_on(async {
            let stage = node.run();
            node.succeed().await;
            stage.await
        });
        let noted = node.directory.path().join("enrolment.json");
        assert_eq!((noted.exists(), ended), (names && !taken, !taken));
        assert_eq!(node.phase(), Some(if taken { Phase::Formatted } else { Phase::Bootstrapped }));
    }
}

#[test]
fn a_mark_that_fails_keeps_the_disk() {
    let elsewhere = |handover: &mut HandOver, _: &mut Config, machine: &mut Machine| {
        handover.device.push_str("-that-is-gone");
        machine.waits.patience = Duration::ZERO;
    };
    let Some(mut node) = boot(init(), DiskPhase::Formatted, elsewhere) else { return };
    latchkey_test_support::block_on(async {
        let stage = node.run();
        node.succeed().await;
        assert!(!stage.await);
    });
    assert_eq!((node.phase(), node.wiped()), (Some(Phase::Formatted), true));
    assert_eq!(node.reboots.load(Ordering::Relaxed), 0);
}

#[test]
fn a_disk_that_is_not_the_one_of_the_hand_over_is_never_reset() {
    let foreign = |handover: &mut HandOver, _: &mut Config, machine: &mut Machine| {
        handover.token_key = SecretText::new(&[0x66; 32]);
        machine.waits.patience = Duration::ZERO;
    };
    let Some(mut node) = boot(init(), DiskPhase::Formatted, foreign) else { return };
    let before = std::fs::read(node.disk()).unwrap();
    latchkey_test_support::block_on(async {
        let stage = node.run();
        node.fail().await;
        assert!(!stage.await);
    });
    assert!(before == std::fs::read(node.disk()).unwrap(), "the disk changed");
    assert!(node.wiped());
}

#[test]
fn a_member_that_does_not_start_keeps_its_disk() {
    let Some(mut node) = boot(Task::start(None), DiskPhase::Bootstrapped, |_, _, _| {}) else { return };
    let before = std::fs::read(node.disk()).unwrap();
    latchkey_test_support::block_on(async {
        let stage = node.run();
        node.fail().await;
        assert!(!stage.await);
    });
    assert!(before == std::fs::read(node.disk()).unwrap(), "the disk changed");
    assert_eq!((node.wiped(), node.reboots.load(Ordering::Relaxed)), (true, 0));
}

#[test]
fn a_join_is_reported_to_the_service_that_answers_though_another_hangs() {
    latchkey_test_support::block_on(async {
        let Some(tpm) = Tpm2::start() else { return };
        let (key, silent) = (key(), listen().await);
        let service = serve(&tpm, listen().await, &key, []);
        let services = vec![silent.local_addr().unwrap().to_string(), service.address.clone()];
        let pin = key.hash();
        let Some(mut node) =
            boot(Task::Join { cluster: SecretText::new(&[]) }, DiskPhase::Formatted, |handover, config, _| {
                handover.join_services = services;
                config.join_service_key = Some(config::SpkiHash(pin.0));
            })
        else {
            return;
        };
        let began = Instant::now();
        let stage = node.run();
        node.succeed().await;
        assert!(stage.await);
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        assert_eq!(service.asked.recv().await.unwrap(), format!("{DISK} true "));
        assert_eq!((node.phase(), node.wiped()), (Some(Phase::Bootstrapped), true));
    });
}

/// What a member's start tells the join service.
fn told_at_start(end: impl AsyncFnOnce(&Booted), ends_well: bool) -> Option<Vec<String>> {
    latchkey_test_support::block_on(async {
        let tpm = Tpm2::start()?;
        let key = key();
        let service = serve(&tpm, listen().await, &key, []);
        let (address, pin) = (service.address.clone(), key.hash());
        let mut node = boot(Task::start(None), DiskPhase::Bootstrapped, |handover, config, _| {
            handover.join_services = vec![address];
            config.join_service_key = Some(config::SpkiHash(pin.0));
        })?;
        let stage = node.run();
        end(&node).await;
        assert_eq!(stage.await, ends_well);
        assert_eq!((node.phase(), node.wiped()), (Some(Phase::Bootstrapped), true));
        assert_eq!(node.reboots.load(Ordering::Relaxed), 0);
        Some(std::iter::from_fn(|| service.asked.try_recv().ok()).collect())
    })
}

#[test]
fn a_member_s_start_is_reported_if_it_is_about_an_upgrade_of_kubernetes() {
    let nothing: [String; 0] = [];
    let Some(told) = told_at_start(async |node| node.end_with(Vec::new(), false).await, true) else { return };
    assert_eq!(told, nothing);
    let told = told_at_start(async |node| node.end_with(Vec::new(), true).await, true).unwrap();
    assert_eq!(told, [format!("{DISK} true ")]);
    let told = told_at_start(async |node| node.fail_with(StepCode::Timeout).await, false).unwrap();
    assert_eq!(told, nothing);
    let told = told_at_start(async |node| node.fail_with(StepCode::SkipsMinor).await, false).unwrap();
    assert_eq!(told, [format!("{DISK} false kubernetes-skips-a-minor")]);
}

#[test]
fn a_report_that_could_not_be_written_is_repeated_and_a_refused_one_is_not() {
    let reports = |answers: Vec<Status>| {
        latchkey_test_support::block_on(async {
            let tpm = Tpm2::start()?;
            let key = key();
            let service = serve(&tpm, listen().await, &key, answers.into_iter().map(Err));
            let (address, pin) = (service.address.clone(), key.hash());
            let mut node =
                boot(Task::Join { cluster: SecretText::new(&[]) }, DiskPhase::Formatted, |handover, config, _| {
                    handover.join_services = vec![address];
                    config.join_service_key = Some(config::SpkiHash(pin.0));
                })?;
            let stage = node.run();
            node.succeed().await;
            assert!(stage.await);
            Some(service.asked.len())
        })
    };
    let not_written = || Status::internal("record-not-written");
    let Some(repeated) = reports(vec![not_written(), Status::unavailable("busy")]) else { return };
    assert_eq!(repeated, 3);
    assert_eq!(reports(vec![Status::permission_denied("node-denied"), not_written()]), Some(1));
}

#[test]
fn a_service_that_is_started_anew_meanwhile_is_told_all_the_same() {
    let asked = latchkey_test_support::block_on(async {
        let tpm = Tpm2::start()?;
        let (key, listener) = (key(), listen().await);
        let (address, pin) = (listener.local_addr().unwrap().to_string(), key.hash());
        let mut node =
            boot(Task::Join { cluster: SecretText::new(&[]) }, DiskPhase::Formatted, |handover, config, _| {
                handover.join_services = vec![address];
                config.join_service_key = Some(config::SpkiHash(pin.0));
            })?;
        let stage = node.run();
        node.succeed().await;
        drop(listener.accept().await.unwrap());
        let service = serve(&tpm, listener, &key, []);
        assert!(stage.await);
        Some(service.asked.len())
    });
    assert!(asked.is_none_or(|asked| asked == 1));
}

#[test]
fn a_hand_over_that_is_of_no_use_is_wiped_too() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let directory = tempfile::tempdir().unwrap();
    let owner = std::fs::metadata(directory.path()).unwrap().uid();
    let path = directory.path().join("handover.json");
    let config = || Config::parse(b"latchkey.network=none latchkey.cluster_step=kubeadm");
    let handover = |task| HandOver {
        version: 1,
        node_name: "node-1".into(),
        role: NodeRole::Worker,
        cluster_id: hex::encode(CLUSTER),
        cluster_name: String::new(),
        disk_uuid: DISK.into(),
        phase: DiskPhase::Formatted,
        attempts: 0,
        device: "/dev/vda".into(),
        mapping: "/dev/mapper/state".into(),
        token_key: SecretText::new(&[1; 32]),
        task,
        join_services: Vec::new(),
        left_at_ms: 1,
    };
    let code = |config: &dyn Fn() -> Result<Config, ConfigError>| {
        prepare(&path, owner, config).err().map(|error| (error.code.as_str(), error.restart))
    };

    assert_eq!(code(&config), Some(("hand-over", false)), "there is none, and a machine that runs is not restarted");
    std::fs::write(&path, b"{}").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(code(&config), Some(("hand-over", true)));
    assert!(!path.exists());
    handover(Task::start(None)).write(&path).unwrap();
    assert_eq!(code(&|| Config::parse(b"latchkey.debug=1")), Some(("config-unknown-key", true)));
    assert!(!path.exists());
    handover(Task::start(None)).write(&path).unwrap();
    assert_eq!(code(&|| Config::parse(b"latchkey.network=none")), Some(("config-missing-key", true)));
    assert!(!path.exists());
    handover(Task::Join { cluster: SecretText::new(&[0xff; 9]) }).write(&path).unwrap();
    assert_eq!(code(&config), Some(("hand-over", true)));
    assert!(!path.exists());
    handover(Task::start(None)).write(&path).unwrap();
    assert_eq!(code(&config), None);
    assert!(path.exists(), "it is still needed");
}
