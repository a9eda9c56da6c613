//! Redeeming a bootstrap link, before there is anybody to be.

use http::Method;
use latchkey_factory_plus::manager::{RedeemRequest, Redeemed};
use latchkey_factory_plus::uuids;

use crate::connection::Pool;
use crate::within::within;
use crate::{BaseUrl, Call, CallError, Limits, Place, Trust};

/// Characters of a link's token: base64url of 32 bytes, without padding.
const TOKEN: usize = 43;

/// Gives a link's token and a claim to the cluster manager at `url`, and gets a password for the cluster's operator of keys.
///
/// Nobody says here who he is. The token is in no error, and the request is sent once: whether the first of two was taken,
/// whoever asks finds out by asking again.
///
/// # Errors
/// [`CallError::Conflict`]: another edge redeemed the link, the link is another cluster's, or the cluster is not set up;
/// [`CallError::NotFound`], [`CallError::Refused`]: there is no such link, or it is over. The service's words say which.
pub async fn redeem(
    url: &BaseUrl,
    trust: &Trust,
    limits: &Limits,
    token: &str,
    request: &RedeemRequest,
) -> Result<Redeemed, CallError> {
    let place =
        Place::new(uuids::service::CLUSTER_MANAGER, &Method::POST, &format_args!("{url}/v1/bootstrap/…/redeem"));
    if token.len() != TOKEN || !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        return Err(CallError::bad_call(&place, &"a link's token has 43 characters of base64url"));
    }
    let call = Call::new(Method::POST, &format!("v1/bootstrap/{token}/redeem")).json(request);
    let call = call.map_err(|error| CallError::bad_call(&place, &error))?;
    let (outgoing, pool) = (call.outgoing(&place)?, Pool::new(url.clone(), limits));
    let exchanged = within(limits.whole, Box::pin(pool.exchange(&outgoing, trust, limits, &place))).await;
    let late = || CallError::unreachable(&place, &format_args!("not done within {} s", limits.whole.as_secs_f32()));
    exchanged.ok_or_else(late)??.accepted(&place)?.read(&place)
}
