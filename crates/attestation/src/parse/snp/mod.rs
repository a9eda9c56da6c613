//! What the secure processor of an AMD machine and its host send of an SEV-SNP guest: reports, and tables of certificates.

mod certificate_table;
mod hcl;
mod platform;
mod product;
mod report;
mod tcb;

pub use certificate_table::{CertificateTable, HostCertificates};
pub use hcl::HclReport;
#[cfg(feature = "processors")]
pub(crate) use hcl::attestation_key as hcl_attestation_key;
pub use platform::{GuestPolicy, PlatformInfo};
pub use product::SnpProduct;
pub use report::{SigningKey, SnpReport};
pub use tcb::{Tcb, TcbLayout};
