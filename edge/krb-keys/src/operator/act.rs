//! Finds out about one resource, and carries out what is decided.

use std::time::{SystemTime, UNIX_EPOCH};

use latchkey_factory_plus::Upn;
use latchkey_kerberos::keytab::Keytab;
use latchkey_kerberos::{Admin, AdminKey, Denied, Holder, KerberosCode, Shown};
use zeroize::Zeroizing;

use super::account::Accounts;
use super::decide::{Effect, Facts, Held};
use super::object::{Objects, Writing};
use super::resource::{FINALIZER, FORCE_REKEY, HAS_OLD_KEYS, Kind, Place, REKEYED_AT, Refused, Wanted};
use super::rivals::{Id, Rivals};
use crate::failure::Failure;
use crate::kubernetes::Secrets;
use crate::redeem::{Serves, judged, random};
use crate::secret::{Data, Stored, Written};

/// What was read to decide on, each for the first write: after that it is another.
#[allow(missing_debug_implementations)] // it holds secrets
pub(crate) struct Read {
    resource: Option<Writing>,
    secret: Sight,
}

impl Read {
    /// Of the resource alone.
    pub(crate) fn of(resource: Writing) -> Self {
        Self { resource: Some(resource), secret: Sight::Unread }
    }
}

/// What is known of the Secret.
#[derive(Default)]
enum Sight {
    #[default]
    Unread,
    Missing,
    There(Stored),
}

