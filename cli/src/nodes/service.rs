//! The join service of this machine, told of a denial at its own socket: it counts there at once, whatever that service hears of the
//! cluster's store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latchkey_cluster_store::{
    DENIAL_SOCKET, DenialAnswer, DenialAsk, DenialOutcome, DenialRefusal, DenialRequest, MAX_DENIAL_LINE,
};
use latchkey_keys::ClusterId;
use latchkey_reason::ReasonCode as _;
use serde::Serialize;
use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::unix::UnixStream;

use crate::arguments::Arguments;
use crate::cluster_dir::ClusterDir;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::node::block_on;
use crate::output::{Output, Tone};
use crate::owner::as_owner_of;

/// Longer than the service takes for whoever comes before.
const PATIENCE: Duration = Duration::from_secs(10);

/// What became of telling the join service of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Told {
    /// It did what was asked.
    #[serde(rename = "told")]
    Done,
    /// There is none here; nobody asked for one.
    Absent,
    /// There is one, or one was asked for, and it did not do it.
    #[serde(rename = "not-told")]
    Failed,
}

/// The same with what else is known.
pub(super) struct Telling {
    pub(super) told: Told,
    /// What the service said.
    pub(super) outcome: Option<DenialOutcome>,
    /// Why it was not told.
    pub(super) failure: Option<CommandError>,
    /// Whether the operator named the socket.
    pub(super) is_demanded: bool,
}

impl Telling {
    /// Tells it, of this cluster; `None` where it is not known which one that is.
    pub(super) fn of(arguments: &Arguments, cluster: Option<ClusterId>, ask: DenialAsk) -> Self {
        let (socket, is_demanded) = socket(arguments);
        let is_absent =
            !is_demanded && fs::symlink_metadata(&socket).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if is_absent {
            return Self { told: Told::Absent, outcome: None, failure: None, is_demanded };
        }
        match cluster.ok_or_else(unknown_cluster).and_then(|cluster| tell(&socket, &DenialRequest::new(cluster, ask))) {
            Ok(outcome) => Self { told: Told::Done, outcome: Some(outcome), failure: None, is_demanded },
            Err(failure) => Self { told: Told::Failed, outcome: None, failure: Some(failure), is_demanded },
        }
    }

    /// Whether something that was asked for was not done.
    pub(super) fn is_lacking(&self) -> bool {
        self.is_demanded && self.told == Told::Failed
    }

    /// Says why the service was not told.
    pub(super) fn warn(&self, output: &Output) {
        if let Some(failure) = &self.failure {
            output.say(Tone::Warning, "warning", &in_one_line(failure));
        }
    }

    /// The failure of the store, with what was done without it.
    pub(super) fn without_store(&self, failure: CommandError) -> CommandError {
        match (self.told, &self.failure) {
            (Told::Done, _) => failure
                .because("the join service of this machine was told, and gives the machine nothing from now on")
                .fix("run the command again until it succeeds: no other service knows of the denial, and this one forgets it when it ends"),
            (_, Some(not_told)) => failure.because(format!("{}: nobody knows of the denial", in_one_line(not_told))),
            (_, None) => failure.because("no join service runs on this machine that could be told: nobody knows of the denial"),
        }
    }
}

/// The cluster that `--cluster` names, by its directory alone, whatever is missing there: the store may not answer.
pub(super) fn cluster_of_directory(arguments: &Arguments) -> Option<ClusterId> {
    let directory = ClusterDir::open_lacking(arguments.path("cluster")?).ok()?;
    directory.cluster().ok().flatten().map(|cluster| cluster.cluster_id)
}

/// And whether the operator named it.
fn socket(arguments: &Arguments) -> (PathBuf, bool) {
    let named = arguments.path("denial-socket");
    (named.unwrap_or(Path::new(DENIAL_SOCKET)).to_owned(), named.is_some())
}

fn unknown_cluster() -> CommandError {
    let what = "the join service of this machine was not told: which cluster is meant is not known here";
    CommandError::local(CommandCode::ServiceNotTold, what).fix("name the cluster's directory with --cluster")
}

/// As the owner of the socket's directory, who is the service: what else that user puts there, root does not speak to.
fn tell(socket: &Path, request: &DenialRequest) -> Result<DenialOutcome, CommandError> {
    let not_told = |why: &str| {
        let what = format!("the join service at {} was not told", socket.display());
        CommandError::local(CommandCode::ServiceNotTold, what).because(why)
    };
    let failed = |error: io::Error| not_told(&error.to_string());
    let line = as_owner_of(socket.parent().unwrap_or(Path::new("/")), || {
        block_on(async { exchange(socket, request).or(late()).await.map_err(failed) })
    })?;
    match DenialAnswer::parse(&line)
        .map_err(|error| not_told(&format!("what it answers is no answer: {error}")))?
        .outcome
    {
        DenialOutcome::Refused(code) => {
            let failure = not_told(&format!("it refuses: {code}"));
            Err(match DenialRefusal::parse(&code) {
                Some(known) => failure.fix(known.reason().remedy),
                None => failure,
            })
        }
        done => Ok(done),
    }
}

async fn exchange(socket: &Path, request: &DenialRequest) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(&request.line()).await?;
    let mut answer = Vec::new();
    let most = u64::try_from(MAX_DENIAL_LINE).unwrap_or(u64::MAX);
    stream.take(most + 1).read_to_end(&mut answer).await?;
    if answer.is_empty() { Err(io::Error::other("it hung up")) } else { Ok(answer) }
}

async fn late() -> io::Result<Vec<u8>> {
    smol::Timer::after(PATIENCE).await;
    Err(io::ErrorKind::TimedOut.into())
}

pub(super) fn in_one_line(failure: &CommandError) -> String {
    let because = failure.because.join(": ");
    let because = if because.is_empty() { because } else { format!(": {because}") };
    format!("{}{because}; {}", failure.what, failure.remedy())
}
