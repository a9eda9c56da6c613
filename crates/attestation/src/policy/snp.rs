//! What a policy demands of a SEV-SNP guest.
//!
//! ```json
//! "snp": {
//!   "tcb_floor": {"milan": {"bootloader": 3, "tee": 0, "snp": 8, "microcode": 115}},
//!   "keys": ["vcek"],
//!   "revocation_list": "demanded",
//!   "vmpl": 0,
//!   "minimum_abi": "0.31",
//!   "allow": ["smt"],
//!   "demand": ["single-socket"]
//! }
//! ```
//!
//! A product without a floor is refused. A guest whose host may debug it is refused by every policy: there is no word for it.
//! Firmware that its host could still take back is refused, too, unless `allow` says `provisional-firmware`; so is a machine that says of
//! itself what this program has no name for (a bit of `PLATFORM_INFO`), unless it says `unknown-platform-info`.
//!
//! `"chips": ["<128 hex digits>"]` (16 of Turin's) lists the processors that are yours, by `CHIP_ID`: a report of any other is refused, and one
//! that hides it. Without the field any processor of AMD's may be it. `denied_chips` shuts out some.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::hex::{Hex, is_lower_hex};
use crate::parse::{SnpProduct, Tcb, each_once, from_json};
use crate::refusal::{ReasonCode, Refusal};

/// The section `snp` of a policy.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "processors"), expect(dead_code, reason = "read by whoever verifies reports"))]
pub struct SnpPolicy {
    pub(crate) floors: BTreeMap<SnpProduct, Tcb>,
    pub(crate) keys: BTreeSet<SnpKey>,
    pub(crate) providers: BTreeSet<String>,
    pub(crate) revocation_list: RevocationList,
    pub(crate) vmpl: u32,
    pub(crate) minimum_abi: (u8, u8),
    pub(crate) allow: BTreeSet<Allowed>,
    pub(crate) demand: BTreeSet<Demanded>,
    pub(crate) minimum_guest_svn: u32,
    pub(crate) id_keys: BTreeSet<[u8; 48]>,
    pub(crate) author_keys: BTreeSet<[u8; 48]>,
    pub(crate) family_id: Option<[u8; 16]>,
    pub(crate) image_id: Option<[u8; 16]>,
    pub(crate) host_data: Option<[u8; 32]>,
    pub(crate) denied_chips: BTreeSet<Vec<u8>>,
    /// Absent: any chip may be it.
    pub(crate) chips: Option<BTreeSet<Vec<u8>>>,
}

impl SnpPolicy {
    /// Reads the section alone.
    ///
    /// # Errors
    /// `policy-malformed`, `policy-empty`.
    pub fn from_json(json: &[u8]) -> Result<Self, Refusal> {
        from_json::<SnpPolicyFile>(json, super::MAX_JSON, ReasonCode::PolicyMalformed)?.try_into()
    }

    /// Whether a chain holds without a list of what AMD revoked.
    pub fn revocation_list(&self) -> RevocationList {
        self.revocation_list
    }
}

/// Which keys may sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SnpKey {
    Vcek,
    Vlek,
}

/// Whether a chain holds without a list of what AMD revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RevocationList {
    /// It does not.
    Demanded,
    /// It does; a list that is there counts, and must not have ended.
    IfThere,
}

/// What is refused unless a policy names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Allowed {
    /// The guest may run where two threads share a core.
    Smt,
    /// A migration agent may move it.
    Migration,
    /// Its memory may lie behind CXL.
    Cxl,
    /// Its host may still go back behind the firmware that runs.
    ProvisionalFirmware,
    /// `PLATFORM_INFO` may have bits that this program has no name for.
    UnknownPlatformInfo,
}

/// What is refused where it is missing, if a policy names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Demanded {
    /// One socket.
    SingleSocket,
    /// The host cannot see ciphertext of the guest's memory: the machine hides it, and the guest's policy keeps it so.
    CiphertextHiding,
    /// Memory was looked through for aliases (CVE-2024-21944).
    AliasCheck,
    /// The IOMMU's own writes cannot reach guests' memory.
    IommuWriteSafe,
}

