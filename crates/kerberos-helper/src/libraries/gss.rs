//! `libgssapi_krb5`: the acceptor's side of one exchange.
#![expect(unsafe_code, reason = "GSSAPI is C; this file is made for its calls")]

use super::krb5::c_string;
use super::load::{functions, load};
use crate::error::code;
use latchkey_factory_plus::Upn;
use latchkey_kerberos::{Denied, KerberosCode};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// `gss_cred_id_t`, `gss_ctx_id_t`, `gss_name_t`: pointers to what only the library knows.
type Handle = *mut c_void;
/// `OM_uint32`.
type Word = u32;

/// `gss_buffer_desc` (RFC 2744, 3.2).
#[repr(C)]
struct Buffer {
    length: usize,
    value: *mut c_void,
}

/// `gss_OID_desc` (RFC 2744, 3.3).
#[repr(C)]
struct Oid {
    length: Word,
    elements: *const c_void,
}

/// `gss_OID_set_desc` (RFC 2744, 3.4).
#[repr(C)]
struct OidSet {
    count: usize,
    elements: *const Oid,
}

/// `gss_key_value_element_desc` and `gss_key_value_set_desc` (`gssapi_ext.h`).
#[repr(C)]
struct KeyValue {
    key: *const c_char,
    value: *const c_char,
}
#[repr(C)]
struct KeyValues {
    count: Word,
    elements: *const KeyValue,
}

/// 1.3.6.1.5.5.2, RFC 4178.
const SPNEGO: &[u8] = &[0x2b, 6, 1, 5, 5, 2];
/// 1.2.840.113554.1.2.2, RFC 1964.
const KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2];
/// 1.2.840.113554.1.2.2.1: a full name of a principal.
const PRINCIPAL_NAME: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2, 1];

const ACCEPT: c_int = 2;
const INDEFINITE: Word = Word::MAX;
const MECHANISM_STATUS: c_int = 2;
const ANONYMOUS: Word = 64;
const CONTINUE_NEEDED: Word = 1;
const DUPLICATE_TOKEN: Word = 2;
/// Calling and routine errors; the lower half has supplementary bits.
const ERRORS: Word = 0xffff_0000;

functions! {
    /// As gssapi.h and `gssapi_ext.h` declare them; the first argument is the minor status.
    Functions {
        import_name = b"gss_import_name\0": unsafe extern "C" fn(
            *mut Word, *const Buffer, *const Oid, *mut Handle,
        ) -> Word;
        release_name = b"gss_release_name\0": unsafe extern "C" fn(*mut Word, *mut Handle) -> Word;
        acquire = b"gss_acquire_cred_from\0": unsafe extern "C" fn(
            *mut Word, Handle, Word, *const OidSet, c_int, *const KeyValues, *mut Handle, *mut c_void, *mut Word,
        ) -> Word;
        set_neg_mechs = b"gss_set_neg_mechs\0": unsafe extern "C" fn(*mut Word, Handle, *const OidSet) -> Word;
        release_cred = b"gss_release_cred\0": unsafe extern "C" fn(*mut Word, *mut Handle) -> Word;
        accept = b"gss_accept_sec_context\0": unsafe extern "C" fn(
            *mut Word, *mut Handle, Handle, *const Buffer, *const c_void, *mut Handle, *mut *const Oid, *mut Buffer,
            *mut Word, *mut Word, *mut Handle,
        ) -> Word;
        delete_context = b"gss_delete_sec_context\0": unsafe extern "C" fn(
            *mut Word, *mut Handle, *mut Buffer,
        ) -> Word;
        display_name = b"gss_display_name\0": unsafe extern "C" fn(
            *mut Word, Handle, *mut Buffer, *mut *const Oid,
        ) -> Word;
        display_status = b"gss_display_status\0": unsafe extern "C" fn(
            *mut Word, Word, c_int, *const Oid, *mut Word, *mut Buffer,
        ) -> Word;
        release_buffer = b"gss_release_buffer\0": unsafe extern "C" fn(*mut Word, *mut Buffer) -> Word;
    }
}

/// The library.
#[derive(Clone, Copy)]
pub(crate) struct Gss(Functions);

/// The service's credentials.
pub(crate) struct Credentials {
    library: Gss,
    handle: Handle,
}

// SAFETY: credentials of MIT's library belong to no thread; one thread at a time has them here.
unsafe impl Send for Credentials {}

impl Buffer {
    fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }

    const EMPTY: Self = Self { length: 0, value: null_mut() };
}

impl Oid {
    fn of(bytes: &'static [u8]) -> Self {
        // Those above are short.
        Self { length: Word::try_from(bytes.len()).unwrap_or(0), elements: bytes.as_ptr().cast() }
    }
}

