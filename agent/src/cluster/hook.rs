//! The cluster step of everything that is not kubeadm: one program of the image.
//!
//! It is called with one argument, `init`, `join` or `start`, and reads one JSON object from stdin (see [`Input`]). Lines
//! on stderr are progress. What it prints to stdout after `init` is the operator's admin configuration. Exit status 0 is
//! success.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_keys::SecretVec;
use serde::Serialize;
use zeroize::Zeroizing;

use super::child;
use super::{ClusterStep, Done, Member, Progress, Running, StepError, Work};
use crate::life::NodeRole;

/// How long the program may take.
const LIMIT: Duration = Duration::from_mins(30);

/// Runs the program named in the measured configuration (`latchkey.command`).
#[derive(Debug)]
pub struct Hook {
    /// Absolute path in the image.
    pub program: String,
}

/// What the program reads from stdin.
#[derive(Serialize)]
struct Input<'a> {
    version: u8,
    node_name: &'a str,
    role: NodeRole,
    cluster_id: &'a str,
    cluster_name: &'a str,
    disk: &'a str,
    /// Base64 of the join service's payload; empty unless the work is `join`.
    payload: &'a str,
}

impl ClusterStep for Hook {
    fn run<'a>(&'a self, member: &'a Member, work: &'a Work, progress: Progress<'a>) -> Running<'a> {
        Box::pin(async move {
            let (argument, payload) = match work {
                Work::Init(_) => ("init", &[][..]),
                Work::Join(cluster) => ("join", &cluster.payload[..]),
                Work::Start => ("start", &[][..]),
            };
            let payload = Zeroizing::new(STANDARD.encode(payload));
            let input = Zeroizing::new(
                serde_json::to_vec(&Input {
                    version: 1,
                    node_name: &member.node_name,
                    role: member.role,
                    cluster_id: &member.cluster_id,
                    cluster_name: &member.cluster_name,
                    disk: &member.disk,
                    payload: &payload,
                })
                .map_err(|e| StepError::new("step-input", e.to_string()))?,
            );
            let result = child::run(&self.program, &[argument], &input, LIMIT, progress).await?;
            let admin_config = if matches!(work, Work::Init(_)) { result } else { SecretVec::from_slice(&[]) };
            Ok(Done { admin_config })
        })
    }
}
