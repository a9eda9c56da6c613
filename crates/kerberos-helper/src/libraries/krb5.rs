//! libkrb5: contexts, names, keytabs, and the exchange that gets a ticket with a password.
#![expect(unsafe_code, reason = "libkrb5 is C; this file is made for its calls")]

use super::load::{functions, load};
use crate::error::code;
use latchkey_factory_plus::Upn;
use latchkey_kerberos::{Denied, KerberosCode};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Display;
use std::ptr::{null, null_mut};

/// `krb5_context`, `krb5_principal`, `krb5_keytab`, `krb5_get_init_creds_opt *`: pointers to what only the library knows.
pub(super) type Handle = *mut c_void;
/// `krb5_error_code`.
type Code = i32;

/// Room for a `krb5_creds` (120 bytes on 64-bit machines) and for more than it will ever grow to: no field of it is touched.
#[repr(C, align(16))]
struct Creds([u8; 512]);

/// Room for a `krb5_verify_init_creds_opt` (8 bytes), in the same way.
#[repr(C, align(16))]
struct VerifyOptions([u8; 64]);

functions! {
    /// As krb5.h declares them.
    Functions {
        init_context = b"krb5_init_context\0": unsafe extern "C" fn(*mut Handle) -> Code;
        free_context = b"krb5_free_context\0": unsafe extern "C" fn(Handle);
        parse_name = b"krb5_parse_name\0": unsafe extern "C" fn(Handle, *const c_char, *mut Handle) -> Code;
        free_principal = b"krb5_free_principal\0": unsafe extern "C" fn(Handle, Handle);
        error_message = b"krb5_get_error_message\0": unsafe extern "C" fn(Handle, Code) -> *const c_char;
        free_error_message = b"krb5_free_error_message\0": unsafe extern "C" fn(Handle, *const c_char);
        kt_resolve = b"krb5_kt_resolve\0": unsafe extern "C" fn(Handle, *const c_char, *mut Handle) -> Code;
        kt_close = b"krb5_kt_close\0": unsafe extern "C" fn(Handle, Handle) -> Code;
        kt_have_content = b"krb5_kt_have_content\0": unsafe extern "C" fn(Handle, Handle) -> Code;
        options_alloc = b"krb5_get_init_creds_opt_alloc\0": unsafe extern "C" fn(Handle, *mut Handle) -> Code;
        options_free = b"krb5_get_init_creds_opt_free\0": unsafe extern "C" fn(Handle, Handle);
        options_life = b"krb5_get_init_creds_opt_set_tkt_life\0": unsafe extern "C" fn(Handle, i32);
        options_forwardable = b"krb5_get_init_creds_opt_set_forwardable\0": unsafe extern "C" fn(Handle, c_int);
        options_proxiable = b"krb5_get_init_creds_opt_set_proxiable\0": unsafe extern "C" fn(Handle, c_int);
        get_with_password = b"krb5_get_init_creds_password\0": unsafe extern "C" fn(
            Handle, *mut Creds, Handle, *const c_char, *const c_void, *mut c_void, i32, *const c_char, Handle,
        ) -> Code;
        get_with_keytab = b"krb5_get_init_creds_keytab\0": unsafe extern "C" fn(
            Handle, *mut Creds, Handle, Handle, i32, *const c_char, Handle,
        ) -> Code;
        verify_options_init = b"krb5_verify_init_creds_opt_init\0": unsafe extern "C" fn(*mut VerifyOptions);
        verify_options_no_fail = b"krb5_verify_init_creds_opt_set_ap_req_nofail\0":
            unsafe extern "C" fn(*mut VerifyOptions, c_int);
        verify = b"krb5_verify_init_creds\0": unsafe extern "C" fn(
            Handle, *mut Creds, Handle, Handle, *mut c_void, *mut VerifyOptions,
        ) -> Code;
        free_creds = b"krb5_free_cred_contents\0": unsafe extern "C" fn(Handle, *mut Creds);
    }
}

/// The library.
#[derive(Clone, Copy)]
pub(crate) struct Krb5(Functions);

impl Krb5 {
    /// Loads it.
    pub(crate) fn load() -> Result<Self, Denied> {
        let library = load("libkrb5.so.3", "libkrb5-3")?;
        // SAFETY: libkrb5.so.3 of MIT has had these since release 1.11, as krb5.h declares them.
        Ok(Self(unsafe { Functions::find(library)? }))
    }

