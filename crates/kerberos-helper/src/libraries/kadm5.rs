//! libkadm5clnt: kadmind's client.
#![expect(unsafe_code, reason = "libkadm5clnt is C; this file is made for its calls")]

use super::keys::{KeyBlock, Keys};
use super::krb5::{Context, Handle, Principal};
use super::load::{functions, load};
use latchkey_kerberos::wire::{Key, MAX_KEYS, MAX_NAMES};
use latchkey_kerberos::{Denied, KerberosCode};
use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::ptr::{null, null_mut};

/// `kadm5_ret_t`.
type Code = c_long;

/// `KADM5_STRUCT_VERSION` and `KADM5_API_VERSION_4`: with the number in the library's name, they stand for the structures below.
const STRUCT_VERSION: u32 = 0x1234_5601;
const API_VERSION: u32 = 0x1234_5704;
/// `KADM5_CONFIG_REALM`.
const CONFIG_REALM: c_long = 1;

/// Bits of a mask of fields (`KADM5_…`).
pub(crate) const PRINCIPAL: c_long = 0x1;
pub(crate) const EXPIRES: c_long = 0x2;
pub(crate) const PASSWORD_EXPIRES: c_long = 0x4;
pub(crate) const ATTRIBUTES: c_long = 0x10;
const NORMAL: c_long = 0x41_ffff;

/// The beginning of `kadm5_config_params`, and room for the rest (176 bytes on 64-bit machines), zeroed: the mask says that
/// nothing but the realm counts.
#[repr(C)]
struct Params {
    mask: c_long,
    realm: *const c_char,
    rest: [u64; 64],
}

/// `kadm5_principal_ent_rec` (kadm5/admin.h, 104 bytes on 64-bit machines), and room behind it.
#[repr(C)]
pub(crate) struct Record {
    principal: Handle,
    /// Seconds since 1970, as 32 bits without sign; 0 is never.
    pub(crate) expires: u32,
    last_password_change: u32,
    pub(crate) password_expires: u32,
    max_life: i32,
    modified_by: Handle,
    modified: u32,
    pub(crate) attributes: i32,
    pub(crate) version: u32,
    master_version: u32,
    policy: *mut c_char,
    aux_attributes: c_long,
    max_renewable_life: i32,
    last_success: u32,
    last_failed: u32,
    failures: u32,
    key_data_count: i16,
    tl_data_count: i16,
    tl_data: *mut c_void,
    key_data: *mut c_void,
    room: [u64; 16],
}

functions! {
    /// As kadm5/admin.h declares them.
    Functions {
        with_password = b"kadm5_init_with_password\0": unsafe extern "C" fn(
            Handle, *const c_char, *const c_char, *const c_char, *const Params, u32, u32, *const c_void, *mut Handle,
        ) -> Code;
        with_keytab = b"kadm5_init_with_skey\0": unsafe extern "C" fn(
            Handle, *const c_char, *const c_char, *const c_char, *const Params, u32, u32, *const c_void, *mut Handle,
        ) -> Code;
        destroy = b"kadm5_destroy\0": unsafe extern "C" fn(Handle) -> Code;
        create = b"kadm5_create_principal\0": unsafe extern "C" fn(
            Handle, *const Record, c_long, *const c_char,
        ) -> Code;
        modify = b"kadm5_modify_principal\0": unsafe extern "C" fn(Handle, *const Record, c_long) -> Code;
        delete = b"kadm5_delete_principal\0": unsafe extern "C" fn(Handle, Handle) -> Code;
        set_password = b"kadm5_chpass_principal\0": unsafe extern "C" fn(Handle, Handle, *const c_char) -> Code;
        new_keys = b"kadm5_randkey_principal_3\0": unsafe extern "C" fn(
            Handle, Handle, c_uint, c_int, *const c_void, *mut *mut KeyBlock, *mut c_int,
        ) -> Code;
        purge_keys = b"kadm5_purgekeys\0": unsafe extern "C" fn(Handle, Handle, c_int) -> Code;
        show = b"kadm5_get_principal\0": unsafe extern "C" fn(Handle, Handle, *mut Record, c_long) -> Code;
        free_record = b"kadm5_free_principal_ent\0": unsafe extern "C" fn(Handle, *mut Record) -> Code;
        list = b"kadm5_get_principals\0": unsafe extern "C" fn(
            Handle, *const c_char, *mut *mut *mut c_char, *mut c_int,
        ) -> Code;
        free_names = b"kadm5_free_name_list\0": unsafe extern "C" fn(Handle, *mut *mut c_char, c_int) -> Code;
    }
}

