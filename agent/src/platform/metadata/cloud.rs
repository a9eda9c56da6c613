//! Metadata servers of clouds: what each is asked, and how its answers are read.
//!
//! The document is what the operator gave the instance as user data, and nothing else is: what a cloud says of an instance beside it
//! can be its name, where the document has none.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use smol::future::FutureExt as _;

use super::http::{Answer, HttpError, Question, Server};
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

/// What a path answers; `None` where there is nothing (404).
pub(super) async fn get(
    server: Server,
    path: &'static str,
    headers: &[(&str, &str)],
    limit: usize,
) -> Result<Option<Answer>, CloudError> {
    let answer = server.ask(Question::get(path, headers, limit)).await?;
    match answer.status {
        200 => Ok(Some(answer)),
        404 => Ok(None),
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

/// `learn.microsoft.com/azure/virtual-machines/instance-metadata-service`: user data is Base64.
async fn azure_document(server: Server) -> Result<Option<Vec<u8>>, CloudError> {
    const DOCUMENT: &str = "/metadata/instance/compute/userData?api-version=2021-01-01&format=text";
    let encoded = get(server, DOCUMENT, &[("Metadata", "true")], 2 * MAX_BYTES).await?.map(|answer| answer.body);
    let decoded = encoded.map(|encoded| STANDARD.decode(encoded.trim_ascii())).transpose();
    decoded.map_err(|_| CloudError::Answer { path: DOCUMENT, what: "no Base64" })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use latchkey_test_support::metadata::{FakeServer, nothing};

    use super::*;

    const DOCUMENT: &str = r#"{"version":1,"role":"worker"}"#;

    fn fetch(cloud: Cloud, server: &FakeServer) -> Result<Option<InstanceMetadata>, MetadataError> {
        smol::block_on(cloud.fetch_from(cloud.server(server.address()), Duration::from_secs(30)))
    }

    fn name(metadata: Result<Option<InstanceMetadata>, MetadataError>) -> Option<String> {
        metadata.unwrap().unwrap().node_name
    }

    fn documented(cloud: Cloud, document: Option<&'static str>) -> FakeServer {
        FakeServer::of(cloud.name(), document)
    }

    const CLOUDS: [(Cloud, &str); 5] = [
        (Cloud::Aws, "ip-10-0-2-15.eu-central-1.compute.internal"),
        (Cloud::Gcp, "edge-7"),
        (Cloud::Azure, "edge-7"),
        (Cloud::OpenStack, "edge-7.novalocal"),
        (Cloud::Hetzner, "edge-7"),
    ];

    #[test]
    fn the_operator_s_document_counts_and_the_cloud_s_name_where_that_has_none() {
        for (cloud, named) in CLOUDS {
            let metadata = fetch(cloud, &documented(cloud, Some(DOCUMENT))).unwrap().unwrap();
            assert_eq!(metadata.node_name.as_deref(), Some(named), "{cloud:?}");
            assert!(metadata.role.is_some());
            let own = documented(cloud, Some(r#"{"version":1,"node_name":"mine"}"#));
            assert_eq!(name(fetch(cloud, &own)).as_deref(), Some("mine"));
            assert_eq!(name(fetch(cloud, &documented(cloud, None))).as_deref(), Some(named));
            // What was meant for something else is no document of ours, and not passed over.
            let error = fetch(cloud, &documented(cloud, Some("#cloud-config\nusers: []\n"))).unwrap_err();
            assert_eq!(error.code().as_str(), "metadata-invalid", "{cloud:?}");
        }
    }

    #[test]
    fn a_server_that_is_busy_or_away_for_a_moment_is_asked_again() {
        let asked = AtomicU32::new(0);
        let server = FakeServer::new(move |question| match asked.fetch_add(1, Ordering::Relaxed) {
            0 => (429, "Retry-After: 1\r\n", String::new()),
            1 => (503, "", String::new()),
            _ if question.starts_with("GET /hetzner/v1/userdata ") => (200, "", DOCUMENT.into()),
            _ => nothing(),
        });
        assert_eq!(fetch(Cloud::Hetzner, &server).unwrap().unwrap().node_name, None);
        assert_eq!(server.heard().len(), 4);
    }

    #[test]
    fn a_token_that_ended_is_asked_for_again() {
        let asked = AtomicU32::new(0);
        let server = FakeServer::new(move |question| match asked.fetch_add(1, Ordering::Relaxed) {
            1 => (401, "", String::new()),
            _ if question.starts_with("PUT ") => (200, "", "token".into()),
            _ if question.contains("user-data") => (200, "", DOCUMENT.into()),
            _ => nothing(),
        });
        fetch(Cloud::Aws, &server).unwrap().unwrap();
    }

    #[test]
    fn what_will_not_get_better_is_refused_at_once_and_named() {
        let refused = |cloud, status: u16, headers: &'static str, body: &'static str| {
            let server = FakeServer::new(move |_| (status, headers, body.into()));
            let error = fetch(cloud, &server).unwrap_err();
            assert_eq!(server.heard().len(), 1);
            assert_eq!(error.code().as_str(), "metadata-server-failed");
            error.to_string()
        };
        assert!(refused(Cloud::Aws, 403, "", "").contains("aws: /latest/api/token: HTTP status 403"));
        assert!(refused(Cloud::Aws, 404, "", "").contains("404"), "a server of version 1 is not asked");
        assert!(refused(Cloud::Aws, 200, "", "a\r\nHost: b").contains("no token"));
        assert!(refused(Cloud::Gcp, 200, "", DOCUMENT).contains("Metadata-Flavor"));
        assert!(refused(Cloud::Azure, 200, "", "no Base64!").contains("no Base64"));
        assert!(refused(Cloud::Hetzner, 301, "Location: http://elsewhere/\r\n", "").contains("301"));
        let endless: &'static str = "a".repeat(MAX_BYTES + 1).leak();
        assert!(refused(Cloud::OpenStack, 200, "", endless).contains("longer than it may be"));
        let cut = FakeServer::raw(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_vec());
        assert!(fetch(Cloud::Hetzner, &cut).unwrap_err().to_string().contains("not as long as it says"));
    }

    #[test]
    fn a_name_that_is_none_is_passed_over() {
        for said in ["", "a b", "a\nb", "..", "x_y"] {
            let server = FakeServer::new(move |question| {
                let body = if question.contains("hostname") { said } else { DOCUMENT };
                (200, "", body.into())
            });
            assert_eq!(fetch(Cloud::Hetzner, &server).unwrap().unwrap().node_name, None, "{said:?}");
        }
    }

    #[test]
    fn a_server_that_never_answers_is_waited_for_no_longer_than_that() {
        // Of one nobody listens, the other takes every question and says nothing.
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        for address in [nobody, silent.local_addr().unwrap()] {
            let began = Instant::now();
            let none = smol::block_on(Cloud::Gcp.fetch_from(Cloud::Gcp.server(address), Duration::from_secs(1)));
            assert_eq!(none.unwrap_err().code().as_str(), "metadata-server-failed");
            // Far less than one question may take, and more than a moment.
            assert!((Duration::from_secs(1)..Duration::from_secs(4)).contains(&began.elapsed()));
        }
    }

    #[test]
    fn document_and_name_together_take_no_longer_than_that() {
        let server = FakeServer::new(|question| match question {
            _ if question.contains("userdata") => (200, "", DOCUMENT.into()),
            _ => (503, "", String::new()),
        });
        let began = Instant::now();
        let patience = Duration::from_secs(2);
        let hetzner = Cloud::Hetzner;
        let metadata = smol::block_on(hetzner.fetch_from(hetzner.server(server.address()), patience)).unwrap().unwrap();
        assert!(metadata.role.is_some() && metadata.node_name.is_none());
        assert!(began.elapsed() < 2 * patience);
    }

    #[test]
    fn a_name_that_cannot_be_had_does_not_keep_a_document_from_counting() {
        for (status, body) in [(403, String::new()), (200, "a".repeat(MAX_TEXT + 1)), (301, String::new())] {
            let server = FakeServer::new(move |question| match question {
                _ if question.contains("userdata") => (200, "", DOCUMENT.into()),
                _ => (status, "", body.clone()),
            });
            assert_eq!(fetch(Cloud::Hetzner, &server).unwrap().unwrap().node_name, None);
        }
        // Where the document has one, the cloud is not asked.
        let server = FakeServer::of("hetzner", Some(r#"{"version":1,"node_name":"mine"}"#));
        assert_eq!(name(fetch(Cloud::Hetzner, &server)).as_deref(), Some("mine"));
        assert_eq!(server.heard().len(), 1);
    }
}