    /// A context: it reads krb5.conf.
    pub(crate) fn context(self) -> Result<Context, Denied> {
        let mut handle = null_mut();
        // SAFETY: the place for the handle is ours.
        let error = unsafe { (self.0.init_context)(&raw mut handle) };
        if error != 0 {
            return Err(Denied::new(KerberosCode::ConfigurationBad, format_args!("krb5.conf: error {error}")));
        }
        Ok(Context { library: self, handle })
    }
}

/// A context of the library.
pub(crate) struct Context {
    library: Krb5,
    pub(super) handle: Handle,
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by the library, and freed once. What was made with it borrows it, and is gone.
        unsafe { (self.library.0.free_context)(self.handle) }
    }
}

impl Context {
    /// The error of a call with this context.
    pub(crate) fn denied(&self, error: i64, what: impl Display) -> Denied {
        self.denied_as(code(error), error, what)
    }

    fn denied_as(&self, code: KerberosCode, error: i64, what: impl Display) -> Denied {
        Denied::new(code, format_args!("{what}: {}", self.message(error)))
    }

    /// The library's text for an error.
    pub(crate) fn message(&self, error: i64) -> String {
        let Ok(error) = Code::try_from(error) else { return format!("error {error}") };
        // SAFETY: any number is an error code; the text is copied before it is freed, once.
        unsafe {
            let text = (self.library.0.error_message)(self.handle, error);
            if text.is_null() {
                return format!("error {error}");
            }
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.library.0.free_error_message)(self.handle, text);
            copy
        }
    }

    /// A name as the library has it.
    pub(crate) fn principal(&self, upn: &Upn) -> Result<Principal<'_>, Denied> {
        let text = c_string(upn.as_str().as_bytes())?;
        let mut handle = null_mut();
        // SAFETY: the context lives, the text ends with NUL, the place for the handle is ours.
        let error = unsafe { (self.library.0.parse_name)(self.handle, text.as_ptr(), &raw mut handle) };
        if error != 0 {
            return Err(self.denied(error.into(), "the name of a principal"));
        }
        Ok(Principal { context: self, handle })
    }

    /// A keytab, by its name: `FILE:path`. It must have content.
    pub(crate) fn keytab(&self, name: &CStr) -> Result<KeytabHandle<'_>, Denied> {
        let mut handle = null_mut();
        // SAFETY: as above.
        let error = unsafe { (self.library.0.kt_resolve)(self.handle, name.as_ptr(), &raw mut handle) };
        if error != 0 {
            return Err(self.denied_as(KerberosCode::KeytabMissing, error.into(), "the keytab"));
        }
        let keytab = KeytabHandle { context: self, handle };
        // SAFETY: both handles live.
        match unsafe { (self.library.0.kt_have_content)(self.handle, handle) } {
            0 => Ok(keytab),
            error => Err(self.denied_as(KerberosCode::KeytabMissing, error.into(), name.to_string_lossy())),
        }
    }

    /// Gets a ticket for `service` with the password of `client`, and verifies it with the service's key in `keytab`.
    pub(crate) fn verify_password(
        &self,
        client: &Principal<'_>,
        password: &CStr,
        service: (&Principal<'_>, &CStr),
        keytab: &KeytabHandle<'_>,
    ) -> Result<(), Denied> {
        let functions = &self.library.0;
        let options = Options::of(self)?;
        let mut creds = Creds([0; 512]);
        // SAFETY: all handles live; both texts end with NUL; there is no prompter, so none is called; the room for the ticket
        // is larger than it and zeroed, as it is given back after an error as well.
        let error = unsafe {
            (functions.get_with_password)(
                self.handle,
                &raw mut creds,
                client.handle,
                password.as_ptr(),
                null(),
                null_mut(),
                0,
                service.1.as_ptr(),
                options.handle,
            )
        };
        let verified = if error == 0 {
            self.verify_ticket(&mut creds, service.0, keytab)
        } else {
            Err(self.denied(error.into(), "a ticket for the service"))
        };
        // SAFETY: zeroed, or filled by the library, which wipes the key in it.
        unsafe { (functions.free_creds)(self.handle, &raw mut creds) };
        verified
    }

    /// Gets a ticket of the realm for whoever has this password or this keytab, and throws it away.
    pub(crate) fn authenticate(&self, client: &Principal<'_>, key: &ClientKey<'_>) -> Result<(), Denied> {
        let functions = &self.library.0;
        let options = Options::of(self)?;
        let mut creds = Creds([0; 512]);
        let place = &raw mut creds;
        // SAFETY: all handles live; the password ends with NUL; there is no prompter, so none is called; without a service's name
        // it is the realm's; the room for the ticket is larger than it and zeroed.
        let error = unsafe {
            match key {
                ClientKey::Password(password) => (functions.get_with_password)(
                    self.handle,
                    place,
                    client.handle,
                    password.as_ptr(),
                    null(),
                    null_mut(),
                    0,
                    null(),
                    options.handle,
                ),
                ClientKey::Keytab(keytab) => (functions.get_with_keytab)(
                    self.handle,
                    place,
                    client.handle,
                    keytab.handle,
                    0,
                    null(),
                    options.handle,
                ),
            }
        };
        // SAFETY: zeroed, or filled by the library, which wipes the key in it.
        unsafe { (functions.free_creds)(self.handle, place) };
        if error == 0 { Ok(()) } else { Err(self.denied(error.into(), "a ticket of the realm")) }
    }

    fn verify_ticket(
        &self,
        creds: &mut Creds,
        service: &Principal<'_>,
        keytab: &KeytabHandle<'_>,
    ) -> Result<(), Denied> {
        let functions = &self.library.0;
        let mut options = VerifyOptions([0; 64]);
        // SAFETY: the room for the options is larger than they are; all handles live; the ticket was filled by the library; it
        // may be asked not to fill a cache of tickets.
        let error = unsafe {
            (functions.verify_options_init)(&raw mut options);
            // Without a key to verify with, it must not pass.
            (functions.verify_options_no_fail)(&raw mut options, 1);
            (functions.verify)(self.handle, creds, service.handle, keytab.handle, null_mut(), &raw mut options)
        };
        match code(error.into()) {
            _ if error == 0 => Ok(()),
            // What decrypts the ticket is the service's key: who made the ticket does not have it.
            KerberosCode::WrongPassword | KerberosCode::Failed => {
                Err(self.denied_as(KerberosCode::KdcNotGenuine, error.into(), "the ticket does not verify"))
            }
            other => Err(self.denied_as(other, error.into(), "the ticket does not verify")),
        }
    }
}

