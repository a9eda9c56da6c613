//! How a policy trusts TPMs: rule by rule, in the policy's order.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::anchors::{AkChain, AkChainFile, Chain, EkChainFile};
use super::hex::Hex;
use super::{AkAlgorithm, SnpPolicy, distinct, empty, malformed};
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
    /// Launches whose SVSM has the TPM.
    SvsmLaunches(usize),
    /// Azure's paravisor, which has the TPM: by launches, or, where there are none, by who signed them (`snp.id_key_sha384`).
    AzureHcl(usize),
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
    /// The EK is that of the SVSM that one of these launches has at VMPL 0, by the processor's word.
    EkSvsm(Launches),
    /// The AK is that of Azure's paravisor, by the processor's word; at VMPL 0 there is one of these launches or, where they are none,
    /// one that a key of `snp.id_key_sha384` signed.
    AkAzureHcl(Launches),
}

/// Launch digests of SEV-SNP guests in which VMPL 0 is code that is trusted to speak for the TPM. A report of VMPL 0 has whatever data the
/// code there chose: without the list any guest with another kernel at VMPL 0 could name a key of its own.
#[derive(Debug, Clone)]
pub(crate) struct Launches(BTreeSet<[u8; 48]>);

impl Launches {
    fn new(digests: Vec<Hex<48>>) -> Self {
        Self(digests.into_iter().map(|it| it.0).collect())
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum TrustRuleFile {
    PinnedEk {
        ek_sha256: Vec<EkDigest>,
    },
    EkChain(EkChainFile),
    AkChain(AkChainFile),
    EkSvsm {
        launch_sha384: Vec<Hex<48>>,
    },
    AkAzureHcl {
        #[serde(default)]
        launch_sha384: Vec<Hex<48>>,
    },
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
            TrustRuleFile::EkSvsm { launch_sha384 } if launch_sha384.is_empty() => {
                Err(empty("`ek-svsm` lists no launch digest in `launch_sha384`: name those of your SVSM's releases"))
            }
            TrustRuleFile::EkSvsm { launch_sha384 } => Ok(Self::EkSvsm(Launches::new(launch_sha384))),
            TrustRuleFile::AkAzureHcl { launch_sha384 } => Ok(Self::AkAzureHcl(Launches::new(launch_sha384))),
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

/// A rule by which a processor vouches for the TPM stands alone, and has what it needs: so the policy alone says which word of a processor
/// a machine has to show.
pub(super) fn check_vouching(
    trust: &[TrustRule],
    algorithms: &[AkAlgorithm],
    snp: Option<&SnpPolicy>,
    tdx: bool,
) -> Result<(), Refusal> {
    let Some((name, launches)) = trust.iter().find_map(TrustRule::vouching) else { return Ok(()) };
    if trust.len() != 1 {
        return Err(malformed(format!("`{name}` stands beside another rule: let it be the only one of `ak_trust`")));
    }
    let Some(snp) = snp else {
        let detail = format!("`{name}` trusts what a SEV-SNP processor says: add the section `snp`, with `vmpl` 0");
        return Err(malformed(detail));
    };
    if snp.vmpl != 0 {
        let detail = format!("`snp.vmpl` is {}, and `{name}` takes reports of VMPL 0 alone: write 0", snp.vmpl);
        return Err(malformed(detail));
    }
    if matches!(trust, [TrustRule::AkAzureHcl(_)]) && !algorithms.contains(&AkAlgorithm::Rsassa2048Sha256) {
        return Err(malformed(format!("`{name}` trusts RSA keys alone: add `rsassa-2048-sha256` to `ak_algorithms`")));
    }
    if launches.count() == 0 && snp.id_keys.is_empty() {
        let detail = format!(
            "`{name}` does not say which code is at VMPL 0: name launches (`launch_sha384`), or who signs them (`snp.id_key_sha384`)"
        );
        return Err(malformed(detail));
    }
    if launches.count() == 0 && snp.minimum_guest_svn == 0 {
        let detail = format!(
            "`{name}` takes every release that a key of `snp.id_key_sha384` ever signed: say the least security version in \
             `snp.minimum_guest_svn`, or name launches (`launch_sha384`)"
        );
        return Err(malformed(detail));
    }
    if tdx {
        let detail = format!("`{name}` trusts TPMs of SEV-SNP guests alone: take out the section `tdx`");
        return Err(malformed(detail));
    }
    Ok(())
}

impl TrustRule {
    /// Whether a TPM that it trusts is known by its attestation key.
    pub(super) fn names_by_ak(&self) -> bool {
        match self {
            Self::PinnedEk(_) | Self::EkChain(_) | Self::EkSvsm(_) => false,
            Self::AkChain(_) | Self::AkAzureHcl(_) => true,
        }
    }

    /// The rule's name and launches, if by it a processor vouches for the TPM.
    fn vouching(&self) -> Option<(&'static str, &Launches)> {
        match self {
            Self::PinnedEk(_) | Self::EkChain(_) | Self::AkChain(_) => None,
            Self::EkSvsm(launches) => Some(("ek-svsm", launches)),
            Self::AkAzureHcl(launches) => Some(("ak-azure-hcl", launches)),
        }
    }

    /// Whether by it a processor vouches for the TPM.
    #[cfg(feature = "processors")]
    pub(crate) fn is_vouching(&self) -> bool {
        self.vouching().is_some()
    }

    /// The launches that it trusts to speak for the TPM, where it lists any.
    #[cfg(feature = "processors")]
    pub(super) fn launch_digests(&self) -> Option<impl Iterator<Item = [u8; 48]>> {
        self.vouching().map(|(_, launches)| launches.0.iter().copied())
    }

    /// Whether it trusts this launch to speak for the TPM. Of a rule without launches the policy's `snp.id_key_sha384` decided, which
    /// loading saw to.
    #[cfg(feature = "processors")]
    pub(crate) fn trusts_launch(&self, digest: &[u8; 48]) -> bool {
        match self {
            Self::PinnedEk(_) | Self::EkChain(_) | Self::AkChain(_) => false,
            Self::EkSvsm(launches) => launches.0.contains(digest),
            Self::AkAzureHcl(launches) => launches.0.is_empty() || launches.0.contains(digest),
        }
    }
}
