//! Evidence: parse, verify, validate.
//!
//! Three modules by duty, in the order in which a verifier uses them:
//!
//! 1. [`parse`]: total and bounded. What comes out is well-formed and nothing more.
//! 2. [`verify`]: signatures and keys. [`Appraisal::begin`] checks who the attester claims to be and makes a credential
//!    for its TPM; [`Pending::confirm`] takes the opened credential and gives a [`TrustedAk`];
//!    [`TrustedAk::verify`] takes the quote and gives [`VerifiedEvidence`].
//! 3. [`validate`]: policy. [`Policy::validate`] compares verified evidence with [`References`] and gives an
//!    [`Admission`].
//!
//! Each step consumes the last one's witness, and only that step can make its own: an [`Admission`] cannot exist without
//! an activated credential, a quote over this session and one matching image. A wrong answer drops what was pending.
//!
//! The crate does no I/O, starts nothing and reads no clock: `now` (seconds since the Unix epoch) and randomness are
//! arguments. Every refusal is a [`Refusal`] with a stable [`ReasonCode`].

#![forbid(unsafe_code)]

mod codes;
mod ek;
#[cfg(feature = "processors")]
mod ends;
#[cfg(feature = "fake-processors")]
pub mod fake_amd;
#[cfg(feature = "fake-processors")]
mod fake_der;
#[cfg(feature = "fake-processors")]
pub mod fake_hcl;
#[cfg(feature = "fake-processors")]
pub mod fake_intel;
#[cfg(feature = "fake-tpm")]
pub mod fake_tpm;
pub mod firmware;
pub mod machine;
mod name;
pub mod parse;
pub mod policy;
pub mod record;
pub mod reference;
pub mod refusal;
mod report_data;
mod signature;
mod spki;
pub mod validate;
pub mod verify;

pub use codes::reason_codes;
#[cfg(feature = "processors")]
pub use ends::End;
pub use firmware::MeasuredFirmware;
pub use machine::{EkPrefix, EkQr, EkWords, KnownMachine};
pub use parse::{AttesterIdentity, Component, Digest, ImageVersion, PcrSet, PcrValues, TpmChallenge, TpmEvidence};
pub use policy::{FirmwareChange, Policy};
pub use record::{OfflineFinding, RecordedEvidence, Unproven};
pub use reference::{AuthenticManifest, ManifestFile, ReferenceValues, References, SignerKey};
pub use refusal::{Blame, CoarseReason, Difference, ReasonCode, Refusal};
pub use report_data::{report_data, svsm_report_data};
pub use validate::{Admission, FirmwareStanding, LockExpectation};
pub use verify::{Appraisal, EkDigest, EkTrust, KnownBy, Pending, TrustedAk, VerifiedEvidence};
