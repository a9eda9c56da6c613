//! The realms of a site.

use std::collections::BTreeSet;

use latchkey_factory_plus::{Realm, Upn};

/// The realms whose principals can be known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Realms {
    ours: Realm,
    trusted: BTreeSet<Realm>,
}

/// Nobody of that realm can log in here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the realm {0} is not this site's; principals of other realms need a trust in the configuration")]
pub struct ForeignRealm(String);

impl Realms {
    /// This site's realm, and those that its KDC trusts.
    pub fn new(ours: Realm, trusted: BTreeSet<Realm>) -> Self {
        Self { ours, trusted }
    }

    /// Whether a principal is of this site itself.
    pub fn is_ours(&self, upn: &Upn) -> bool {
        upn.realm() == self.ours.as_str()
    }

    /// Checks that somebody of this name can log in here.
    ///
    /// # Errors
    /// [`ForeignRealm`].
    pub fn check(&self, upn: &Upn) -> Result<(), ForeignRealm> {
        if self.is_ours(upn) || self.trusted.contains(&upn.to_realm()) {
            Ok(())
        } else {
            Err(ForeignRealm(upn.realm().into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realms_are_ours_or_trusted_by_the_configuration() {
        let realms = Realms::new("OURS".parse().unwrap(), ["THEIRS".parse().unwrap()].into());
        let check = |text: &str| realms.check(&text.parse().unwrap());
        assert_eq!((check("a@OURS"), check("a@THEIRS")), (Ok(()), Ok(())));
        assert_eq!(check("a@ours"), Err(ForeignRealm("ours".into())));
        assert!(!realms.is_ours(&"a@THEIRS".parse().unwrap()));
    }
}
