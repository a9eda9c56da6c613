//! One operator at a time changes a cluster's charts: a `Lease` in the cluster, named by who holds it.
//!
//! It is held when it was seen unchanged *here* for its whole time, whatever the clocks say; so a run that was interrupted is
//! followed by the next one after that time, and one that goes on is never taken over: a run that could not renew it in time stops
//! before another one begins. The lease also names the releases in work, so that the next run knows what was left half done by
//! a run like itself, and what by somebody's helm.

use std::cell::Cell;
use std::time::{Duration, Instant};

use latchkey_keys::Uuid;
use smol::Timer;
use smol::future::FutureExt as _;
use smol::lock::Mutex;

use super::file::Chart;
use super::lease::{InWork, Lease, WriteError};
use super::situation::Standing;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::output::{Output, printable};
use crate::stock::{Helm, Kubectl};

/// Beside the revision that a run begins helm writes at most this: that of its rollback.
const REVISIONS: u64 = 2;
/// How often others may be quicker.
const TRIES: usize = 8;

/// For how long, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// For how long it is held once it was written.
    pub(super) held: Duration,
    /// When a run stops that could not write it anew: its helm ends before another run begins.
    pub(super) given_up: Duration,
    /// How often it is written anew.
    pub(super) renewed: Duration,
    /// How often it is looked at while somebody else holds it.
    pub(super) look: Duration,
}

const TIMES: Times = Times {
    held: Duration::from_mins(1),
    given_up: Duration::from_secs(50),
    renewed: Duration::from_secs(10),
    look: Duration::from_secs(2),
};

/// The lock, held.
#[derive(Debug)]
pub(crate) struct Lock {
    kubectl: Kubectl,
    /// Whose it is: this run's, and no other's.
    mine: String,
    times: Times,
    lease: Mutex<Lease>,
    /// When the last write was begun that is known to be done.
    written: Cell<Instant>,
    /// What earlier runs left.
    left: InWork,
}

impl Lock {
    /// Takes the lock. Somebody else who goes on holding it is named; one who went away is waited out.
    pub(crate) async fn take(kubectl: &Kubectl, output: &Output) -> Result<Self, CommandError> {
        Self::take_for(kubectl, output, TIMES).await
    }

    pub(super) async fn take_for(kubectl: &Kubectl, output: &Output, times: Times) -> Result<Self, CommandError> {
        let mine = my_name()?;
        let mut waited: Option<(String, Instant)> = None;
        for _ in 0..TRIES {
            let known = Lease::read(kubectl).await?;
            let holder = known.as_ref().and_then(|lease| Some((lease.holder()?.to_owned(), lease.version())));
            // What an answer that was lost has written is this run's.
            if let Some((holder, version)) = holder.filter(|(holder, _)| *holder != mine) {
                let (first, since) = waited.get_or_insert_with(|| (version.clone(), Instant::now()));
                if *first != version {
                    return Err(busy(&holder));
                }
                output.waiting(&format!("{} worked on the charts, and may be gone", printable(&holder)));
                if !unchanged(kubectl, &version, *since, times).await? {
                    continue;
                }
            }
            let left = known.as_ref().map(Lease::in_work).unwrap_or_default();
            let begun = Instant::now();
            let lease = Lease::new(Some((&mine, times.held.as_secs())), &left, known.as_ref().map(Lease::version));
            match lease.write(kubectl).await {
                Ok(lease) => {
                    let (kubectl, lease) = (kubectl.uninterrupted(), Mutex::new(lease));
                    return Ok(Self { kubectl, mine, times, lease, written: Cell::new(begun), left });
                }
                Err(WriteError::Changed(_)) => {}
                Err(WriteError::Failed(error)) => return Err(error),
            }
        }
        Err(busy("others, one after the other,"))
    }

    /// Does the work while the lock is held, and gives it back. What the work left half done stays named in the lease.
    pub(crate) async fn held<T>(&self, work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
        let done = work.or(self.keep()).await;
        if !done.as_ref().err().is_some_and(|error| error.code == CommandCode::LockLost.into()) {
            let lease = self.lease.lock().await;
            let free = Lease::new(None, &lease.in_work(), Some(lease.version()));
            // Not given back it ends by itself; what was done is done.
            drop(free.write(&self.kubectl).await);
        }
        done
    }

