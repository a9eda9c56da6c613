//! Which Kubernetes a node carries.
//!
//! A user says a minor version ([`Minor`], such as `1.34`). One [`Table`] maps it to one exact [`Release`], and that to every
//! component (address, SHA-256, size limit, where it goes on a node) and to container images. The built-in table is
//! `versions.json`; another of the same schema may be read from a file, for builds and mirrors of one's own.
//!
//! With the feature `fetch`, [`fetch`] gets components from a folder, a mirror or their official addresses, always against
//! the table's hash, and takes files out of archives.

mod code;
mod component;
#[cfg(feature = "fetch")]
pub mod fetch;
mod hash;
mod image;
mod list;
mod minor;
mod name;
mod role;
mod table;

pub use code::KubernetesCode;
pub use component::{Component, Download, Install, InstallPath, Member};
pub use hash::Sha256;
pub use image::{Archive, Image, Reference};
pub use list::{ComponentList, ListError};
pub use minor::{Minor, MinorRefusal, Patch};
pub use role::{Role, Roles};
pub use table::{Release, Table, TableError};

/// Every reason code of this crate.
#[cfg(feature = "fetch")]
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_reason::reasons::<KubernetesCode>().chain(latchkey_reason::reasons::<fetch::FetchCode>())
}
