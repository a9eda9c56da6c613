//! Redeeming a bootstrap link: from its token to this cluster's own keys, and Flux's.
//!
//! Whatever is given to the KDC is in a Secret first, so that no crash leaves the KDC with a key that nobody has. The order:
//!
//! 1. A claim, random, is written into its Secret, unless it has one: it is what the centre knows this edge by.
//! 2. Where the keys in our Secret serve, nothing is redeemed. Otherwise a new password is written into it, as one that is still to
//!    be given to the KDC: the Secret has no keytab beside it.
//! 3. The link is redeemed with the claim: the centre gives the principal another password, for ten minutes.
//! 4. With that one kadmind is asked to set ours, which makes the centre's void. From here on only this cluster has the key, and it
//!    has been in the Secret since step 2.
//! 5. The keytab of our password is made here, tried at the KDC, and written beside the password.
//! 6. The end of the principal, ten minutes after step 3, is taken away.
//! 7. Flux's password is written into its Secret, unless it has one; the KDC gets it, unless it has it.
//!
//! Every step looks whether it was done. So whoever is killed anywhere begins again at the top; only before step 4 the link is
//! needed again, and the claim lets it be redeemed again. Secrets that somebody else made are left alone, which is found out
//! before anything is redeemed. The tests kill it between any two effects.

pub(crate) mod command;
mod edge;
mod world;

#[cfg(test)]
mod simulation;

use latchkey_factory_plus::Upn;
use latchkey_kerberos::{AdminKey, Denied, KerberosCode, Shown};
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::names::{CLAIM, CLAIM_SECRET, CLIENT, FLUX_SECRET, Names, OWN_SECRET, PASSWORD, USERNAME};
use crate::secret::{Data, MANAGED_BY, Stored, Written};
pub(crate) use edge::{Kerberos, random};
pub(crate) use world::{Administrator, OneTime, World};

/// What the KDC says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    Yes,
    /// The principal has another one, or none, or has ended.
    No,
    /// Somebody disabled the principal.
    Disabled,
}

/// Redeems the link, unless this cluster has its keys already, and sees that all of it is as it is to be.
///
/// # Errors
/// [`Failure`]; whatever was done is taken up by the next attempt.
pub(crate) async fn redeem<W: World>(world: &W, names: &Names) -> Result<(), Failure> {
    let attempt = Attempt { world, names };
    let own = attempt.ours(OWN_SECRET).await?;
    attempt.ours(FLUX_SECRET).await?;
    let claim = attempt.claim().await?;
    let held = attempt.held(own.as_ref()).await?;
    let has_keytab = matches!(held, Some(AdminKey::KeytabBytes(_)));
    let admin = match held {
        Some(key) => world.admin(&names.own, key),
        None => attempt.take_over(&claim, own.as_ref()).await?,
    };
    if !has_keytab {
        attempt.write_keytab(&admin).await?;
    }
    attempt.stay(&admin).await?;
    attempt.flux(&admin).await
}

struct Attempt<'a, W> {
    world: &'a W,
    names: &'a Names,
}

