//! All links.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::manager::{CLAIM_BYTES, RedeemRequest};
use zeroize::Zeroizing;

use super::{LIFETIMES_MS, Link, LinkError, Permit, Token};
use crate::machine::SetupStatus;
use crate::script::Script;

/// The most links of one cluster that can be used.
pub const MAX_LIVE: usize = 16;
/// The most links of one cluster that are kept; the oldest that are over go first.
pub const MAX_KEPT: usize = 64;

/// All links of a centre.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    links: Vec<Link>,
}

/// A link that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewLink<'a> {
    /// What it is called; random.
    pub id: Uuid,
    /// Who makes it: a principal.
    pub by: &'a str,
    /// How long it lasts, in milliseconds.
    pub lifetime_ms: u64,
    /// Where it leads to.
    pub script: &'a Script,
    /// Whether it takes the place of all that the same principal made before for this cluster.
    pub replaces_own: bool,
}

/// What came of an attempt, and which link's record changed by it. The record is stored before the result is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<T> {
    /// What came of it.
    pub result: Result<T, LinkError>,
    /// The link that changed, if the attempt was about one.
    pub changed: Option<Uuid>,
    /// Links that are no longer kept.
    pub dropped: Vec<Uuid>,
}

/// What an edge redeems a link with: something that it alone has.
pub struct Claim {
    key: Zeroizing<[u8; CLAIM_BYTES]>,
    cluster: Option<Uuid>,
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claim").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl Claim {
    /// Reads a request.
    pub fn read(request: &RedeemRequest) -> Result<Self, LinkError> {
        // Four characters for three bytes: nothing longer is decoded.
        if request.claim.len() != (CLAIM_BYTES * 4).div_ceil(3) {
            return Err(LinkError::Claim);
        }
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(&request.claim).map_err(|_| LinkError::Claim)?);
        let key = <[u8; CLAIM_BYTES]>::try_from(bytes.as_slice()).map_err(|_| LinkError::Claim)?;
        Ok(Self { key: Zeroizing::new(key), cluster: request.cluster })
    }

    /// The secret part.
    pub(super) fn key(&self) -> &[u8] {
        self.key.as_slice()
    }

    /// Whether it is meant for this cluster, as far as it says so.
    pub(super) fn is_for(&self, cluster: Uuid) -> bool {
        self.cluster.is_none_or(|meant| meant == cluster)
    }
}

/// A link that was redeemed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// The cluster.
    pub cluster: Uuid,
    /// Whether this was the first time; later ones hold the same claim.
    pub first: bool,
}

impl<T> Outcome<T> {
    const fn refused(error: LinkError) -> Self {
        Self { result: Err(error), changed: None, dropped: vec![] }
    }
}

impl Links {
    /// The links that are stored.
    pub const fn new(links: Vec<Link>) -> Self {
        Self { links }
    }

    /// Makes a link to the script of the permit's cluster, whose setup status this is.
    pub fn make(
        &mut self,
        permit: Permit,
        status: Option<&SetupStatus>,
        token: &Token,
        new: NewLink<'_>,
        now: u64,
    ) -> Outcome<Uuid> {
        let cluster = permit.cluster();
        if !LIFETIMES_MS.contains(&new.lifetime_ms) {
            return Outcome::refused(LinkError::Lifetime);
        }
        if !status.is_some_and(|status| status.ready) {
            return Outcome::refused(LinkError::NotReady);
        }
        let live = self.links.iter().filter(|link| link.cluster == cluster && link.is_live(now)).count();
        if live >= MAX_LIVE {
            return Outcome::refused(LinkError::TooMany);
        }
        let dropped = self.make_room(cluster, now);
        let times = (now, now.saturating_add(new.lifetime_ms));
        self.links.push(Link::new(new.id, cluster, new.by.into(), times, new.script.sha256().into(), token));
        Outcome { result: Ok(new.id), changed: Some(new.id), dropped }
    }

    /// Reads the script of a link: gives its SHA-256. `ready` says whether a cluster is set up.
    pub fn read(&mut self, token: &Token, ready: impl Fn(Uuid) -> bool, now: u64, from: &str) -> Outcome<String> {
        self.on(token, |link| link.read(ready(link.cluster), now, from).map(|()| link.script.clone()))
    }

