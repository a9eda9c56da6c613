//! The cluster step of Kubernetes: writes kubeadm's configuration, runs kubeadm, starts the kubelet.

use std::fs::{DirBuilder, File, OpenOptions, remove_file, rename};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use latchkey_api::v1::{ClusterJoin, ControlPlaneFile};
use latchkey_keys::SecretVec;

use super::{ClusterStep, Done, Member, Progress, Running, StepError, Work, child, config};

/// How often a failed `kubeadm` is tried again, each time after `kubeadm reset`.
const TRIES: u32 = 3;

/// The files of a control plane, relative to kubeadm's certificate folder. Source: Kubernetes, "Certificates and
/// requirements"; nothing else is written, whatever the ticket says.
const CONTROL_PLANE_FILES: [&str; 8] =
    ["ca.crt", "ca.key", "sa.key", "sa.pub", "front-proxy-ca.crt", "front-proxy-ca.key", "etcd/ca.crt", "etcd/ca.key"];

/// Runs the image's kubeadm.
#[derive(Debug)]
pub struct Kubeadm {
    /// The program, e.g. `/usr/bin/kubeadm`.
    pub program: String,
    /// The service manager, e.g. `/usr/bin/systemctl`; it starts `kubelet.service`.
    pub systemctl: String,
    /// Where kubeadm keeps its files, e.g. `/etc/kubernetes`.
    pub folder: PathBuf,
    /// A folder in memory for the configuration, e.g. `/run/latchkey`.
    pub run: PathBuf,
    /// How long one run of kubeadm may take.
    pub limit: Duration,
}

impl Default for Kubeadm {
    fn default() -> Self {
        Self {
            program: "/usr/bin/kubeadm".into(),
            systemctl: "/usr/bin/systemctl".into(),
            folder: "/etc/kubernetes".into(),
            run: "/run/latchkey".into(),
            limit: Duration::from_mins(15),
        }
    }
}

impl ClusterStep for Kubeadm {
    fn run<'a>(&'a self, member: &'a Member, work: &'a Work, progress: Progress<'a>) -> Running<'a> {
        Box::pin(async move {
            match work {
                Work::Init(settings) => {
                    self.repeat("init", &config::init(member, settings)?, &[], progress).await?;
                    let admin_config = read_file(&self.folder.join("admin.conf"))?;
                    Ok(Done { admin_config })
                }
                Work::Join(ticket) => {
                    let files = control_plane_files(ticket)?;
                    self.repeat("join", &config::join(member, ticket)?, &files, progress).await?;
                    Ok(Done { admin_config: SecretVec::from_slice(&[]) })
                }
                Work::Start => {
                    self.start_kubelet(progress).await?;
                    Ok(Done { admin_config: SecretVec::from_slice(&[]) })
                }
            }
        })
    }
}

impl Kubeadm {
    /// One verb of kubeadm until it succeeds, resetting what a failed or interrupted try left behind.
    async fn repeat(
        &self,
        verb: &str,
        configuration: &[u8],
        files: &[(&str, &[u8])],
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        let path = self.run.join("kubeadm.json");
        let mut tries = 0;
        loop {
            if tries > 0 || self.folder.join("kubelet.conf").exists() || self.folder.join("manifests").exists() {
                progress("resetting what an earlier try left behind");
                child::run(&self.program, &["reset", "--force"], b"", self.limit, progress).await?;
            }
            for (name, data) in files {
                write_file(&self.folder.join("pki").join(name), data)?;
            }
            write_file(&path, configuration)?;
            let argument = format!("--config={}", path.display());
            let result = child::run(&self.program, &[verb, &argument], b"", self.limit, progress).await;
            let removed = remove_file(&path);
            match result {
                Ok(_) => {
                    removed.map_err(|e| file_error(&path, &e))?;
                    return self.start_kubelet(progress).await;
                }
                Err(error) if tries + 1 >= TRIES => return Err(error),
                Err(error) => progress(&format!("try {} of {TRIES} failed: {error}", tries + 1)),
            }
            tries += 1;
        }
    }

    async fn start_kubelet(&self, progress: Progress<'_>) -> Result<(), StepError> {
        let arguments = ["enable", "--now", "--runtime", "kubelet.service"];
        child::run(&self.systemctl, &arguments, b"", self.limit, progress).await.map(drop)
    }
}

/// The ticket's files, each of the closed list and none twice.
fn control_plane_files(ticket: &ClusterJoin) -> Result<Vec<(&'static str, &[u8])>, StepError> {
    let mut files = Vec::new();
    for ControlPlaneFile { name, data } in &ticket.control_plane_files {
        let known = CONTROL_PLANE_FILES.iter().find(|known| *known == name);
        match known {
            Some(known) if !files.iter().any(|(seen, _)| seen == known) => files.push((*known, &data[..])),
            Some(_) => return Err(StepError::new("ticket-refused", format!("the join ticket has {known:?} twice"))),
            None => {
                let message = "the join ticket names a control-plane file that kubeadm does not know";
                return Err(StepError::new("ticket-refused", message));
            }
        }
    }
    Ok(files)
}

/// Writes a file that only root reads; a crash leaves the old one or the new one.
fn write_file(path: &Path, data: &[u8]) -> Result<(), StepError> {
    let write = || {
        let folder = path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let new = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(data)?;
        file.sync_all()?;
        rename(&new, path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|e| file_error(path, &e))
}

fn read_file(path: &Path) -> Result<SecretVec, StepError> {
    let bytes = std::fs::read(path).map(zeroize::Zeroizing::new).map_err(|e| file_error(path, &e))?;
    Ok(SecretVec::from_slice(&bytes))
}

fn file_error(path: &Path, error: &std::io::Error) -> StepError {
    StepError::new("step-file", format!("{}: {error}", path.display()))
}
