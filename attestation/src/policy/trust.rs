//! How a policy trusts TPMs: rule by rule, in the policy's order.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::anchors::{AkChain, AkChainFile, Chain, EkChainFile};
use super::{distinct, empty, malformed};
use crate::ek::EkDigest;
use crate::refusal::Refusal;

/// What a rule of trust lists, and how many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustedBy {
    /// Endorsement keys, by their digests.
    PinnedEks(usize),
    /// Authorities that certify endorsement keys.
    Authorities(usize),
    /// Authorities that certify attestation keys.
    AkAuthorities(usize),
}

/// One way to trust a TPM. Rules are tried in the policy's order; the peer has no say.
#[derive(Debug, Clone)]
pub(crate) enum TrustRule {
    /// The EK's digest is listed.
    PinnedEk(BTreeSet<EkDigest>),
    /// The EK's certificate chains to one of the roots.
    EkChain(Chain),
    /// The AK's certificate chains to one of the roots.
    AkChain(AkChain),
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum TrustRuleFile {
    PinnedEk { ek_sha256: Vec<EkDigest> },
    EkChain(EkChainFile),
    AkChain(AkChainFile),
}

impl TryFrom<TrustRuleFile> for TrustRule {
    type Error = Refusal;

    fn try_from(file: TrustRuleFile) -> Result<Self, Refusal> {
        match file {
            TrustRuleFile::PinnedEk { ek_sha256 } if ek_sha256.is_empty() => {
                Err(empty("`pinned-ek` lists no endorsement key"))
            }
            TrustRuleFile::PinnedEk { ek_sha256 } => Ok(Self::PinnedEk(distinct(ek_sha256, "ek_sha256")?)),
            TrustRuleFile::EkChain(file) => Chain::try_from(file).map(Self::EkChain),
            TrustRuleFile::AkChain(file) => AkChain::try_from(file).map(Self::AkChain),
        }
    }
}

/// A TPM with keys of both kinds would be two machines, and a denial of the one none of the other: which it is, it would choose.
pub(super) fn check_trust(trust: &[TrustRule]) -> Result<(), Refusal> {
    let by_ak = trust.iter().filter(|rule| matches!(rule, TrustRule::AkChain(_))).count();
    if trust.is_empty() {
        return Err(empty("`ak_trust` has no rule"));
    }
    if by_ak != 0 && by_ak != trust.len() {
        let detail = "`ak-chain` stands beside `ek-chain` or `pinned-ek`: a TPM that both could name would be two machines, and \
                      could come back as the other after a denial; take one kind of rule";
        return Err(malformed(detail));
    }
    Ok(())
}