    /// Redeems a link, once, for an edge that holds `claim`. The same edge may ask again, for its first answer may have been lost.
    pub fn redeem(
        &mut self,
        token: &Token,
        claim: &Claim,
        ready: impl Fn(Uuid) -> bool,
        now: u64,
        from: &str,
    ) -> Outcome<Claimed> {
        self.on(token, |link| {
            let first = link.redeem(claim, ready(link.cluster), now, from)?;
            Ok(Claimed { cluster: link.cluster, first })
        })
    }

    /// Ends a link of the permit's cluster.
    pub fn revoke(&mut self, permit: Permit, id: Uuid, by: &str, now: u64) -> Outcome<()> {
        let link = self.links.iter_mut().find(|link| link.id == id && link.cluster == permit.cluster());
        let Some(link) = link else { return Outcome::refused(LinkError::Unknown) };
        link.revoke(by, now);
        Outcome { result: Ok(()), changed: Some(id), dropped: vec![] }
    }

    /// Ends all links of a cluster, as its deletion does; those that changed.
    pub fn revoke_all(&mut self, cluster: Uuid, by: &str, now: u64) -> Vec<Uuid> {
        self.revoke_where(|link| link.cluster == cluster, by, now)
    }

    /// Ends the links of the permit's cluster that this principal made; those that changed.
    pub fn revoke_own(&mut self, permit: Permit, by: &str, now: u64) -> Vec<Uuid> {
        self.revoke_where(|link| link.cluster == permit.cluster() && link.by == by, by, now)
    }

    fn revoke_where(&mut self, of: impl Fn(&Link) -> bool, by: &str, now: u64) -> Vec<Uuid> {
        let live = self.links.iter_mut().filter(|link| of(link) && link.is_live(now));
        let revoked = live.map(|link| {
            link.revoke(by, now);
            link.id
        });
        revoked.collect()
    }

    /// Drops what is kept of a cluster that is decommissioned; those that are gone.
    pub fn forget(&mut self, cluster: Uuid) -> Vec<Uuid> {
        let (gone, kept) = std::mem::take(&mut self.links).into_iter().partition(|link| link.cluster == cluster);
        self.links = kept;
        let gone: Vec<Link> = gone;
        gone.iter().map(|link| link.id).collect()
    }

    /// The links of the permit's cluster, the oldest first.
    pub fn of(&self, permit: Permit) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(move |link| link.cluster == permit.cluster())
    }

    /// The links of a cluster, the oldest first, for storing them.
    pub fn all_of(&self, cluster: Uuid) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(move |link| link.cluster == cluster)
    }

    /// When a link of a cluster was last seen in two hands; nothing, once such links are revoked.
    pub fn theft(&self, cluster: Uuid) -> Option<u64> {
        let suspect = self.links.iter().filter(|link| link.cluster == cluster && link.revoked.is_none());
        suspect.filter_map(|link| link.theft).max()
    }

    /// The record of a link, for storing it.
    pub fn record(&self, id: Uuid) -> Option<&Link> {
        self.links.iter().find(|link| link.id == id)
    }

    /// Whether a script is one that some link leads to; others need not be stored.
    pub fn leads_to(&self, script: &str) -> bool {
        self.links.iter().any(|link| link.script == script)
    }

    /// Does something with the link of a token. Every link is compared, and each in constant time.
    fn on<T>(&mut self, token: &Token, act: impl FnOnce(&mut Link) -> Result<T, LinkError>) -> Outcome<T> {
        let hash = token.hash();
        let mut found = None;
        for link in &mut self.links {
            if link.is_of(&hash) {
                found = Some(link);
            }
        }
        let Some(link) = found else { return Outcome::refused(LinkError::Unknown) };
        let id = link.id;
        Outcome { result: act(link), changed: Some(id), dropped: vec![] }
    }

    fn make_room(&mut self, cluster: Uuid, now: u64) -> Vec<Uuid> {
        let kept = self.links.iter().filter(|link| link.cluster == cluster).count();
        let excess = (kept + 1).saturating_sub(MAX_KEPT);
        let over = self.links.iter().filter(|link| link.cluster == cluster && !link.is_live(now));
        let dropped: Vec<Uuid> = over.take(excess).map(|link| link.id).collect();
        self.links.retain(|link| !dropped.contains(&link.id));
        dropped
    }
}
