//! The certificates of a control plane, renewed before they end.
//!
//! kubeadm issues them for a year, and renews them in an upgrade or when it is told to. It is told by a timer of the image, a quarter of
//! an hour after each start and each week, where less than half of that is left of one; and at a start, before the kubelet runs, where
//! one is about to end. It needs the keys of the authorities, which every control plane here has, and no network.
//!
//! A machine's clock may be wrong, most of all at its start, and what is issued then begins in its time. So a start waits for the timer
//! as long as it can, and the timer takes back what a clock that was ahead has issued: it has more than a year left.
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

/// kubeadm's `certificateValidityPeriod`, "8760h" by default.
const ISSUED_FOR: i64 = 365 * DAY;
/// Of an authority: ten years, as `latchkey init` makes them and kubeadm would.
const AUTHORITY_FOR: i64 = 3650 * DAY;
/// Half of what kubeadm issues them for: a renewal that fails has half a year in which to be seen and mended.
const LITTLE: i64 = 182 * DAY;
/// At a start, whose clock nobody has set yet: what the timer comes too late for.
const ABOUT_TO_END: i64 = 60 * DAY;
/// What a renewal has to bring. An authority near its end gives less, and the pods would be restarted for nothing each week.
const WORTH_IT: i64 = 30 * DAY;
const DAY: i64 = 24 * 60 * 60;
/// Those with a certificate in them; the kubelet renews its own.
const KUBECONFIGS: [&str; 4] = ["admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf"];
/// Where kubeadm finds its configuration in the copy.
const CONFIGURATION: &str = "kubeadm.json";

/// What `kubeadm certs check-expiration` prints, in what counts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expiration {
    certificates: Vec<Certificate>,
    certificate_authorities: Vec<Certificate>,
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

/// What is left of all of them.
struct Left {
    first: First,
    /// Seconds that are left of the one that ends last.
    longest: i64,
    /// The clock is behind the making of the cluster.
    clock_is_behind: bool,
}

impl Left {
    /// Whether one was issued by a clock that was ahead, and begins in what is the future now.
    fn begins_later(&self) -> bool {
        self.longest > ISSUED_FOR + DAY && !self.clock_is_behind
    }
}

/// When they are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Starts,
    Runs,
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
        let renewed = self.renew(carried, When::Starts, progress).await;
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
        let Some(first) = self.renew(&carried, When::Runs, progress).await? else { return Ok(()) };
        // Also if the renewal was an earlier run's, and not all pods could be told then.
        let old = self.old_certificates();
        if old.try_exists().map_err(|error| files::error(&old, &error))? {
            StaticPods::below(&self.directory).restart_with_certificates_until(&first.ends)?;
        }
        Ok(())
    }

    /// Renews all certificates if little is left of one. What ends first then; nothing where kubeadm has made none.
    async fn renew(&self, carried: &Release, when: When, progress: Progress<'_>) -> Result<Option<First>, StepError> {
        let certificate = self.directory.join("pki/apiserver.crt");
        if !certificate.try_exists().map_err(|error| files::error(&certificate, &error))? {
            return Ok(None);
        }
        let copy = CertificateCopy::make(&self.directory, carried)?;
        let before = self.left(&copy, progress).await?;
        let (least, taken_back) = match when {
            When::Starts => (ABOUT_TO_END, false),
            When::Runs => (LITTLE, before.begins_later()),
        };
        let first = before.first;
        if first.left >= least && !taken_back {
            return Ok(Some(first));
        }
        let why = if taken_back { "a certificate begins later than now" } else { "little is left" };
        progress(&format!("the certificate of {} ends at {} ({why}); all are renewed", first.name, first.ends));
        let arguments = ["certs", "renew", "all", &copy.root(), &CertificateCopy::configuration()];
        self.call(&arguments, Stdout::Progress, BRIEF.min(self.limit), "", progress).await?;
        let renewed = self.left(&copy, progress).await?.first;
        if !taken_back && renewed.left < first.left + WORTH_IT {
            let message = format!("the certificate of {} would end at {} after all", renewed.name, renewed.ends);
            return Err(StepError::new(StepCode::Output, format!("{}: {message}", self.program)));
        }
        copy.take(&self.old_certificates())?;
        Ok(Some(renewed))
    }

    async fn left(&self, copy: &CertificateCopy<'_>, progress: Progress<'_>) -> Result<Left, StepError> {
        let arguments = ["certs", "check-expiration", "--output=json", &copy.root(), &CertificateCopy::configuration()];
        let printed = self.call(&arguments, Stdout::Result, BRIEF.min(self.limit), "", progress).await?;
        let refused = |why: &str| StepError::new(StepCode::Output, format!("{}: {why}", self.program));
        let found: Expiration =
            serde_json::from_slice(printed.expose()).map_err(|error| refused(&error.to_string()))?;
        let clock_is_behind = found.certificate_authorities.iter().any(|one| one.residual_time > AUTHORITY_FOR + DAY);
        let (mut first, mut longest) = (None::<First>, i64::MIN);
        for Certificate { name, expiration_date, residual_time: left, externally_managed } in found.certificates {
            let Some(ends) = expiration_date.filter(|_| !externally_managed) else { continue };
            longest = longest.max(left);
            if first.as_ref().is_none_or(|first| left < first.left) {
                first = Some(First { name, ends, left });
            }
        }
        let first = first.ok_or_else(|| refused("it finds no certificate"))?;
        Ok(Left { first, longest, clock_is_behind })
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