impl Gss {
    /// Loads it.
    pub(crate) fn load() -> Result<Self, Denied> {
        let library = load("libgssapi_krb5.so.2", "libgssapi-krb5-2")?;
        // SAFETY: libgssapi_krb5.so.2 of MIT has had these since release 1.11, as its headers declare them.
        Ok(Self(unsafe { Functions::find(library)? }))
    }

    /// The credentials of `service` in a keytab, for Kerberos and for Kerberos inside of SPNEGO, and for nothing else.
    pub(crate) fn credentials(self, keytab: &CStr, service: &Upn) -> Result<Credentials, Denied> {
        let name = c_string(service.as_str().as_bytes())?;
        let text = Buffer::of(name.as_bytes());
        let kind = Oid::of(PRINCIPAL_NAME);
        let (mut minor, mut service) = (0, null_mut());
        // SAFETY: the text and the identifier live as long as the call, the places for results are ours.
        let major = unsafe {
            // The library copies the identifier.
            (self.0.import_name)(&raw mut minor, &raw const text, &raw const kind, &raw mut service)
        };
        self.judged(major, minor, "the service's name")?;
        let acquired = self.acquire(keytab, service);
        // SAFETY: made above, and released once.
        unsafe { (self.0.release_name)(&raw mut minor, &raw mut service) };
        acquired
    }

    fn acquire(self, keytab: &CStr, service: Handle) -> Result<Credentials, Denied> {
        let store = [KeyValue { key: c"keytab".as_ptr(), value: keytab.as_ptr() }];
        let store = KeyValues { count: 1, elements: store.as_ptr() };
        let oids = [Oid::of(KERBEROS), Oid::of(SPNEGO)];
        let (both, kerberos) =
            (OidSet { count: 2, elements: oids.as_ptr() }, OidSet { count: 1, elements: oids.as_ptr() });
        let (mut minor, mut handle) = (0, null_mut());
        // SAFETY: all that is pointed to lives as long as the call; two of the results are not asked for.
        let major = unsafe {
            (self.0.acquire)(
                &raw mut minor,
                service,
                INDEFINITE,
                &raw const both,
                ACCEPT,
                &raw const store,
                &raw mut handle,
                null_mut(),
                null_mut(),
            )
        };
        self.judged(major, minor, "the service's keytab")?;
        let credentials = Credentials { library: self, handle };
        // SAFETY: the credentials were made above; the set lives as long as the call.
        let major = unsafe { (self.0.set_neg_mechs)(&raw mut minor, handle, &raw const kerberos) };
        self.judged(major, minor, "Kerberos alone inside of SPNEGO")?;
        Ok(credentials)
    }

    fn judged(self, major: Word, minor: Word, what: &str) -> Result<(), Denied> {
        if major & ERRORS == 0 {
            return Ok(());
        }
        let text = self.status(minor);
        // The routine's error says what it was about where the minor status does not.
        let code = match ((major >> 16) & 0xff, code(i64::from(minor.cast_signed()))) {
            (_, KerberosCode::WrongPassword) => KerberosCode::KeytabKeyMissing,
            (_, known) if known != KerberosCode::Failed => known,
            (7, _) => KerberosCode::KeytabKeyMissing,
            (1 | 6 | 9 | 10, _) => KerberosCode::TokenMalformed,
            (11 | 12, _) => KerberosCode::TokenExpired,
            _ if major & DUPLICATE_TOKEN != 0 => KerberosCode::TokenReplayed,
            _ => code_of_text(&text),
        };
        Err(Denied::new(code, format_args!("{what}: {text} ({major:#x})")))
    }

    fn status(self, status: Word) -> String {
        let (mut minor, mut more) = (0, 0);
        let mut text = Buffer::EMPTY;
        let mechanism = Oid::of(KERBEROS);
        // SAFETY: the places for results are ours; the text is copied before it is released.
        unsafe {
            let major = (self.0.display_status)(
                &raw mut minor,
                status,
                MECHANISM_STATUS,
                &raw const mechanism,
                &raw mut more,
                &raw mut text,
            );
            if major & ERRORS == 0 { self.taken(text, 512) } else { None }
        }
        .map_or_else(|| format!("status {status}"), |text| String::from_utf8_lossy(&text).into_owned())
    }

