//! Parse: total and bounded. Nothing here is trusted; `verify` and `validate` are where trust comes from.

mod each_once;
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

pub(crate) use each_once::each_once;
pub(crate) use evidence::MAX_CREDENTIAL;
pub(crate) use json::from_json;
pub(crate) use pcr::by_index;
#[cfg(feature = "processors")]
pub(crate) use snp::hcl_attestation_key;
