//! What a policy demands of a TDX guest.
//!
//! ```json
//! "tdx": {
//!   "mrtd": ["<96 hex digits>"],
//!   "tcb_status": ["UpToDate", "SWHardeningNeeded"],
//!   "tolerated_advisories": ["INTEL-SA-00837"],
//!   "rtmrs": {"1": ["<96 hex digits>"]},
//!   "xfam": "e702060000000000"
//! }
//! ```
//!
//! A register's values may be the word `"manifest"`, too: `{"1": ["…"], "2": "manifest"}`. `"rtmrs": "manifest"` demands the registers that the manifest lists for the image whose measurements the TPM quotes, so that the
//! processor and the TPM have to tell of the same image; an image without such values is refused. A manifest that lists RTMR 2 alone says
//! less than it seems: whatever the firmware started could have extended that register so. RTMR 1, or PCR 4 of a TPM that is not the
//! host's, tells what was started. `"rtmrs": "any"` says that only the
//! TPM tells which image runs: MRTD is that of a firmware, which boots any.
//!
//! A guest that its host may debug, profile or move to another machine is refused by every policy, and so is a revoked TCB: there is
//! no word for them.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::hex::Hex;
use crate::parse::{LaunchDigest, Rtmr, each_once, from_json};
use crate::refusal::{ReasonCode, Refusal};

/// The section `tdx` of a policy.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "processors"), expect(dead_code, reason = "read by whoever verifies quotes"))]
pub struct TdxPolicy {
    pub(crate) mrtd: BTreeSet<LaunchDigest>,
    pub(crate) rtmrs: RtmrDemand,
    pub(crate) tcb_status: BTreeSet<TdxTcbStatus>,
    pub(crate) tolerated_advisories: BTreeSet<String>,
    pub(crate) minimum_tcb_evaluation: u32,
    pub(crate) mrseam: BTreeSet<LaunchDigest>,
    pub(crate) xfam: Option<[u8; 8]>,
    pub(crate) allow: BTreeSet<TdxAllowed>,
    pub(crate) mr_config_id: Option<[u8; 48]>,
    pub(crate) mr_owner: Option<[u8; 48]>,
    pub(crate) mr_owner_config: Option<[u8; 48]>,
    pub(crate) denied_platforms: BTreeSet<[u8; 16]>,
}

impl TdxPolicy {
    /// Reads the section alone.
    ///
    /// # Errors
    /// `policy-malformed`, `policy-empty`.
    pub fn from_json(json: &[u8]) -> Result<Self, Refusal> {
        from_json::<TdxPolicyFile>(json, super::MAX_JSON, ReasonCode::PolicyMalformed)?.try_into()
    }
}

/// How up to date Intel calls a platform (Intel PCS, "TCB Info", field `tcbStatus`). `Revoked` is not among them: no policy can
/// take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TdxTcbStatus {
    /// Nothing is known against it.
    UpToDate,
    /// Software in the guest has to work around something.
    SWHardeningNeeded,
    /// The host's settings are not what Intel recommends.
    ConfigurationNeeded,
    /// Both.
    ConfigurationAndSWHardeningNeeded,
    /// There is an update.
    OutOfDate,
    /// There is an update, and the settings are not what Intel recommends.
    OutOfDateConfigurationNeeded,
    /// The platform was updated after the guest was launched: launched anew, the guest would be up to date.
    TDRelaunchAdvised,
    /// The same, and the settings are not what Intel recommends.
    TDRelaunchAdvisedConfigurationNeeded,
}

/// What is refused unless a policy names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TdxAllowed {
    /// Service guests are bound to the guest (`MRSERVICETD` is not zero).
    ServiceTd,
    /// The guest counts events of the processor (attribute `PERFMON`).
    PerformanceMonitoring,
    /// The guest uses Key Locker (attribute `KL`).
    KeyLocker,
}

/// What is demanded of the registers that a guest extends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RtmrDemand {
    /// Nothing: only the TPM tells which image runs in the guest, and MRTD is of a firmware that boots any.
    Any,
    /// Those that the manifest lists for the image whose measurements the TPM quotes.
    Manifest,
    /// These registers.
    Listed(BTreeMap<Rtmr, RtmrValues>),
}

/// What is demanded of one register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RtmrValues {
    /// One of these values.
    Of(BTreeSet<LaunchDigest>),
    /// The manifest's, which has to list it.
    Manifest,
}

