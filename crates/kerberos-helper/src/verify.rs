//! Passwords.

use crate::libraries::krb5::{Krb5, c_string};
use latchkey_factory_plus::Upn;
use latchkey_kerberos::{Denied, KerberosCode, Secret};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use zeroize::Zeroize as _;

/// Verifies passwords.
pub(crate) struct Verifier {
    krb5: Krb5,
    keytab: CString,
    service: Upn,
    service_text: CString,
}

impl Verifier {
    /// Loads the library, and looks whether there is a keytab.
    pub(crate) fn open(keytab: &Path, service: &Upn) -> Result<Self, Denied> {
        let krb5 = Krb5::load()?;
        let keytab = keytab_name(keytab)?;
        krb5.context()?.keytab(&keytab)?;
        Ok(Self { krb5, keytab, service: service.clone(), service_text: c_string(service.as_str().as_bytes())? })
    }

    /// Whether this is the password of the principal.
    ///
    /// A context of its own for each: krb5.conf and the keytab may have changed.
    pub(crate) fn verify(&self, principal: &Upn, password: &Secret) -> Result<(), Denied> {
        let context = self.krb5.context()?;
        let client = context.principal(principal)?;
        let service = context.principal(&self.service)?;
        let keytab = context.keytab(&self.keytab)?;
        let password = Password::of(password)?;
        context.verify_password(&client, &password.0, (&service, &self.service_text), &keytab)
    }
}

/// A password with NUL behind it, wiped at the end.
pub(crate) struct Password(pub(crate) CString);

impl Password {
    pub(crate) fn of(secret: &Secret) -> Result<Self, Denied> {
        let password = CString::new(secret.as_slice());
        // The error holds the bytes; the allocator wipes them.
        Ok(Self(password.map_err(|_| Denied::new(KerberosCode::WrongPassword, "a NUL in a password"))?))
    }
}

impl Drop for Password {
    fn drop(&mut self) {
        std::mem::take(&mut self.0).into_bytes_with_nul().zeroize();
    }
}

/// A file, as the library names keytabs.
pub(crate) fn keytab_name(path: &Path) -> Result<CString, Denied> {
    c_string(&[b"FILE:", path.as_os_str().as_bytes()].concat())
}

/// For calls that take a text that is not always there.
pub(crate) fn as_ptr(text: Option<&CStr>) -> *const std::ffi::c_char {
    text.map_or(std::ptr::null(), CStr::as_ptr)
}
