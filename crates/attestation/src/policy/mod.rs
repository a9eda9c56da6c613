//! What a verifier demands: closed, versioned JSON. An empty list refuses, and so does a field that is missing where the policy must
//! decide; fields that may be left out demand more where they are there.
//!
//! ```json
//! {
//!   "version": 3,
//!   "ek_templates": ["ecc-p256"],
//!   "ak_trust": [
//!     {"kind": "pinned-ek", "ek_sha256": ["<64 hex digits>"]},
//!     {"kind": "ek-chain", "roots": ["-----BEGIN CERTIFICATE-----…"], "intermediates": []},
//!     {"kind": "ak-chain", "roots": ["-----BEGIN CERTIFICATE-----…"], "intermediates": [], "purpose": "demanded"}
//!   ],
//!   "denied_ek_sha256": [],
//!   "ak_algorithms": ["ecdsa-p256-sha256"],
//!   "pcrs": {"enforce": [4, 7, 9, 11, 12, 13], "warn": [0, 2, 3, 6]},
//!   "firmware_change": {"warn": [1], "refuse": [0, 2, 3, 6]},
//!   "firmware": "known",
//!   "rejoin_unheard": "control-planes",
//!   "lock": "pcr-15",
//!   "references": [
//!     {"manifest": "demo", "minimum_version": "1.0.0", "signers": ["RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"]},
//!     {"manifest": "bench", "minimum_version": "0.0.0", "unsigned": "trust-local-file"}
//!   ]
//! }
//! ```
//!
//! A TPM has one endorsement key of each TCG template, and often certificates for several: `ek_templates` says which of
//! them is its identity. A denial is of a TPM where one template is listed; where several are, a TPM that is denied must be
//! denied by all of its digests (`latchkey tpm ek` lists them).
//!
//! `ek-chain` and `ak-chain` may say `"revocation_list": "demanded"`: then each certificate below the root needs a list of its issuer
//! that does not name it. Without that word a list that is there counts, and must not have ended ([`Policy::knowing`]).
//!
//! A TPM that is trusted by `ak-chain` or `ak-azure-hcl` has its attestation key for its identity, and its digest in records and denials:
//! nothing vouches for the endorsement key beside it, so who has one such TPM could show any number of them. `denied_ek_sha256` holds
//! digests of such attestation keys, too; that of an endorsement key shuts out only who still shows that key. So a policy has rules of
//! one kind: a TPM with keys of both would be two machines.
//!
//! `{"kind": "ek-svsm", "launch_sha384": ["<96 hex digits>"]}` trusts the TPM that an SVSM has inside of a SEV-SNP guest: its endorsement
//! key, by a report that the SVSM asked for at VMPL 0, over this session and this key (*Secure VM Service Module for SEV-SNP Guests*, 58019
//! revision 1.00, sections 7 and 8.3.1). The rule stands alone and needs the section `snp` with `"vmpl": 0`. `launch_sha384` names the
//! launches whose VMPL 0 is such an SVSM: of a guest without one its operating system would be there, and could vouch for any key. So
//! it is these digests that decide on the launch, not those of reference manifests: which image it is, the SVSM's TPM says. And such an
//! SVSM must give nobody a report over bytes of their choice: COCONUT-SVSM with its feature `attest` hashes what its host's proxy sends,
//! in the proxy's order, so that the host could have it vouch for a key of the host's.
//!
//! `{"kind": "ak-azure-hcl"}` trusts the TPM of the paravisor of Azure's confidential machines (SEV-SNP): its attestation key, which is
//! named in the claims that the paravisor's report is over ([`HclReport`](crate::parse::HclReport)). That report is of the machine's start,
//! and of no session: the session is bound by the quote, which this key signs. It stands alone and needs `snp` with `"vmpl": 0`, too, and
//! says which code may be at VMPL 0: `launch_sha384` in the rule names launches, or `id_key_sha384` in `snp` who signs them, and
//! `minimum_guest_svn` the oldest of theirs that is taken.
//!
//! `rejoin_unheard` says who gets the key of the disk on record while nothing is heard of the cluster, by what was known last:
//! `"control-planes"`, which is so where it is not said, since nothing else brings a cluster back all of whose control planes are off; or
//! `"never"`.
//!
//! `firmware` says which firmware a machine may have: `"known"`, one that a type of machine of these manifests lists
//! ([`FirmwareStanding`](crate::validate::FirmwareStanding)); or `"any"`, which is so where it is not said.
//!
//! The sections `snp` and `tdx` say which confidential machines are taken: see [`SnpPolicy`] and [`TdxPolicy`]. Where there is one, a
//! processor must vouch for every machine, beside its TPM; where there are both, either kind may, and a verifier needs the
//! collateral of both.
//!
//! Each manifest has keys that may sign it, in minisign's form, or says that whoever can write the file is trusted.

