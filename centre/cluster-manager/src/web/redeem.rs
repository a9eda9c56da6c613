//! Redeeming a link: an edge shows its token and a claim, and gets a password for its operator of keys.
//!
//! In this order: the link is redeemed on the disk, by this claim; the KDC gets the principal with a random password, both of
//! which end in ten minutes; the password is told. Nothing keeps it. A crash before the answer costs nothing: the same claim
//! may ask again, and gets another password.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchkey_connection_limits::{PeerNetwork, PeerRates, Rate, TokenBucket, Wait};
use latchkey_factory_plus::manager::{RedeemRequest, Redeemed};
use latchkey_factory_plus::{ClusterName, Role, Upn, Uuid};
use latchkey_factory_plus_server::http::{HeaderValue, header};
use latchkey_factory_plus_server::{Answer, Refusal, Request, Response, Terms};
use latchkey_kerberos::Secret;
use zeroize::Zeroizing;

use super::{Web, link_refusal};
use crate::keeper::now_ms;
use crate::links::{Claim, LinkError, Token};
use crate::machine::Answer as Done;

/// How long the password serves.
const SERVES: Duration = Duration::from_mins(10);
/// How long a request may take: it waits for kadmind, up to four times.
const PATIENCE: Duration = Duration::from_secs(100);
/// The longest body, in bytes: a claim, a UUID, and their names.
const LONGEST: u64 = 1024;
/// How often one host may try.
const RATE: Rate = Rate { per_minute: 20, burst: 20 };
/// How often all may.
const TOGETHER: Rate = Rate { per_minute: 600, burst: 200 };
/// Hosts with an allowance of their own.
const HOSTS: usize = 4096;
/// Random bytes of a password.
const PASSWORD_BYTES: usize = 32;

/// How often links may be redeemed, by anybody.
#[derive(Debug)]
pub(super) struct Redemptions {
    started: Instant,
    rates: Mutex<(PeerRates, TokenBucket)>,
}

impl Default for Redemptions {
    fn default() -> Self {
        let rates = (PeerRates::new(RATE, HOSTS), TokenBucket::new(TOGETHER));
        Self { started: Instant::now(), rates: Mutex::new(rates) }
    }
}

impl Redemptions {
    fn take(&self, from: IpAddr) -> Result<(), Refusal> {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.started.elapsed();
        let (peers, all) = &mut *rates;
        let taken = peers.take(PeerNetwork::of(from), now).and_then(|()| all.take(now));
        taken.map_err(|Wait(wait)| Refusal::too_often("Too many attempts to redeem a link", wait))
    }
}

/// What a request needs: nobody is asked who he is.
pub(super) const fn terms() -> Terms {
    Terms::open().body_limit(LONGEST).time(PATIENCE)
}

impl Web {
    /// Redeems a link.
    pub(super) async fn redeem(&self, token: &str, mut request: Request) -> Answer {
        let peer = request.peer().ip();
        self.0.redemptions.take(peer)?;
        let asked: RedeemRequest = request.json().await?;
        let claim = Claim::read(&asked).map_err(link_refusal)?;
        let from = peer.to_string();
        let Ok(token) = Token::read(token) else {
            tracing::warn!(from, "There is no such link");
            return Err(link_refusal(LinkError::Unknown));
        };
        let manager = &self.0.manager;
        if !manager.is_ready() {
            return Err(Refusal::unavailable("the clusters' entries were not read yet"));
        }
        let redeemed =
            manager.centre().keeper.redeem(&token, &claim, |cluster| manager.is_set_up(cluster), &from).await;
        let redeemed = redeemed.map_err(|error| Refusal::unavailable(error.to_string()))?;
        if redeemed == Err(LinkError::Taken) {
            manager.links_changed();
        }
        let redeemed = self.admitted(redeemed.map_err(link_refusal)?.cluster).await?;
        let response = Response::json(&redeemed)?;
        Ok(response.with(header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
    }

    /// Lets the operator of keys of a cluster in, for a while.
    async fn admitted(&self, cluster: Uuid) -> Result<Redeemed, Refusal> {
        let manager = &self.0.manager;
        let name = self.name_of(cluster).ok_or_else(|| link_refusal(LinkError::NotReady))?;
        let principal = Role::KrbKeys.upn(&name, &manager.place().realm);
        let password = password()?;
        let until = now_ms() / 1000 + SERVES.as_secs();
        let seconds = u32::try_from(until).map_err(|_| Refusal::internal("the clock is past what Kerberos can say"))?;
        let principals = &manager.centre().principals;
        done(&principal, principals.admit(&principal, &Secret::new(password.as_bytes().to_vec()), seconds).await)?;
        // A deletion that began meanwhile may have disabled the cluster's principals before this one was made.
        if self.name_of(cluster).as_ref() != Some(&name) {
            done(&principal, principals.disable_all(&name).await)?;
            return Err(link_refusal(LinkError::NotReady));
        }
        tracing::info!(%cluster, %principal, "A one-time password was made");
        let (name, principal, password) = (name.to_string(), principal.to_string(), password.to_string());
        Ok(Redeemed { cluster, name, principal, password, expires: until * 1000 })
    }

    /// The name of a cluster that is set up.
    fn name_of(&self, cluster: Uuid) -> Option<ClusterName> {
        let status = self.0.manager.known(cluster)?.status.filter(|status| status.ready)?;
        Some(status.spec?.name)
    }
}

fn password() -> Result<Zeroizing<String>, Refusal> {
    let mut random = Zeroizing::new([0; PASSWORD_BYTES]);
    aws_lc_rs::rand::fill(random.as_mut_slice()).map_err(|_| Refusal::internal("no random numbers"))?;
    Ok(Zeroizing::new(URL_SAFE_NO_PAD.encode(*random)))
}

fn done(principal: &Upn, answer: Done) -> Result<(), Refusal> {
    match answer {
        Done::Done => Ok(()),
        Done::Refused { detail, .. } => {
            tracing::warn!(%principal, detail, "The KDC refused");
            Err(Refusal::conflict(format!("The KDC refused what {principal} needs: {detail}")))
        }
        Done::Unreachable(detail) => Err(Refusal::unavailable(format!("the KDC: {detail}"))),
        Done::Templates(_) => Err(Refusal::internal("an answer to another request")),
    }
}
