//! Keys: as the libraries hand them over, and of passwords.
#![expect(unsafe_code, reason = "libkrb5 and libk5crypto are C; this file is made for their calls")]

use super::krb5::{Context, Handle, Principal};
use super::load::{functions, load};
use latchkey_kerberos::wire::Key;
use latchkey_kerberos::{Denied, KerberosCode};
use std::ffi::c_char;
use std::ptr::null_mut;
use zeroize::Zeroizing;

/// `krb5_error_code`.
type Code = i32;

/// The kinds of AES, strongest first: aes256-sha2, aes128-sha2 (RFC 8009), aes256-sha1, aes128-sha1 (RFC 3962).
const KINDS: [i32; 4] = [20, 19, 18, 17];

/// `krb5_keyblock` (krb5.h).
#[repr(C)]
pub(super) struct KeyBlock {
    magic: i32,
    kind: i32,
    length: u32,
    bytes: *mut u8,
}

/// `krb5_data` (krb5.h).
#[repr(C)]
struct Data {
    magic: i32,
    length: u32,
    bytes: *mut c_char,
}

functions! {
    /// Of libkrb5, as krb5.h declares them.
    Functions {
        salt = b"krb5_principal2salt\0": unsafe extern "C" fn(Handle, Handle, *mut Data) -> Code;
        free_data = b"krb5_free_data_contents\0": unsafe extern "C" fn(Handle, *mut Data);
        free_contents = b"krb5_free_keyblock_contents\0": unsafe extern "C" fn(Handle, *mut KeyBlock);
    }
}

functions! {
    /// Of libk5crypto, as krb5.h declares them.
    Crypto {
        derive = b"krb5_c_string_to_key\0": unsafe extern "C" fn(
            Handle, i32, *const Data, *const Data, *mut KeyBlock,
        ) -> Code;
    }
}

/// Takes keys over from the library.
#[derive(Clone, Copy)]
pub(crate) struct Keys(Functions);

impl Keys {
    /// Loads it.
    pub(crate) fn load() -> Result<Self, Denied> {
        let krb5 = load("libkrb5.so.3", "libkrb5-3")?;
        // SAFETY: libkrb5.so.3 of MIT has had these since release 1.11, as krb5.h declares them.
        Ok(Self(unsafe { Functions::find(krb5)? }))
    }

    /// Copies a key, and has the library wipe and free its own.
    ///
    /// # Safety
    /// The library filled the block, with this context or one that it made of it, and nobody frees its contents.
    pub(super) unsafe fn taken(self, context: &Context, block: *mut KeyBlock) -> Result<Key, Denied> {
        // SAFETY: the caller says that the block and its bytes are the library's.
        let (kind, bytes) = unsafe {
            let length = usize::try_from((*block).length).unwrap_or(0);
            let bytes = if (*block).bytes.is_null() { &[] } else { std::slice::from_raw_parts((*block).bytes, length) };
            let copy = ((*block).kind, Zeroizing::new(bytes.to_vec()));
            (self.0.free_contents)(context.handle, block);
            copy
        };
        let kind = u16::try_from(kind).map_err(|_| Denied::new(KerberosCode::Failed, "a key of no type"))?;
        Ok(Key { kind, bytes })
    }

    /// The keys that a password stands for, of each kind of AES.
    pub(crate) fn of_password(
        self,
        context: &Context,
        principal: &Principal<'_>,
        password: &[u8],
    ) -> Result<Vec<Key>, Denied> {
        let library = load("libk5crypto.so.3", "libk5crypto3")?;
        // SAFETY: libk5crypto.so.3 of MIT has had it since release 1.11, as krb5.h declares it.
        let crypto = unsafe { Crypto::find(library)? };
        let salt = Salt::of(self, context, principal)?;
        let length = u32::try_from(password.len()).unwrap_or(0);
        // The library only reads it.
        let text = Data { magic: 0, length, bytes: password.as_ptr().cast_mut().cast() };
        let derived = KINDS.map(|kind| {
            let mut block = KeyBlock { magic: 0, kind: 0, length: 0, bytes: null_mut() };
            // SAFETY: the context and both texts live; the place for the key is ours.
            let error =
                unsafe { (crypto.derive)(context.handle, kind, &raw const text, &raw const salt.data, &raw mut block) };
            if error != 0 {
                return Err(context.denied(error.into(), "a key of a password"));
            }
            // SAFETY: the library filled it above.
            unsafe { self.taken(context, &raw mut block) }
        });
        derived.into_iter().collect()
    }
}

/// What the KDC mixes into a principal's password.
struct Salt<'a> {
    keys: Keys,
    context: &'a Context,
    data: Data,
}

impl<'a> Salt<'a> {
    fn of(keys: Keys, context: &'a Context, principal: &Principal<'_>) -> Result<Self, Denied> {
        let mut data = Data { magic: 0, length: 0, bytes: null_mut() };
        // SAFETY: the context and the name live; the place for the salt is ours.
        let error = unsafe { (keys.0.salt)(context.handle, principal.handle, &raw mut data) };
        if error != 0 {
            return Err(context.denied(error.into(), "the salt of a principal"));
        }
        Ok(Self { keys, context, data })
    }
}

impl Drop for Salt<'_> {
    fn drop(&mut self) {
        // SAFETY: filled by the library with this context, and freed once.
        unsafe { (self.keys.0.free_data)(self.context.handle, &raw mut self.data) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structures_are_those_of_the_headers() {
        // Of release 1.20, told by its headers and a C compiler on a 64-bit machine.
        assert_eq!((size_of::<KeyBlock>(), size_of::<Data>()), (24, 16));
        assert_eq!((offset_of!(KeyBlock, kind), offset_of!(KeyBlock, length), offset_of!(KeyBlock, bytes)), (4, 8, 16));
        assert_eq!((offset_of!(Data, length), offset_of!(Data, bytes)), (4, 8));
    }
}
