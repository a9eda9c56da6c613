//! The join service's credentials: a client certificate by the cluster's own authority, over a key that is made here.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::ApiServer;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::stock::{Conditions, Scope};

/// Where kubeadm's API servers listen.
pub(crate) const KUBEADM_PORT: u16 = 6443;
/// Who the join service is to the API server, as the chart's values call it.
pub(crate) const SERVICE: &str = "latchkey:join-service";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// How long the certificate is good: as long as those that kubeadm makes.
const LIFETIME: Duration = Duration::from_hours(365 * 24);
/// How long its issue may take; the controller manager issues some twenty a second.
const ISSUED: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Named<'a>,
    spec: RequestSpec,
}

#[derive(Serialize, Deserialize)]
struct Named<'a> {
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestSpec {
    request: String,
    signer_name: &'static str,
    usages: [&'static str; 2],
    expiration_seconds: u64,
}

#[derive(Deserialize)]
struct Posted {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
struct Status {
    /// Base64 of PEM.
    certificate: Option<String>,
    #[serde(default)]
    conditions: Conditions,
}

/// How the API server is reached, as the operator's kubeconfig says it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Reach {
    server: String,
    certificate_authority_data: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls_server_name: Option<String>,
}

/// A kubeconfig with one of each.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Kubeconfig<'a> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    clusters: [Entry<'a, Cluster<'a>>; 1],
    users: [Entry<'a, User<'a>>; 1],
    contexts: [Entry<'a, Context<'a>>; 1],
    current_context: &'a str,
}

#[derive(Serialize)]
struct Entry<'a, T> {
    name: &'a str,
    #[serde(flatten)]
    of: T,
}

#[derive(Serialize)]
struct Cluster<'a> {
    cluster: &'a Reach,
}

#[derive(Serialize)]
struct User<'a> {
    user: Certified<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Certified<'a> {
    client_certificate_data: &'a str,
    client_key_data: &'a str,
}

#[derive(Serialize)]
struct Context<'a> {
    context: Pair<'a>,
}

#[derive(Serialize)]
struct Pair<'a> {
    cluster: &'a str,
    user: &'a str,
}

/// Gets the join service a certificate, and writes its kubeconfig, in the place of an earlier one. The key never leaves this
/// process but into that file.
pub(crate) async fn issue(api: &ApiServer, kubeconfig: &Path) -> Result<(), CommandError> {
    let cannot = |why: String| {
        CommandError::local(CommandCode::CertificateNotIssued, "the join service has no certificate").because(why)
    };
    let key = KeyPair::generate().map_err(|error| cannot(error.to_string()))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, SERVICE);
    let request = params.serialize_request(&key).and_then(|request| request.pem());
    let request = request.map_err(|error| cannot(error.to_string()))?;
    // A name that nobody else's request has: what is approved is what was posted here.
    let digest = ring::digest::digest(&ring::digest::SHA256, request.as_bytes());
    let name = format!("latchkey-join-service-{}", hex::encode(&digest.as_ref()[..8]));
    let posted = Request {
        api_version: "certificates.k8s.io/v1",
        kind: "CertificateSigningRequest",
        metadata: Named { name: &name },
        spec: RequestSpec {
            request: STANDARD.encode(&request),
            signer_name: SIGNER,
            usages: ["digital signature", "client auth"],
            expiration_seconds: LIFETIME.as_secs(),
        },
    };
    let _posted: Posted = api.kubectl().create(&serde_json::to_vec(&posted).unwrap_or_default()).await?;
    api.kubectl().approve(&name).await?;
    let certificate = issued(api, &name).await;
    // Whatever became of it, it is of no more use.
    let removed = api.kubectl().delete("certificatesigningrequest", Scope::Cluster, &name).await;
    let certificate = certificate?;
    removed?;
    let reach: Reach = api.kubectl().cluster_of_kubeconfig().await?;
    let pem = Zeroizing::new(key.serialize_pem());
    let encoded = Zeroizing::new(STANDARD.encode(pem.as_bytes()));
    let text = self::kubeconfig(&reach, "join-service", &certificate, &encoded);
    files::replace(kubeconfig, &text, Readers::OwnerOnly)
}

/// The document, of what is base64 of PEM.
pub(crate) fn kubeconfig(reach: &Reach, user: &str, certificate: &str, key: &str) -> Zeroizing<Vec<u8>> {
    let certified = Certified { client_certificate_data: certificate, client_key_data: key };
    let document = Kubeconfig {
        api_version: "v1",
        kind: "Config",
        clusters: [Entry { name: "cluster", of: Cluster { cluster: reach } }],
        users: [Entry { name: user, of: User { user: certified } }],
        contexts: [Entry { name: user, of: Context { context: Pair { cluster: "cluster", user } } }],
        current_context: user,
    };
    Zeroizing::new(serde_json::to_vec_pretty(&document).unwrap_or_default())
}

impl Reach {
    /// Of the API server at `HOST:PORT`, by its authority (PEM): every API server's certificate has this name.
    pub(crate) fn of(address: &str, authority: &str) -> Self {
        Self {
            server: format!("https://{address}"),
            certificate_authority_data: STANDARD.encode(authority),
            tls_server_name: Some("kubernetes".to_owned()),
        }
    }
}

/// `HOST:PORT` of the API server, as the operator's kubeconfig says it.
pub(crate) async fn reached_at(api: &ApiServer) -> Result<String, CommandError> {
    let Reach { server, .. } = api.kubectl().cluster_of_kubeconfig().await?;
    let address = server.strip_prefix("https://").unwrap_or(&server);
    let address = address.split('/').next().unwrap_or_default();
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    Ok(if has_port { address.to_owned() } else { format!("{address}:443") })
}

/// The certificate (base64 of PEM), once it is there.
async fn issued(api: &ApiServer, name: &str) -> Result<String, CommandError> {
    let begun = std::time::Instant::now();
    let failed = |why: String| {
        let what = format!("the certificate request {name} was approved, and no certificate came of it");
        CommandError::new(Exit::Failed, CommandCode::CertificateNotIssued, what).because(why)
    };
    loop {
        let posted: Option<Posted> = api.kubectl().get("certificatesigningrequest", Scope::Cluster, name).await?;
        let status = posted.ok_or_else(|| failed("it is gone".to_owned()))?.status;
        if let Some(certificate) = status.certificate {
            return Ok(certificate);
        }
        if let Some(why) = status.conditions.message_of(&["Failed", "Denied"]) {
            return Err(failed(why.to_owned()));
        }
        if begun.elapsed() > ISSUED {
            return Err(failed(format!("not within {} s", ISSUED.as_secs())));
        }
        smol::Timer::after(PAUSE).await;
    }
}
