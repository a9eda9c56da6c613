//! Links to bootstrap scripts: who has one may read a cluster's script, for a while, until an edge redeems it.
//!
//! A [`Token`] of 256 random bits stands in the link. Stored is its hash alone; the script that it leads to is fixed
//! when the link is made, so its SHA-256 can stand beside the command. [`Links`] is pure: a driver loads it from a
//! [`LinkStore`], and stores what an [`Outcome`] says *before* it answers. Every use is noted.

mod book;
mod link;
mod store;
mod token;

#[cfg(test)]
mod tests;

pub use book::{Claim, Claimed, Links, MAX_KEPT, MAX_LIVE, NewLink, Outcome};
pub use link::{Link, MAX_USES, Redemption, Revocation, Use, UseKind};
pub use store::LinkStore;
pub use token::{Token, TokenError};

use latchkey_attestation::reference::format_rfc3339;
use latchkey_factory_plus::grants::{Access, allows};
use latchkey_factory_plus::manager::CLAIM_BYTES;
use latchkey_factory_plus::{Uuid, uuids};

/// How long a link lasts where nobody says otherwise, in milliseconds.
pub const LIFETIME_MS: u64 = 60 * 60 * 1000;
/// The shortest and the longest, in milliseconds.
pub const LIFETIMES_MS: std::ops::RangeInclusive<u64> = 60 * 1000..=24 * 60 * 60 * 1000;

/// Why a link is not made, read, redeemed or revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The caller lacks the permission.
    #[error("this needs the permission \"Manage clusters\" for the cluster; ask an administrator for it")]
    Forbidden,
    /// The cluster is not set up, or no longer.
    #[error("the cluster is not set up; see its setup status, and try again when it is ready")]
    NotReady,
    /// There is no such link.
    #[error("there is no such link; see that it was copied whole, or make a new one")]
    Unknown,
    /// Its time is over.
    #[error("the link has expired; make a new one")]
    Expired,
    /// Somebody revoked it.
    #[error("the link was revoked; make a new one")]
    Revoked,
    /// An edge redeemed it: its script is no longer read.
    #[error("this link was redeemed on {}; ask for a new command on the cluster's page", format_rfc3339(.at / 1000))]
    Redeemed {
        /// When: milliseconds since 1970.
        at: u64,
    },
    /// Another edge redeemed it.
    #[error(
        "another edge redeemed this link: if that was not you, revoke it, decommission the cluster and make a new link"
    )]
    Taken,
    /// The link is one of another cluster.
    #[error("the link is for another cluster; run the command that was made for this one")]
    OtherCluster,
    /// The lifetime is out of bounds.
    #[error("a link lasts from one minute to 24 hours")]
    Lifetime,
    /// What an edge claims with is none.
    #[error("a claim is {CLAIM_BYTES} bytes in base64url, without padding")]
    Claim,
    /// There are many links for the cluster already.
    #[error("the cluster has {MAX_LIVE} links already; revoke some")]
    TooMany,
}

impl LinkError {
    /// The HTTP status that says it: none of them is one of success, so `curl -f` fails on each.
    pub const fn status(self) -> u16 {
        match self {
            Self::Forbidden => 403,
            Self::Unknown => 404,
            Self::NotReady | Self::Taken | Self::OtherCluster | Self::TooMany => 409,
            Self::Expired | Self::Revoked | Self::Redeemed { .. } => 410,
            Self::Lifetime | Self::Claim => 422,
        }
    }
}

/// Proof that a caller may manage a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    cluster: Uuid,
}

impl Permit {
    /// The permit for `cluster`, if the caller's access control list has the permission.
    pub fn of(list: &[Access], cluster: Uuid) -> Result<Self, LinkError> {
        if allows(list, uuids::permission::MANAGE_CLUSTER, cluster) {
            Ok(Self { cluster })
        } else {
            Err(LinkError::Forbidden)
        }
    }

    /// The cluster.
    pub const fn cluster(&self) -> Uuid {
        self.cluster
    }
}
