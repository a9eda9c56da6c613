//! TDX: who signed a quote, and is it Intel's word.
//!
//! ```text
//! TdxCollateral::verify(quote, report data, now)
//!     what of the folder belongs to it ─ nothing ended, nothing revoked ─ chains to Intel's root, quoting enclave, signatures,
//!         TCB status (crate dcap-qvl) ─ report data ─→ VerifiedTdxQuote
//! ```
//!
//! Quotes and chains are the library's to verify; which files belong to a quote, their dates and their words are ours. Formats: Intel, "TDX
//! DCAP Quoting Library API"; "Provisioning Certification Service, API version 4".

mod authority;
mod collateral;
mod inventory;
mod item;
pub(crate) mod quote;

use std::collections::BTreeSet;

use dcap_qvl::verify::QuoteVerifier;
use dcap_qvl::{Policy as LibraryPolicy, QuoteClaims, TcbStatus};
use subtle::ConstantTimeEq as _;

use crate::parse::{LaunchDigest, Rtmr};
use crate::policy::TdxTcbStatus;
use crate::refusal::{ReasonCode, Refusal};

pub use authority::PckAuthority;
pub use collateral::TdxCollateral;
pub use inventory::{TdxInventory, TdxItem, TdxKind, TdxOf};
pub use quote::TdxQuote;

/// The witness that a quoting enclave of Intel's signed this quote over these report data. Whether what it says is good is for a policy
/// to decide.
#[derive(Debug, Clone)]
#[must_use = "a true quote may still be that of an impostor"]
pub struct VerifiedTdxQuote {
    quote: TdxQuote,
    status: TdxTcbStatus,
    /// That, and those of what it was made from.
    statuses: BTreeSet<TdxTcbStatus>,
    advisories: BTreeSet<String>,
    /// `tcbEvaluationDataNumber` of the older one of TCB info and identity of the quoting enclave.
    evaluation: u32,
    tcb_date: u64,
    ppid: Vec<u8>,
    collateral_ends: u64,
}

impl VerifiedTdxQuote {
    /// The quote.
    pub fn quote(&self) -> &TdxQuote {
        &self.quote
    }

    /// How up to date Intel calls the platform, its TDX module and its quoting enclave together.
    pub fn tcb_status(&self) -> TdxTcbStatus {
        self.status
    }

    /// The same, and what else than `UpToDate` Intel says of the TCB of today, where the report has it beside that of the launch, and of
    /// the quoting enclave alone: the one word passes over some of theirs. A policy must take all of them.
    pub fn tcb_statuses(&self) -> &BTreeSet<TdxTcbStatus> {
        &self.statuses
    }

    /// Intel's advisories that are open for any of it, by name.
    pub fn advisories(&self) -> &BTreeSet<String> {
        &self.advisories
    }

    /// The number of Intel's evaluation that the status is by: larger ones are newer.
    pub fn tcb_evaluation(&self) -> u32 {
        self.evaluation
    }

    /// The day of the TCB level that the platform reaches (`tcbDate`), in seconds since the Unix epoch.
    pub fn tcb_date(&self) -> u64 {
        self.tcb_date
    }

    /// Which processor: Intel's number of its package (PPID), 16 bytes.
    pub fn ppid(&self) -> &[u8] {
        &self.ppid
    }

    /// When the first part of the collateral that vouches for it ends, in seconds since the Unix epoch.
    pub fn collateral_ends(&self) -> u64 {
        self.collateral_ends
    }

    pub(crate) fn rtmr(&self, register: Rtmr) -> LaunchDigest {
        self.quote.rtmrs()[register as usize]
    }
}

