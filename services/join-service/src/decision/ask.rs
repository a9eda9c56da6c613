//! Requests, read and bounded. What is in them is asked for, not granted.

use super::Refusal;
use latchkey_api::v1;
use latchkey_cluster_store::{Outcome, Role, parse_addresses};
use latchkey_keys::Uuid;
use std::net::IpAddr;

/// `ReportRequest.message` in `join.proto`: "at most 4 KiB".
const MAX_MESSAGE: usize = 4096;
const MAX_CODE: usize = 64;

/// What a node asks the keys for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A place in the cluster, with an empty disk.
    Join(JoinAsk),
    /// The key of its own disk.
    Rejoin(Uuid),
}

/// A node that wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinAsk {
    /// The disk it is going to format.
    pub disk: Uuid,
    /// The name it would like, unchecked: a rule may give it another.
    pub name: String,
    /// The role it would like.
    pub role: Option<Role>,
}

/// How a bootstrap ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportAsk {
    /// The disk of that bootstrap.
    pub disk: Uuid,
    /// Its end.
    pub outcome: Outcome,
    /// Where its kubelet serves, by its own word.
    pub addresses: Vec<IpAddr>,
}

impl Ask {
    /// The disk it is about.
    pub fn disk(&self) -> Uuid {
        match self {
            Self::Join(ask) => ask.disk,
            Self::Rejoin(disk) => *disk,
        }
    }
}

impl TryFrom<&v1::JoinRequest> for Ask {
    type Error = Refusal;

    fn try_from(request: &v1::JoinRequest) -> Result<Self, Refusal> {
        let role = match v1::Role::try_from(request.role) {
            Ok(v1::Role::ControlPlane) => Some(Role::ControlPlane),
            Ok(v1::Role::Worker) => Some(Role::Worker),
            Ok(v1::Role::Unspecified) => None,
            Err(_) => return Err(Refusal::RoleInvalid),
        };
        Ok(Self::Join(JoinAsk { disk: uuid(&request.disk_uuid)?, name: request.node_name.clone(), role }))
    }
}

impl TryFrom<&v1::RejoinRequest> for Ask {
    type Error = Refusal;

    fn try_from(request: &v1::RejoinRequest) -> Result<Self, Refusal> {
        uuid(&request.disk_uuid).map(Self::Rejoin)
    }
}

impl TryFrom<&v1::ReportRequest> for ReportAsk {
    type Error = Refusal;

    fn try_from(request: &v1::ReportRequest) -> Result<Self, Refusal> {
        let v1::ReportRequest { disk_uuid, succeeded, code, message, addresses, agent_version: _ } = request;
        if code.len() > MAX_CODE || message.len() > MAX_MESSAGE {
            return Err(Refusal::ReportInvalid);
        }
        let shown = |text: &str| latchkey_reason::printable(text).collect();
        let failed = || Outcome::Failed { code: shown(code), message: shown(message) };
        let outcome = if *succeeded { Outcome::Succeeded } else { failed() };
        let addresses = parse_addresses(addresses).ok_or(Refusal::ReportInvalid)?;
        Ok(Self { disk: uuid(disk_uuid)?, outcome, addresses })
    }
}

fn uuid(text: &str) -> Result<Uuid, Refusal> {
    text.parse().map_err(|_| Refusal::DiskUuidInvalid)
}
