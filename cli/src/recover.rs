//! `latchkey recover`: the key of a disk whose node reaches no join service.

use std::time::Duration;

use latchkey_api::v1::RecoverRequest;
use latchkey_channel::{LockDemand, Purpose};
use latchkey_keys::{ClusterId, KeyId, MasterSecret, Uuid};
use serde_json::json;

use crate::cluster_dir::ClusterDir;
use crate::failure::{Exit, Failure};
use crate::node::{self, Address, CALL, ConnectError, Patience, RefusedCall, refused_call};
use crate::output::{Output, Tone, pairs};
use crate::spec::Arguments;
use crate::trust::Trust;
use crate::verify::proven_in_words;

const TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let address: Address = arguments.operand_text(0)?.parse().map_err(|error: String| Failure::usage(error))?;
    let place = ClusterDir::open(arguments.required_path("cluster")?)?;
    let cluster = place.required_cluster()?;
    let trust = Trust::from_files_or_directory(arguments)?;
    let master = MasterSecret::load(arguments.required_path("master-secret")?)?;
    let mut patience = Patience::new(arguments.timeout(TIMEOUT)?);
    let attempt = || Box::pin(attempt(&address, &trust, &master, cluster.cluster_id, output));
    let (name, disk) = node::block_on(patience.repeat(output, attempt))?;
    let text = pairs(&[
        ("node", name.clone()),
        ("disk", disk.to_string()),
        ("cluster id", cluster.cluster_id.to_string()),
        ("recovered", output.paint(Tone::Good, "yes: the node is locked and opens its disk")),
    ]);
    let json = json!({"node": name, "disk_uuid": disk, "cluster_id": cluster.cluster_id});
    output.result(&json, &format!("\n{text}"));
    Ok(())
}

async fn attempt(
    address: &Address,
    trust: &Trust,
    master: &MasterSecret,
    expected: ClusterId,
    output: &Output,
) -> Result<(String, Uuid), ConnectError> {
    output.waiting(&format!("connecting to {address}"));
    let node = node::connect(address, Purpose::Recover, trust, LockDemand::Unlocked, None).await?;
    output.say(Tone::Good, "proven", &proven_in_words(&node.admission));
    let described = node.describe_recovery(address).await?;
    output.say(Tone::Plain, "node", &format!("{}, disk {}", described.node_name, described.disk));
    let cluster = push(&node, address, master, described.disk).await.map_err(RefusedCall::trouble)?;
    if cluster != expected {
        let failure =
            Failure::new(Exit::Node, "wrong-cluster", "the disk's key fits, but the disk is of another cluster");
        return Err(ConnectError::Fatal(
            failure.because(format!("it is of cluster {cluster}, and the directory of {expected}")),
        ));
    }
    Ok((described.node_name, described.disk))
}

/// Offers the keys of one disk.
pub(crate) async fn push(
    node: &node::Node,
    address: &Address,
    master: &MasterSecret,
    disk: Uuid,
) -> Result<ClusterId, RefusedCall> {
    let derive = |id| master.derive_current(&id).map_err(|error| RefusedCall::local(Failure::from(error)));
    let request = RecoverRequest {
        disk_uuid: disk.to_string(),
        state_disk_key: derive(KeyId::StateDisk(disk))?.expose().to_vec(),
        measurement_secret: derive(KeyId::MeasurementSecret)?.expose().to_vec(),
    };
    let answer = node.recovery().recover(&request, CALL).await.map_err(|status| refused_call(address, &status))?;
    let id = <[u8; 32]>::try_from(answer.cluster_id.as_slice()).map_err(|_| {
        RefusedCall::local(Failure::new(Exit::Node, "answer-malformed", "the node's answer is malformed"))
    })?;
    Ok(ClusterId::from_bytes(id))
}
