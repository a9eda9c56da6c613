//! One link, as it is stored.

use std::collections::VecDeque;

use latchkey_factory_plus::Uuid;
use serde::{Deserialize, Serialize};

use super::token::Hash;
use super::{Claim, LinkError, Token};

/// The most uses that are kept of a link: the last ones.
pub const MAX_USES: usize = 64;
/// The most characters that are kept of where a use came from.
const MAX_FROM: usize = 80;

/// A link. It has no token in it, only its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// What the link is called when it is listed or revoked. No secret.
    pub id: Uuid,
    /// The one cluster that it is for.
    pub cluster: Uuid,
    /// Who made it.
    pub by: String,
    /// When it was made: milliseconds since 1970.
    pub made: u64,
    /// When it ends: milliseconds since 1970.
    pub expires: u64,
    /// SHA-256 of the script that it leads to, in hexadecimal.
    pub script: String,
    /// Who ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revocation>,
    /// Which edge redeemed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redeemed: Option<Redemption>,
    /// When somebody else tried to redeem it first, after an edge had: the link was in two hands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theft: Option<u64>,
    /// What was done with it: the last uses.
    #[serde(default)]
    pub uses: VecDeque<Use>,
    /// How many uses came before those.
    #[serde(default)]
    pub earlier_uses: u64,
    token: Hash,
}

/// The end of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// When: milliseconds since 1970.
    pub at: u64,
    /// By whom.
    pub by: String,
}

/// A link that an edge redeemed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redemption {
    /// When: milliseconds since 1970.
    pub at: u64,
    claim: Hash,
}

/// Something that was done with a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Use {
    /// When: milliseconds since 1970.
    pub at: u64,
    /// What.
    pub kind: UseKind,
    /// The address it came from.
    pub from: String,
}

/// What was done with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UseKind {
    /// Its script was read.
    Read,
    /// An edge redeemed it.
    Redeemed,
    /// The edge that redeemed it asked again.
    RedeemedAgain,
    /// Another edge tried to.
    Theft,
    /// It was used after its end, while its cluster was not ready, or for another cluster.
    Refused,
}

impl Link {
    pub(super) fn new(id: Uuid, cluster: Uuid, by: String, times: (u64, u64), script: String, token: &Token) -> Self {
        Self {
            id,
            cluster,
            by,
            made: times.0,
            expires: times.1,
            script,
            revoked: None,
            redeemed: None,
            theft: None,
            uses: VecDeque::new(),
            earlier_uses: 0,
            token: token.hash(),
        }
    }

    /// Whether it can still be read or redeemed again.
    pub fn is_live(&self, now: u64) -> bool {
        self.ended(now).is_none()
    }

    pub(super) fn is_of(&self, token: &Hash) -> bool {
        self.token == *token
    }

    /// Why it is over. A revocation says more than the clock.
    fn ended(&self, now: u64) -> Option<LinkError> {
        match () {
            () if self.revoked.is_some() => Some(LinkError::Revoked),
            () if now >= self.expires => Some(LinkError::Expired),
            () => None,
        }
    }

    pub(super) fn read(&mut self, ready: bool, now: u64, from: &str) -> Result<(), LinkError> {
        // Whoever runs the command again is told that it was redeemed, which says more than that its time is over since.
        let redeemed = self.redeemed.as_ref().map(|redemption| LinkError::Redeemed { at: redemption.at });
        let refused = redeemed.filter(|_| self.revoked.is_none()).or(self.ended(now));
        let refused = refused.or((!ready).then_some(LinkError::NotReady));
        self.note(if refused.is_none() { UseKind::Read } else { UseKind::Refused }, now, from);
        refused.map_or(Ok(()), Err)
    }

    /// Redeems it for the holder of `claim`; whether it was redeemed now for the first time.
    pub(super) fn redeem(&mut self, claim: &Claim, ready: bool, now: u64, from: &str) -> Result<bool, LinkError> {
        let refused = self.ended(now).or((!ready).then_some(LinkError::NotReady));
        if let Some(refused) = refused.or((!claim.is_for(self.cluster)).then_some(LinkError::OtherCluster)) {
            self.note(UseKind::Refused, now, from);
            return Err(refused);
        }
        let claim = Hash::of(claim.key());
        match &self.redeemed {
            None => {
                self.redeemed = Some(Redemption { at: now, claim });
                self.note(UseKind::Redeemed, now, from);
                Ok(true)
            }
            Some(redemption) if redemption.claim == claim => {
                self.note(UseKind::RedeemedAgain, now, from);
                Ok(false)
            }
            Some(_) => {
                self.theft.get_or_insert(now);
                self.note(UseKind::Theft, now, from);
                Err(LinkError::Taken)
            }
        }
    }

    pub(super) fn revoke(&mut self, by: &str, now: u64) {
        self.revoked.get_or_insert_with(|| Revocation { at: now, by: by.into() });
    }

    fn note(&mut self, kind: UseKind, at: u64, from: &str) {
        if self.uses.len() >= MAX_USES {
            self.uses.pop_front();
            self.earlier_uses += 1;
        }
        let from = latchkey_reason::printable(from).take(MAX_FROM).collect();
        self.uses.push_back(Use { at, kind, from });
    }
}
