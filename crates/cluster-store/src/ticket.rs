//! What a record keeps of a node's last ticket, where tickets carry a token for the cluster's API server; and the addresses that the
//! node may serve on.

use crate::error::ContentError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Addresses that one node may have.
pub const MAX_ADDRESSES: usize = 16;

/// The length of a bootstrap token's id.
const TOKEN_ID: usize = 6;
/// Longer than a UUID, which `metadata.uid` is.
const MAX_UID: usize = 64;

/// The token of the last ticket: the one that counts. Whoever comes with the token of an earlier one is on no record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketRecord {
    /// The token's id: the half of it that is no secret.
    pub token: String,
    /// When its time is over. Seconds since the Unix epoch.
    pub ends_at: u64,
    /// `metadata.uid` of the certificate request that it was used for, if it was: of several, one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
    /// Whether the node has reported since: then it is good for nothing any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
}

impl TicketRecord {
    /// The record of a ticket that is about to go out.
    pub fn new(token: impl Into<String>, ends_at: u64) -> Self {
        Self { token: token.into(), ends_at, used_by: None, reported: false }
    }

    pub(crate) fn check(&self) -> Result<(), ContentError> {
        let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if self.token.len() != TOKEN_ID || !self.token.bytes().all(lower) {
            return Err(ContentError::Rule("`ticket.token` must have 6 lower-case letters or digits".to_owned()));
        }
        let good = |uid: &String| (1..=MAX_UID).contains(&uid.len()) && uid.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.used_by.as_ref().is_none_or(good) {
            return Err(ContentError::Rule(format!("`ticket.used_by` must be a uid of at most {MAX_UID} characters")));
        }
        Ok(())
    }
}

/// The addresses of a node as it says them, in order, each once; `None` if one is none or there are more than [`MAX_ADDRESSES`].
pub fn parse_addresses(said: &[String]) -> Option<Vec<IpAddr>> {
    if said.len() > MAX_ADDRESSES {
        return None;
    }
    let addresses: BTreeSet<IpAddr> = said.iter().map(|text| text.parse().ok()).collect::<Option<_>>()?;
    Some(addresses.into_iter().collect())
}

pub(crate) fn check_addresses(addresses: &[IpAddr]) -> Result<(), ContentError> {
    let different: BTreeSet<_> = addresses.iter().collect();
    if addresses.len() > MAX_ADDRESSES || different.len() != addresses.len() {
        return Err(ContentError::Rule(format!(
            "`addresses` must list at most {MAX_ADDRESSES} different addresses, and has {}",
            addresses.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_names_a_token_and_at_most_one_request() {
        let ticket = TicketRecord::new("abc123", 1);
        assert!(ticket.check().is_ok());
        for token in ["", "abc12", "abc1234", "ABC123", "abc12-", "äbc12"] {
            assert!(TicketRecord::new(token, 1).check().is_err(), "{token}");
        }
        let used = |uid: &str| TicketRecord { used_by: Some(uid.to_owned()), ..ticket.clone() };
        assert!(used("0a0a0a0a-0000-4000-8000-000000000001").check().is_ok());
        assert!(used("").check().is_err() && used("a b").check().is_err() && used(&"a".repeat(65)).check().is_err());
    }

    #[test]
    fn addresses_are_few_and_each_is_there_once() {
        let address = |last: usize| IpAddr::from([192, 0, 2, u8::try_from(last).unwrap()]);
        let many: Vec<_> = (0..=MAX_ADDRESSES).map(address).collect();
        assert!(check_addresses(&many[1..]).is_ok());
        assert!(check_addresses(&many).is_err());
        assert!(check_addresses(&[address(1), address(1)]).is_err());
    }
}
