//! A TDX quote that was kept: by itself, or in evidence.

use std::path::Path;

use latchkey_attestation::parse::{ProcessorEvidence, TdxEvidence};
use latchkey_attestation::verify::tdx::{TdxCollateral, TdxQuote, VerifiedTdxQuote};
use latchkey_attestation::{RecordedEvidence, Refusal};

use crate::clock::now;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;

/// A quote, read and not verified yet.
pub(crate) struct KeptQuote {
    quote: TdxQuote,
    bytes: Vec<u8>,
}

impl KeptQuote {
    /// Reads a quote's file, or evidence that `latchkey verify --save-evidence` kept.
    pub(crate) fn read(path: &Path) -> Result<Self, CommandError> {
        let file = files::read(path, RecordedEvidence::MAX_JSON)?;
        let what = || format!("{} cannot be used", path.display());
        let refused = |refusal: Refusal| CommandError::refused(Exit::Usage, what(), &refusal);
        // A quote begins with its version.
        let bytes = if file.starts_with(b"{") {
            let recording = RecordedEvidence::from_json(&file).map_err(refused)?;
            let tdx = recording.unverified_processor().and_then(ProcessorEvidence::tdx);
            let tdx = tdx.map(TdxEvidence::quote).ok_or_else(|| {
                let failure = CommandError::usage(what()).because("the evidence has no quote of TDX");
                failure.fix("keep evidence of a guest, under a policy with the section `tdx`")
            })?;
            tdx.to_vec()
        } else {
            file
        };
        Ok(Self { quote: TdxQuote::parse(&bytes).map_err(refused)?, bytes })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// That hardware of Intel's signed it, whatever for: this is no session.
    pub(crate) fn verify(&self, collateral: &TdxCollateral) -> Result<VerifiedTdxQuote, Refusal> {
        collateral.verify(&self.bytes, &self.quote.report_data(), now())
    }
}