    /// Copies a buffer that the library made, and releases it; nothing, if it is longer than `limit`.
    ///
    /// # Safety
    /// The library must have filled the buffer.
    unsafe fn taken(self, mut buffer: Buffer, limit: usize) -> Option<Vec<u8>> {
        let mut minor = 0;
        // SAFETY: the caller says that it has so many bytes; they are copied before they are released.
        unsafe {
            let copy = match buffer.length {
                _ if buffer.value.is_null() => Some(Vec::new()),
                length if length > limit => None,
                length => Some(std::slice::from_raw_parts(buffer.value.cast::<u8>(), length).to_vec()),
            };
            (self.0.release_buffer)(&raw mut minor, &raw mut buffer);
            copy
        }
    }
}

/// The reason code of an error inside of SPNEGO. There MIT's library replaces libkrb5's numbers by others of its own, which it
/// hands out as errors come; only the texts are left. None of it is translated here: the helper has no locale.
fn code_of_text(text: &str) -> KerberosCode {
    let texts = [
        ("Request is a replay", KerberosCode::TokenReplayed),
        ("Clock skew too great", KerberosCode::ClockSkew),
        ("Ticket expired", KerberosCode::TokenExpired),
        ("Ticket not yet valid", KerberosCode::TokenExpired),
        ("Cannot decrypt ticket", KerberosCode::KeytabKeyMissing),
        ("Request ticket server", KerberosCode::KeytabKeyMissing),
        ("Decrypt integrity check failed", KerberosCode::KeytabKeyMissing),
        ("Wrong principal in request", KerberosCode::KeytabKeyMissing),
        ("No key table entry found", KerberosCode::KeytabKeyMissing),
        ("Key table file", KerberosCode::KeytabMissing),
    ];
    texts.iter().find(|(known, _)| text.starts_with(known)).map_or(KerberosCode::Failed, |(_, code)| *code)
}

impl Drop for Credentials {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: made by the library, and released once.
        unsafe { (self.library.0.release_cred)(&raw mut minor, &raw mut self.handle) };
    }
}

/// What is there after an exchange, to be released in any case.
struct Exchange {
    library: Gss,
    context: Handle,
    source: Handle,
    reply: Option<Vec<u8>>,
    flags: Word,
}

impl Credentials {
    /// Accepts one token: who made it, and the reply.
    pub(crate) fn accept(&self, token: &[u8], reply_limit: usize) -> Result<(String, Vec<u8>), Denied> {
        let gss = self.library;
        let token = Buffer::of(token);
        let mut exchange = Exchange { library: gss, context: null_mut(), source: null_mut(), reply: None, flags: 0 };
        let mut reply = Buffer::EMPTY;
        let mut minor = 0;
        // SAFETY: the token and the credentials live as long as the call; there are no channel bindings; what the library
        // makes is released below, or by the exchange. Delegated credentials, mechanism and time are not asked for.
        let major = unsafe {
            let major = (gss.0.accept)(
                &raw mut minor,
                &raw mut exchange.context,
                self.handle,
                &raw const token,
                null(),
                &raw mut exchange.source,
                null_mut(),
                &raw mut reply,
                &raw mut exchange.flags,
                null_mut(),
                null_mut(),
            );
            exchange.reply = gss.taken(reply, reply_limit);
            major
        };
        gss.judged(major, minor, "the token")?;
        exchange.finished(major)
    }
}

impl Exchange {
    fn finished(mut self, major: Word) -> Result<(String, Vec<u8>), Denied> {
        let denied = |code, what| Err(Denied::new(code, what));
        if major & CONTINUE_NEEDED != 0 {
            return denied(KerberosCode::TokenIncomplete, "the client wants another exchange");
        }
        if major & DUPLICATE_TOKEN != 0 {
            return denied(KerberosCode::TokenReplayed, "a token that was used");
        }
        if self.flags & ANONYMOUS != 0 || self.source.is_null() {
            return denied(KerberosCode::PrincipalNotAccepted, "an anonymous client");
        }
        let Some(reply) = self.reply.take() else {
            return denied(KerberosCode::Failed, "a reply that is too long");
        };
        let mut minor = 0;
        let mut name = Buffer::EMPTY;
        // SAFETY: the name was made by the library; the text is copied and released.
        let name = unsafe {
            let gss = self.library;
            let major = (gss.0.display_name)(&raw mut minor, self.source, &raw mut name, null_mut());
            gss.judged(major, minor, "the client's name")?;
            gss.taken(name, 1024)
        };
        match name.and_then(|name| String::from_utf8(name).ok()) {
            Some(name) => Ok((name, reply)),
            None => denied(KerberosCode::PrincipalNotAccepted, "a name that is no text"),
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: both are null, or made by the library and released once.
        unsafe {
            if !self.context.is_null() {
                (self.library.0.delete_context)(&raw mut minor, &raw mut self.context, null_mut());
            }
            if !self.source.is_null() {
                (self.library.0.release_name)(&raw mut minor, &raw mut self.source);
            }
        }
    }
}