impl<W: World> Attempt<'_, W> {
    /// A Secret of ours, if it is there.
    async fn ours(&self, name: &str) -> Result<Option<Stored>, Failure> {
        match self.world.read(name).await? {
            Some(stored) if !stored.ours => Err(Failure::Refused(format!(
                "the Secret {name} is not ours: it lacks the label {}={}; rename or delete it, if nothing needs it, and run this again",
                MANAGED_BY.0, MANAGED_BY.1
            ))),
            stored => Ok(stored),
        }
    }

    async fn write(&self, name: &str, before: Option<&Stored>, data: &Data) -> Result<(), Failure> {
        match self.world.write(name, before, data).await? {
            Written::Done => Ok(()),
            Written::Changed => Err(Failure::Again(format!("somebody else wrote the Secret {name} meanwhile"))),
        }
    }

    async fn claim(&self) -> Result<Zeroizing<String>, Failure> {
        let stored = self.ours(CLAIM_SECRET).await?;
        // The bootstrap's manifests make it empty, so that this program need not have the right to make Secrets.
        if let Some(stored) = stored.as_ref().filter(|stored| !stored.data.is_empty()) {
            let text = stored.data.text(CLAIM).map(|text| Zeroizing::new(text.to_owned()));
            let useless = || {
                Failure::Refused(format!("the Secret {CLAIM_SECRET} has no {CLAIM}; delete it, and make a new link"))
            };
            return text.ok_or_else(useless);
        }
        let claim = self.world.random()?;
        self.write(CLAIM_SECRET, stored.as_ref(), &Data::default().with(CLAIM, bytes(&claim))).await?;
        Ok(claim)
    }

    /// What is in our Secret, if it serves: the keytab, or else the password.
    async fn held(&self, own: Option<&Stored>) -> Result<Option<AdminKey>, Failure> {
        let stored = |key| own.and_then(|own| own.data.get(key)).cloned();
        let keytab = stored(CLIENT).filter(|keytab| !keytab.is_empty()).map(AdminKey::KeytabBytes);
        let password = stored(PASSWORD).filter(|password| !password.is_empty()).map(AdminKey::Password);
        for key in keytab.into_iter().chain(password) {
            match self.serves(&self.names.own, &key).await? {
                Serves::Yes => return Ok(Some(key)),
                Serves::No => {}
                Serves::Disabled => {
                    return Err(Failure::Refused(format!(
                        "the KDC has disabled {}: its cluster was deleted, or an administrator did it",
                        self.names.own
                    )));
                }
            }
        }
        Ok(None)
    }

    async fn serves(&self, principal: &Upn, key: &AdminKey) -> Result<Serves, Failure> {
        judged(self.world.authenticate(principal, key).await)
    }

    /// Steps 2 to 4. The session began with the centre's password.
    async fn take_over(&self, claim: &Zeroizing<String>, own: Option<&Stored>) -> Result<W::Admin, Failure> {
        let pending = own.filter(|own| own.data.get(CLIENT).is_none()).and_then(|own| own.data.get(PASSWORD));
        let password = if let Some(password) = pending {
            password.clone()
        } else {
            let password = bytes(&self.world.random()?);
            let data = own.map(|own| own.data.clone()).unwrap_or_default();
            self.write(OWN_SECRET, own, &data.without(CLIENT).with(PASSWORD, password.clone())).await?;
            password
        };
        let once = self.world.redeem(claim).await?;
        if once.cluster != self.names.cluster || once.principal != self.names.own.as_str() {
            return Err(Failure::Refused(format!(
                "the link is for {} of the cluster {}, and this is {} of {}; run the command that was made for this cluster",
                once.principal, once.cluster, self.names.own, self.names.cluster
            )));
        }
        let admin = self.world.admin(&self.names.own, AdminKey::Password(once.password));
        match admin.set_password(&self.names.own, &password).await {
            Err(denied) if denied.code() == KerberosCode::WrongPassword => Err(Failure::Again(format!(
                "the centre's password of {} does not serve ({denied}): it ended, or somebody with the same claim redeemed the link meanwhile",
                self.names.own
            ))),
            done => done.map(|()| admin).map_err(Failure::from),
        }
    }

    /// Step 5.
    async fn write_keytab(&self, admin: &W::Admin) -> Result<(), Failure> {
        let own = self.ours(OWN_SECRET).await?;
        let found = own.as_ref().and_then(|own| Some((own, own.data.get(PASSWORD)?)));
        let gone = || Failure::Again(format!("somebody else wrote the Secret {OWN_SECRET} meanwhile"));
        let (own, password) = found.ok_or_else(gone)?;
        let version = self.shown(admin).await?.version;
        let keytab = self.world.derive(&self.names.own, password, version).await?.to_bytes();
        let serves = self.serves(&self.names.own, &AdminKey::KeytabBytes(keytab.clone())).await?;
        if serves != Serves::Yes {
            return Err(Failure::Again(format!("the KDC does not accept the keytab of {}", self.names.own)));
        }
        self.write(OWN_SECRET, Some(own), &own.data.clone().with(CLIENT, keytab)).await
    }

    /// Step 6.
    async fn stay(&self, admin: &W::Admin) -> Result<(), Failure> {
        let shown = self.shown(admin).await?;
        if shown.expires.is_some() || shown.password_expires.is_some() {
            admin.clear_expiry(&self.names.own).await?;
        }
        Ok(())
    }

    async fn shown(&self, admin: &W::Admin) -> Result<Shown, Failure> {
        let shown = admin.show(&self.names.own).await?;
        shown.ok_or_else(|| Failure::Again(format!("the KDC has no {} any more", self.names.own)))
    }

    /// Step 7.
    async fn flux(&self, admin: &W::Admin) -> Result<(), Failure> {
        let flux = &self.names.flux;
        let stored = self.ours(FLUX_SECRET).await?;
        let named = stored.as_ref().filter(|stored| stored.data.text(USERNAME) == Some(flux.as_str()));
        let held = named.and_then(|stored| stored.data.get(PASSWORD)).filter(|password| !password.is_empty());
        let password = if let Some(password) = held {
            password.clone()
        } else {
            let password = bytes(&self.world.random()?);
            let data = stored.as_ref().map(|stored| stored.data.clone()).unwrap_or_default();
            let username = Zeroizing::new(flux.as_str().as_bytes().to_vec());
            let data = data.with(USERNAME, username).with(PASSWORD, password.clone());
            self.write(FLUX_SECRET, stored.as_ref(), &data).await?;
            password
        };
        let key = AdminKey::Password(password.clone());
        if self.serves(flux, &key).await? == Serves::Yes {
            return Ok(());
        }
        match admin.show(flux).await? {
            None => admin.create(flux, &password).await?,
            Some(shown) => {
                admin.set_password(flux, &password).await?;
                if shown.expires.is_some() {
                    admin.clear_expiry(flux).await?;
                }
                if !shown.enabled {
                    admin.enable(flux).await?;
                }
            }
        }
        match self.serves(flux, &key).await? {
            Serves::Yes => Ok(()),
            _ => Err(Failure::Again(format!("the KDC does not accept the password of {flux} yet"))),
        }
    }
}

/// What the KDC's answer says of a key.
pub(crate) fn judged(authenticated: Result<(), Denied>) -> Result<Serves, Failure> {
    use KerberosCode as Code;
    let Err(denied) = authenticated else { return Ok(Serves::Yes) };
    match denied.code() {
        Code::WrongPassword
        | Code::KeytabKeyMissing
        | Code::KeytabMissing
        | Code::PrincipalUnknown
        | Code::PrincipalExpired
        | Code::PasswordExpired
        | Code::PasswordRefused => Ok(Serves::No),
        Code::PrincipalRevoked => Ok(Serves::Disabled),
        _ => Err(denied.into()),
    }
}

fn bytes(text: &Zeroizing<String>) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(text.as_bytes().to_vec())
}
