//! The certificates of a control plane, renewed before they end.
//!
//! kubeadm issues them for a year, and renews them in an upgrade or when it is told to. It is told at each start of a control plane,
//! before the kubelet runs, and each week by a timer of the image, where little is left of one of them. It needs the keys of the
//! authorities, which every control plane here has, and no network.
//!
//! kubeadm writes over its files one by one. So it works on a copy (its `--rootfs`), and the copy takes the place of what there was when
//! it is whole and on the disk: each kubeconfig by a rename, all of `pki` by one exchange. A cut between two of these leaves
//! certificates that are good, and the one with the least left has the next run renew all again.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with, syncfs};
use serde::Deserialize;

use super::child::Stdout;
use super::files;
use super::kubeadm::BRIEF;
use super::manifests::StaticPods;
use super::release::Release;
use super::{Kubeadm, Progress, StepCode, StepError, config};

/// Half of what kubeadm issues them for: a renewal that fails has half a year in which to be seen and mended.
const LITTLE: i64 = 182 * DAY;
/// What a renewal has to bring. An authority near its end gives less, and the pods would be restarted for nothing each week.
const WORTH_IT: i64 = 30 * DAY;
const DAY: i64 = 24 * 60 * 60;
/// Those with a certificate in them; the kubelet renews its own.
const KUBECONFIGS: [&str; 4] = ["admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf"];
/// Where kubeadm finds its configuration in the copy.
const CONFIGURATION: &str = "kubeadm.json";

/// What `kubeadm certs check-expiration` prints, in what counts.
#[derive(Deserialize)]
struct Expiration {
    certificates: Vec<Certificate>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Certificate {
    name: String,
    /// None where it is missing.
    expiration_date: Option<String>,
    /// Seconds; below zero once it has ended.
    residual_time: i64,
    /// Its authority's key is not here: nothing that kubeadm could renew.
    externally_managed: bool,
}

/// The certificate that ends first.
struct First {
    name: String,
    ends: String,
    left: i64,
}

impl Kubeadm {
    /// Before the kubelet starts. A failure is said, and keeps no node down: the certificates have half a year left the first time, and
    /// even when they have ended the node's pods run, and other control planes serve it.
    pub(super) async fn renew_before_start(&self, carried: &Release, progress: Progress<'_>) {
        let renewed = self.renew(carried, progress).await;
        // No pod runs that could still read them.
        let renewed = renewed.and_then(|_| remove(&self.old_certificates()));
        if let Err(error) = renewed {
            progress(&format!("the certificates are not renewed, and the node starts with those it has: {error}"));
        }
    }

    /// While the control plane runs. Its pods are restarted if their certificates were renewed; until then they find those that they
    /// started with.
    pub async fn renew_certificates(&self, progress: Progress<'_>) -> Result<(), StepError> {
        let carried = self.version(progress).await?;
        let Some(first) = self.renew(&carried, progress).await? else { return Ok(()) };
        // Also if the renewal was an earlier run's, and not all pods could be told then.
        let old = self.old_certificates();
        if old.try_exists().map_err(|error| files::error(&old, &error))? {
            StaticPods::below(&self.directory).restart_with_certificates_until(&first.ends)?;
        }
        Ok(())
    }

    /// Renews all certificates if little is left of one. What ends first then; nothing where kubeadm has made none.
    async fn renew(&self, carried: &Release, progress: Progress<'_>) -> Result<Option<First>, StepError> {
        let certificate = self.directory.join("pki/apiserver.crt");
        if !certificate.try_exists().map_err(|error| files::error(&certificate, &error))? {
            return Ok(None);
        }
        let copy = CertificateCopy::make(&self.directory, carried)?;
        let first = self.first_to_end(&copy, progress).await?;
        if first.left >= LITTLE {
            return Ok(Some(first));
        }
        progress(&format!("the certificate of {} ends at {}; all are renewed", first.name, first.ends));
        let arguments = ["certs", "renew", "all", &copy.root(), &CertificateCopy::configuration()];
        self.call(&arguments, Stdout::Progress, BRIEF.min(self.limit), "", progress).await?;
        let renewed = self.first_to_end(&copy, progress).await?;
        if renewed.left < first.left + WORTH_IT {
            let message = format!("the certificate of {} would end at {} after all", renewed.name, renewed.ends);
            return Err(StepError::new(StepCode::Output, format!("{}: {message}", self.program)));
        }
        copy.take(&self.old_certificates())?;
        Ok(Some(renewed))
    }

