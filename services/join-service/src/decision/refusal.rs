//! Why a request is refused after its sender has proven what it runs.

use latchkey_api::grpc::{Code, Status};
use latchkey_reason::reason_codes;

reason_codes! {
    /// Why a request is refused after its sender has proven what it runs.
    pub enum Refusal {
        /// The method is not for this purpose.
        WrongPurpose = "wrong-channel-purpose":
            "this connection was attested for another purpose: connect with the purpose that the method needs";
        /// `cluster.json` is not there.
        NotInitialised = "cluster-not-initialised":
            "there is no cluster yet: run `latchkey init`; nodes keep asking";
        /// Not a UUID, or the nil UUID.
        DiskUuidInvalid = "disk-uuid-invalid":
            "`disk_uuid` must be a UUID that is not nil";
        /// The requested name is none, and no rule gives another.
        NodeNameInvalid = "node-name-invalid":
            "`node_name` must be an RFC 1123 name in lower case, or the enrolment rules must give one";
        /// A number that is no role.
        RoleInvalid = "role-invalid":
            "`role` must be control-plane, worker or unspecified";
        /// A field of the report is too long.
        ReportInvalid = "report-invalid":
            "`code` must have at most 64 bytes, `message` at most 4096, and `addresses` at most 16 IP addresses";
        /// The rules let this TPM in under no role.
        NotEnrolled = "enrolment-refused":
            "the enrolment rules refuse this TPM: add a rule for its EK digest if the machine is to be let in";
        /// The operator shut this TPM out.
        Denied = "machine-denied":
            "the operator shut this machine out: `latchkey node allow` takes that back";
        /// More machines were shut out than denials are there.
        DenialsLost = "denials-lost":
            "a denial is gone that the cluster's document counts, and nobody knows whose: the operator puts it back, or says with `latchkey upgrade store` how many there are; nodes keep asking";
        /// What the cluster decides by is known as of too long ago: a denial may be missed.
        ClusterUnheard = "cluster-unheard":
            "the join service hears nothing of the cluster's API server, or cannot read the denials in its directory, so that one could be missed: see that it answers, or what `/healthz` says of the directory; nodes keep asking";
        /// Its evidence would be refused now.
        NoLongerAdmitted = "no-longer-admitted":
            "policy, manifests or denials were changed since this machine proved itself, and do not admit it: it proves itself anew";
        /// It asks more often than any machine needs to.
        TooManyCalls = "too-many-calls":
            "this machine asks all the time: find out what runs on it; its next calls are taken some seconds later";
        /// No rule speaks of this TPM, and the operator has not said anything yet.
        Held = "enrolment-held":
            "this machine waits for its operator: `latchkey node admit` with its EK digest lets it in; it keeps asking";
        /// It asks to be a control plane and is not meant to be one.
        RoleDenied = "role-denied":
            "this machine may not be a control plane: pin its EK digest to that role in the enrolment rules if it shall be";
        /// The name belongs to another TPM.
        NameTaken = "name-taken":
            "another machine has this name: give this one another, or remove the other's record if it is gone";
        /// The name means the API server, a service, or every machine itself.
        NameReserved = "node-name-reserved":
            "this name means the cluster's API server, a service or every machine itself: give the machine another name";
        /// The disk belongs to another TPM.
        DiskTaken = "disk-of-another-node":
            "this disk is on another machine's record: put it back, or let the agent format it anew";
        /// The disk was replaced by a later one of the same node.
        DiskRetired = "disk-retired":
            "this disk was replaced by a later one: attach the current disk, or let the agent format this one anew";
        /// A known TPM with a new disk, and the rules say no.
        NewDiskRefused = "new-disk-refused":
            "this machine is known with another disk: attach that, or remove the machine's record to let it join anew";
        /// Too many disks of which none is confirmed, or too many replaced ones.
        TooManyDisks = "too-many-disks":
            "this machine asked for too many disks without ever finishing a join: find out why, then remove its record";
        /// Its firmware is not the one on its record, and the policy refuses that.
        FirmwareChanged = "firmware-changed":
            "the firmware of this machine is not the one on its record, and the join service's log names the event: if the change is yours, say so with `latchkey policy accept-firmware`";
        /// The counters are those of a boot that was locked, and PCR 15 is zero.
        AlreadyLocked = "boot-already-locked":
            "this boot was locked before, and its TPM is as it was before the lock: switch the machine off and on; if nobody cleared its TPM, ask its host who brought an older state of it back";
        /// The policy was changed since the machine proved itself, and refuses by registers that it did not quote.
        PolicyReloaded = "policy-reloaded":
            "the policy was changed while this machine asked: it asks again, and shows what the new one wants";
        /// A TPM without a record.
        NodeUnknown = "node-unknown":
            "this machine has no record here: it joins first, with an empty disk";
        /// A TPM with a record, and a disk that is not on it.
        DiskUnknown = "disk-unknown":
            "this disk is not on this machine's record: attach the machine's own disk, or let the agent format this one anew";
        /// Another control plane is joining.
        LeaseHeld = "control-plane-lease-held":
            "another control plane is joining: wait until it has reported, at most 10 minutes, or remove it with `latchkey node remove` if it is dead";
        /// A record that cannot be used names this machine, this name or this disk, or two records do.
        RecordsDamaged = "records-damaged":
            "a record that cannot be used, or a second one, names this machine, its name or its disk: restore or remove it; the service's log names it";
        /// The key service does not answer.
        KeysUnavailable = "key-service-unavailable":
            "the key service does not answer: start it, or correct its address";
        /// The key service says no, or gives no usable key.
        KeysRefused = "key-service-refused":
            "the key service refuses this service: let its rules give it the classes state-disk and measurement-secret, and secrets-at-rest for control planes";
        /// Master secret and cluster do not belong together.
        ClusterIdMismatch = "cluster-id-mismatch":
            "measurement secret and salt do not give `cluster_id` of cluster.json: use the master secret that the cluster was made with";
        /// Nobody has said how nodes find the cluster's API server.
        ClusterNotDescribed = "cluster-not-described":
            "say where nodes find the API server: the key `kubernetes.json` of the ConfigMap `latchkey-cluster`; nodes keep asking";
        /// A control plane would join, and what all control planes share is not at hand.
        ControlPlaneFilesMissing = "control-plane-files-missing":
            "this service has no keys for another control plane: let `control_plane_files` of its configuration name the cluster's control-plane.json; nodes keep asking";
        /// The files of control planes are those of another cluster.
        ControlPlaneFilesForeign = "control-plane-files-foreign":
            "the authority in `control_plane_files` is not the one that the cluster publishes: name the control-plane.json that the cluster was made with";
        /// The API server did not take the node's bootstrap token.
        TokenNotMade = "token-not-made":
            "no bootstrap token could be made in the API server: the service's log has the reason; nodes keep asking";
        /// This service and the API server do not agree about the time, so that a token would live too long or not at all.
        ClocksDiffer = "clocks-differ":
            "set the clocks of the join service's machine and of the control planes (NTP): the service's log has the difference; nodes keep asking";
        /// Services of the release before may run beside this one, and neither sees what the other gives.
        NotUpgraded = "api-store-not-upgraded":
            "see that no join service of the release before runs any more, then do what `latchkey upgrade store` says; nodes ask again";
        /// The record could not be made durable.
        RecordNotWritten = "record-not-written":
            "the record could not be written: the service's log has the reason";
    }
}

