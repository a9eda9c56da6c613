//! What a policy demands of a processor, for whoever explains it.

use std::fmt::Display;

use serde::Serialize;

use super::{Policy, RtmrDemand, RtmrValues, SnpPolicy, TdxPolicy, TrustRule};
use crate::parse::{LaunchDigest, ProcessorKind, Rtmr};

/// One demand: a field of the policy, and what it says in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Demand {
    /// The field, such as `tcb_floor`.
    pub field: &'static str,
    /// What it says. Of digests as many as a line has room for.
    pub value: String,
}

impl Policy {
    /// What it demands of processors of this kind; nothing where it takes none. Fields that demand nothing are left out.
    pub fn demands_of(&self, kind: ProcessorKind) -> Vec<Demand> {
        match kind {
            ProcessorKind::Snp | ProcessorKind::SnpSvsm | ProcessorKind::SnpAzureHcl => {
                let launches = self.trust.iter().filter_map(TrustRule::launch_digests).flatten();
                let trusted = digests(launches.map(hex::encode).collect::<Vec<_>>().into_iter());
                let of_rule = found([("launch_sha384", trusted)]);
                of_rule.into_iter().chain(self.snp().map(SnpPolicy::demands).unwrap_or_default()).collect()
            }
            ProcessorKind::Tdx => self.tdx().map(TdxPolicy::demands).unwrap_or_default(),
        }
    }
}

impl SnpPolicy {
    fn demands(&self) -> Vec<Demand> {
        let floors = self.floors.iter().map(|(product, floor)| format!("{product}: {floor}"));
        let (major, minor) = self.minimum_abi;
        let svn = (self.minimum_guest_svn > 0).then(|| self.minimum_guest_svn.to_string());
        found([
            ("tcb_floor", listed(floors)),
            ("keys", words(&self.keys)),
            ("providers", listed(&self.providers)),
            ("revocation_list", words([self.revocation_list])),
            ("vmpl", Some(self.vmpl.to_string())),
            ("minimum_abi", Some(format!("{major}.{minor}"))),
            ("allow", words(&self.allow)),
            ("demand", words(&self.demand)),
            ("minimum_guest_svn", svn),
            ("id_key_sha384", digests(self.id_keys.iter().map(hex::encode))),
            ("author_key_sha384", digests(self.author_keys.iter().map(hex::encode))),
            ("family_id", self.family_id.map(hex::encode)),
            ("image_id", self.image_id.map(hex::encode)),
            ("host_data", self.host_data.map(hex::encode)),
            ("chips", self.chips.as_ref().and_then(|chips| digests(chips.iter().map(hex::encode)))),
            ("denied_chips", digests(self.denied_chips.iter().map(hex::encode))),
        ])
    }
}

impl RtmrDemand {
    fn words(&self) -> String {
        let one = |(register, values): (&Rtmr, &RtmrValues)| {
            let values = match values {
                RtmrValues::Of(values) => digests(values.iter().map(LaunchDigest::to_string))?,
                RtmrValues::Manifest => "manifest".to_owned(),
            };
            Some(format!("{}: {values}", *register as u8))
        };
        match self {
            Self::Any => "any: the TPM alone tells which image runs".to_owned(),
            Self::Manifest => "manifest: those of the image that the TPM quotes".to_owned(),
            Self::Listed(registers) => registers.iter().filter_map(one).collect::<Vec<_>>().join(", "),
        }
    }
}

impl TdxPolicy {
    fn demands(&self) -> Vec<Demand> {
        let evaluation = (self.minimum_tcb_evaluation > 0).then(|| self.minimum_tcb_evaluation.to_string());
        found([
            ("tcb_status", words(&self.tcb_status)),
            ("tolerated_advisories", listed(&self.tolerated_advisories)),
            ("minimum_tcb_evaluation", evaluation),
            ("mrtd", digests(self.mrtd.iter().map(LaunchDigest::to_string))),
            ("rtmrs", Some(self.rtmrs.words())),
            ("mrseam", digests(self.mrseam.iter().map(LaunchDigest::to_string))),
            ("xfam", self.xfam.map(hex::encode)),
            ("allow", words(&self.allow)),
            ("mr_config_id", self.mr_config_id.map(hex::encode)),
            ("mr_owner", self.mr_owner.map(hex::encode)),
            ("mr_owner_config", self.mr_owner_config.map(hex::encode)),
            ("denied_platforms", digests(self.denied_platforms.iter().map(hex::encode))),
        ])
    }
}

fn found<const N: usize>(fields: [(&'static str, Option<String>); N]) -> Vec<Demand> {
    fields.into_iter().filter_map(|(field, value)| Some(Demand { field, value: value? })).collect()
}

fn listed(values: impl IntoIterator<Item = impl Display>) -> Option<String> {
    let values: Vec<_> = values.into_iter().map(|value| value.to_string()).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// As a policy writes them.
fn words(values: impl IntoIterator<Item = impl Serialize>) -> Option<String> {
    let word = |value| serde_json::to_value(value).ok()?.as_str().map(str::to_owned);
    listed(values.into_iter().filter_map(word))
}

fn digests(mut values: impl ExactSizeIterator<Item = String>) -> Option<String> {
    let (count, first) = (values.len(), values.next()?);
    Some(if count == 1 { first } else { format!("one of {count}: {first}, …") })
}
