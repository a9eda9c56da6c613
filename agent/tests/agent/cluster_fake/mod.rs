//! A node whose kubeadm, kubectl and systemctl are fakes (`kubeadm.sh`, `kubectl.sh`, `systemctl.sh`) that record how they are called.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latchkey_agent::cluster::{ClusterStep as _, Done, Kubeadm, Member, Seal, StepError, Work};
use latchkey_agent::lifecycle::NodeRole;
use latchkey_api::control_plane::{NAMES, file};
use latchkey_api::v1::{ClusterJoin, ClusterSettings, ControlPlaneFile, SecretsKey};

/// Has the form of a token, and is found wherever it leaks.
pub(crate) const TOKEN: &str = "secret.0123456789abcdef";

/// A directory with the fakes, their records, and the node's own directories `etc` and `run`.
pub(crate) struct FakeKubeadm {
    directory: tempfile::TempDir,
}

/// What a step told, and how it ended.
pub(crate) struct Ran {
    pub(crate) result: Result<Done, StepError>,
    pub(crate) lines: Vec<String>,
}

impl FakeKubeadm {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent/cluster_fake");
        for name in ["kubeadm", "kubectl", "systemctl"] {
            // Linked, not written: a script that was written a moment ago may still be open in a process that another
            // test forks ("text file busy").
            symlink(scripts.join(format!("{name}.sh")), directory.path().join(name)).unwrap();
        }
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Shell commands for the `nth` call of `program` with `verb`, before it does what it would.
    pub(crate) fn on(&self, program: &str, verb: &str, nth: u32, script: &str) {
        fs::write(self.path(&format!("{program}.{verb}.{nth}.does")), script).unwrap();
    }

    pub(crate) fn step(&self) -> Kubeadm {
        Kubeadm {
            program: self.path("kubeadm").display().to_string(),
            kubectl: self.path("kubectl").display().to_string(),
            systemctl: self.path("systemctl").display().to_string(),
            balancer: self.path("api-balancer"),
            components: self.path("components"),
            fetched: self.path("fetched"),
            directory: self.path("etc"),
            logs: self.path("logs"),
            etcd: self.path("etcd"),
            kubelet: self.path("kubelet"),
            services: self.path("services"),
            is_kept_on: |directory, disk| {
                assert_eq!(disk, "/dev/mapper/state");
                Ok(!directory.with_extension("elsewhere").exists())
            },
            run: self.path("run"),
            limit: Duration::from_mins(1),
        }
    }

    pub(crate) fn run(&self, member: &Member, work: &Work) -> Ran {
        let mut lines = Vec::new();
        let mut progress = |line: &str| lines.push(line.to_owned());
        let result = latchkey_test_support::block_on(self.step().run(member, work, &mut progress));
        Ran { result, lines }
    }

    /// Each call so far, in order, paths without the directory, and without the configuration's.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let here = format!("{}/", self.directory.path().display());
        text.lines().map(|line| line.replace(&here, "").replace(" --config=run/kubeadm.json", "")).collect()
    }

    /// The records of all calls whose name ends like this: `argv`, `environ`, `stdin`, `mode`, `files`, `config`.
    pub(crate) fn records(&self, kind: &str) -> Vec<String> {
        (1..=self.calls().len())
            .filter_map(|nth| fs::read(self.path(&format!("{nth}.{kind}"))).ok())
            .map(|bytes| String::from_utf8(bytes).unwrap())
            .collect()
    }
}

pub(crate) fn member(role: NodeRole) -> Member {
    Member {
        node_name: "edge-1.plant-7.example".into(),
        role,
        cluster_id: "ab".repeat(32),
        cluster_name: "plant".into(),
        disk: "/dev/mapper/state".into(),
        seal: Seal::new(&[7; 32]),
    }
}

pub(crate) fn ticket() -> ClusterJoin {
    let mut ticket = ClusterJoin::default();
    ticket.api_server_endpoint = "192.0.2.1:6443".into();
    ticket.bootstrap_token = TOKEN.into();
    ticket.ca_certificates = b"-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n".into();
    ticket
}

/// What Secrets are encrypted with, in the form of one.
pub(crate) fn secrets_key() -> SecretsKey {
    let mut key = SecretsKey::default();
    (key.key, key.version) = (vec![0x5e; 32], 1);
    key
}

/// Settings that leave everything to kubeadm.
pub(crate) fn settings() -> ClusterSettings {
    ClusterSettings { secrets_key: Some(secrets_key()), ..ClusterSettings::default() }
}

/// What the control planes of its cluster share.
pub(crate) fn control_plane_files() -> Vec<ControlPlaneFile> {
    NAMES.iter().map(|name| file(name, format!("PEM of {name}").into_bytes())).collect()
}

pub(crate) fn control_plane_ticket() -> ClusterJoin {
    let mut ticket = ticket();
    ticket.control_plane_files = control_plane_files();
    ticket.secrets_key = Some(secrets_key());
    ticket
}
