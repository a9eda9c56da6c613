//! A request as the API server shows it: whose it is to decide.

use crate::decision::{ClientAsk, RenewalAsk, ServingAsk};
use crate::pkcs10::CertificateRequest;
use crate::refusal::CertificateRefusal as Refusal;
use crate::{CLIENT_SIGNER, SERVING_SIGNER, TOKEN_GROUP};

/// The user of a bootstrap token, before its id.
const TOKEN_USER: &str = "system:bootstrap:";
/// The user of a node, before its name.
pub(crate) const NODE_USER: &str = "system:node:";
/// The group of nodes, and the organisation of their certificates.
const NODES: &str = "system:nodes";
/// The length of a bootstrap token's id.
const TOKEN_ID: usize = 6;

/// A `CertificateSigningRequest`. The API server itself fills in `username` and `groups`; the rest is whoever's asks.
#[derive(Clone, Copy, Debug)]
pub struct Posted<'a> {
    /// `metadata.uid`: a request of the same name that comes later is another.
    pub uid: &'a str,
    /// `spec.signerName`.
    pub signer: &'a str,
    /// `spec.username`.
    pub username: &'a str,
    /// `spec.groups`.
    pub groups: &'a [String],
    /// `spec.usages`.
    pub usages: &'a [String],
    /// `spec.request`, without the base64 of JSON.
    pub pem: &'a [u8],
    /// Whether it has a condition or a certificate already.
    pub decided: bool,
}

/// The id of a bootstrap token: the public half of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(String);

impl TokenId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn read(text: &str) -> Option<Self> {
        let good =
            text.len() == TOKEN_ID && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        good.then(|| Self(text.to_owned()))
    }
}

/// What a request is, and so which record decides it.
#[derive(Debug)]
pub enum Reading {
    /// Somebody else's.
    Leave(Left),
    /// No record can make it right.
    Deny(Refusal),
    /// A node that joins: the ticket of its token decides.
    Client(ClientAsk),
    /// A node that renews its client certificate: its record decides.
    Renewal(RenewalAsk),
    /// A node that serves: its record decides.
    Serving(ServingAsk),
}

/// Why a request is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Of a signer that is not the kubelets'.
    OtherSigner,
    /// Somebody has approved or denied it, or it has failed.
    Decided,
}

/// Reads a request.
pub fn read(posted: &Posted<'_>) -> Reading {
    if posted.decided {
        return Reading::Leave(Left::Decided);
    }
    match posted.signer {
        CLIENT_SIGNER if posted.username.starts_with(NODE_USER) => {
            read_renewal(posted).map_or_else(Reading::Deny, Reading::Renewal)
        }
        CLIENT_SIGNER => read_client(posted).map_or_else(Reading::Deny, Reading::Client),
        SERVING_SIGNER => read_serving(posted).map_or_else(Reading::Deny, Reading::Serving),
        _ => Reading::Leave(Left::OtherSigner),
    }
}

fn read_client(posted: &Posted<'_>) -> Result<ClientAsk, Refusal> {
    let token = posted.username.strip_prefix(TOKEN_USER).and_then(TokenId::read).ok_or(Refusal::RequesterRefused)?;
    are(posted.groups, &["system:bootstrappers", TOKEN_GROUP, "system:authenticated"])?;
    Ok(ClientAsk { uid: posted.uid.to_owned(), token, request: read_for_client(posted)? })
}

fn read_renewal(posted: &Posted<'_>) -> Result<RenewalAsk, Refusal> {
    let node = node_that_asks(posted)?;
    Ok(RenewalAsk { uid: posted.uid.to_owned(), node, request: read_for_client(posted)? })
}

fn read_for_client(posted: &Posted<'_>) -> Result<CertificateRequest, Refusal> {
    let request = CertificateRequest::read(posted.pem)?;
    in_nodes(&request)?;
    if !request.dns.is_empty() || !request.addresses.is_empty() {
        return Err(Refusal::ClientWithNames);
    }
    used_for(posted.usages, "client auth")?;
    Ok(request)
}

/// By its client certificate.
fn node_that_asks(posted: &Posted<'_>) -> Result<String, Refusal> {
    let node = posted.username.strip_prefix(NODE_USER).ok_or(Refusal::RequesterRefused)?;
    are(posted.groups, &[NODES, "system:authenticated"])?;
    Ok(node.to_owned())
}

fn read_serving(posted: &Posted<'_>) -> Result<ServingAsk, Refusal> {
    let node = node_that_asks(posted)?;
    let request = CertificateRequest::read(posted.pem)?;
    in_nodes(&request)?;
    used_for(posted.usages, "server auth")?;
    Ok(ServingAsk { uid: posted.uid.to_owned(), node, request })
}

/// Who is in another group as well is somebody else.
fn are(groups: &[String], expected: &[&str]) -> Result<(), Refusal> {
    let all = expected.iter().all(|group| groups.iter().any(|is| is == group));
    if all && groups.len() == expected.len() { Ok(()) } else { Err(Refusal::RequesterRefused) }
}

fn in_nodes(request: &CertificateRequest) -> Result<(), Refusal> {
    if request.organisation == NODES { Ok(()) } else { Err(Refusal::GroupRefused) }
}

/// What the signer demands of a kubelet's request: `purpose` and signatures; key encipherment is for RSA.
fn used_for(usages: &[String], purpose: &str) -> Result<(), Refusal> {
    let has = |wanted: &str| usages.iter().filter(|usage| *usage == wanted).count() == 1;
    if usages.len() == 2 && has(purpose) && has("digital signature") { Ok(()) } else { Err(Refusal::UsageRefused) }
}
