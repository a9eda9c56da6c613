//! Root's way to this service: a Unix socket on which it, and nobody else, shuts a machine out at once, whatever is heard of the
//! cluster's store.

use crate::documents::CurrentCluster;
use latchkey_cluster_store::{DenialAnswer, DenialAsk, DenialOutcome, DenialRefusal, DenialRequest, MAX_DENIAL_LINE};
use latchkey_service_runtime::admin::ACCEPT_PAUSE;
use latchkey_service_runtime::log_limiter::LogLimiter;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};
use smol::Timer;
use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::unix::{UnixListener, UnixStream};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as Blocking;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// From the connection to the end of the answer.
const EXCHANGE: Duration = Duration::from_secs(2);

/// Why nobody can be listened to there. The operator's fault, mostly.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    /// The operating system's reason.
    #[error("`denial_socket`: cannot listen on {}: {source}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Others could put something else there.
    #[error(
        "`denial_socket`: {} must be a directory of this service's user that nobody else may enter: a RuntimeDirectory= \
         of its unit, or chown it and chmod 700",
        path.display()
    )]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// A file, or another service's socket.
    #[error("`denial_socket`: {} is another service's, or no socket: name another path, or stop that service", path.display())]
    Taken {
        /// What is there.
        path: PathBuf,
    },
}

/// Listening, for root and the service's own user.
#[derive(Debug)]
pub(crate) struct DenialSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl DenialSocket {
    /// Listens there. A socket that a service which is gone left is replaced.
    pub(crate) fn bind(path: &Path) -> Result<Self, SocketError> {
        let listen = |source| SocketError::Listen { path: path.to_owned(), source };
        let directory = path.parent().unwrap_or(Path::new("/"));
        let about = fs::metadata(directory).map_err(listen)?;
        if !about.is_dir() || about.uid() != geteuid().as_raw() || about.mode() & 0o077 != 0 {
            return Err(SocketError::Directory { path: directory.to_owned() });
        }
        match fs::symlink_metadata(path) {
            Ok(old) if old.file_type().is_socket() && Blocking::connect(path).is_err() => {
                fs::remove_file(path).map_err(listen)?;
            }
            Ok(_) => return Err(SocketError::Taken { path: path.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(listen(error)),
        }
        let listener = UnixListener::bind(path).map_err(listen)?;
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(listen)?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Does what root asks for, until dropped: one after the other, each within its time.
    pub(crate) async fn serve(self, current: Arc<CurrentCluster>) {
        let noise = LogLimiter::new();
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let late = async {
                        Timer::after(EXCHANGE).await;
                        Err(io::ErrorKind::TimedOut.into())
                    };
                    if let Err(error) = attend(stream, &current).or(late).await
                        && let Some(left_out) = noise.write_now()
                    {
                        tracing::warn!(%error, left_out, "A connection to the denials' socket failed");
                    }
                }
                Err(error) => {
                    tracing::error!(%error, socket = %self.path.display(), "Nobody can be heard on the denials' socket at the moment");
                    Timer::after(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn attend(mut stream: UnixStream, current: &CurrentCluster) -> io::Result<()> {
    // Beside the modes of socket and directory, which somebody may have changed.
    let user = socket_peercred(&stream)?.uid;
    if user != Uid::ROOT && user != geteuid() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("user {} is neither root nor this service's", user.as_raw()),
        ));
    }
    let line = read_line(&mut stream).await?;
    let outcome = decide(&line, current, user);
    stream.write_all(&DenialAnswer::new(outcome).line()).await
}

/// Up to its end, or as much as no request has.
async fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = vec![0; MAX_DENIAL_LINE + 1];
    let mut length = 0;
    while let Some(rest) = line.get_mut(length..).filter(|rest| !rest.is_empty()) {
        let count = stream.read(rest).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        length += count;
        if line.get(..length).is_some_and(|line| line.ends_with(b"\n")) {
            break;
        }
    }
    line.truncate(length);
    Ok(line)
}

/// Does what is asked for; its line is the log's, whatever became of it.
fn decide(line: &[u8], current: &CurrentCluster, user: Uid) -> DenialOutcome {
    let (ek, outcome) = match DenialRequest::parse(line) {
        Err(error) => {
            tracing::warn!(target: "audit", user = user.as_raw(), code = DenialRefusal::Malformed.as_str(), %error, outcome = "refused", "Denial at the socket");
            return DenialRefusal::Malformed.into();
        }
        Ok(DenialRequest { cluster_id, ask, .. }) => {
            let snapshot = current.snapshot();
            let is_ours = snapshot.own.cluster.as_ref().is_some_and(|cluster| cluster.cluster_id == cluster_id);
            match ask {
                DenialAsk::Deny(ek) | DenialAsk::Allow(ek) if !is_ours => (ek, DenialRefusal::OtherCluster.into()),
                DenialAsk::Deny(ek) => {
                    let told = current.deny(ek).map(|()| DenialOutcome::Denied);
                    (ek, told.unwrap_or_else(|_| DenialRefusal::TooMany.into()))
                }
                DenialAsk::Allow(ek) => (ek, DenialOutcome::Allowed { was_denied: current.allow(&ek) }),
            }
        }
    };
    let (word, code) = match &outcome {
        DenialOutcome::Denied => ("denied", ""),
        DenialOutcome::Allowed { .. } => ("allowed", ""),
        DenialOutcome::Refused(code) => ("refused", code.as_str()),
    };
    tracing::warn!(target: "audit", user = user.as_raw(), %ek, outcome = word, code, "Denial at the socket");
    outcome
}
