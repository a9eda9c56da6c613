//! All that one run of `git http-backend` knows (RFC 3875, section 4.1).

use smol::process::{Command, Stdio};

use super::BackendError;
use crate::git::{self, GitLimits};
use crate::paths::{Service, Step};
use crate::repositories::Repositories;
use crate::rights::Authorised;

/// The longest `Git-Protocol` header that is passed on.
const LONGEST_PROTOCOL: usize = 64;

/// What of a request's head reaches git.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestHead {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
    /// `Content-Length`; `None` where the body is sent in chunks.
    pub content_length: Option<u64>,
    /// `Git-Protocol`.
    pub git_protocol: Option<String>,
}

impl RequestHead {
    /// Refuses what git would not understand, before anything runs.
    pub(super) fn check(&self, authorised: &Authorised, most: u64) -> Result<(), BackendError> {
        if authorised.step() == Step::Advertise {
            return Ok(());
        }
        let right = request_type(authorised.service());
        let coding = self.content_encoding.as_deref().unwrap_or("identity");
        if self.content_type.as_deref() != Some(right) || !["identity", "gzip", "x-gzip"].contains(&coding) {
            return Err(BackendError::Unsupported(right));
        }
        match self.content_length {
            Some(length) if length > most => Err(too_large(most)),
            _ => Ok(()),
        }
    }

    fn protocol(&self) -> Option<&str> {
        let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"=:.-_".contains(&byte);
        let sent = self.git_protocol.as_deref()?;
        (sent.len() <= LONGEST_PROTOCOL && sent.bytes().all(harmless)).then_some(sent)
    }
}

pub(super) const fn too_large(most: u64) -> BackendError {
    BackendError::TooLarge { what: "the request", most, remedy: "push in smaller parts" }
}

/// The most bytes of a body that are read.
pub(super) fn most_of_body(authorised: &Authorised, limits: GitLimits) -> u64 {
    match (authorised.step(), authorised.service()) {
        (Step::Advertise, _) => 0,
        (Step::Exchange, Service::UploadPack) => limits.negotiation.into(),
        (Step::Exchange, Service::ReceivePack) => limits.most_pushed(),
    }
}

const fn request_type(service: Service) -> &'static str {
    match service {
        Service::UploadPack => "application/x-git-upload-pack-request",
        Service::ReceivePack => "application/x-git-receive-pack-request",
    }
}

/// The run, not yet started. Path and query are made from what was understood, never from what was sent.
pub(super) fn command(repositories: &Repositories, authorised: &Authorised, request: &RequestHead) -> Command {
    let (uuid, service) = (authorised.repository(), authorised.service());
    let mut command = git::command(repositories.limits(), ["http-backend"]);
    command.current_dir(repositories.directory());
    command.env("GIT_PROJECT_ROOT", repositories.directory()).env("GIT_HTTP_EXPORT_ALL", "1");
    command.env("GATEWAY_INTERFACE", "CGI/1.1").env("SERVER_PROTOCOL", "HTTP/1.1");
    command.env("REMOTE_USER", authorised.caller()).env("REMOTE_ADDR", "-");
    if let Some(protocol) = request.protocol() {
        command.env("GIT_PROTOCOL", protocol);
    }
    match authorised.step() {
        Step::Advertise => {
            command.env("REQUEST_METHOD", "GET").env("PATH_INFO", format!("/{uuid}/info/refs"));
            command.env("QUERY_STRING", format!("service={}", service.name()));
        }
        Step::Exchange => {
            command.env("REQUEST_METHOD", "POST").env("PATH_INFO", format!("/{uuid}/{}", service.name()));
            command.env("QUERY_STRING", "").env("CONTENT_TYPE", request_type(service)).stdin(Stdio::piped());
            if let Some(length) = request.content_length {
                command.env("CONTENT_LENGTH", length.to_string());
            }
            if request.content_encoding.as_deref().is_some_and(|coding| coding != "identity") {
                command.env("HTTP_CONTENT_ENCODING", "gzip");
            }
        }
    }
    command
}
