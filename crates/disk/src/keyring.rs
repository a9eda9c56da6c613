//! The kernel's keyring: hands the volume key to dm-crypt without its ever being in a table, an argument or a file.
#![expect(unsafe_code, reason = "add_key(2) and keyctl(2) have no safe wrapper")]

use crate::luks2::VolumeKey;
use core::fmt;
use latchkey_keys::Uuid;
use std::ffi::{CStr, CString};
use std::io;

/// keyrings(7): "logon": "the payload is readable by the kernel only" – user space can never read it back.
const TYPE: &CStr = c"logon";

/// keyrings(7): the keyring of this thread; made on first use, gone with the thread, searched first by `request_key`.
const KEY_SPEC_THREAD_KEYRING: libc::c_long = -1;

/// keyctl(2), `linux/keyctl.h`: "mark a key as invalid; ... is removed from all keyrings".
const KEYCTL_INVALIDATE: libc::c_long = 21;

/// keyctl(2): for kernels or keys that cannot invalidate; uses of the key fail from now on.
const KEYCTL_REVOKE: libc::c_long = 3;

/// What dm-crypt looks the key up by. Logon keys need a "service:" prefix (keyrings(7)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDescription(CString);

impl KeyDescription {
    /// `latchkey:<uuid>`.
    pub fn for_disk(uuid: Uuid) -> Self {
        let text = format!("latchkey:{uuid}").into_bytes();
        Self(CString::new(text).unwrap_or_default())
    }
}

impl fmt::Display for KeyDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string_lossy())
    }
}

/// A volume key in this thread's keyring. Gone when dropped.
#[derive(Debug)]
pub struct LoadedKey {
    serial: libc::c_long,
}

impl LoadedKey {
    /// Puts `key` into the keyring of the calling thread, which must also be the one to load the table.
    ///
    /// # Errors
    /// What the kernel says; `ENOSYS` without `CONFIG_KEYS`.
    pub fn add(description: &KeyDescription, key: &VolumeKey) -> io::Result<Self> {
        let payload = key.expose();
        // SAFETY: both strings end with NUL and live through the call; the payload pointer is valid for the length
        // given, and the kernel copies it.
        let serial = unsafe {
            libc::syscall(
                libc::SYS_add_key,
                TYPE.as_ptr(),
                description.0.as_ptr(),
                payload.as_ptr(),
                payload.len(),
                KEY_SPEC_THREAD_KEYRING,
            )
        };
        if serial > 0 { Ok(Self { serial }) } else { Err(io::Error::last_os_error()) }
    }

    /// Removes the key now and says whether that worked; dropping removes it too, silently.
    ///
    /// # Errors
    /// What the kernel says when it can neither invalidate nor revoke the key.
    pub fn remove(self) -> io::Result<()> {
        let result = invalidate(self.serial);
        core::mem::forget(self);
        result
    }
}

impl Drop for LoadedKey {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and the thread's keyring dies with the thread.
        let _ = invalidate(self.serial);
    }
}

fn invalidate(serial: libc::c_long) -> io::Result<()> {
    keyctl(KEYCTL_INVALIDATE, serial).or_else(|_| keyctl(KEYCTL_REVOKE, serial))
}

fn keyctl(operation: libc::c_long, serial: libc::c_long) -> io::Result<()> {
    // SAFETY: both operations take a serial number and no pointer.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, operation, serial) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_names_service_and_disk() {
        let uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6".parse().unwrap();
        assert_eq!(KeyDescription::for_disk(uuid).to_string(), "latchkey:f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
    }
}
