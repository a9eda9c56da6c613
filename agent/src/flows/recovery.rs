//! The recovery flow: an operator pushes the key of a disk whose node reaches no join service.
//!
//! No other secret is asked for: that the key opens the disk and the measurement secret gives the cluster id in the disk's
//! authenticated token proves that the caller knows the master secret. A wrong key costs one key check and changes nothing.

use latchkey_api::OfferRefusal;
use latchkey_api::grpc::{Request, Status};
use latchkey_api::v1::{DescribeRequest, DescribeResponse, NodeStage, RecoverRequest, RecoverResponse, Recovery};
use latchkey_channel::Purpose;
use latchkey_connection_limits::{Rate, Wait};

use super::init::description;
use super::listener::Peer;
use super::tries::Tries;
use super::{Node, Terms, parse};
use crate::lifecycle::{Source, Verdict};
use crate::platform::clock;

/// Of one network's keys: nobody guesses 32 bytes, but each try costs a key check and lines on a slow console.
const RATE: Rate = Rate { per_minute: 30, burst: 8 };

/// Serves `Recovery` in stage 1.
pub(crate) struct RecoveryFlow {
    node: Node,
    tries: Tries,
}

impl RecoveryFlow {
    /// For the disk of `node`.
    pub(crate) fn new(node: Node) -> Self {
        Self { node, tries: Tries::new(RATE) }
    }
}

impl Recovery<Peer> for RecoveryFlow {
    async fn describe(&self, request: Request<Peer, DescribeRequest>) -> Result<DescribeResponse, Status> {
        request.context.expect(&[Purpose::Recover, Purpose::Verify])?;
        Ok(description(&self.node, NodeStage::Existing))
    }

    async fn recover(&self, request: Request<Peer, RecoverRequest>) -> Result<RecoverResponse, Status> {
        request.context.expect(&[Purpose::Recover])?;
        self.tries.take(request.context.network(), clock::uptime()).map_err(|Wait(time)| {
            Status::resource_exhausted(format!("too many keys were tried; wait {} s", time.as_secs() + 1))
        })?;
        let mut message = request.message;
        parse::same_disk(&message.disk_uuid, self.node.disk_uuid).map_err(Status::failed_precondition)?;
        let disk_key =
            parse::key("state_disk_key", &message.take_state_disk_key()).map_err(Status::invalid_argument)?;
        let measurement_secret =
            parse::key("measurement_secret", &message.take_measurement_secret()).map_err(Status::invalid_argument)?;
        let components = parse::components(message.components.take()).map_err(Status::invalid_argument)?;
        let terms = Terms::Known { epoch: None, components };
        let verdict = self.node.offer(Source::Recovery, disk_key, measurement_secret, terms);
        match verdict.recv().await.ok() {
            Some(Verdict::Accepted { cluster_id }) => Ok(RecoverResponse { cluster_id: cluster_id.0.to_vec() }),
            Some(Verdict::Refused { code, message }) => Err(match code {
                OfferRefusal::Busy => Status::resource_exhausted(message),
                OfferRefusal::AlreadyActivating | OfferRefusal::BootstrapUnfinished => {
                    Status::failed_precondition(format!("{code}: {message}"))
                }
                OfferRefusal::WrongFlow
                | OfferRefusal::OfferGone
                | OfferRefusal::NoHeader
                | OfferRefusal::DiskWrongKey
                | OfferRefusal::DiskTokenMissing
                | OfferRefusal::DiskTokenForged
                | OfferRefusal::WrongCluster => Status::invalid_argument(format!("{code}: {message}")),
            }),
            Some(Verdict::Failed { code, message }) => {
                Err(Status::invalid_argument(format!("{code}: {message}; {}", code.remedy)))
            }
            None => Err(Status::unavailable("the node is about to reboot; look at its console")),
        }
    }
}