/// The demand as it is written.
#[derive(Deserialize)]
#[serde(untagged)]
enum Rtmrs {
    Word(RtmrWord),
    Listed(#[serde(deserialize_with = "each_once")] BTreeMap<Rtmr, ListedValues>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ListedValues {
    Manifest(ManifestWord),
    Of(BTreeSet<LaunchDigest>),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ManifestWord {
    Manifest,
}

impl ListedValues {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Of(values) if values.is_empty())
    }
}

impl From<ListedValues> for RtmrValues {
    fn from(values: ListedValues) -> Self {
        match values {
            ListedValues::Manifest(ManifestWord::Manifest) => Self::Manifest,
            ListedValues::Of(values) => Self::Of(values),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RtmrWord {
    Any,
    Manifest,
}

/// The section as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TdxPolicyFile {
    mrtd: Vec<LaunchDigest>,
    rtmrs: Rtmrs,
    tcb_status: BTreeSet<TdxTcbStatus>,
    #[serde(default)]
    tolerated_advisories: BTreeSet<Advisory>,
    #[serde(default)]
    minimum_tcb_evaluation: u32,
    #[serde(default)]
    mrseam: Vec<LaunchDigest>,
    #[serde(default, deserialize_with = "super::present")]
    xfam: Option<Hex<8>>,
    #[serde(default)]
    allow: BTreeSet<TdxAllowed>,
    #[serde(default, deserialize_with = "super::present")]
    mr_config_id: Option<Hex<48>>,
    #[serde(default, deserialize_with = "super::present")]
    mr_owner: Option<Hex<48>>,
    #[serde(default, deserialize_with = "super::present")]
    mr_owner_config: Option<Hex<48>>,
    #[serde(default)]
    denied_platforms: Vec<Hex<16>>,
}

impl TryFrom<TdxPolicyFile> for TdxPolicy {
    type Error = Refusal;

    fn try_from(file: TdxPolicyFile) -> Result<Self, Refusal> {
        let empty = |detail: &str| Err(Refusal::new(ReasonCode::PolicyEmpty, detail));
        if file.mrtd.is_empty() {
            return empty("`tdx.mrtd` lists no launch measurement");
        }
        if file.tcb_status.is_empty() {
            return empty("`tdx.tcb_status` lists no status");
        }
        let rtmrs = match file.rtmrs {
            Rtmrs::Word(RtmrWord::Any) => RtmrDemand::Any,
            Rtmrs::Word(RtmrWord::Manifest) => RtmrDemand::Manifest,
            Rtmrs::Listed(listed) if listed.is_empty() || listed.values().any(ListedValues::is_empty) => {
                return empty(
                    "`tdx.rtmrs`, or a register of it, lists no value: say \"manifest\" to take those of the image, or \"any\" \
                     if the TPM alone tells what runs",
                );
            }
            Rtmrs::Listed(listed) => {
                RtmrDemand::Listed(listed.into_iter().map(|(register, values)| (register, values.into())).collect())
            }
        };
        let set = |digests: Vec<LaunchDigest>| digests.into_iter().collect::<BTreeSet<_>>();
        Ok(Self {
            mrtd: set(file.mrtd),
            rtmrs,
            tcb_status: file.tcb_status,
            tolerated_advisories: file.tolerated_advisories.into_iter().map(|advisory| advisory.0).collect(),
            minimum_tcb_evaluation: file.minimum_tcb_evaluation,
            mrseam: set(file.mrseam),
            xfam: file.xfam.map(|it| it.0),
            allow: file.allow,
            mr_config_id: file.mr_config_id.map(|it| it.0),
            mr_owner: file.mr_owner.map(|it| it.0),
            mr_owner_config: file.mr_owner_config.map(|it| it.0),
            denied_platforms: file.denied_platforms.into_iter().map(|it| it.0).collect(),
        })
    }
}

/// A security advisory of Intel's, as its name is written: `INTEL-SA-00837`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Advisory(String);

impl<'de> Deserialize<'de> for Advisory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text.strip_prefix("INTEL-SA-").filter(|number| number.len() == 5);
        if number.is_some_and(|number| number.bytes().all(|c| c.is_ascii_digit())) {
            return Ok(Self(text));
        }
        Err(D::Error::custom("expected an advisory of Intel's, such as INTEL-SA-00837"))
    }
}
