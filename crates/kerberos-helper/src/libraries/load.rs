//! Loading a library.
#![expect(unsafe_code, reason = "what a library runs when it is loaded is its own affair")]

use latchkey_kerberos::{Denied, KerberosCode};
use libloading::Library;

/// Loads a library, for as long as this process runs.
pub(super) fn load(name: &str, package: &str) -> Result<&'static Library, Denied> {
    // SAFETY: the name is one of four that MIT gives its libraries; what these run when they are loaded needs nothing before.
    let library = unsafe { Library::new(name) };
    let missing =
        |error| Denied::new(KerberosCode::LibraryMissing, format_args!("package {package} brings {name}: {error}"));
    Ok(Box::leak(Box::new(library.map_err(missing)?)))
}

/// A table of functions of a library: each with its name there, and its type.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($name:ident = $symbol:literal: $type:ty;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $table { $($name: $type,)+ }

        impl $table {
            /// # Safety
            /// The library must have these functions, with these types.
            unsafe fn find(library: &'static libloading::Library) -> Result<Self, latchkey_kerberos::Denied> {
                let missing = |error| {
                    latchkey_kerberos::Denied::new(latchkey_kerberos::KerberosCode::LibraryMissing, error)
                };
                Ok(Self {
                    // SAFETY: the caller says so.
                    $($name: *unsafe { library.get::<$type>($symbol) }.map_err(missing)?,)+
                })
            }
        }
    };
}
pub(super) use functions;