/// The section as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnpPolicyFile {
    #[serde(deserialize_with = "each_once")]
    tcb_floor: BTreeMap<SnpProduct, Tcb>,
    keys: BTreeSet<SnpKey>,
    #[serde(default)]
    providers: BTreeSet<String>,
    revocation_list: RevocationList,
    vmpl: u32,
    minimum_abi: Abi,
    #[serde(default)]
    allow: BTreeSet<Allowed>,
    #[serde(default)]
    demand: BTreeSet<Demanded>,
    #[serde(default)]
    minimum_guest_svn: u32,
    #[serde(default)]
    id_key_sha384: Vec<Hex<48>>,
    #[serde(default)]
    author_key_sha384: Vec<Hex<48>>,
    #[serde(default, deserialize_with = "super::present")]
    family_id: Option<Hex<16>>,
    #[serde(default, deserialize_with = "super::present")]
    image_id: Option<Hex<16>>,
    #[serde(default, deserialize_with = "super::present")]
    host_data: Option<Hex<32>>,
    #[serde(default)]
    denied_chips: Vec<Chip>,
    #[serde(default, deserialize_with = "super::present")]
    chips: Option<Vec<Chip>>,
}

impl TryFrom<SnpPolicyFile> for SnpPolicy {
    type Error = Refusal;

    fn try_from(file: SnpPolicyFile) -> Result<Self, Refusal> {
        if file.tcb_floor.is_empty() {
            return Err(Refusal::new(ReasonCode::PolicyEmpty, "`snp.tcb_floor` names no product"));
        }
        if file.keys.is_empty() {
            return Err(Refusal::new(ReasonCode::PolicyEmpty, "`snp.keys` names no kind of key"));
        }
        let takes_providers = file.keys.contains(&SnpKey::Vlek);
        if takes_providers == file.providers.is_empty() {
            let detail = "`snp.providers` and the key `vlek` go together: a provider's key stands for all of its chips";
            return Err(malformed(detail));
        }
        if file.chips.as_ref().is_some_and(Vec::is_empty) {
            return Err(Refusal::new(ReasonCode::PolicyEmpty, "`snp.chips` lists no chip"));
        }
        if file.vmpl > 3 {
            return Err(malformed(format!("`snp.vmpl` is {}, expected 0 to 3", file.vmpl)));
        }
        if let Some((product, _)) =
            file.tcb_floor.iter().find(|(product, floor)| **product != SnpProduct::Turin && floor.fmc != 0)
        {
            return Err(malformed(format!("`snp.tcb_floor` of {product} has `fmc`, which Turin alone has")));
        }
        Ok(Self {
            floors: file.tcb_floor,
            keys: file.keys,
            providers: file.providers,
            revocation_list: file.revocation_list,
            vmpl: file.vmpl,
            minimum_abi: (file.minimum_abi.0, file.minimum_abi.1),
            allow: file.allow,
            demand: file.demand,
            minimum_guest_svn: file.minimum_guest_svn,
            id_keys: file.id_key_sha384.into_iter().map(|it| it.0).collect(),
            author_keys: file.author_key_sha384.into_iter().map(|it| it.0).collect(),
            family_id: file.family_id.map(|it| it.0),
            image_id: file.image_id.map(|it| it.0),
            host_data: file.host_data.map(|it| it.0),
            denied_chips: chips_of(file.denied_chips),
            chips: file.chips.map(chips_of),
        })
    }
}

/// `MAJOR.MINOR`.
struct Abi(u8, u8);

impl<'de> Deserialize<'de> for Abi {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let numbers = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let (major, minor) = numbers.ok_or_else(|| D::Error::custom("expected MAJOR.MINOR, each 0 to 255"))?;
        Ok(Self(major, minor))
    }
}

fn chips_of(numbers: Vec<Chip>) -> BTreeSet<Vec<u8>> {
    numbers.into_iter().map(|it| it.0).collect()
}

/// A chip's number, 8 or 64 bytes.
struct Chip(Vec<u8>);

impl<'de> Deserialize<'de> for Chip {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match hex::decode(&text) {
            Ok(bytes) if is_lower_hex(&text) && matches!(bytes.len(), 8 | 64) => Ok(Self(bytes)),
            _ => Err(D::Error::custom("expected a chip's number: 16 (Turin) or 128 lower-case hexadecimal digits")),
        }
    }
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(ReasonCode::PolicyMalformed, detail)
}
