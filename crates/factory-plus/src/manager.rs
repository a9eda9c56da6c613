//! What the cluster manager says: of clusters, and of the links that bootstrap them.
//!
//! | path | answer |
//! |---|---|
//! | `GET /v1/cluster`, change notification of `v1/cluster/` | [`Cluster`] by UUID |
//! | `GET /v1/cluster/UUID/status` | [`Cluster`] |
//! | `POST /v1/cluster/UUID/bootstrap-url` | the URL of a new link, as a string |
//! | `POST /v1/cluster/UUID/link` with [`LinkRequest`] | [`NewLink`] |
//! | `GET /v1/cluster/UUID/link` | [`Link`]s, the newest first |
//! | `DELETE /v1/cluster/UUID/link/UUID` | the link is revoked |
//! | `POST /v1/cluster/UUID/manifests` with [`ManifestsRequest`] | [`BootstrapManifests`], with a new link |
//! | `PUT`, `DELETE /v1/cluster/UUID/secret/NAMESPACE/NAME/KEY` | the body is sealed, and committed |
//! | `POST /v1/cluster/UUID/decommission` | what is left of a deleted cluster goes |
//! | `GET /v1/name/NAME` | [`NameAnswer`] |
//! | `GET /v1/bootstrap/TOKEN` | the script; nobody is asked who he is |
//! | `POST /v1/bootstrap/TOKEN/redeem` with [`RedeemRequest`] | [`Redeemed`]; the same |

use serde::{Deserialize, Serialize};

use crate::Uuid;
use crate::cluster::{Host, Registration};

/// An edge cluster: what was asked for, how far its set-up is, and what its edge says.
#[expect(clippy::struct_excessive_bools, reason = "four facts that do not depend on each other, as programs read them")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// The namespace at the edge.
    pub namespace: String,
    /// The Helm chart template.
    pub chart: Uuid,
    /// Whether Flux's own manifests are left out.
    pub bare: bool,
    /// Its Sparkplug group.
    pub group: String,
    /// What is being done to it, or was done last.
    pub phase: Phase,
    /// Whether it can be bootstrapped.
    pub ready: bool,
    /// When the phase began: milliseconds since 1970.
    pub since: u64,
    /// How often the present step failed.
    pub attempt: u32,
    /// What failed last.
    pub error: Option<Problem>,
    /// Whether an edge has reported.
    pub bootstrapped: bool,
    /// The edge's machines.
    pub hosts: Vec<Host>,
    /// When the edge reported last, by its clock: milliseconds since 1970.
    pub heartbeat: Option<u64>,
    /// What does not work at the edge, in the edge's sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// Which machine registered it by itself, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// Whether secrets can be sealed for it.
    pub sealing: bool,
    /// When its name is free, where it was decommissioned: milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_free: Option<u64>,
    /// When another edge tried to redeem a link that one had redeemed, and that nobody has revoked since: milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theft: Option<u64>,
}

/// What is being done to a cluster, or was done last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The configuration is refused, and nothing was made for it.
    Refused,
    /// Its address and accounts are being made.
    Accounts,
    /// Its repository is being made.
    Repository,
    /// It is set up.
    Ready,
    /// Its rights are being revoked.
    Deleting,
    /// It has no rights; its UUIDs are kept for the day that its configuration comes back.
    Deleted,
    /// Everything of it is being removed.
    Decommissioning,
    /// Nothing is left of it but its name: see [`Cluster::name_free`].
    Decommissioned,
}

/// Something that failed, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What failed, and why.
    pub message: String,
    /// How to mend it.
    pub fix: String,
    /// When: milliseconds since 1970.
    pub at: u64,
    /// Whether it is tried again without anybody's doing.
    pub retried: bool,
}

/// Whether a new cluster can have a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameAnswer {
    /// Whether it can.
    pub free: bool,
    /// Why it cannot, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a new link is to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkRequest {
    /// How long it is good for, in seconds: 60 to 86 400; an hour where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_seconds: Option<u32>,
}

/// A new link. Nobody can be told of its token again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLink {
    /// What it is revoked by.
    pub id: Uuid,
    /// Where the script is.
    pub url: String,
    /// SHA-256 of the script, in hexadecimal.
    pub sha256: String,
    /// When it ends: milliseconds since 1970.
    pub expires: u64,
    /// The command that runs the script.
    pub command: String,
    /// The command that checks the script, and runs it then.
    pub checked: String,
}

/// A link that was made before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// What it is revoked by.
    pub id: Uuid,
    /// When it was made: milliseconds since 1970.
    pub created: u64,
    /// Who made it.
    pub by: String,
    /// When it ends, or ended: milliseconds since 1970.
    pub expires: u64,
    /// What it is good for now.
    pub state: LinkState,
    /// What was done with it, the last uses.
    pub uses: Vec<LinkUse>,
}

/// What a link is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkState {
    /// Its script can be read.
    Valid,
    /// An edge redeemed it.
    Redeemed,
    /// Another edge tried to redeem it after that.
    Theft,
    /// Its time is over.
    Expired,
    /// Somebody revoked it.
    Revoked,
}

/// Something that was done with a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkUse {
    /// When: milliseconds since 1970.
    pub at: u64,
    /// From which address.
    pub from: String,
    /// What, in a word or two.
    pub what: String,
}

/// How many bytes a claim has.
pub const CLAIM_BYTES: usize = 32;

/// What an edge redeems a link with.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_debug_implementations)] // whoever has the claim gets the password
pub struct RedeemRequest {
    /// Base64url without padding of [`CLAIM_BYTES`] random bytes that this edge alone has. It made them before, and keeps them.
    pub claim: String,
    /// Which cluster it is to become: the link of another one is refused, and stays as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Uuid>,
}

/// What an edge gets for a link: a principal for its operator of keys, with a password that serves for a short time.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_debug_implementations)] // it has a password
pub struct Redeemed {
    /// The cluster.
    pub cluster: Uuid,
    /// Its name.
    pub name: String,
    /// `op1krbkeys/NAME@REALM`.
    pub principal: String,
    /// Its password. It is told once; asking again makes another one.
    pub password: String,
    /// When principal and password end, unless the edge says otherwise: milliseconds since 1970.
    pub expires: u64,
}

/// Asks for what the script of a new link would apply, as documents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestsRequest {
    /// Whether the links that the caller made before for this cluster are revoked: their answers may have been lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaces_own: bool,
}

/// What bootstraps a cluster, as documents for kubectl instead of a script. Nobody can be told of its token again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_debug_implementations, reason = "whoever has the token becomes the cluster")]
pub struct BootstrapManifests {
    /// What the link is revoked by.
    pub link: Uuid,
    /// The token of the link.
    pub token: String,
    /// When it ends: milliseconds since 1970.
    pub expires: u64,
    /// The namespace.
    pub namespace: String,
    /// The documents, in the order in which they are applied.
    pub files: Vec<ManifestFile>,
}

/// A file of manifests: YAML. It may have the token in it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_debug_implementations, reason = "it may have the token in it")]
pub struct ManifestFile {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}
