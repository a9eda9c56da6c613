//! The quote: what the TPM says its PCRs were, for this session and no other.

use latchkey_tpm::wire::{
    Attest, ClockInfo, ENDORSEMENT_HIERARCHY, HashAlg, KeyScheme, Public, Signature, WireError, pcr_digest,
};
use subtle::ConstantTimeEq;

use crate::parse::{Digest, PcrSet, PcrValues};
use crate::refusal::{ReasonCode, Refusal};

/// What a checked quote says beside the PCR values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuoteFacts {
    pub(crate) clock: ClockInfo,
    pub(crate) firmware_version: u64,
}

/// Checks that `quote` was made by a TPM, signed by `ak` of the endorsement hierarchy that `ek` is of, for `binding`, over exactly
/// `selection` with exactly `pcrs`.
pub(crate) fn check_quote(
    ek: &Public,
    ak: &Public,
    quote: &[u8],
    signature: &[u8],
    pcrs: &PcrValues,
    selection: PcrSet,
    binding: &[u8; 32],
) -> Result<QuoteFacts, Refusal> {
    let attest = Attest::parse(quote).map_err(|error| unreadable(&error))?;
    check_signature(ak, quote, signature)?;
    check_hierarchy(ek, ak, &attest)?;
    check_binding(&attest, binding)?;
    check_pcrs(&attest, pcrs, selection)?;
    Ok(QuoteFacts { clock: attest.clock, firmware_version: attest.firmware_version })
}

fn unreadable(error: &WireError) -> Refusal {
    let code = match error {
        WireError::NotGenerated(_) => ReasonCode::QuoteNotTpmGenerated,
        WireError::NotAQuote(_) => ReasonCode::QuoteWrongType,
        WireError::Selection(_) => ReasonCode::QuoteBankRefused,
        _ => ReasonCode::QuoteMalformed,
    };
    Refusal::new(code, error.to_string())
}

fn check_signature(ak: &Public, quote: &[u8], signature: &[u8]) -> Result<(), Refusal> {
    let malformed = |error: WireError| Refusal::new(ReasonCode::SignatureMalformed, error.to_string());
    let signature = Signature::parse(signature).map_err(malformed)?;
    let bound = match &signature {
        Signature::Ecdsa { hash, .. } => KeyScheme::Ecdsa(*hash),
        Signature::RsaSsa { hash, .. } => KeyScheme::RsaSsa(*hash),
    };
    if bound != ak.scheme {
        let detail = format!("expected {:?}, got {bound:?}", ak.scheme);
        return Err(Refusal::new(ReasonCode::SignatureAlgorithm, detail));
    }
    ak.verify(quote, &signature).map_err(|error| Refusal::new(ReasonCode::SignatureInvalid, error.to_string()))
}

/// A key of the owner's or the null hierarchy signs the counters and the firmware version with a secret number added (part 1,
/// section "Attestation data"), which differs from hierarchy to hierarchy: they would say nothing about this machine's boots.
/// Activation does not ask for the hierarchy, so the qualified name must: a primary of the endorsement hierarchy, or a child of
/// the EK.
fn check_hierarchy(ek: &Public, ak: &Public, attest: &Attest) -> Result<(), Refusal> {
    let primary = ak.qualified_name(&ENDORSEMENT_HIERARCHY);
    let child = ak.qualified_name(&ek.qualified_name(&ENDORSEMENT_HIERARCHY));
    if [primary, child].contains(&attest.qualified_signer) {
        return Ok(());
    }
    let detail = "the qualified name of the signing key is neither of a primary nor of a child of the endorsement key";
    Err(Refusal::new(ReasonCode::QuoteHierarchyRefused, detail))
}

fn check_binding(attest: &Attest, binding: &[u8; 32]) -> Result<(), Refusal> {
    if bool::from(attest.extra_data.as_slice().ct_eq(binding)) {
        return Ok(());
    }
    let detail = match attest.extra_data.len() {
        32 => "the quote is for another session".to_owned(),
        length => format!("expected 32 bytes of qualifying data, got {length}"),
    };
    Err(Refusal::new(ReasonCode::QuoteBindingMismatch, detail))
}

fn check_pcrs(attest: &Attest, pcrs: &PcrValues, selection: PcrSet) -> Result<(), Refusal> {
    if selection.selection() != Some(attest.selection) {
        let got = PcrSet::from(attest.selection);
        let detail = format!("expected PCRs {selection}, got {got}");
        return Err(Refusal::new(ReasonCode::QuoteSelectionMismatch, detail));
    }
    // Part 3, section 18.4: the digest is made with the hash of the signing scheme; only SHA-256 schemes come here.
    let digest = pcr_digest(HashAlg::Sha256, attest.selection, pcrs.as_map()).map_err(|_| {
        let detail = format!("expected values of PCRs {selection}, got {}", pcrs.set());
        Refusal::new(ReasonCode::PcrValuesMismatch, detail)
    })?;
    if digest == attest.pcr_digest {
        return Ok(());
    }
    let hex = |bytes: &[u8]| {
        <[u8; 32]>::try_from(bytes).map_or_else(|_| "no SHA-256 digest".to_owned(), |b| Digest(b).to_string())
    };
    let detail = format!("quoted {}, the values hash to {}", hex(&attest.pcr_digest), hex(&digest));
    Err(Refusal::new(ReasonCode::PcrDigestMismatch, detail))
}