mod anchors;
#[cfg(feature = "processors")]
mod demands;
mod firmware;
mod hex;
mod references;
mod registers;
mod revocations;
mod snp;
mod tdx;
mod templates;
mod trust;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::ek::EkDigest;
use crate::name::ManifestName;
use crate::parse::{ImageVersion, PcrSet, ProcessorKind, from_json};
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::KnownBy;

pub(crate) use anchors::{AkChain, AkPurpose, Chain};
#[cfg(feature = "processors")]
pub use demands::Demand;
pub use firmware::FirmwareChange;
pub(crate) use firmware::KNOWN_BY;
use firmware::{FirmwareChangeFile, FirmwareDemand};
pub use references::{ReferenceRule, Signers};
use references::{ReferenceRuleFile, check_references};
use registers::PcrRules;
pub(crate) use registers::resettable;
#[cfg(feature = "processors")]
pub use revocations::TpmList;
pub use revocations::TpmRevocations;
use snp::SnpPolicyFile;
#[cfg(feature = "processors")]
pub(crate) use snp::{Allowed, Demanded, SnpKey};
pub use snp::{RevocationList, SnpPolicy};
use tdx::TdxPolicyFile;
#[cfg(feature = "processors")]
pub(crate) use tdx::{RtmrDemand, RtmrValues, TdxAllowed};
pub use tdx::{TdxPolicy, TdxTcbStatus};
pub use templates::EkTemplates;
pub(crate) use templates::by_name;
pub(crate) use trust::TrustRule;
pub use trust::TrustedBy;
use trust::{TrustRuleFile, check_trust, check_vouching};

/// A policy. One that was loaded admits by at least one rule and enforces at least one PCR; there is one other, [`Self::of_nobody`].
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) templates: EkTemplates,
    pub(crate) trust: Vec<TrustRule>,
    pub(crate) denied: BTreeSet<EkDigest>,
    pub(crate) ak_algorithms: Vec<AkAlgorithm>,
    pub(crate) enforce: PcrSet,
    pub(crate) warn: PcrSet,
    firmware: FirmwareChange,
    firmware_demand: FirmwareDemand,
    rejoin_unheard: RejoinUnheard,
    snp: Option<Box<SnpPolicy>>,
    pub(crate) revoked: Arc<TpmRevocations>,
    tdx: Option<Box<TdxPolicy>>,
    pub(crate) references: Vec<ReferenceRule>,
}

impl Policy {
    /// The PCR of the node lock: the cluster id is extended into it.
    pub const LOCK_PCR: u8 = 15;

    /// Reads a policy of at most 1 MiB.
    ///
    /// # Errors
    /// `policy-malformed`, `policy-version-unknown`, `policy-empty`, `policy-root-invalid`.
    pub fn from_json(json: &[u8]) -> Result<Self, Refusal> {
        check_version(json)?;
        Self::try_from(from_json::<PolicyFile>(json, MAX_JSON, ReasonCode::PolicyMalformed)?)
    }

    /// The policy of who has none yet: it trusts no TPM and no image, so it admits nobody. No file says this.
    pub fn of_nobody() -> Self {
        Self {
            templates: EkTemplates::all(),
            trust: Vec::new(),
            denied: BTreeSet::new(),
            ak_algorithms: vec![AkAlgorithm::EcdsaP256Sha256],
            enforce: PcrSet::of(&[11]).unwrap_or(PcrSet::EMPTY),
            warn: PcrSet::EMPTY,
            firmware: FirmwareChange::none(),
            firmware_demand: FirmwareDemand::Any,
            rejoin_unheard: RejoinUnheard::Never,
            revoked: Arc::default(),
            snp: None,
            tdx: None,
            references: Vec::new(),
        }
    }

    /// Whether it is [`Self::of_nobody`].
    pub fn is_of_nobody(&self) -> bool {
        self.trust.is_empty()
    }

    /// The PCRs an attester must quote: those enforced, those warned about, those held against the machine's record, and the
    /// lock's.
    pub fn selection(&self) -> PcrSet {
        self.enforce.union(self.warn).union(self.firmware.judged()).with(Self::LOCK_PCR).unwrap_or(self.enforce)
    }

    /// Whether a control plane on record gets the key of its disk by what was known last, while nothing is heard of the cluster.
    pub fn may_rejoin_unheard(&self) -> bool {
        self.rejoin_unheard == RejoinUnheard::ControlPlanes
    }

