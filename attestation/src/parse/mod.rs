//! Parse: total and bounded. Nothing here is trusted; `verify` and `validate` are where trust comes from.

mod encoding;
mod evidence;
mod json;
mod pcr;
mod processor;
mod rtmr;
mod snp;
mod version;

pub use encoding::{Bytes, Digest, LaunchDigest};
pub use evidence::{AttesterIdentity, TpmChallenge, TpmEvidence};
pub use pcr::{Component, PcrSet, PcrValues};
pub use processor::{AzureHclEvidence, ProcessorEvidence, ProcessorKind, SnpEvidence, SvsmEvidence, TdxEvidence};
pub use rtmr::Rtmr;
pub use snp::{
    CertificateTable, GuestPolicy, HclReport, HostCertificates, PlatformInfo, SigningKey, SnpProduct, SnpReport, Tcb,
    TcbLayout,
};
pub use version::ImageVersion;

pub(crate) use evidence::MAX_CREDENTIAL;
pub(crate) use json::from_json;
pub(crate) use pcr::by_index;
pub(crate) use rtmr::by_rtmr;
#[cfg(feature = "processors")]
pub(crate) use snp::hcl_attestation_key;
