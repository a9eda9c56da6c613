//! Stage 2 as a process of its own that is killed, or panics, before each of its effects. Nothing of it is a fake but the
//! cluster step, the attester (this machine has no TPM here) and the restart, which leaves a file instead.

use std::path::{Path, PathBuf};
use std::process::Command;

use latchkey_channel::NoProof;
use latchkey_disk::{Role, SegmentMode};
use latchkey_keys::ClusterId;
use latchkey_test_support::Port;
use rustix::process::{Signal, getpid, kill_process};

use super::tests::{CLUSTER, format};
use super::*;
use crate::cluster::{Progress, Running};
use crate::handover::SecretText;
use crate::lifecycle::{self, DiskPhase, NodeRole};

/// Tells the child its part: the directory, the index of the effect, and how it dies there.
const PART: &str = "LATCHKEY_CRASH_TEST";

/// A cluster step that ends at once, as the file `step-fails` says.
struct InstantStep(bool);

impl ClusterStep for InstantStep {
    fn run<'a>(&'a self, _: &'a Member, _: &'a Work, _: Progress<'a>) -> Running<'a> {
        let done = if self.0 {
            Err(StepError::new(crate::cluster::StepCode::Failed, "exit status 1"))
        } else {
            Ok(Done { admin_config: SecretVec::from_slice(b"kubeconfig"), addresses: Vec::new(), news: false })
        };
        Box::pin(async move { done })
    }
}

struct Node {
    directory: tempfile::TempDir,
}

impl Node {
    fn new(task: Task, phase: DiskPhase, step_fails: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let first = matches!(task, Task::Init { .. });
        let token_key = format(&directory, if first { Role::First } else { Role::Worker }, phase);
        let handover = HandOver {
            version: 1,
            node_name: "node-1".into(),
            role: if first { NodeRole::First } else { NodeRole::Worker },
            cluster_id: ClusterId::from_bytes(CLUSTER).to_string(),
            cluster_name: "plant".into(),
            disk_uuid: crate::flows::tests::DISK.into(),
            phase,
            attempts: 0,
            device: directory.path().join("disk").display().to_string(),
            mapping: "/dev/mapper/state".into(),
            token_key: SecretText::new(token_key.expose()),
            task,
            join_services: Vec::new(),
            left_at_ms: 1,
        };
        handover.write(&directory.path().join("handover.json")).unwrap();
        if step_fails {
            std::fs::write(directory.path().join("step-fails"), b"").unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs stage 2 until the effect `at`, where it dies. False if it has no such effect and ended by itself.
    fn dies(&self, at: usize, how: &str) -> bool {
        let role = format!("{at} {how} {}", self.directory.path().display());
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "stage2::crash_tests::child", "--ignored", "--test-threads=1"]).env(PART, role);
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("hunter2"), "a panic told what was worked on: {text}");
        !output.status.success()
    }

    /// What the next boot finds: true if the disk is one with which a boot goes on or begins anew.
    fn next_boot_goes_on(&self) -> bool {
        let mut node = lifecycle::Node::new();
        let event = match probe(&Disk::open_shared(&self.path("disk")).unwrap()).unwrap() {
            Probe::Fresh(fresh) => {
                let attempts = fresh.reset_marker().map_or(0, |marker| u8::try_from(marker.attempts).unwrap());
                lifecycle::Event::DiskFresh { attempts }
            }
            Probe::Existing(header) => {
                let header = header.check(SegmentMode::Confidential).unwrap();
                match header.claims_unfinished_bootstrap() {
                    Some(_) => lifecycle::Event::DiskAbandoned { attempts: 0 },
                    None => lifecycle::Event::DiskExisting,
                }
            }
            Probe::Refused(refusal) => panic!("{refusal}"),
        };
        !matches!(&node.handle(event)[..], [] | [lifecycle::Effect::End(lifecycle::Stop::Refused { .. })])
    }
}

/// Runs in a process of its own, started by [`Node::dies`].
#[test]
#[ignore = "the process that the tests of this file kill"]
fn child() {
    let Ok(played) = std::env::var(PART) else { return };
    let mut words = played.splitn(3, ' ');
    let mut word = || words.next().unwrap();
    let (at, how, directory) = (word().parse::<usize>().unwrap(), word(), Path::new(word()));
    let path = directory.join("handover.json");
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(directory).unwrap());
    let handover = HandOver::read(&path, owner).unwrap();
    let mark = directory.join("restarted");
    let restart: Restart = Arc::new(move || std::fs::write(&mark, b"").unwrap());
    restart_on_panic(&path, Arc::clone(&restart));
    let port = Port::reserve();
    let line = format!("latchkey.network=none latchkey.cluster_step=kubeadm latchkey.listen_port={}", port.number());
    let config = Config::parse(line.as_bytes()).unwrap();
    let machine = Machine {
        handover: path,
        enrolment: directory.join("enrolment.json"),
        step: Box::new(InstantStep(directory.join("step-fails").exists())),
        attester: Arc::new(|| Ok(Arc::new(NoProof))),
        restart,
        waits: Waits { patience: std::time::Duration::ZERO, linger: std::time::Duration::ZERO },
    };
    let stage = Stage2::new(handover, config, machine).unwrap();
    let count = std::cell::Cell::new(0);
    let secret = std::hint::black_box("hunter2");
    let _ = smol::block_on(stage.drive(|_| {
        if count.replace(count.get() + 1) == at {
            match how {
                "kill" => kill_process(getpid(), Signal::KILL).unwrap(),
                _ => panic!("while it worked on {secret}"),
            }
        }
    }));
}

fn each_step(how: &str, check: impl Fn(&Node)) {
    let init = || Task::Init {
        settings: SecretText::new(&[]),
        control_plane_files: SecretText::new(&[]),
        init_secret_hash: bcrypt::hash(b"of the test", 8).unwrap(),
        invitation: SecretText::new(&[]),
    };
    let join = || Task::Join { cluster: SecretText::new(&[]) };
    let cases: [(&dyn Fn() -> Task, DiskPhase, bool); 5] = [
        (&init, DiskPhase::Formatted, false),
        (&init, DiskPhase::Formatted, true),
        (&join, DiskPhase::Formatted, false),
        (&join, DiskPhase::Formatted, true),
        (&|| Task::start(None), DiskPhase::Bootstrapped, false),
    ];
    for (case, (task, phase, step_fails)) in cases.into_iter().enumerate() {
        let mut at = 0;
        loop {
            let node = Node::new(task(), phase, step_fails);
            if !node.dies(at, how) {
                break;
            }
            check(&node);
            assert!(!node.path("handover.json").exists(), "case {case}: the hand-over is there after a {how} at {at}");
            assert!(node.path("restarted").exists(), "case {case}: the machine stays up after a {how} at {at}");
            assert!(node.next_boot_goes_on(), "case {case}: the next boot is stuck after a {how} at {at}");
            at += 1;
        }
        assert!(at >= 3, "case {case} has {at} effects only");
    }
}

#[test]
fn stage_2_that_panics_at_any_step_restarts_the_machine_and_leaves_no_hand_over() {
    each_step("panic", |_| {});
}

#[test]
fn stage_2_that_is_killed_at_any_step_restarts_the_machine_and_leaves_no_hand_over() {
    each_step("kill", |node| {
        let restarted = node.path("restarted");
        ended::after(&node.path("handover.json"), "signal", &|| std::fs::write(&restarted, b"").unwrap());
    });
}
