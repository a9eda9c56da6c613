//! Metadata servers of clouds: what each is asked, and how its answers are read.
//!
//! The document is what the operator gave the instance as user data, and nothing else is: what a cloud says of an instance beside it
//! can be its name, where the document has none.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use smol::future::FutureExt as _;

use super::http::{Answer, HttpError, NO_CONTENT, Question, Server};
use super::{InstanceMetadata, MAX_BYTES, MetadataError, openstack};
use latchkey_connection_limits::Backoff;

/// A cloud whose metadata server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cloud {
    /// Amazon EC2, the instance metadata service's version 2.
    Aws,
    /// Google Compute Engine.
    Gcp,
    /// Azure.
    Azure,
    /// `OpenStack`, by its own paths.
    OpenStack,
    /// Hetzner.
    Hetzner,
}

/// Where all of them answer.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);
/// All questions and tries together.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// Names, and tokens.
const MAX_TEXT: usize = 1024;
/// Documents of theirs beside ours.
pub(super) const MAX_JSON: usize = 64 * 1024;

/// Why an answer is no good.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// There is none.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The server refuses, or has other things to do.
    #[error("{path}: HTTP status {status}")]
    Status {
        /// What was asked for.
        path: &'static str,
        /// What it said.
        status: u16,
    },
    /// The server has nothing of this instance, not even what it has of each.
    #[error("{path}: HTTP status 404, so this instance is not known there (yet)")]
    Unknown {
        /// What was asked for.
        path: &'static str,
    },
    /// What answers is something else.
    #[error("{path}: {what}")]
    Answer {
        /// What was asked for.
        path: &'static str,
        /// What is wrong.
        what: &'static str,
    },
}

impl CloudError {
    /// Whether another try may end better: nobody answers yet, or the server is busy.
    fn passes(&self) -> bool {
        match self {
            Self::Http(HttpError::Io(_) | HttpError::Late) | Self::Unknown { .. } => true,
            // 401: a token that ended meanwhile. 410: Azure's service restarts.
            Self::Status { status, .. } => matches!(status, 401 | 408 | 410 | 429 | 500..=599),
            Self::Http(HttpError::Malformed(_) | HttpError::TooLong { .. }) | Self::Answer { .. } => false,
        }
    }
}

impl Cloud {
    /// Its word on the kernel command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Gcp => "gcp",
            Self::Azure => "azure",
            Self::OpenStack => "openstack",
            Self::Hetzner => "hetzner",
        }
    }

    pub(super) async fn fetch(self) -> Result<Option<InstanceMetadata>, MetadataError> {
        self.fetch_from(self.server(ADDRESS), PATIENCE).await
    }

    fn server(self, address: SocketAddr) -> Server {
        let name = if self == Self::Gcp { "metadata.google.internal" } else { "169.254.169.254" };
        Server { address, name }
    }

    pub(super) async fn fetch_from(
        self,
        server: Server,
        patience: Duration,
    ) -> Result<Option<InstanceMetadata>, MetadataError> {
        let failed = |source| MetadataError::Cloud { cloud: self.name(), source };
        let end = Instant::now() + patience;
        let document = patiently(end, || self.document(server)).await.map_err(failed)?;
        let metadata = InstanceMetadata::given(document)?;
        if InstanceMetadata::names_its_node(metadata.as_ref()) {
            return Ok(metadata);
        }
        // What cannot be had is passed over as what is no name.
        let name = patiently(end, || self.instance_name(server)).await.ok().flatten();
        Ok(InstanceMetadata::named(metadata, name.as_deref()))
    }

    /// What the operator gave the instance; `None` where that is nothing.
    async fn document(self, server: Server) -> Result<Option<Vec<u8>>, CloudError> {
        match self {
            Self::Aws => {
                let token = aws_token(server).await?;
                bytes(server, "/latest/user-data", &[(AWS_TOKEN, &token)]).await
            }
            Self::Gcp => {
                let path = "/computeMetadata/v1/instance/attributes/latchkey-metadata";
                of_google(server, path, MAX_BYTES).await
            }
            Self::Azure => azure_document(server).await,
            Self::OpenStack => openstack::document(server).await,
            Self::Hetzner => bytes(server, "/hetzner/v1/userdata", &[]).await,
        }
    }

    /// What the cloud calls the instance.
    async fn instance_name(self, server: Server) -> Result<Option<String>, CloudError> {
        match self {
            Self::Aws => {
                let token = aws_token(server).await?;
                text(server, "/latest/meta-data/local-hostname", &[(AWS_TOKEN, &token)]).await
            }
            Self::Gcp => {
                let path = "/computeMetadata/v1/instance/name";
                of_google(server, path, MAX_TEXT).await?.map(|name| as_text(path, name)).transpose()
            }
            Self::Azure => {
                let path = "/metadata/instance/compute/name?api-version=2021-01-01&format=text";
                text(server, path, &[("Metadata", "true")]).await
            }
            Self::OpenStack => openstack::instance_name(server).await,
            Self::Hetzner => text(server, "/hetzner/v1/metadata/hostname", &[]).await,
        }
    }
}

