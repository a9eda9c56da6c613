//! Principals.

use crate::holder::InMemory;
use crate::libraries::kadm5::{ATTRIBUTES, Connection, EXPIRES, Kadm5, PASSWORD_EXPIRES, Proof, Record};
use crate::libraries::krb5::{Context, Krb5, c_string};
use crate::verify::{Password, keytab_name};
use latchkey_factory_plus::Upn;
use latchkey_kerberos::wire::{AdminKey, Answer, Change, Request};
use latchkey_kerberos::{Denied, KerberosCode, Shown};
use std::ffi::CStr;

/// `KRB5_KDB_DISALLOW_ALL_TIX`.
const DISALLOW_ALL_TICKETS: i32 = 0x40;
/// `KRB5_KDB_REQUIRES_PRE_AUTH`: nobody gets something to guess passwords on for the asking.
const REQUIRES_PRE_AUTH: i32 = 0x80;

/// An administrator with a connection to kadmind.
pub(crate) struct Administrator(Connection);

impl Administrator {
    /// Loads the libraries, and connects.
    pub(crate) fn open(principal: &Upn, key: &AdminKey) -> Result<Self, Denied> {
        let context = Krb5::load()?.context()?;
        let (client, realm) = (c_string(principal.as_str().as_bytes())?, c_string(principal.realm().as_bytes())?);
        let connected = match key {
            AdminKey::Password(password) => {
                let password = Password::of(password)?;
                Kadm5::load()?.connect(context, &client, &realm, &Proof::Password(&password.0))
            }
            AdminKey::Keytab(path) => with_keytab(context, &client, &realm, &keytab_name(path)?),
            AdminKey::KeytabBytes(bytes) => with_keytab(context, &client, &realm, &InMemory::of(bytes)?.name),
        };
        Ok(Self(connected?))
    }

    /// Does what is asked.
    pub(crate) fn answer(&self, request: &Request) -> Result<Answer, Denied> {
        match request {
            Request::Create { principal, password, password_expires, expires } => {
                let password = password.as_ref().map(Password::of).transpose()?;
                self.create(principal, password.as_ref().map(|password| &*password.0), *password_expires, *expires)?;
            }
            Request::SetPassword { principal, password, password_expires } => {
                let name = self.0.context().principal(principal)?;
                self.0.set_password(&name, &Password::of(password)?.0)?;
                self.modify(principal, Change::PasswordExpires(*password_expires))?;
            }
            Request::NewKeys { principal, keep_old } => {
                let name = self.0.context().principal(principal)?;
                let keys = self.0.new_keys(&name, *keep_old)?;
                return Ok(Answer::Keys { version: self.0.show(&name)?.0, keys });
            }
            Request::Trim { principal } => self.0.purge_keys(&self.0.context().principal(principal)?)?,
            Request::Modify { principal, change } => self.modify(principal, *change)?,
            Request::Delete { principal } => self.0.delete(&self.0.context().principal(principal)?)?,
            Request::Show { principal } => return Ok(Answer::Shown(self.show(principal)?)),
            Request::List { pattern } => return Ok(Answer::Names(self.0.list(&c_string(pattern.as_bytes())?)?)),
            _ => return Err(Denied::new(KerberosCode::HelperFailed, "a request of another duty")),
        }
        Ok(Answer::Done)
    }

    fn create(
        &self,
        principal: &Upn,
        password: Option<&CStr>,
        password_expires: Option<u32>,
        expires: Option<u32>,
    ) -> Result<(), Denied> {
        let mut record = Record::empty();
        record.attributes = REQUIRES_PRE_AUTH;
        record.password_expires = password_expires.unwrap_or(0);
        record.expires = expires.unwrap_or(0);
        let mask = ATTRIBUTES | PASSWORD_EXPIRES | EXPIRES;
        self.0.create(&self.0.context().principal(principal)?, record, mask, password)
    }

    fn modify(&self, principal: &Upn, change: Change) -> Result<(), Denied> {
        let name = self.0.context().principal(principal)?;
        let mut record = Record::empty();
        let mask = match change {
            Change::Enable => {
                record.attributes = self.0.show(&name)?.1 & !DISALLOW_ALL_TICKETS;
                ATTRIBUTES
            }
            Change::Disable => {
                record.attributes = self.0.show(&name)?.1 | DISALLOW_ALL_TICKETS;
                ATTRIBUTES
            }
            Change::Expires(time) => {
                record.expires = time.unwrap_or(0);
                EXPIRES
            }
            Change::PasswordExpires(time) => {
                record.password_expires = time.unwrap_or(0);
                PASSWORD_EXPIRES
            }
        };
        self.0.modify(&name, record, mask)
    }

    fn show(&self, principal: &Upn) -> Result<Option<Shown>, Denied> {
        let time = |seconds| Some(seconds).filter(|seconds| *seconds != 0);
        match self.0.show(&self.0.context().principal(principal)?) {
            Ok((version, attributes, expires, password_expires)) => Ok(Some(Shown {
                version,
                enabled: attributes & DISALLOW_ALL_TICKETS == 0,
                expires: time(expires),
                password_expires: time(password_expires),
            })),
            Err(denied) if denied.code() == KerberosCode::PrincipalUnknown => Ok(None),
            Err(denied) => Err(denied),
        }
    }
}

fn with_keytab(context: Context, client: &CStr, realm: &CStr, keytab: &CStr) -> Result<Connection, Denied> {
    // kadm5 would say of one that is missing that the password is wrong.
    context.keytab(keytab)?;
    Kadm5::load()?.connect(context, client, realm, &Proof::Keytab(keytab))
}