impl TdxCollateral {
    /// Checks a quote at `now` (seconds since the Unix epoch): that a quoting enclave of Intel's signed it, and signed `report_data`.
    ///
    /// # Errors
    /// `tdx-quote-…`, `tdx-collateral-…`, `tdx-certificate-…`, `tdx-tcb-revoked`, `tdx-tcb-too-old`, `tdx-module-unknown`,
    /// `tdx-report-data-mismatch`.
    pub fn verify(&self, bytes: &[u8], report_data: &[u8; 64], now: u64) -> Result<VerifiedTdxQuote, Refusal> {
        let quote = TdxQuote::parse(bytes)?;
        quote.check_attributes()?;
        let parts = self.parts_for(&quote, now)?;
        quote.check_validity(now)?;
        let verifier = QuoteVerifier::new(parts.root).allow_service_td(true);
        let claims =
            verifier.verify_with_policy(bytes, parts.library, now, &Everything).map_err(|error| untrusted(&error))?;
        // Public values: nothing but equality shows in the time taken.
        if !bool::from(quote.report_data().ct_eq(report_data)) {
            let detail = format!("got {}, expected {}", hex::encode(quote.report_data()), hex::encode(report_data));
            return Err(Refusal::new(ReasonCode::TdxReportDataMismatch, detail));
        }
        let (now, enclave) = (claims.platform.current_tcb_level, claims.qe.tcb_level);
        let mut statuses = BTreeSet::from([status(enclave.tcb_status)?]);
        let mut advisories: BTreeSet<_> = claims.tcb.advisory_ids.into_iter().chain(enclave.advisory_ids).collect();
        if let Some(now) = now {
            statuses.insert(status(now.tcb_status)?);
            advisories.extend(now.advisory_ids);
        }
        // What a part is good for says nothing against the whole.
        statuses.remove(&TdxTcbStatus::UpToDate);
        statuses.insert(status(claims.tcb.status)?);
        Ok(VerifiedTdxQuote {
            quote,
            status: status(claims.tcb.status)?,
            statuses,
            advisories,
            evaluation: claims.tcb.eval_data_number,
            tcb_date: claims.platform.tcb_date_tag,
            ppid: claims.platform.pck.ppid,
            collateral_ends: claims.earliest_expiration_date,
        })
    }
}

/// The library verifies; what its claims are worth, [`TdxPolicy`](crate::policy::TdxPolicy) says.
struct Everything;

impl LibraryPolicy for Everything {
    // The library's type of error, by its alias in the trait.
    fn validate(&self, _: &QuoteClaims) -> anyhow::Result<()> {
        Ok(())
    }
}

/// The library gives words alone: what they are about has a code and words of ours, and tests hold on to theirs. Of a revoked TCB it makes an
/// error, whatever a policy says.
fn untrusted(error: &anyhow::Error) -> Refusal {
    let theirs = format!("{error:#}");
    let (_, code, ours) = REFUSED.into_iter().find(|(phrase, _, _)| theirs.contains(phrase)).unwrap_or((
        "",
        ReasonCode::TdxQuoteUntrusted,
        "it does not lead to Intel",
    ));
    match code {
        ReasonCode::TdxQuoteUntrusted => Refusal::new(code, format!("{ours} ({theirs})")),
        _ => Refusal::new(code, ours),
    }
}

/// What the library says, and what that is.
const REFUSED: [(&str, ReasonCode, &str); 9] = [
    ("TCB status is invalid: Revoked", ReasonCode::TdxTcbRevoked, "Intel revoked what the platform runs"),
    (
        "No matching TCB level found",
        ReasonCode::TdxTcbTooOld,
        "its processor or TDX module is below every level listed",
    ),
    ("from TDX module TCB levels", ReasonCode::TdxTcbTooOld, "its TDX module is below every level listed"),
    ("from QE Identity", ReasonCode::TdxTcbTooOld, "its quoting enclave is below every level listed"),
    (
        "TDX module identity check",
        ReasonCode::TdxModuleUnknown,
        "MRSIGNERSEAM or SEAMATTRIBUTES are not those of Intel's TCB information",
    ),
    ("QE report hash mismatch", ReasonCode::TdxQuoteUntrusted, "the quoting enclave vouches for another key"),
    ("QE ", ReasonCode::TdxQuoteUntrusted, "the quoting enclave is not the one that Intel names"),
    ("ignature is invalid", ReasonCode::TdxQuoteUntrusted, "a signature is not by the key that has to make it"),
    ("ertificate chain", ReasonCode::TdxQuoteUntrusted, "a chain of certificates does not lead to Intel's root"),
];

fn status(status: TcbStatus) -> Result<TdxTcbStatus, Refusal> {
    Ok(match status {
        TcbStatus::UpToDate => TdxTcbStatus::UpToDate,
        TcbStatus::SWHardeningNeeded => TdxTcbStatus::SWHardeningNeeded,
        TcbStatus::ConfigurationNeeded => TdxTcbStatus::ConfigurationNeeded,
        TcbStatus::ConfigurationAndSWHardeningNeeded => TdxTcbStatus::ConfigurationAndSWHardeningNeeded,
        TcbStatus::OutOfDate => TdxTcbStatus::OutOfDate,
        TcbStatus::OutOfDateConfigurationNeeded => TdxTcbStatus::OutOfDateConfigurationNeeded,
        TcbStatus::TDRelaunchAdvised => TdxTcbStatus::TDRelaunchAdvised,
        TcbStatus::TDRelaunchAdvisedConfigurationNeeded => TdxTcbStatus::TDRelaunchAdvisedConfigurationNeeded,
        TcbStatus::Revoked => {
            return Err(Refusal::new(ReasonCode::TdxTcbRevoked, "Intel revoked what the platform runs"));
        }
    })
}