/// Tries again as long as that may end better, and until `end`: then the last error is the answer.
pub(super) async fn patiently<T, F: Future<Output = Result<T, CloudError>>>(
    end: Instant,
    attempt: impl Fn() -> F,
) -> Result<T, CloudError> {
    let mut backoff = Backoff::new(u64::from_ne_bytes(crate::platform::entropy::bytes()));
    let mut last = CloudError::Http(HttpError::Late);
    loop {
        let late = async {
            smol::Timer::at(end).await;
            None
        };
        match async { Some(attempt().await) }.or(late).await {
            None => return Err(last),
            Some(Err(error)) if error.passes() => last = error,
            Some(ended) => return ended,
        }
        let next = Instant::now() + Duration::from_millis(backoff.next_ms());
        smol::Timer::at(next.min(end)).await;
        if next >= end {
            return Err(last);
        }
    }
}

/// What a path answers; `None` where there is nothing: 404, or 204 (Hetzner without user data: cloud-init's `helpers/hetzner.py`).
pub(super) async fn get(
    server: Server,
    path: &'static str,
    headers: &[(&str, &str)],
    limit: usize,
) -> Result<Option<Answer>, CloudError> {
    let answer = server.ask(Question::get(path, headers, limit)).await?;
    match answer.status {
        200 => Ok(Some(answer)),
        404 | NO_CONTENT => Ok(None),
        status => Err(CloudError::Status { path, status }),
    }
}

pub(super) async fn bytes(
    server: Server,
    path: &'static str,
    headers: &[(&str, &str)],
) -> Result<Option<Vec<u8>>, CloudError> {
    Ok(get(server, path, headers, MAX_BYTES).await?.map(|answer| answer.body))
}

async fn text(server: Server, path: &'static str, headers: &[(&str, &str)]) -> Result<Option<String>, CloudError> {
    let answer = get(server, path, headers, MAX_TEXT).await?;
    answer.map(|answer| as_text(path, answer.body)).transpose()
}

fn as_text(path: &'static str, bytes: Vec<u8>) -> Result<String, CloudError> {
    String::from_utf8(bytes).map_err(|_| CloudError::Answer { path, what: "no UTF-8" })
}

const AWS_TOKEN: &str = "X-aws-ec2-metadata-token";

/// `docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html`: nothing is read without a token, so a
/// server that knows only version 1 is not asked.
async fn aws_token(server: Server) -> Result<String, CloudError> {
    const TOKEN: &str = "/latest/api/token";
    let ttl = [("X-aws-ec2-metadata-token-ttl-seconds", "60")];
    let answer = server.ask(Question::send("PUT", TOKEN, &ttl, &[], MAX_TEXT)).await?;
    if answer.status != 200 {
        return Err(CloudError::Status { path: TOKEN, status: answer.status });
    }
    let token = as_text(TOKEN, answer.body)?;
    // It goes into a header.
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(CloudError::Answer { path: TOKEN, what: "no token" });
    }
    Ok(token)
}

/// `cloud.google.com/compute/docs/metadata/querying-metadata`: who does not name itself is not the server, also where it has nothing.
async fn of_google(server: Server, path: &'static str, limit: usize) -> Result<Option<Vec<u8>>, CloudError> {
    let answer = server.ask(Question::get(path, &[("Metadata-Flavor", "Google")], limit)).await?;
    match answer.status {
        200 | 404 if !answer.of_google => {
            Err(CloudError::Answer { path, what: "not of Google's metadata server (Metadata-Flavor)" })
        }
        200 => Ok(Some(answer.body)),
        404 => Ok(None),
        status => Err(CloudError::Status { path, status }),
    }
}

/// `learn.microsoft.com/azure/virtual-machines/instance-metadata-service`: user data is Base64, in lines where who gave it wrote lines.
async fn azure_document(server: Server) -> Result<Option<Vec<u8>>, CloudError> {
    const DOCUMENT: &str = "/metadata/instance/compute/userData?api-version=2021-01-01&format=text";
    let encoded = get(server, DOCUMENT, &[("Metadata", "true")], 2 * MAX_BYTES).await?.map(|answer| answer.body);
    let decode = |mut encoded: Vec<u8>| {
        encoded.retain(|byte| !byte.is_ascii_whitespace());
        STANDARD.decode(encoded)
    };
    encoded.map(decode).transpose().map_err(|_| CloudError::Answer { path: DOCUMENT, what: "no Base64" })
}

#[cfg(test)]
#[path = "cloud_tests.rs"]
mod tests;
