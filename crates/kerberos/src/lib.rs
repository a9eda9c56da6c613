//! Kerberos for the centre's services and an edge's operator of keys: passwords, Negotiate tokens, and principals.
//!
//! 1. [`Kerberos`]: verifies a password against the KDC, and the KDC against the service's keytab; accepts Negotiate tokens.
//!    Both give a [`Verified`], which nothing else makes.
//! 2. [`Admin`]: makes, changes and removes principals, through kadmind.
//! 3. [`Holder`]: tries keys at the KDC, and makes keys of passwords.
//! 4. [`keytab`] and [`acl`]: the files that MIT's programs read.
//!
//! MIT's libraries are C, block, and hold global state. They run in helper processes (`latchkey-kerberos-helper`), which speak
//! [`wire`] over their standard input and output: each call has a deadline, several go on at once, a helper that hangs is
//! killed, and one that dies is started again. Secrets travel over these pipes and nowhere else.
//!
//! All futures run on smol's own threads and need no executor of a kind.

#![forbid(unsafe_code)]

pub mod acl;
mod admin;
mod code;
mod denied;
mod holder;
pub mod keytab;
mod pool;
mod verifier;
pub mod wire;

pub use admin::{Admin, AdminSettings};
pub use code::KerberosCode;
pub use denied::Denied;
pub use holder::{Holder, HolderSettings};
pub use verifier::{Kerberos, Settings, Verified};
pub use wire::{AdminKey, Shown};

/// A password, or another text that nobody else may see. At most 1 KiB, and without NUL.
pub type Secret = zeroize::Zeroizing<Vec<u8>>;
