//! The cluster step of everything that is not kubeadm: one program of the image.
//!
//! It is called with one argument, `init`, `join` or `start`, and reads one JSON object from stdin (see [`Input`]). Lines
//! on stderr are progress. What it prints to stdout after `init` is the operator's admin configuration. Exit status 0 is
//! success. It may be called again after a crash in the middle, and then undoes or resumes what is half done. When it
//! ends, so does everything it started: what is to stay is started by the service manager.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_api::v1::ClusterSettings;
use latchkey_keys::SecretVec;
use serde::Serialize;
use zeroize::Zeroizing;

use super::child::{self, Call, Stdout};
use super::{ClusterStep, Done, Member, Progress, Running, StepCode, StepError, Work};
use crate::lifecycle::NodeRole;

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
    /// What the operator wants of the new cluster; only if the work is `init`.
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<Settings<'a>>,
}

/// Empty strings and lists: the program's default.
#[derive(Serialize)]
struct Settings<'a> {
    kubernetes_version: &'a str,
    control_plane_endpoint: &'a str,
    apiserver_cert_sans: &'a [String],
    pod_cidr: &'a str,
    service_cidr: &'a str,
    untainted: bool,
}

impl<'a> From<&'a ClusterSettings> for Settings<'a> {
    fn from(settings: &'a ClusterSettings) -> Self {
        Self {
            kubernetes_version: &settings.kubernetes_version,
            control_plane_endpoint: &settings.control_plane_endpoint,
            apiserver_cert_sans: &settings.apiserver_cert_sans,
            pod_cidr: &settings.pod_cidr,
            service_cidr: &settings.service_cidr,
            untainted: settings.untainted,
        }
    }
}

impl ClusterStep for Hook {
    fn run<'a>(&'a self, member: &'a Member, work: &'a Work, progress: Progress<'a>) -> Running<'a> {
        Box::pin(async move {
            let (argument, payload, settings) = match work {
                Work::Init(settings, _) => ("init", &[][..], Some(settings.into())),
                Work::Join(cluster) => ("join", &cluster.payload[..], None),
                Work::Start(_) => ("start", &[][..], None),
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
                    settings,
                })
                .map_err(|e| StepError::new(StepCode::Input, e.to_string()))?,
            );
            let call = Call {
                program: &self.program,
                arguments: &[argument],
                stdin: &input,
                stdout: Stdout::Result,
                limit: LIMIT,
                hidden: &[],
            };
            let result = child::run(call, progress).await?;
            let admin_config = if matches!(work, Work::Init(..)) { result } else { SecretVec::from_slice(&[]) };
            Ok(Done { admin_config, addresses: Vec::new(), news: false })
        })
    }
}