    async fn first_to_end(&self, copy: &CertificateCopy<'_>, progress: Progress<'_>) -> Result<First, StepError> {
        let arguments = ["certs", "check-expiration", "--output=json", &copy.root(), &CertificateCopy::configuration()];
        let printed = self.call(&arguments, Stdout::Result, BRIEF.min(self.limit), "", progress).await?;
        let refused = |why: &str| StepError::new(StepCode::Output, format!("{}: {why}", self.program));
        let found: Expiration =
            serde_json::from_slice(printed.expose()).map_err(|error| refused(&error.to_string()))?;
        let ours = found.certificates.into_iter().filter(|one| !one.externally_managed);
        let ours =
            ours.filter_map(|one| Some(First { name: one.name, ends: one.expiration_date?, left: one.residual_time }));
        ours.min_by_key(|one| one.left).ok_or_else(|| refused("it finds no certificate"))
    }

    /// What pods that run may still read.
    fn old_certificates(&self) -> PathBuf {
        self.directory.join("latchkey/certificates.old")
    }
}

/// A root in which kubeadm finds a copy of what has certificates. It is gone with this value.
struct CertificateCopy<'a> {
    kubernetes: &'a Path,
    root: PathBuf,
}

impl<'a> CertificateCopy<'a> {
    fn make(kubernetes: &'a Path, carried: &Release) -> Result<Self, StepError> {
        // On the same file system.
        let copy = Self { kubernetes, root: kubernetes.join("latchkey/certificates.new") };
        remove(&copy.root)?;
        let made = || {
            let inside = copy.inside();
            DirBuilder::new().recursive(true).mode(0o700).create(&inside)?;
            copy_directory(&kubernetes.join("pki"), &inside.join("pki"))?;
            for name in KUBECONFIGS {
                if kubernetes.join(name).try_exists()? {
                    fs::copy(kubernetes.join(name), inside.join(name))?;
                }
            }
            fs::write(copy.root.join(CONFIGURATION), config::certificates(carried.as_str()))
        };
        made().map_err(|error| files::error(&copy.root, &error))?;
        Ok(copy)
    }

    /// Where kubeadm keeps its files, as it sees it.
    fn inside(&self) -> PathBuf {
        self.root.join("etc/kubernetes")
    }

    fn root(&self) -> String {
        format!("--rootfs={}", self.root.display())
    }

    fn configuration() -> String {
        format!("--config=/{CONFIGURATION}")
    }

    /// Puts the copy in the place of what there was, which is at `old` then.
    fn take(self, old: &Path) -> Result<(), StepError> {
        remove(old)?;
        let taken = || {
            let (inside, here) = (self.inside(), File::open(self.kubernetes)?);
            syncfs(&here)?;
            for name in KUBECONFIGS {
                if inside.join(name).try_exists()? {
                    fs::rename(inside.join(name), self.kubernetes.join(name))?;
                }
            }
            renameat_with(CWD, inside.join("pki"), CWD, self.kubernetes.join("pki"), RenameFlags::EXCHANGE)?;
            fs::rename(&self.root, old)?;
            Ok(syncfs(&here)?)
        };
        taken().map_err(|error: io::Error| files::error(&self.root, &error))
    }
}

impl Drop for CertificateCopy<'_> {
    fn drop(&mut self) {
        // On the encrypted disk, and only root reads it: should it stay, the next run removes it.
        let _ = remove(&self.root);
    }
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_directory(&from, &to)?;
        } else {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}

fn remove(directory: &Path) -> Result<(), StepError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(files::error(directory, &error)),
        _ => Ok(()),
    }
}
