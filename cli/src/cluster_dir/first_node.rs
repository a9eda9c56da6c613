//! The first machine of a cluster, written down by `latchkey init`.

use std::net::IpAddr;

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{
    BootSeen, ClusterFile, DiskState, NodeName, NodeRecord, NodeStatus, Outcome, Recorded, Reported, Role, TpmBoot,
};
use latchkey_keys::Uuid;

use super::ClusterDir;
use crate::clock::now;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::store_error::unusable;

/// The first machine of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct FirstNode {
    pub(crate) ek: EkDigest,
    pub(crate) name: String,
    pub(crate) disk: Uuid,
    /// What it showed before its lock, if this run saw it then.
    pub(crate) seen: Option<BootSeen>,
    /// The boot in which it proved its lock, if this run saw that.
    pub(crate) locked: Option<TpmBoot>,
    /// Where its kubelet serves, if this run heard that.
    pub(crate) addresses: Vec<IpAddr>,
}

impl ClusterDir {
    /// The cluster exists from here on: its first node is locked on it.
    pub(crate) fn initialise(&self, cluster: &ClusterFile, first: &FirstNode) -> Result<(), CommandError> {
        self.as_owner(|| {
            let mut writer = self.0.writer().map_err(unusable)?;
            let mut record = self.first_record(first, cluster.key_version)?;
            if let Some(seen) = &first.seen {
                record.keep(seen, now());
            }
            if self.cluster()?.is_some() { writer.put(&record).map(drop) } else { writer.initialise(cluster, &record) }
                .map_err(unusable)
        })
    }

    /// How the first node's bootstrap ended, and what it proved, if that is known.
    pub(crate) fn report(
        &self,
        first: &FirstNode,
        outcome: Outcome,
        status: impl FnOnce(&NodeRecord) -> Option<NodeStatus> + Send,
    ) -> Result<(), CommandError> {
        self.as_owner(|| {
            let mut writer = self.0.writer().map_err(unusable)?;
            let Some(record) = self.0.record(&first.ek).map_err(unusable)? else { return Ok(()) };
            let mut record = record.into_inner();
            if outcome == Outcome::Succeeded {
                for disk in record.disks.iter_mut().filter(|disk| disk.uuid == first.disk) {
                    disk.state = DiskState::Confirmed;
                }
                if !first.addresses.is_empty() {
                    record.addresses.clone_from(&first.addresses);
                }
            }
            if let Some(boot) = first.locked {
                record.keep_lock(boot);
            }
            record.reported = Some(Reported { at: now(), disk: first.disk, outcome });
            let record = writer.put(&record).map_err(unusable)?;
            let status = status(&record).map(|status| self.0.write_status(&first.ek, status));
            status.transpose().map(drop).map_err(unusable)
        })
    }

    /// The record of a node that begins the cluster, with what an earlier attempt on it left behind.
    fn first_record(&self, first: &FirstNode, key_version: u32) -> Result<NodeRecord, CommandError> {
        let name = first.name.parse::<NodeName>();
        let name = name.map_err(|error| CommandError::new(Exit::Node, CommandCode::NodeName, error.to_string()))?;
        let earlier = self.0.record(&first.ek).map_err(unusable)?;
        let earlier = match earlier {
            Some(record) if record.disk(first.disk).is_some() => return Ok(record.into_inner()),
            other => other,
        };
        let fresh = NodeRecord::first(first.ek, name, Role::ControlPlane, first.disk, key_version, now());
        // Another disk makes no other machine of it: what is on record of its firmware and TPM stays there.
        let earlier = earlier.map(Recorded::into_inner);
        let retired = earlier.as_ref().map(|record| record.uuids().collect()).unwrap_or_default();
        let (firmware, tpm) = earlier.map(|record| (record.firmware, record.tpm)).unwrap_or_default();
        Ok(NodeRecord { retired, firmware, tpm, ..fresh })
    }
}