/// The library.
#[derive(Clone, Copy)]
pub(crate) struct Kadm5(Functions, Keys);

/// How an administrator proves who it is.
pub(crate) enum Proof<'a> {
    /// A password.
    Password(&'a CStr),
    /// A keytab's name.
    Keytab(&'a CStr),
}

impl Kadm5 {
    /// Loads it.
    pub(crate) fn load() -> Result<Self, Denied> {
        let (kadm5, keys) = (load("libkadm5clnt_mit.so.12", "libkadm5clnt-mit12")?, Keys::load()?);
        // SAFETY: the numbers in the names stand for these declarations: kadm5's changes with each change of them.
        Ok(unsafe { Self(Functions::find(kadm5)?, keys) })
    }

    /// A connection to the kadmind of `realm`.
    pub(crate) fn connect(
        self,
        context: Context,
        client: &CStr,
        realm: &CStr,
        proof: &Proof<'_>,
    ) -> Result<Connection, Denied> {
        let params = Params { mask: CONFIG_REALM, realm: realm.as_ptr(), rest: [0; 64] };
        let (open, secret) = match proof {
            Proof::Password(password) => (self.0.with_password, password.as_ptr()),
            Proof::Keytab(name) => (self.0.with_keytab, name.as_ptr()),
        };
        let mut handle = null_mut();
        // SAFETY: the context lives as long as the connection; all texts end with NUL and live as long as the call; the room
        // for the parameters is larger than they are. Without a service's name, the library takes kadmind's.
        let error = unsafe {
            open(
                context.handle,
                client.as_ptr(),
                secret,
                null(),
                &raw const params,
                STRUCT_VERSION,
                API_VERSION,
                null(),
                &raw mut handle,
            )
        };
        if error != 0 {
            return Err(context.denied(error, "kadmind"));
        }
        Ok(Connection { library: self, handle, context })
    }
}

/// A connection to kadmind.
pub(crate) struct Connection {
    library: Kadm5,
    handle: Handle,
    context: Context,
}

// SAFETY: neither handle belongs to a thread; one thread at a time has them here.
unsafe impl Send for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: made by the library, and destroyed once, before its context.
        unsafe { (self.library.0.destroy)(self.handle) };
    }
}

impl Record {
    /// Nothing but zeroes: a mask says which fields count.
    pub(crate) fn empty() -> Self {
        // SAFETY: numbers and pointers may be zero.
        unsafe { std::mem::zeroed() }
    }
}

impl Connection {
    /// For names.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Makes a principal; with a random key, where there is no password.
    pub(crate) fn create(
        &self,
        principal: &Principal<'_>,
        mut record: Record,
        mask: c_long,
        password: Option<&CStr>,
    ) -> Result<(), Denied> {
        record.principal = principal.handle;
        let password = crate::verify::as_ptr(password);
        // SAFETY: the handles live; the mask names fields that are set; without a password kadmind makes a key.
        let error = unsafe { (self.library.0.create)(self.handle, &raw const record, mask | PRINCIPAL, password) };
        self.judged(error, "to create a principal")
    }

    /// Changes the fields that the mask names.
    pub(crate) fn modify(&self, principal: &Principal<'_>, mut record: Record, mask: c_long) -> Result<(), Denied> {
        record.principal = principal.handle;
        // SAFETY: as above.
        let error = unsafe { (self.library.0.modify)(self.handle, &raw const record, mask) };
        self.judged(error, "to change a principal")
    }

    /// Deletes a principal.
    pub(crate) fn delete(&self, principal: &Principal<'_>) -> Result<(), Denied> {
        // SAFETY: the handles live.
        let error = unsafe { (self.library.0.delete)(self.handle, principal.handle) };
        self.judged(error, "to delete a principal")
    }

    /// Sets a password.
    pub(crate) fn set_password(&self, principal: &Principal<'_>, password: &CStr) -> Result<(), Denied> {
        // SAFETY: the handles live, the text ends with NUL.
        let error = unsafe { (self.library.0.set_password)(self.handle, principal.handle, password.as_ptr()) };
        self.judged(error, "to set a password")
    }