    /// The PCRs that manifests are held against: those enforced, and those warned about.
    pub fn compared(&self) -> PcrSet {
        self.enforce.union(self.warn)
    }

    /// The PCRs that must have an image's values.
    pub fn enforced(&self) -> PcrSet {
        self.enforce
    }

    /// The PCRs that may differ with a warning.
    pub fn warned(&self) -> PcrSet {
        self.warn
    }

    /// How it trusts TPMs, rule by rule, for whoever explains it.
    pub fn trusted_by(&self) -> impl Iterator<Item = TrustedBy> {
        self.trust.iter().map(|rule| match rule {
            TrustRule::PinnedEk(pinned) => TrustedBy::PinnedEks(pinned.len()),
            TrustRule::EkChain(chain) => TrustedBy::Authorities(chain.root_digests.len()),
            TrustRule::AkChain(rule) => TrustedBy::AkAuthorities(rule.chain.root_digests.len()),
            TrustRule::EkSvsm(launches) => TrustedBy::SvsmLaunches(launches.count()),
            TrustRule::AkAzureHcl(launches) => TrustedBy::AzureHcl(launches.count()),
        })
    }

    /// How many keys it denies: endorsement keys, and under `ak-chain` or `ak-azure-hcl` attestation keys.
    pub fn denied_count(&self) -> usize {
        self.denied.len()
    }

    /// The one endorsement key that this policy trusts, if it trusts no authority and pins only one: then who is admitted is also
    /// which machine it is.
    pub fn only_ek(&self) -> Option<EkDigest> {
        match self.trust.as_slice() {
            [TrustRule::PinnedEk(pinned)] if pinned.len() == 1 => pinned.first().copied(),
            _ => None,
        }
    }

    /// The keys that it pins: of all rules.
    pub fn pinned_eks(&self) -> impl Iterator<Item = EkDigest> {
        let trust = self.trust.iter();
        trust
            .filter_map(|rule| if let TrustRule::PinnedEk(pinned) = rule { Some(pinned) } else { None })
            .flatten()
            .copied()
    }

    /// Whether it trusts TPMs that it does not name: those of an authority, or those that a processor vouches for.
    pub fn trusts_authority(&self) -> bool {
        self.trust.iter().any(|rule| !matches!(rule, TrustRule::PinnedEk(_)))
    }

    /// Which of a TPM's keys it is known by under this policy: its rules are of one kind.
    pub fn known_by(&self) -> KnownBy {
        let by_ak = self.trust.iter().any(TrustRule::names_by_ak);
        if by_ak { KnownBy::AttestationKey } else { KnownBy::EndorsementKey }
    }

    /// The templates of endorsement keys that stand for a TPM.
    pub fn ek_templates(&self) -> &EkTemplates {
        &self.templates
    }

    /// The same policy for one other manifest, whose file is trusted as it is.
    #[must_use]
    pub fn for_local_manifest(self, manifest: ManifestName, minimum_version: ImageVersion) -> Self {
        let rule = ReferenceRule { manifest, minimum_version, signers: Signers::TrustLocalFile };
        Self { references: vec![rule], ..self }
    }

    /// The same policy where more is known: what authorities of TPMs revoked. A policy that was only read knows of nothing, and
    /// refuses by a rule whose `revocation_list` is `demanded`.
    #[must_use]
    pub fn knowing(self, revoked: Arc<TpmRevocations>) -> Self {
        Self { revoked, ..self }
    }

    /// What it demands of a SEV-SNP guest, if it takes any.
    pub fn snp(&self) -> Option<&SnpPolicy> {
        self.snp.as_deref()
    }

    /// What it demands of a TDX guest, if it takes any.
    pub fn tdx(&self) -> Option<&TdxPolicy> {
        self.tdx.as_deref()
    }

    /// The kinds of processors one of which must vouch for every machine; none where the TPM's word is enough.
    pub fn processors(&self) -> BTreeSet<ProcessorKind> {
        let kind = match self.trust.as_slice() {
            [TrustRule::EkSvsm(_)] => ProcessorKind::SnpSvsm,
            [TrustRule::AkAzureHcl(_)] => ProcessorKind::SnpAzureHcl,
            _ => ProcessorKind::Snp,
        };
        let snp = self.snp.iter().map(|_| kind);
        snp.chain(self.tdx.iter().map(|_| ProcessorKind::Tdx)).collect()
    }

    /// The privilege level at which a SEV-SNP guest has to ask for its report.
    pub(crate) fn vmpl(&self) -> u32 {
        self.snp.as_ref().map_or(0, |snp| snp.vmpl)
    }

    /// The manifests this policy refers to.
    pub fn references(&self) -> &[ReferenceRule] {
        &self.references
    }
}

