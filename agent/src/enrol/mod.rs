//! Enrolment: the first node of a new cluster registers that cluster at the centre of its measured command line.
//!
//! A process of its own, after stage 2: whether and when an operator admits the machine is nothing that stage 2, which holds the
//! disk's token key, should wait for. In code order: stage 2 notes that the cluster is to be registered ([`Wanted::keep`]), on the
//! state disk, before the disk says that the node is a member; [`run`] reads that in every boot until it is done; [`ask`] asks the
//! centre's enrol service over an attested channel; [`apply`] gives the manifests that it answers with to the cluster, and waits
//! until the link in them is redeemed. Lost, killed or restarted anywhere, it begins anew: to the service the same TPM with the
//! same disk is the same cluster, and every manifest is applied as often as it takes.

mod apply;
mod ask;
mod kept;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use latchkey_channel::Attester;
use latchkey_connection_limits::Backoff;
use latchkey_node_config::{Centre, Config};
use latchkey_reason::{Reason, reason_codes};

use crate::cluster::{Kubeadm, StepError};
use crate::flows::ticket::ReasonLog;
use crate::platform::{clock, console};
use crate::stage2::tpm_attester;
use apply::Manifests;
use ask::Answer;
pub(crate) use kept::{PATH, Wanted};

/// The step's name on the console.
const STEP: &str = "enrol";
/// The longest wait between two tries, in milliseconds: an operator may need days.
const LONGEST_WAIT: u64 = 60_000;

reason_codes! {
    /// Why a node's cluster is not registered yet.
    pub enum EnrolCode {
        /// The command line names no centre any more.
        NoCentre = "enrol-no-centre": "boot an image whose measured command line has latchkey.centre";
        /// What is to be registered cannot be read.
        Record = "enrol-record-unusable": "restart the machine; if it stays, found its cluster anew on an empty disk";
        /// The connection broke.
        ConnectionLost = "enrol-connection-lost": "check the network between, and whether the enrol service still runs";
        /// The service says no.
        Refused = "enrol-refused": "do what the enrol service says; its log says more";
        /// The answer is none.
        Malformed = "enrol-answer-malformed": "run the same release on both sides";
        /// The cluster does not take a manifest.
        NotApplied = "enrol-manifest-not-applied": "mend what the last line names; the node goes on by itself";
        /// Nobody redeemed the link.
        NotRedeemed = "enrol-link-not-redeemed": "look at the pod edge-bootstrap of the cluster; the node asks for another link by itself";
    }
}

/// Why a try brought no end.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
struct EnrolError {
    code: Reason,
    message: String,
}

impl EnrolError {
    fn new(code: EnrolCode, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }

    fn of_step(code: EnrolCode, error: &StepError) -> Self {
        Self::new(code, error.to_string())
    }
}

/// Runs to its end: 0 when the cluster is registered, or is not to be. 1: it cannot even begin; the service manager tries again. 2:
/// this image names no centre.
pub fn run() -> ExitCode {
    let begun = || {
        let Some(wanted) =
            Wanted::read(Path::new(PATH)).map_err(|error| EnrolError::of_step(EnrolCode::Record, &error))?
        else {
            return Ok(None);
        };
        let config = Config::from_kernel()
            .map_err(|error| EnrolError { code: error.code().into(), message: error.to_string() })?;
        let centre = config.centre.clone().ok_or_else(|| {
            EnrolError::new(
                EnrolCode::NoCentre,
                "this cluster is to be registered, and the command line names no centre",
            )
        })?;
        let attester = tpm_attester(&config)
            .map_err(|error| EnrolError { code: error.code().into(), message: error.to_string() })?;
        Ok(Some(Enrolment { wanted, centre, attester, kubeadm: Kubeadm::default() }))
    };
    match begun() {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(enrolment)) => match smol::block_on(enrolment.drive(Path::new(PATH))) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        },
        Err(error) => fail(&error),
    }
}

fn fail(error: &EnrolError) -> ExitCode {
    console::failure(STEP, error.code, &error.message);
    if error.code == Reason::from(EnrolCode::NoCentre) { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// What is registered, where, and by whom.
struct Enrolment {
    wanted: Wanted,
    centre: Centre,
    attester: Arc<dyn Attester>,
    kubeadm: Kubeadm,
}

impl Enrolment {
    /// Tries until the cluster is registered and has its keys; then nothing of it is wanted any more at `path`. The error is that
    /// this cannot be noted.
    async fn drive(self, path: &Path) -> Result<(), EnrolError> {
        let seed = self.wanted.disk_uuid.bytes().fold(0, |seed: u64, byte| seed.rotate_left(5) ^ u64::from(byte));
        let begin = || Backoff::new(seed).up_to(LONGEST_WAIT);
        let (mut backoff, mut log) = (begin(), ReasonLog::default());
        loop {
            let wait = match self.once().await {
                Ok(Tried::Done(line)) => {
                    Wanted::done(path).map_err(|error| EnrolError::of_step(EnrolCode::Record, &error))?;
                    console::line(STEP, &line);
                    return Ok(());
                }
                Ok(Tried::Held { line, again }) => {
                    say(&mut log, &line);
                    backoff = begin();
                    again
                }
                Err(EnrolError { code, message }) => {
                    say(&mut log, &format!("not finished yet: {}", console::with_remedy(code, &message)));
                    Duration::from_millis(backoff.next_ms())
                }
            };
            smol::Timer::after(wait).await;
        }
    }

    async fn once(&self) -> Result<Tried, EnrolError> {
        let mut progress = |line: &str| console::line(STEP, line);
        let version = self.kubeadm.version(&mut progress).await;
        let version = version.map_err(|error| EnrolError::of_step(EnrolCode::NotApplied, &error))?;
        match ask::ask(&self.centre, Arc::clone(&self.attester), &self.wanted, version.as_str()).await? {
            Answer::Held { reference, ek, again } => {
                let line = format!("held for the operator of the centre: {reference}, endorsement key {ek}");
                Ok(Tried::Held { line, again })
            }
            Answer::Enrolled(enrolled) => {
                let manifests = Manifests::check(*enrolled)?;
                console::line(STEP, &format!("registered as {}; applying its manifests", manifests.name()));
                manifests.apply(&self.kubeadm, &mut progress).await?;
                Ok(Tried::Done(format!(
                    "{} is registered as {} and has its keys",
                    manifests.cluster(),
                    manifests.name()
                )))
            }
        }
    }
}

fn say(log: &mut ReasonLog, line: &str) {
    if log.is_due(line, crate::flows::init::millis(clock::uptime())) {
        console::line(STEP, line);
    }
}

/// How a try ended.
enum Tried {
    /// The line that says so.
    Done(String),
    /// The operator decides; the service says when to ask again.
    Held { line: String, again: Duration },
}