    /// Gives random keys; older ones may stay beside them.
    pub(crate) fn new_keys(&self, principal: &Principal<'_>, keep_old: bool) -> Result<Vec<Key>, Denied> {
        let (mut blocks, mut count) = (null_mut(), 0);
        let (functions, places) = (&self.library.0, (&raw mut blocks, &raw mut count));
        // SAFETY: the handles live, the places for results are ours; without kinds, the library takes the KDC's.
        let error = unsafe {
            (functions.new_keys)(self.handle, principal.handle, keep_old.into(), 0, null(), places.0, places.1)
        };
        self.judged(error, "to give new keys")?;
        let count = usize::try_from(count).unwrap_or(0).min(MAX_KEYS);
        if blocks.is_null() {
            return Err(Denied::new(KerberosCode::Failed, "kadmind gave no keys"));
        }
        let mut keys = Vec::with_capacity(count);
        for place in 0..count {
            // SAFETY: the library made so many blocks, each with its bytes, which are taken over here. The array itself, of some
            // bytes, stays: the library has no function to free it.
            keys.push(unsafe { self.library.1.taken(&self.context, blocks.add(place)) });
        }
        // All are taken before one is judged.
        keys.into_iter().collect()
    }

    /// Drops all keys but the newest.
    pub(crate) fn purge_keys(&self, principal: &Principal<'_>) -> Result<(), Denied> {
        // SAFETY: the handles live; no version is that of the newest, as kadmin says it.
        let error = unsafe { (self.library.0.purge_keys)(self.handle, principal.handle, -1) };
        self.judged(error, "to drop old keys")
    }

    /// Version, attributes, expiry of the principal and of its password; kadmind frees the rest.
    pub(crate) fn show(&self, principal: &Principal<'_>) -> Result<(u32, i32, u32, u32), Denied> {
        let mut record = Record::empty();
        // SAFETY: the handles live; the room for the record is larger than it.
        let error = unsafe { (self.library.0.show)(self.handle, principal.handle, &raw mut record, NORMAL) };
        self.judged(error, "to look at a principal")?;
        let shown = (record.version, record.attributes, record.expires, record.password_expires);
        // SAFETY: filled by the library, and freed once.
        unsafe { (self.library.0.free_record)(self.handle, &raw mut record) };
        Ok(shown)
    }

    /// The names that match a pattern.
    pub(crate) fn list(&self, pattern: &CStr) -> Result<Vec<String>, Denied> {
        let (mut names, mut count) = (null_mut(), 0);
        // SAFETY: the handle lives, the text ends with NUL, the places for results are ours.
        let error = unsafe { (self.library.0.list)(self.handle, pattern.as_ptr(), &raw mut names, &raw mut count) };
        self.judged(error, "to list principals")?;
        let length = usize::try_from(count).unwrap_or(0);
        let copied = if length > MAX_NAMES || names.is_null() {
            Vec::new()
        } else {
            // SAFETY: the library made so many texts, each with NUL at its end; they are copied.
            let texts = unsafe { std::slice::from_raw_parts(names, length) };
            // SAFETY: as above.
            texts.iter().map(|text| unsafe { CStr::from_ptr(*text) }.to_string_lossy().into_owned()).collect()
        };
        if !names.is_null() {
            // SAFETY: made by the library, and freed once.
            unsafe { (self.library.0.free_names)(self.handle, names, count) };
        }
        if length > MAX_NAMES {
            return Err(Denied::new(KerberosCode::Failed, "more names than are listed at once"));
        }
        Ok(copied)
    }

    fn judged(&self, error: Code, what: &str) -> Result<(), Denied> {
        if error == 0 { Ok(()) } else { Err(self.context.denied(error, what)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structures_are_those_of_the_headers() {
        // Of release 1.20, told by its headers and a C compiler on a 64-bit machine.
        assert_eq!(offset_of!(Record, room), 104);
        for (field, offset) in [
            (offset_of!(Record, expires), 8),
            (offset_of!(Record, password_expires), 16),
            (offset_of!(Record, attributes), 36),
            (offset_of!(Record, version), 40),
            (offset_of!(Record, policy), 48),
            (offset_of!(Record, aux_attributes), 56),
            (offset_of!(Record, max_renewable_life), 64),
            (offset_of!(Record, failures), 76),
            (offset_of!(Record, key_data_count), 80),
            (offset_of!(Record, tl_data), 88),
        ] {
            assert_eq!(field, offset);
        }
        assert!(size_of::<Params>() >= 176);
    }
}
