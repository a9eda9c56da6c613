//! What is told of a decision: its line in the log, what people see of the machine, and what the machine is told.

use super::JoinService;
use crate::decision::{Grant, Refusal};
use crate::metrics::Method;
use latchkey_api::grpc::Status;
use latchkey_attesting_service::Node;
use latchkey_cluster_store::{NodeStatus, RefusedMachine};
use latchkey_keys::Uuid;
use latchkey_reason::ReasonCode as _;

impl JoinService {
    /// One line per decision, on the target `audit`; never a key, nor text that the node chose freely.
    pub(super) fn decided(
        &self,
        method: Method,
        node: &Node,
        (disk, agent_version): (&str, &str),
        outcome: Result<Option<&Grant>, Refusal>,
    ) -> Result<(), Status> {
        let request_id = self.ids.next();
        self.metrics.call(method, outcome.err());
        let Node { address, purpose, audit_id, admission, .. } = node;
        let (ek, image) = (admission.ek_digest(), admission.image());
        let disk = disk.parse::<Uuid>().map_or_else(|_| "-".to_owned(), |uuid| uuid.to_string());
        let (warnings, manifest) = (admission.warnings().len(), image.manifest.to_string());
        let known_by = admission.trust().known_by().name();
        let (serial, machine) = (image.serial, image.machine.as_str());
        let (image, version) = (image.name.as_str(), image.version.to_string());
        let processor = admission.processor().map_or_else(|| "-".to_owned(), ToString::to_string);
        let firmware = admission.firmware().word();
        match outcome {
            Ok(grant) => {
                self.show(node, method, grant, agent_version);
                let name = grant.map_or("-", |grant| grant.name.as_str());
                let node_role = grant.map_or("-", |grant| grant.role.name());
                let epoch = grant.map_or(0, |grant| grant.epoch);
                tracing::info!(
                    target: "audit", request_id, audit_id, peer = %address, %ek, known_by, %purpose, method = method.name(), disk,
                    outcome = "granted", node = name, node_role, epoch, manifest, serial, image, version, machine, firmware, processor,
                    warnings, "Decision"
                );
                Ok(())
            }
            Err(refusal) => {
                tracing::warn!(
                    target: "audit", request_id, audit_id, peer = %address, %ek, known_by, %purpose, method = method.name(), disk,
                    outcome = "refused", code = refusal.as_str(), manifest, serial, image, version, machine, firmware, processor,
                    warnings, "Decision"
                );
                self.store.show_refusal(RefusedMachine {
                    ek: Some(ek),
                    action: method.name(),
                    reason: refusal.reason(),
                });
                let changes = self.firmware_waiting(ek).filter(|_| refusal == Refusal::FirmwareChanged);
                Err(changes
                    .map_or_else(|| refusal.status(&request_id), |changes| refusal.status_for(&changes, &request_id)))
            }
        }
    }

    /// What the machine proved, and what became of it, for people: after the decision, which does not wait for it.
    fn show(&self, node: &Node, method: Method, grant: Option<&Grant>, agent_version: &str) {
        let (image, now) = (node.admission.image(), self.store.now().unix);
        let status = NodeStatus {
            image: image.name.as_str().to_owned(),
            version: image.version.to_string(),
            agent_version: NodeStatus::agent_version(agent_version),
            epoch: grant.map(|grant| grant.epoch),
            last_attestation: now,
            last_report: (method == Method::Report).then_some(now),
        };
        self.store.show_status(node.ek(), status);
    }
}