/// What somebody proves with who it is.
pub(crate) enum ClientKey<'a> {
    /// A password.
    Password(&'a CStr),
    /// A keytab that is open.
    Keytab(&'a KeytabHandle<'a>),
}

/// A name of a principal.
pub(crate) struct Principal<'a> {
    context: &'a Context,
    pub(super) handle: Handle,
}

impl Drop for Principal<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the library with this context, and freed once.
        unsafe { (self.context.library.0.free_principal)(self.context.handle, self.handle) }
    }
}

/// A keytab that is open.
pub(crate) struct KeytabHandle<'a> {
    context: &'a Context,
    handle: Handle,
}

impl Drop for KeytabHandle<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the library with this context, and closed once. There is nothing to do about an error.
        unsafe { (self.context.library.0.kt_close)(self.context.handle, self.handle) };
    }
}

/// What is asked of a ticket.
struct Options<'a> {
    context: &'a Context,
    handle: Handle,
}

impl<'a> Options<'a> {
    /// Short-lived, and good for nothing else.
    fn of(context: &'a Context) -> Result<Self, Denied> {
        let functions = &context.library.0;
        let mut handle = null_mut();
        // SAFETY: the context lives, the place for the handle is ours.
        let error = unsafe { (functions.options_alloc)(context.handle, &raw mut handle) };
        if error != 0 {
            return Err(context.denied(error.into(), "options of a ticket"));
        }
        // SAFETY: the options were made above.
        unsafe {
            (functions.options_life)(handle, 300);
            (functions.options_forwardable)(handle, 0);
            (functions.options_proxiable)(handle, 0);
        }
        Ok(Self { context, handle })
    }
}

impl Drop for Options<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the library with this context, and freed once.
        unsafe { (self.context.library.0.options_free)(self.context.handle, self.handle) }
    }
}

/// A text with NUL behind it.
pub(crate) fn c_string(bytes: &[u8]) -> Result<CString, Denied> {
    CString::new(bytes).map_err(|_| Denied::new(KerberosCode::PrincipalNotAccepted, "a NUL in a name or a path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_what_the_library_fills() {
        // krb5.h of release 1.20 on a 64-bit machine.
        assert!(size_of::<Creds>() >= 4 * 120);
        assert!(size_of::<VerifyOptions>() >= 8 * 8);
    }
}
