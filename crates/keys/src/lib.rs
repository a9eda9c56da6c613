//! Typed, versioned key derivation; secrets that wipe themselves.
//!
//! The way of a key through this crate, in code order:
//!
//! 1. [`MasterSecret`] is loaded from a file whose owner and permissions were checked on the open descriptor.
//! 2. A [`KeyId`] says what the key is for. It is a closed enum: there is no way to ask for "some string".
//! 3. [`MasterSecret::derive`] demands a [`KeyRelease`], a witness that somebody answers for this key leaving, and expands (id,
//!    version, length) through HKDF-SHA256 with a length-prefixed label.
//! 4. [`ClusterId`] is derived from the measurement secret and salt; it is public, and the node lock is made of it.
//!
//! Secrets live in [`Secret`] and [`SecretVec`]: on the heap, wiped on drop, without `Clone` and without a `Debug`
//! that shows them.

mod acl;
mod cluster;
mod derive;
mod error;
mod file;
mod id;
mod label;
mod master;
mod release;
mod secret;
mod uuid;

pub use cluster::ClusterId;
pub use derive::{DerivedKey, KeyLength};
pub use error::{FileError, IdError, KeyCode, KeyError, SecretFileError, reason_codes};
pub use file::{read_private_file, write_private_file};
pub use id::{KeyClass, KeyId};
pub use master::{KeyVersion, MasterSecret};
pub use release::KeyRelease;
pub use secret::{Secret, SecretVec};
pub use uuid::Uuid;
