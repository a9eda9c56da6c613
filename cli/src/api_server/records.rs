//! What a record in the API server is needed for: the witness for a disk's key, and changes.

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::objects::{GROUP, NODE, VERSION};
use latchkey_cluster_store::{DiskRelease, NodeRecord, NotDenied, Recorded, ReleaseRefusal};
use latchkey_keys::Uuid;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Instant;

use super::machines::resource;
use super::{ApiServer, DenialMaps as _, TRIES};
use crate::clock::now;
use crate::cluster_dir::{has_a_record, refused};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::stock::{Scope, StockCode};

/// A record, and all else that has to go back with it.
#[derive(Deserialize)]
struct RecordObject {
    metadata: Box<RawValue>,
    spec: NodeRecord,
}

/// The same as it goes back.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replacement<'a> {
    api_version: String,
    kind: &'a str,
    metadata: &'a RawValue,
    spec: &'a NodeRecord,
}

impl ApiServer {
    /// The witness that a machine is not shut out now.
    async fn not_denied(&self, ek: EkDigest) -> Result<NotDenied, CommandError> {
        let now = Instant::now();
        self.denied().await?.check(&ek, now).map_err(|refusal| refused(&refusal))
    }

    /// The witness for a disk in this machine: nobody shut it out, its record names the disk, and no other record does.
    pub(crate) async fn release_of(&self, ek: EkDigest, disk: Uuid) -> Result<DiskRelease, CommandError> {
        let not_denied = self.not_denied(ek).await?;
        // Others that cannot be read are passed over, as in a directory: this machine's own has to name the disk.
        let (records, _) = self.records().await?;
        let names = |record: &&NodeRecord| record.ek_sha256 != ek && record.uuids().any(|uuid| uuid == disk);
        if let Some(other) = records.iter().find(names) {
            let (owner, name) = (other.ek_sha256, other.name.to_string());
            return Err(refused(&ReleaseRefusal::DiskOfAnother { ek, disk, owner, name }));
        }
        let own = records.into_iter().find(|record| record.ek_sha256 == ek);
        let own = own.ok_or_else(|| refused(&ReleaseRefusal::MachineNotOnRecord { ek }))?;
        #[expect(clippy::disallowed_methods, reason = "it was read from the API server just now")]
        let recorded = Recorded::stands_elsewhere(own, 0);
        recorded.release(disk, &not_denied).map_err(|refusal| refused(&refusal))
    }

    /// Makes the record of the machine that has this disk that of another, as [`NodeRecord::moved_to`] says it; the witness for the
    /// disk, and the machine that it was of, if it was not of this one before.
    ///
    /// While both records name the disk, neither machine gets its key: cut anywhere, this is done again. Name and disks stand
    /// on records meanwhile, so nobody else gets them.
    pub(crate) async fn move_record(
        &self,
        disk: Uuid,
        to: EkDigest,
    ) -> Result<(DiskRelease, Option<EkDigest>), CommandError> {
        drop(self.not_denied(to).await?);
        let (records, _) = self.records().await?;
        let names = |record: &&NodeRecord| record.ek_sha256 != to && record.uuids().any(|uuid| uuid == disk);
        let Some(before) = records.iter().find(names) else { return Ok((self.release_of(to, disk).await?, None)) };
        // A disk that was replaced is nobody's any more, wherever it is.
        before.version_of(disk).map_err(|refusal| refused(&refusal))?;
        match records.iter().find(|record| record.ek_sha256 == to) {
            Some(half) if half.is_move_of(before) => {}
            Some(_) => return Err(has_a_record(to)),
            None => self.create_record(&before.moved_to(to, now())).await?,
        }
        self.kubectl().delete(&resource(NODE), Scope::Cluster, &before.ek_sha256.to_string()).await?;
        Ok((self.release_of(to, disk).await?, Some(before.ek_sha256)))
    }

    /// Changes a record as it is now: the record before, if there is one.
    pub(crate) async fn change_record(
        &self,
        ek: EkDigest,
        change: &mut dyn FnMut(&mut NodeRecord) -> bool,
    ) -> Result<Option<NodeRecord>, CommandError> {
        for _ in 0..TRIES {
            let known = self.kubectl().get::<RecordObject>(&resource(NODE), Scope::Cluster, &ek.to_string()).await?;
            let Some(RecordObject { metadata, spec: before }) = known else { return Ok(None) };
            let mut record = before.clone();
            if record.ek_sha256 != ek || record.check().is_err() {
                let what = format!("attestednodes/{ek} is no record of this release");
                return Err(CommandError::new(Exit::Usage, CommandCode::FileMalformed, what)
                    .fix("correct it with kubectl edit"));
            }
            if !change(&mut record) {
                return Ok(Some(before));
            }
            let api_version = format!("{GROUP}/{VERSION}");
            let replacement = Replacement { api_version, kind: NODE.0, metadata: &metadata, spec: &record };
            let document = serde_json::to_vec(&replacement).map_err(|error| {
                CommandError::new(Exit::Failed, CommandCode::FileMalformed, format!("attestednodes/{ek}"))
                    .because(error.to_string())
            })?;
            match self.kubectl().replace::<IgnoredAny>(&document).await {
                Ok(_) => return Ok(Some(before)),
                // Read anew: what was decided on is not what is there.
                Err(error) if error.is(StockCode::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let what = format!("others write the record of {ek} first, each time");
        Err(CommandError::new(Exit::Failed, StockCode::Conflict, what))
    }
}