/// An algorithm an attestation key may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AkAlgorithm {
    /// ECDSA on P-256 with SHA-256: what Latchkey's own attester makes.
    #[serde(rename = "ecdsa-p256-sha256")]
    EcdsaP256Sha256,
    /// RSASSA-PKCS1-v1_5, 2048 bits, SHA-256: what some clouds issue.
    #[serde(rename = "rsassa-2048-sha256")]
    Rsassa2048Sha256,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    #[expect(dead_code, reason = "checked before the rest is read")]
    version: u64,
    ek_templates: EkTemplates,
    ak_trust: Vec<TrustRuleFile>,
    /// Digests that TPMs are known by: under `ak-chain` or `ak-azure-hcl` those of attestation keys. The name is that of the first rules.
    #[serde(default)]
    denied_ek_sha256: Vec<EkDigest>,
    ak_algorithms: Vec<AkAlgorithm>,
    pcrs: PcrRules,
    #[serde(default, deserialize_with = "present")]
    firmware_change: Option<FirmwareChangeFile>,
    #[serde(default)]
    firmware: FirmwareDemand,
    #[serde(default)]
    rejoin_unheard: RejoinUnheard,
    #[serde(default, deserialize_with = "present")]
    snp: Option<SnpPolicyFile>,
    #[serde(default, deserialize_with = "present")]
    tdx: Option<TdxPolicyFile>,
    #[expect(dead_code, reason = "a closed set of one: reading it is the check")]
    lock: LockRegister,
    references: Vec<ReferenceRuleFile>,
}

/// A field that may be left out, and is not `null`: an empty template must not take a demand away.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Who gets a key while nothing is heard of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RejoinUnheard {
    #[default]
    ControlPlanes,
    Never,
}

#[derive(Deserialize)]
enum LockRegister {
    #[serde(rename = "pcr-15")]
    Pcr15,
}

/// Only the version is read first, so that a newer file is refused as newer and not as full of unknown fields.
#[derive(Deserialize)]
struct VersionOnly {
    version: u64,
}

fn check_version(json: &[u8]) -> Result<(), Refusal> {
    let VersionOnly { version } = from_json(json, MAX_JSON, ReasonCode::PolicyMalformed)?;
    if version == VERSION {
        return Ok(());
    }
    Err(Refusal::new(ReasonCode::PolicyVersionUnknown, format!("expected policy version {VERSION}, got {version}")))
}

impl TryFrom<PolicyFile> for Policy {
    type Error = Refusal;

    fn try_from(file: PolicyFile) -> Result<Self, Refusal> {
        let PcrRules { enforce, warn } = file.pcrs.checked()?;
        let firmware = FirmwareChange::of(file.firmware_change.as_ref(), enforce, warn)?;
        file.firmware.check(enforce.union(warn))?;
        let references = file.references.into_iter().map(ReferenceRule::try_from).collect::<Result<Vec<_>, _>>()?;
        check_references(&references)?;
        if file.ak_algorithms.is_empty() {
            return Err(empty("`ak_algorithms` lists no algorithm"));
        }
        let trust = file.ak_trust.into_iter().map(TrustRule::try_from).collect::<Result<Vec<_>, _>>()?;
        check_trust(&trust)?;
        let snp = file.snp.map(SnpPolicy::try_from).transpose()?;
        check_vouching(&trust, &file.ak_algorithms, snp.as_ref(), file.tdx.is_some())?;
        if file.ek_templates.is_empty() {
            return Err(empty("`ek_templates` lists no template"));
        }
        Ok(Self {
            templates: file.ek_templates,
            trust,
            denied: distinct(file.denied_ek_sha256, "denied_ek_sha256")?,
            ak_algorithms: file.ak_algorithms,
            enforce,
            warn,
            firmware,
            firmware_demand: file.firmware,
            rejoin_unheard: file.rejoin_unheard,
            revoked: Arc::default(),
            snp: snp.map(Box::new),
            tdx: file.tdx.map(TdxPolicy::try_from).transpose()?.map(Box::new),
            references,
        })
    }
}

fn distinct(digests: Vec<EkDigest>, field: &str) -> Result<BTreeSet<EkDigest>, Refusal> {
    let count = digests.len();
    let set: BTreeSet<_> = digests.into_iter().collect();
    if set.len() == count { Ok(set) } else { Err(malformed(format!("`{field}` lists an endorsement key twice"))) }
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(ReasonCode::PolicyMalformed, detail)
}

fn empty(detail: &str) -> Refusal {
    Refusal::new(ReasonCode::PolicyEmpty, detail)
}

const VERSION: u64 = 3;
const MAX_JSON: usize = 1024 * 1024;
