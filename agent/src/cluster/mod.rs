//! The cluster step: what makes a node with an open disk a member of its cluster.
//!
//! Two implementations, chosen in the measured configuration: [`Kubeadm`], and [`Hook`], a program of the image for any
//! other orchestrator, or none.

mod api_server;
mod balancer;
mod certificates;
mod check;
pub(crate) mod child;
mod components;
mod config;
mod discovery;
mod family;
pub(crate) mod files;
mod hook;
mod join;
mod kubeadm;
mod kubelet_flags;
mod lines;
mod manifests;
mod record;
mod release;
mod secure_defaults;
mod services;
mod upgrade;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

use latchkey_api::control_plane::ControlPlaneFiles;
use latchkey_api::v1::{ClusterJoin, ClusterSettings, Components};
use latchkey_keys::SecretVec;
use latchkey_reason::reason_codes;

use crate::lifecycle::NodeRole;

pub(crate) use components::MAX_LIST as MAX_COMPONENT_LIST;
pub use components::Seal;
pub use hook::Hook;
pub use kubeadm::Kubeadm;

/// Who the node is, as its cluster knows it.
#[derive(Clone, Debug)]
pub struct Member {
    /// RFC 1123 subdomain.
    pub node_name: String,
    /// Decided by the join service, or `First`.
    pub role: NodeRole,
    /// 64 hex digits.
    pub cluster_id: String,
    /// Name of the cluster; empty where the join service did not say.
    pub cluster_name: String,
    /// The mapping of the open state disk, e.g. `/dev/mapper/state`.
    pub disk: String,
    /// Authenticates what a later boot of it finds on that disk.
    pub seal: Seal,
}

/// What is to be done.
#[derive(Debug)]
pub enum Work {
    /// Make a cluster with this node as its first; with these keys of its authorities, or with the step's own.
    Init(ClusterSettings, Option<ControlPlaneFiles>),
    /// Become a member.
    Join(ClusterJoin),
    /// A member's reboot; with the components that its cluster has by now, where somebody says so and the image has none.
    Start(Option<Components>),
}

/// A step that ended well.
#[derive(Debug)]
pub struct Done {
    /// The operator's credentials, e.g. a kubeconfig; empty unless the work was `Init`.
    pub admin_config: SecretVec,
    /// Where the node serves what its cluster asks of it; empty where the step does not say.
    pub addresses: Vec<IpAddr>,
    /// Whether a member's start changed what its cluster knows of it: then the join service is told.
    pub news: bool,
}

/// Receives one line of progress at a time, for the console and whoever follows.
pub type Progress<'a> = &'a mut (dyn FnMut(&str) + Send);

/// A running step.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<Done, StepError>> + Send + 'a>>;

/// Makes a node a member.
///
/// An implementation may be run again after a crash or a failure of the same work, and must then first undo what is half
/// done. It keeps secrets out of arguments, environment and output.
pub trait ClusterStep: Send + Sync {
    /// Does the work. Dropping the future ends every process it started.
    fn run<'a>(&'a self, member: &'a Member, work: &'a Work, progress: Progress<'a>) -> Running<'a>;
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub struct StepError {
    /// Stable reason code.
    pub code: StepCode,
    /// What happened, in one sentence.
    pub message: String,
    /// The last lines that the step's program printed, tokens blotted out.
    pub log_tail: String,
    /// Whether the disk holds what others need already, and must not be reset: the data of a member of etcd.
    pub disk_stays: bool,
}

reason_codes! {
    /// Why the cluster step failed.
    pub enum StepCode {
        /// The step's program cannot be started.
        NotStarted = "step-not-started": "put the program into the image";
        /// It ended with a failure.
        Failed = "step-failed": "fix what its last lines name";
        /// It did not end in time.
        Timeout = "step-timeout": "fix what its last lines name";
        /// Its output or its end cannot be read, or is too long.
        Output = "step-output": "fix the program; what it leaves running must be services";
        /// What it is to read could not be made.
        Input = "step-input": "report this as a bug";
        /// A file of the step cannot be read or written.
        File = "step-file": "see that the directory is writable and has room";
        /// The directory holds somebody else's cluster; nothing was touched.
        FilesForeign = "cluster-files-foreign": "use an image without these files, or a fresh disk";
        /// The node's name is none for Kubernetes.
        NodeNameRefused = "node-name-refused": "give the node a name that Kubernetes takes";
        /// A setting of the operator is not well-formed.
        SettingsRefused = "settings-refused": "correct the argument of `latchkey init`";
        /// The operator named another minor version of Kubernetes than the image carries.
        VersionDiffers = "kubernetes-version-differs": "name the version that the image carries, or use an image with that one";
        /// What was to run is two minor versions or more ahead of this control plane's, and Kubernetes goes up one at a time.
        SkipsMinor = "kubernetes-skips-a-minor": "start the machine with each minor version in turn; or boot the image it had before";
        /// What was to run is older than what this control plane ran already, and etcd's data do not go back.
        OlderThanCluster = "kubernetes-older-than-cluster": "start the machine with the cluster's Kubernetes: an image that has it, or its components";
        /// A static pod of the control plane is not as kubeadm writes it.
        StaticPodForeign = "static-pod-foreign": "name its image by a tag, once, as kubeadm does";
        /// The node runs, and what its cluster and its kubelet know of its new version is not written.
        UpgradeFailed = "kubernetes-upgrade-failed": "mend what the last line names, and restart the machine: each start tries again";
        /// The join ticket lacks what kubeadm needs.
        TicketIncomplete = "ticket-incomplete": "use a join service with the Kubernetes back-end, and look at its log";
        /// The cluster's nodes reach the API servers by a balancer, and the image carries none.
        BalancerMissing = "api-balancer-missing": "build the image with `api_balancer`, or found the cluster without `--api-balancer`";
        /// What join and key service read would not be kept on the encrypted state disk.
        ServicesNotKept = "services-not-kept": "use an image whose control planes carry both services: `join_service` and `key_service` of its `kubernetes`";
        /// etcd counts this node as one of its members, and its ticket makes a worker of it.
        EtcdMemberStays = "etcd-member-stays": "give the machine the role of a control plane again; or remove it with `latchkey node remove`, and wipe its state disk";
        /// The image has no components, and none are named.
        ComponentsNotNamed = "components-not-named": "name a version when the cluster is made, `latchkey init --kubernetes 1.34`, or use an image with Kubernetes in it";
        /// The image has no components, and those that are named are not there.
        ComponentsMissing = "components-missing": "mend what the last line names; what was got already is kept";
        /// What the disk says of its components is not this node's word.
        ComponentsChanged = "components-record-changed": "wipe the node's state disk, and it joins anew";
        /// The join ticket is not well-formed.
        TicketRefused = "ticket-refused": "look at the join service";
    }
}

impl StepCode {
    /// Whether it is about the Kubernetes that a member starts with: who upgrades the cluster waits for its end.
    pub(crate) const fn is_of_an_upgrade(self) -> bool {
        use StepCode as C;
        let of_components = matches!(self, C::ComponentsMissing | C::ComponentsChanged);
        of_components || matches!(self, C::SkipsMinor | C::OlderThanCluster | C::StaticPodForeign | C::UpgradeFailed)
    }
}

impl StepError {
    pub(crate) fn new(code: StepCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), log_tail: String::new(), disk_stays: false }
    }
}