impl Refusal {
    /// What the peer is told. `request` is the request's id in the log.
    pub fn status(self, request: &str) -> Status {
        Status::new(self.status_code(), format!("{self}: {} [request {request}]", self.remedy()))
    }

    /// The same, with what of the peer's own evidence is the cause.
    pub fn status_for(self, cause: &str, request: &str) -> Status {
        Status::new(self.status_code(), format!("{self}: {cause}; {} [request {request}]", self.remedy()))
    }

    const fn status_code(self) -> Code {
        match self {
            Self::WrongPurpose
            | Self::NotEnrolled
            | Self::Held
            | Self::Denied
            | Self::RoleDenied
            | Self::FirmwareChanged
            | Self::AlreadyLocked
            | Self::NoLongerAdmitted
            | Self::DiskTaken
            | Self::NewDiskRefused
            | Self::DiskUnknown => Code::PermissionDenied,
            Self::NotInitialised
            | Self::ClusterNotDescribed
            | Self::ControlPlaneFilesMissing
            | Self::ControlPlaneFilesForeign
            | Self::DiskRetired
            | Self::KeysRefused
            | Self::ClusterIdMismatch => Code::FailedPrecondition,
            Self::DiskUuidInvalid
            | Self::NodeNameInvalid
            | Self::NameReserved
            | Self::RoleInvalid
            | Self::ReportInvalid => Code::InvalidArgument,
            Self::NameTaken => Code::AlreadyExists,
            Self::TooManyDisks | Self::TooManyCalls => Code::ResourceExhausted,
            Self::NodeUnknown => Code::NotFound,
            Self::LeaseHeld
            | Self::ClusterUnheard
            | Self::DenialsLost
            | Self::KeysUnavailable
            | Self::PolicyReloaded
            | Self::TokenNotMade
            | Self::ClocksDiffer
            | Self::NotUpgraded => Code::Unavailable,
            Self::RecordsDamaged | Self::RecordNotWritten => Code::Internal,
        }
    }
}

impl std::error::Error for Refusal {}
