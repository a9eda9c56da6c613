//! Keys that somebody has.

use crate::libraries::keys::Keys;
use crate::libraries::krb5::{ClientKey, Context, Krb5};
use crate::verify::{Password, keytab_name};
use latchkey_factory_plus::Upn;
use latchkey_kerberos::wire::{AdminKey, Answer};
use latchkey_kerberos::{Denied, KerberosCode, Secret};
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::CString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// Tries keys, and makes them of passwords.
pub(crate) struct Holder {
    krb5: Krb5,
    keys: Keys,
}

impl Holder {
    /// Loads the library.
    pub(crate) fn open() -> Result<Self, Denied> {
        Ok(Self { krb5: Krb5::load()?, keys: Keys::load()? })
    }

    /// Whether the KDC gives a ticket for this key.
    pub(crate) fn authenticate(&self, principal: &Upn, key: &AdminKey) -> Result<(), Denied> {
        // A context of its own for each: krb5.conf may have changed.
        let context = self.krb5.context()?;
        let client = context.principal(principal)?;
        match key {
            AdminKey::Password(password) => {
                context.authenticate(&client, &ClientKey::Password(&Password::of(password)?.0))
            }
            AdminKey::Keytab(path) => with_keytab(&context, &keytab_name(path)?, &client),
            AdminKey::KeytabBytes(bytes) => {
                let keytab = InMemory::of(bytes)?;
                with_keytab(&context, &keytab.name, &client)
            }
        }
    }

    /// The keys of a password.
    pub(crate) fn derive(&self, principal: &Upn, password: &Secret, version: u32) -> Result<Answer, Denied> {
        let context = self.krb5.context()?;
        let client = context.principal(principal)?;
        Ok(Answer::Keys { version, keys: self.keys.of_password(&context, &client, password)? })
    }
}

fn with_keytab(
    context: &Context,
    name: &std::ffi::CStr,
    client: &crate::libraries::krb5::Principal<'_>,
) -> Result<(), Denied> {
    let keytab = context.keytab(name)?;
    context.authenticate(client, &ClientKey::Keytab(&keytab))
}

/// A keytab that is a file in memory, and in no directory.
pub(crate) struct InMemory {
    /// As the library names it.
    pub(crate) name: CString,
    _file: File,
}

impl InMemory {
    /// Of a keytab's bytes.
    pub(crate) fn of(bytes: &Secret) -> Result<Self, Denied> {
        let failed = |error: std::io::Error| Denied::new(KerberosCode::KeytabMissing, error);
        let file = memfd_create("keytab", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut file = File::from(file);
        file.write_all(bytes).map_err(failed)?;
        let name = keytab_name(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))?;
        Ok(Self { name, _file: file })
    }
}
