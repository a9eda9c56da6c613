//! Who speaks at the denials' socket, as the command line does.

use super::{Rig, TIME};
use latchkey_cluster_store::{DenialAnswer, DenialAsk, DenialOutcome, DenialRequest};
use latchkey_keys::ClusterId;
use serde_json::json;
use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The socket of a service.
pub(crate) struct Socket {
    path: PathBuf,
    cluster: ClusterId,
}

impl Rig {
    /// Has services listen to root.
    pub(crate) fn with_denial_socket(&mut self) -> Socket {
        fs::create_dir(self.path("run")).unwrap();
        fs::set_permissions(self.path("run"), Permissions::from_mode(0o700)).unwrap();
        let path = self.path("run/denials.sock");
        self.config["denial_socket"] = json!(path);
        Socket { path, cluster: self.cluster.cluster_id }
    }
}

impl Socket {
    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(TIME)).unwrap();
        stream
    }

    /// What is answered; nothing, if the service hangs up.
    pub(crate) fn say(&self, line: &[u8]) -> Option<DenialOutcome> {
        let (mut stream, mut answer) = (self.connect(), Vec::new());
        // It may have hung up before it read all of it.
        let _ = stream.write_all(line);
        let read = stream.read_to_end(&mut answer);
        assert!(!read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "nothing in {TIME:?}");
        (!answer.is_empty()).then(|| DenialAnswer::parse(&answer).unwrap().outcome)
    }

    pub(crate) fn ask(&self, ask: DenialAsk) -> DenialOutcome {
        self.say(&DenialRequest::new(self.cluster, ask).line()).expect("an answer")
    }
}
