//! Certificate authorities, as the rules `ek-chain` and `ak-chain` list them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use latchkey_pem::PemSection;
use ring::digest::{SHA256, digest};
use rustls_pki_types::{CertificateDer, TrustAnchor};
use serde::Deserialize;

use super::RevocationList;
use crate::parse::Digest;
use crate::refusal::{ReasonCode, Refusal};

/// Roots, and intermediates that attesters need not send.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) anchors: Vec<TrustAnchor<'static>>,
    /// SHA-256 of each root's DER, in the order of `anchors`.
    pub(crate) root_digests: Vec<Digest>,
    pub(crate) intermediates: Vec<CertificateDer<'static>>,
    /// Whether every certificate must be on no list of its issuer.
    pub(crate) revocation_list: RevocationList,
}

/// The rule `ek-chain`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EkChainFile {
    roots: Vec<String>,
    #[serde(default)]
    intermediates: Vec<String>,
    #[serde(default, deserialize_with = "super::present")]
    revocation_list: Option<RevocationList>,
}

/// The rule `ak-chain`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AkChainFile {
    roots: Vec<String>,
    #[serde(default)]
    intermediates: Vec<String>,
    #[serde(default, deserialize_with = "super::present")]
    revocation_list: Option<RevocationList>,
    purpose: AkPurpose,
}

/// Authorities that certify attestation keys.
#[derive(Debug, Clone)]
pub(crate) struct AkChain {
    pub(crate) chain: Chain,
    pub(crate) purpose: AkPurpose,
}

/// Whether the certificate of an attestation key must say that it is one (extended key usage tcg-kp-AIKCertificate). Azure's do. Google's
/// say nothing, and those of 2021 that they are an endorsement key's, with a key usage that is not one's: both are taken where nothing is
/// demanded. One that says anything else is refused either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AkPurpose {
    Demanded,
    IfThere,
}

impl TryFrom<EkChainFile> for Chain {
    type Error = Refusal;

    fn try_from(EkChainFile { roots, intermediates, revocation_list }: EkChainFile) -> Result<Self, Refusal> {
        Self::new("ek-chain", &roots, &intermediates, revocation_list)
    }
}

impl TryFrom<AkChainFile> for AkChain {
    type Error = Refusal;

    fn try_from(file: AkChainFile) -> Result<Self, Refusal> {
        let AkChainFile { roots, intermediates, revocation_list, purpose } = file;
        Ok(Self { chain: Chain::new("ak-chain", &roots, &intermediates, revocation_list)?, purpose })
    }
}

impl Chain {
    /// Without a word about lists, those that are there count.
    fn new(
        rule: &str,
        roots: &[String],
        intermediates: &[String],
        lists: Option<RevocationList>,
    ) -> Result<Self, Refusal> {
        if roots.is_empty() {
            return Err(Refusal::new(ReasonCode::PolicyEmpty, format!("`{rule}` lists no root")));
        }
        if intermediates.len() > MAX_INTERMEDIATES {
            let detail = format!("`{rule}` lists {} intermediates, at most {MAX_INTERMEDIATES}", intermediates.len());
            return Err(Refusal::new(ReasonCode::PolicyMalformed, detail));
        }
        let roots = roots.iter().map(|text| certificate(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            anchors: roots.iter().map(anchor).collect::<Result<_, _>>()?,
            root_digests: roots.iter().map(|root| sha256(root)).collect(),
            intermediates: intermediates.iter().map(|text| certificate(text)).collect::<Result<_, _>>()?,
            revocation_list: lists.unwrap_or(RevocationList::IfThere),
        })
    }
}

/// One certificate, as PEM or as base64 of its DER.
fn certificate(text: &str) -> Result<CertificateDer<'static>, Refusal> {
    if !PemSection::is_in(text.as_bytes()) {
        return STANDARD.decode(text).map(CertificateDer::from).map_err(|_| invalid("neither PEM nor base64 DER"));
    }
    let sections = PemSection::all(text.as_bytes()).map_err(|error| invalid(&error.to_string()))?;
    match <[PemSection<'_>; 1]>::try_from(sections) {
        Ok([section]) if section.label == "CERTIFICATE" => Ok(section.der.into()),
        Ok(_) => Err(invalid("PEM of something else than a certificate")),
        Err(_) => Err(invalid("more than one certificate in one entry")),
    }
}

fn anchor(root: &CertificateDer<'_>) -> Result<TrustAnchor<'static>, Refusal> {
    webpki::anchor_from_trusted_cert(root)
        .map(|anchor| anchor.to_owned())
        .map_err(|error| invalid(&format!("not an X.509 certificate: {error}")))
}

fn invalid(detail: &str) -> Refusal {
    Refusal::new(ReasonCode::PolicyRootInvalid, detail)
}

fn sha256(bytes: &[u8]) -> Digest {
    let mut out = Digest::ZERO;
    out.0.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// Each is tried in path building: the bound keeps that cheap.
const MAX_INTERMEDIATES: usize = 64;