/// Who is asked.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) secrets: Secrets,
    pub(crate) objects: Objects,
    pub(crate) admin: Admin,
    pub(crate) holder: Holder,
    /// Who this operator is.
    pub(crate) own: Upn,
    /// None, where nobody said who this operator is at the centre.
    pub(crate) accounts: Option<Accounts>,
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Act {
    /// What is known of the world, as far as the decision needs it.
    pub(crate) async fn facts(
        &self,
        id: &Id,
        wanted: &Wanted,
        rivals: &Rivals,
        read: &mut Read,
    ) -> Result<Facts, Failure> {
        let mut shown = Vec::with_capacity(wanted.principals.len());
        for upn in &wanted.principals {
            shown.push(self.admin.show(upn).await?);
        }
        let (wanted_by_others, place_wanted_by_others) = rivals.others(id, wanted);
        let taken_by = rivals.first(id, wanted);
        let held = self.held(wanted, &shown, &mut read.secret).await?;
        let own = wanted.principals.contains(&self.own);
        Ok(Facts { held, shown, taken_by, wanted_by_others, place_wanted_by_others, own, now: now() })
    }

    async fn held(&self, wanted: &Wanted, shown: &[Option<Shown>], sight: &mut Sight) -> Result<Held, Failure> {
        let Some(place) = &wanted.place else { return Ok(Held::Nowhere) };
        *sight = self.secrets.read(&place.secret).await?.map_or(Sight::Missing, Sight::There);
        let Sight::There(stored) = sight else { return Ok(Held::Nothing) };
        if !stored.ours {
            return Ok(Held::Foreign);
        }
        let Some(value) = stored.data.get(&place.key).filter(|value| !value.is_empty()) else {
            return Ok(Held::Nothing);
        };
        if shown.iter().any(Option::is_none) {
            return Ok(Held::Something { serves: Some(false) });
        }
        let key = match wanted.kind {
            Kind::Random { .. } => AdminKey::KeytabBytes(value.clone()),
            Kind::Password | Kind::PresetPassword => AdminKey::Password(value.clone()),
            Kind::Disabled | Kind::Local => return Ok(Held::Something { serves: Some(true) }),
        };
        let mut serves = Some(true);
        for upn in &wanted.principals {
            match judged(self.holder.authenticate(upn, &key).await)? {
                Serves::Yes => {}
                Serves::No => return Ok(Held::Something { serves: Some(false) }),
                Serves::Disabled => serves = None,
            }
        }
        Ok(Held::Something { serves })
    }

    /// Does one thing.
    pub(crate) async fn carry_out(
        &self,
        id: &Id,
        wanted: &Result<Wanted, Refused>,
        effect: &Effect,
        read: &mut Read,
    ) -> Result<(), Failure> {
        // One that cannot be read is let go at most.
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(_) if *effect == Effect::Release => return self.objects.release(id, FINALIZER).await,
            Err(refused) => return Err(Failure::Refused(refused.to_string())),
        };
        match effect {
            Effect::Hold => self.objects.hold(id, FINALIZER, read.resource.take()).await,
            Effect::Release => self.objects.release(id, FINALIZER).await,
            Effect::WritePassword => {
                let password = Zeroizing::new(random()?.as_bytes().to_vec());
                self.put(place(wanted)?, password, &mut read.secret).await
            }
            Effect::CreateWithPassword(upn) => {
                let password = self.value(place(wanted)?).await?;
                match self.admin.create_with_password(upn, &password, None, None).await {
                    Err(denied) if denied.code() == KerberosCode::PrincipalExists => {
                        Ok(self.admin.set_password(upn, &password, None).await?)
                    }
                    made => Ok(made?),
                }
            }
            Effect::SetPassword(upn) => {
                Ok(self.admin.set_password(upn, &self.value(place(wanted)?).await?, None).await?)
            }
            Effect::CreateRandom(upn) => Ok(there(self.admin.create_random(upn).await)?),
            Effect::Rekey { keep_old } => self.rekey(wanted, *keep_old, &mut read.secret).await,
            Effect::Enable(upn) => Ok(self.admin.enable(upn).await?),
            Effect::Disable(upn) => Ok(gone(self.admin.disable(upn).await)?),
            Effect::Trim => self.trim(wanted).await,
            Effect::RemoveKey => self.remove(place(wanted)?).await,
            Effect::NoteOldKeys => {
                let at = now().to_string();
                self.objects.mark(id, &[(REKEYED_AT, Some(&at))], &[(HAS_OLD_KEYS, Some("true"))]).await
            }
            Effect::ForgetOldKeys => self.objects.mark(id, &[(REKEYED_AT, None)], &[(HAS_OLD_KEYS, None)]).await,
            Effect::ForgetForce => self.objects.mark(id, &[(FORCE_REKEY, None)], &[]).await,
        }
    }

    /// Makes the keys at the KDC, and writes them in one go.
    async fn rekey(&self, wanted: &Wanted, keep_old: bool, sight: &mut Sight) -> Result<(), Failure> {
        let place = place(wanted)?;
        let stored = self.stored(place, sight).await?;
        // Before the KDC's keys are others: whether they can be written.
        if stored.as_ref().is_some_and(|stored| !stored.ours) {
            return Err(Failure::Refused(format!("the Secret {} is not ours", place.secret)));
        }
        let mut keytab = Keytab::default();
        for upn in &wanted.principals {
            let keys =
                if keep_old { self.admin.new_keys_beside_old(upn).await } else { self.admin.new_keys(upn).await };
            keytab.extend(keys?).map_err(|error| unusable(&error))?;
        }
        if keep_old
            && let Some(old) = stored.as_ref().and_then(|stored| stored.data.get(&place.key))
            // What cannot be read serves nobody.
            && let Ok(old) = Keytab::parse(old)
        {
            keytab.extend(old).map_err(|error| unusable(&error))?;
        }
        self.write(place, stored.as_ref(), keytab.to_bytes()).await
    }

    async fn trim(&self, wanted: &Wanted) -> Result<(), Failure> {
        let place = place(wanted)?;
        for upn in &wanted.principals {
            self.admin.trim(upn).await?;
        }
        let Some(stored) = self.secrets.read(&place.secret).await? else { return Ok(()) };
        let Some(keytab) = stored.data.get(&place.key).and_then(|bytes| Keytab::parse(bytes).ok()) else {
            return Ok(());
        };
        let newest = |upn: &Upn| {
            let of = keytab.entries().iter().filter(|entry| entry.principal == *upn);
            of.map(|entry| entry.version).max()
        };
        let mut trimmed = Keytab::default();
        for entry in keytab.entries().iter().filter(|entry| Some(entry.version) == newest(&entry.principal)) {
            trimmed.add(entry.clone()).map_err(|error| unusable(&error))?;
        }
        if trimmed == keytab { Ok(()) } else { self.write(place, Some(&stored), trimmed.to_bytes()).await }
    }

    async fn value(&self, place: &Place) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let stored = self.secrets.read(&place.secret).await?;
        let value = stored.and_then(|stored| stored.data.get(&place.key).cloned());
        value.ok_or_else(|| Failure::Again(format!("{} has left the Secret {}", place.key, place.secret)))
    }

    /// The Secret of a place, as it was seen, or as it is now.
    async fn stored(&self, place: &Place, sight: &mut Sight) -> Result<Option<Stored>, Failure> {
        match std::mem::take(sight) {
            Sight::Unread => Ok(self.secrets.read(&place.secret).await?),
            Sight::Missing => Ok(None),
            Sight::There(stored) => Ok(Some(stored)),
        }
    }

    async fn put(&self, place: &Place, value: Zeroizing<Vec<u8>>, sight: &mut Sight) -> Result<(), Failure> {
        let stored = self.stored(place, sight).await?;
        if stored.as_ref().is_some_and(|stored| !stored.ours) {
            return Err(Failure::Refused(format!("the Secret {} is not ours", place.secret)));
        }
        self.write(place, stored.as_ref(), value).await
    }

    async fn write(&self, place: &Place, before: Option<&Stored>, value: Zeroizing<Vec<u8>>) -> Result<(), Failure> {
        let data = before.map(|before| before.data.clone()).unwrap_or_default().with(&place.key, value);
        self.wrote(place, before, &data).await
    }

    async fn wrote(&self, place: &Place, before: Option<&Stored>, data: &Data) -> Result<(), Failure> {
        match self.secrets.write(&place.secret, before, data).await? {
            Written::Done => Ok(()),
            Written::Changed => {
                Err(Failure::Again(format!("somebody else wrote the Secret {} meanwhile", place.secret)))
            }
        }
    }

    async fn remove(&self, place: &Place) -> Result<(), Failure> {
        let Some(stored) = self.secrets.read(&place.secret).await?.filter(|stored| stored.ours) else { return Ok(()) };
        let rest = stored.data.clone().without(&place.key);
        if rest.is_empty() {
            return Ok(self.secrets.delete(&place.secret, &stored).await?);
        }
        self.wrote(place, Some(&stored), &rest).await
    }
}

/// Decisions that need a place are made for specifications that have one.
fn place(wanted: &Wanted) -> Result<&Place, Failure> {
    wanted.place.as_ref().ok_or_else(|| Failure::Refused("there is no secret for the key to go to".into()))
}

fn unusable(error: &latchkey_kerberos::keytab::KeytabError) -> Failure {
    Failure::Refused(format!("the keytab: {error}"))
}

/// One that exists is as it is to be.
fn there(made: Result<(), Denied>) -> Result<(), Denied> {
    made.or_else(|denied| if denied.code() == KerberosCode::PrincipalExists { Ok(()) } else { Err(denied) })
}

/// One that does not exist is as it is to be.
fn gone(done: Result<(), Denied>) -> Result<(), Denied> {
    done.or_else(|denied| if denied.code() == KerberosCode::PrincipalUnknown { Ok(()) } else { Err(denied) })
}
