//! What a client may do.

use crate::filter::{Filter, is_topic};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What may be done with topics: `r` to subscribe and receive, `w` to publish, `s` to subscribe together with others
/// (`$share/…`) where `r` is there as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Access {
    /// Subscribe and receive.
    pub read: bool,
    /// Publish.
    pub write: bool,
    /// Subscribe together with others.
    pub share: bool,
}

/// A letter that is none of an access.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("access is made of the letters r, w and s, each at most once")]
pub struct AccessError;

/// What may be done with which topics.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Which.
    pub filter: Filter,
    /// What.
    pub access: Access,
}

/// All that a client may do. Nothing, where there is no grant for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Grants(pub Vec<Grant>);

impl Access {
    /// Reads letters.
    ///
    /// # Errors
    /// There is another letter, or one twice.
    pub fn parse(letters: &str) -> Result<Self, AccessError> {
        let mut access = Self::default();
        for letter in letters.chars() {
            let place = match letter {
                'r' => &mut access.read,
                'w' => &mut access.write,
                's' => &mut access.share,
                _ => return Err(AccessError),
            };
            if std::mem::replace(place, true) {
                return Err(AccessError);
            }
        }
        Ok(access)
    }
}

impl TryFrom<String> for Access {
    type Error = AccessError;

    fn try_from(letters: String) -> Result<Self, AccessError> {
        Self::parse(&letters)
    }
}

impl From<Access> for String {
    fn from(access: Access) -> Self {
        let letters = [('r', access.read), ('w', access.write), ('s', access.share)];
        letters.into_iter().filter_map(|(letter, there)| there.then_some(letter)).collect()
    }
}

impl Grants {
    /// Whether a message may be published to a topic.
    pub fn may_publish(&self, topic: &str) -> bool {
        self.0.iter().any(|grant| grant.access.write && grant.filter.matches(topic))
    }

    /// Whether a message on a topic may be received.
    pub fn may_receive(&self, topic: &str) -> bool {
        self.0.iter().any(|grant| grant.access.read && grant.filter.matches(topic))
    }

    /// Whether it may be subscribed to a filter: all of it must lie within one grant.
    pub fn may_subscribe(&self, filter: &str) -> bool {
        let shared = filter.strip_prefix("$share/");
        let asked = match shared.map(|rest| rest.split_once('/')) {
            None => filter,
            Some(Some((group, filter))) if is_topic(group) => filter,
            Some(_) => return false,
        };
        let Ok(asked) = Filter::parse(asked) else { return false };
        let reads = |access: Access| access.read && (access.share || shared.is_none());
        self.0.iter().any(|grant| reads(grant.access) && grant.filter.covers(&asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(list: &[(&str, &str)]) -> Grants {
        let grant = |(filter, access): &(&str, &str)| Grant {
            filter: Filter::parse(filter).unwrap(),
            access: Access::parse(access).unwrap(),
        };
        Grants(list.iter().map(grant).collect())
    }

    #[test]
    fn nothing_is_allowed_that_is_not_granted() {
        let none = Grants::default();
        assert!(!none.may_publish("a") && !none.may_receive("a") && !none.may_subscribe("a"));
        let some = grants(&[("a/+", "r"), ("b/#", "w"), ("c", "rs"), ("d", "s"), ("#", "")]);
        assert!(some.may_subscribe("a/+") && some.may_receive("a/x") && !some.may_publish("a/x"));
        assert!(some.may_publish("b/x/y") && !some.may_receive("b/x") && !some.may_subscribe("b/#"));
        assert!(!some.may_publish("b/+") && !some.may_receive("a/+"));
        assert!(!some.may_subscribe("d") && !some.may_subscribe("$share/g/d"));
    }

    #[test]
    fn a_shared_subscription_needs_its_own_letter() {
        let some = grants(&[("a/#", "r"), ("c/#", "rs")]);
        assert!(some.may_subscribe("$share/group/c/x") && some.may_subscribe("c/x"));
        for filter in ["$share/group/a/x", "$share/+/c/x", "$share//c/x", "$share/group", "$share/group/", "$share/"] {
            assert!(!some.may_subscribe(filter), "{filter}");
        }
    }

    #[test]
    fn the_brokers_own_topics_need_a_grant_that_names_them() {
        let all = grants(&[("#", "rws")]);
        assert!(!all.may_subscribe("$SYS/#") && !all.may_receive("$SYS/broker/uptime") && !all.may_publish("$SYS/x"));
        assert!(!all.may_publish("$CONTROL/dynamic-security/v1"));
        assert!(grants(&[("$SYS/#", "r")]).may_subscribe("$SYS/broker/#"));
    }

    #[test]
    fn access_is_closed() {
        assert_eq!(String::from(Access::parse("sr").unwrap()), "rs");
        for letters in ["x", "rr", "R", "r w"] {
            assert_eq!(Access::parse(letters), Err(AccessError), "{letters}");
        }
        assert!(serde_json::from_str::<Grant>(r#"{"filter":"a","access":"r","more":1}"#).is_err());
        assert!(serde_json::from_str::<Grant>(r#"{"filter":"a+","access":"r"}"#).is_err());
    }
}
