//! Parse: total and bounded. Nothing here is trusted; `verify` and `validate` are where trust comes from.

mod encoding;
mod evidence;
mod json;
mod pcr;
mod snp_report;
mod version;

pub use encoding::{Bytes, Digest, LaunchDigest};
pub use evidence::{AttesterIdentity, TpmChallenge, TpmEvidence};
pub use pcr::{Component, PcrSet, PcrValues};
pub use snp_report::UnverifiedSnpReport;
pub use version::ImageVersion;

pub(crate) use evidence::MAX_CREDENTIAL;
pub(crate) use json::from_json;
pub(crate) use pcr::by_index;
