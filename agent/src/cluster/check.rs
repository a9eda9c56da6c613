//! What an operator's settings, a join ticket and a member's name may say, before kubeadm sees them.
//!
//! kubeadm checks most of it again. It is checked here because kubeadm takes some values as more than a value (a version
//! may be a URL that it fetches), because a ticket must be complete (kubeadm would make up what it lacks), and because a
//! refusal should name what is wrong.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api::control_plane::{ControlPlaneFiles, FilesError};
use latchkey_api::v1::{ClusterJoin, ClusterSettings};
use latchkey_node_config::{Endpoint, is_subdomain};

use super::api_server::{ApiServerFiles, key_is_missing};
use super::config::API_SERVER_PORT;
use super::{Member, StepCode, StepError};
use crate::lifecycle::NodeRole;

/// `ClusterJoin.ca_certificates`: "at most 64 KiB".
const MAX_AUTHORITIES: usize = 64 * 1024;
/// The node's name becomes the label `kubernetes.io/hostname`, and a label's value is "63 characters or less" (Kubernetes,
/// "Labels and Selectors").
const MAX_NODE_NAME: usize = 63;
/// `ClusterSettings.apiserver_cert_sans`: "at most 32".
const MAX_SANS: usize = 32;
/// One CA, and its successor while it is replaced; some more do no harm.
const MAX_CAS: usize = 8;

/// The node's own name and its cluster's.
pub(super) fn member(member: &Member) -> Result<(), StepError> {
    let Member { node_name, cluster_name, .. } = member;
    if !is_subdomain(node_name) || node_name.len() > MAX_NODE_NAME {
        let message = format!(
            "{node_name:?} is no name for a Kubernetes node: it takes lower-case letters, digits, `-` and dots, \
             at most {MAX_NODE_NAME} characters"
        );
        return Err(StepError::new(StepCode::NodeNameRefused, message));
    }
    if !cluster_name.is_empty() && !is_subdomain(cluster_name) {
        return Err(settings_refused("cluster name", cluster_name, "a DNS name"));
    }
    Ok(())
}

/// The operator's settings for a new cluster. Empty ones are kubeadm's defaults, but for the key that Secrets are encrypted with.
pub(super) fn settings(settings: &ClusterSettings) -> Result<ApiServerFiles, StepError> {
    let given = |value: &str, good: bool| value.is_empty() || good;
    let version = &settings.kubernetes_version;
    if !given(version, is_minor(version)) {
        return Err(settings_refused("kubernetes_version", version, "a minor version like 1.34"));
    }
    let endpoint = &settings.control_plane_endpoint;
    if !given(endpoint, Endpoint::of_api_server_or(endpoint, API_SERVER_PORT).is_some()) {
        let expected = "HOST or HOST:PORT, an IPv6 address with a port in brackets";
        return Err(settings_refused("control_plane_endpoint", endpoint, expected));
    }
    for (name, value) in [("pod_cidr", &settings.pod_cidr), ("service_cidr", &settings.service_cidr)] {
        if !given(value, are_subnets(value)) {
            return Err(settings_refused(name, value, "a subnet like 10.244.0.0/16, or one of IPv4 and one of IPv6"));
        }
    }
    let names = &settings.apiserver_cert_sans;
    if names.len() > MAX_SANS {
        return Err(settings_refused("apiserver_cert_sans", &names.len().to_string(), "at most 32 names"));
    }
    match names.iter().find(|name| !is_subject_name(name)) {
        Some(name) => Err(settings_refused("apiserver_cert_sans", name, "IP addresses and DNS names")),
        None => ApiServerFiles::new(settings.secrets_key.as_ref())
            .ok_or_else(|| key_is_missing(StepCode::SettingsRefused, "what `latchkey init` sent")),
    }
}

/// A join ticket. Without token or CA kubeadm would trust whoever answers. A control plane's gives what its API server reads.
pub(super) fn ticket(role: NodeRole, ticket: &ClusterJoin) -> Result<Option<ApiServerFiles>, StepError> {
    let missing = [
        ("the API server's endpoint", ticket.api_server_endpoint.is_empty()),
        ("a bootstrap token", ticket.bootstrap_token.is_empty()),
        ("the cluster's CA", ticket.ca_certificates.is_empty()),
    ];
    if let Some((what, _)) = missing.iter().find(|(_, missing)| *missing) {
        let message = format!("the join ticket lacks {what}");
        return Err(StepError::new(StepCode::TicketIncomplete, message));
    }
    if Endpoint::of_api_server(&ticket.api_server_endpoint).is_none() {
        return Err(ticket_refused("its API server's endpoint is not HOST:PORT"));
    }
    if !is_token(&ticket.bootstrap_token) {
        return Err(ticket_refused("its bootstrap token has not the form of one"));
    }
    if !are_certificates(&ticket.ca_certificates) {
        return Err(ticket_refused("its CA is not a few certificates in PEM, and nothing else"));
    }
    if role != NodeRole::Worker {
        let files = ApiServerFiles::new(ticket.secrets_key.as_ref());
        return files.map(Some).ok_or_else(|| key_is_missing(StepCode::TicketIncomplete, "the join ticket"));
    }
    let kept_from_workers = [&ticket.control_plane_files, &ticket.service_files];
    if kept_from_workers.iter().any(|files| !files.is_empty()) || ticket.secrets_key.is_some() {
        return Err(ticket_refused("it has control-plane files for a worker"));
    }
    Ok(None)
}

