//! Requests, read and bounded. What is in them is asked for, not granted.

use crate::decision::Refusal;
use latchkey_api::v1::EnrolRequest;
use latchkey_cluster_store::registration::{InvitationHash, InvitationToken};
use latchkey_keys::Uuid;

/// `EnrolRequest.node_name` in `enrol.proto`.
const MAX_NODE_NAME: usize = 253;
/// `EnrolRequest.kubernetes_version` in `enrol.proto`.
const MAX_VERSION: usize = 64;

/// What a node asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) invitation: Option<InvitationHash>,
    pub(crate) disk: Uuid,
    pub(crate) node_name: String,
    pub(crate) kubernetes_version: String,
}

impl TryFrom<&EnrolRequest> for Ask {
    type Error = Refusal;

    fn try_from(request: &EnrolRequest) -> Result<Self, Refusal> {
        let invitation = match request.invitation.as_slice() {
            [] => None,
            bytes => Some(InvitationToken::read(bytes).ok_or(Refusal::InvitationUnknown)?.hash()),
        };
        let (node_name, kubernetes_version) = (request.node_name.clone(), request.kubernetes_version.clone());
        if node_name.len() > MAX_NODE_NAME || kubernetes_version.len() > MAX_VERSION {
            return Err(Refusal::RequestInvalid);
        }
        let disk = request.disk_uuid.parse().map_err(|_| Refusal::RequestInvalid)?;
        Ok(Self { invitation, disk, node_name, kubernetes_version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(invitation: &[u8], disk: &str, name: &str) -> EnrolRequest {
        EnrolRequest {
            invitation: invitation.to_vec(),
            disk_uuid: disk.to_owned(),
            node_name: name.to_owned(),
            kubernetes_version: "v1.34.4".to_owned(),
        }
    }

    #[test]
    fn absurd_requests_are_refused() {
        let disk = "f1f1f1f1-0000-4000-8000-000000000001";
        assert!(Ask::try_from(&request(&[7; 32], disk, "node")).unwrap().invitation.is_some());
        assert_eq!(Ask::try_from(&request(&[], disk, "node")).unwrap().invitation, None);
        let refused = |request: EnrolRequest| Ask::try_from(&request).unwrap_err();
        assert_eq!(refused(request(&[7; 31], disk, "node")), Refusal::InvitationUnknown);
        assert_eq!(refused(request(&[], "", "node")), Refusal::RequestInvalid);
        assert_eq!(refused(request(&[], disk, &"n".repeat(254))), Refusal::RequestInvalid);
    }
}