    /// Whether a run of this command left the release as it stands: nobody works on it.
    pub(super) fn left(&self, chart: &Chart, standing: Standing) -> bool {
        let before = self.left.get(&key(chart));
        before.is_some_and(|before| (*before..=before.saturating_add(REVISIONS)).contains(&standing.last))
    }

    /// Takes back what an earlier run said of a release that is not half done any more.
    pub(super) async fn settled(&self, chart: &Chart) -> Result<(), CommandError> {
        if !self.left.contains_key(&key(chart)) {
            return Ok(());
        }
        self.note(|in_work| {
            in_work.remove(&key(chart));
        })
        .await
    }

    /// Changes a release, whose name stands in the lease meanwhile. It stays there if the change is cut.
    pub(crate) async fn changing<T>(
        &self,
        helm: &Helm,
        chart: &Chart,
        change: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        // What follows a signal has to be known, too.
        let helm = helm.uninterrupted();
        let standing = async || helm.history(&chart.namespace, &chart.name).await.map(|history| Standing::of(&history));
        let before = standing().await?;
        self.note(|in_work| {
            in_work.insert(key(chart), before.last);
        })
        .await?;
        let done = change.await;
        if standing().await.is_ok_and(|standing| !standing.situation.begun()) {
            let noted = self
                .note(|in_work| {
                    in_work.remove(&key(chart));
                })
                .await;
            return done.and_then(|done| noted.map(|()| done));
        }
        done
    }

    /// Writes what is in work.
    pub(super) async fn note(&self, change: impl FnOnce(&mut InWork)) -> Result<(), CommandError> {
        let mut lease = self.lease.lock().await;
        let mut in_work = lease.in_work();
        change(&mut in_work);
        for _ in 0..TRIES {
            let begun = Instant::now();
            let wanted = Lease::new(Some((&self.mine, self.times.held.as_secs())), &in_work, Some(lease.version()));
            match wanted.write(&self.kubectl).await {
                Ok(written) => {
                    *lease = written;
                    self.written.set(begun);
                    return Ok(());
                }
                // It may be this run's own write, whose answer was lost.
                Err(WriteError::Changed(error)) => match Lease::read(&self.kubectl).await? {
                    Some(known) if known.holder() == Some(&self.mine) => *lease = known,
                    _ => return Err(lost().because(error.to_string())),
                },
                Err(WriteError::Failed(error)) => return Err(error),
            }
        }
        Err(lost().because("others write it, again and again"))
    }

    /// Writes it anew, again and again; ends only when it is lost: somebody else has it, or the API server has not taken a write
    /// for as long as it is surely this run's.
    async fn keep<T>(&self) -> Result<T, CommandError> {
        let renew = async {
            loop {
                Timer::after(self.times.renewed).await;
                match self.note(|_| {}).await {
                    Err(error) if error.code == CommandCode::LockLost.into() => return error,
                    _ => {}
                }
            }
        };
        let too_late = async {
            loop {
                let left = self.times.given_up.saturating_sub(self.written.get().elapsed());
                if left.is_zero() {
                    return lost().because("the API server was away for too long");
                }
                Timer::after(left).await;
            }
        };
        Err(renew.or(too_late).await)
    }
}

/// Whether the lease stays as it is until it has ended.
async fn unchanged(kubectl: &Kubectl, version: &str, since: Instant, times: Times) -> Result<bool, CommandError> {
    while since.elapsed() < times.held {
        Timer::after(times.look).await;
        if Lease::read(kubectl).await?.is_none_or(|lease| lease.version() != version) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn key(chart: &Chart) -> String {
    format!("{}/{}", chart.namespace, chart.name)
}

/// User, machine and process: whom to ask; and a number that no other run has.
fn my_name() -> Result<String, CommandError> {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".into());
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    let short = |text: &str| text.chars().filter(|c| !c.is_control()).take(64).collect::<String>();
    let (process, run) = (std::process::id(), Uuid::random()?);
    Ok(format!("{}@{} (process {process}) run {run}", short(&user), short(&machine)))
}

fn busy(holder: &str) -> CommandError {
    CommandError::local(CommandCode::ChartsBusy, format!("{} works on this cluster's charts", printable(holder)))
}

fn lost() -> CommandError {
    CommandError::local(CommandCode::LockLost, "the lock on the cluster's charts was lost")
}