/// The ticket's files: all of them for a control plane, none for a worker.
pub(super) fn control_plane_files(
    role: NodeRole,
    ticket: &ClusterJoin,
) -> Result<Option<ControlPlaneFiles>, StepError> {
    if role == NodeRole::Worker {
        return Ok(None);
    }
    ControlPlaneFiles::new(ticket.control_plane_files.clone()).map(Some).map_err(|error| match error {
        FilesError::Missing(_) => {
            StepError::new(StepCode::TicketIncomplete, format!("the join ticket is not complete: {error}"))
        }
        _ => ticket_refused(&error.to_string()),
    })
}

/// `MAJOR.MINOR`: the patch is the image's affair.
pub(super) fn is_minor(text: &str) -> bool {
    let is_number = |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    text.split_once('.').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// `vMAJOR.MINOR.PATCH`, with or without a pre-release. kubeadm would take labels like `stable-1` too, and fetch their
/// meaning from the internet.
pub(super) fn is_version(text: &str) -> bool {
    let Some(text) = text.strip_prefix('v').filter(|text| text.len() <= 64) else { return false };
    let (release, pre) = text.split_once('-').map_or((text, None), |(release, pre)| (release, Some(pre)));
    let is_number = |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let is_identifier = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    release.split('.').count() == 3
        && release.split('.').all(is_number)
        && pre.is_none_or(|pre| pre.split('.').all(is_identifier))
}

/// One subnet, or two of different families.
fn are_subnets(text: &str) -> bool {
    let subnets = text.split(',').map(subnet).collect::<Option<Vec<_>>>();
    match subnets.as_deref() {
        Some([_]) => true,
        Some([one, other]) => one.is_ipv4() != other.is_ipv4(),
        _ => false,
    }
}

fn subnet(text: &str) -> Option<IpAddr> {
    let (address, prefix) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let digits = prefix.bytes().all(|b| b.is_ascii_digit());
    (digits && prefix.parse::<u8>().is_ok_and(|prefix| prefix <= longest)).then_some(address)
}

fn is_subject_name(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || is_subdomain(text.strip_prefix("*.").unwrap_or(text))
}

/// `[a-z0-9]{6}.[a-z0-9]{16}` (Kubernetes, "Authenticating with Bootstrap Tokens").
fn is_token(text: &str) -> bool {
    let is_part =
        |part: &str, length| part.len() == length && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.split_once('.').is_some_and(|(id, secret)| is_part(id, 6) && is_part(secret, 16))
}

/// One to some blocks of `CERTIFICATE` (RFC 7468), with nothing around them: what reads them next, kubeadm and the kubelet,
/// takes keys and names from what it finds. That each is a certificate is for them to see.
fn are_certificates(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let (mut rest, mut blocks) = (text.trim_ascii_end(), 0);
    while let Some(block) = rest.strip_prefix("-----BEGIN CERTIFICATE-----\n") {
        let Some((body, after)) = block.split_once("\n-----END CERTIFICATE-----") else { return false };
        // A sequence, as every certificate is.
        let der = STANDARD.decode(body.replace('\n', ""));
        if !der.is_ok_and(|der| der.first() == Some(&0x30)) {
            return false;
        }
        (rest, blocks) = (after.trim_ascii_start(), blocks + 1);
    }
    rest.is_empty() && (1..=MAX_CAS).contains(&blocks) && text.len() <= MAX_AUTHORITIES
}

fn settings_refused(what: &str, got: &str, expected: &str) -> StepError {
    let got = got.chars().take(80).collect::<String>();
    StepError::new(StepCode::SettingsRefused, format!("{what} is {got:?}; it takes {expected}"))
}

fn ticket_refused(why: &str) -> StepError {
    StepError::new(StepCode::TicketRefused, format!("the join ticket is not acceptable: {why}"))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
