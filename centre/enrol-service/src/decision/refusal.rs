//! Why a cluster is not taken up, and why it waits.

use latchkey_api::grpc::{Code, Status};
use latchkey_reason::reason_codes;

reason_codes! {
    /// Why a machine's cluster is not taken up.
    pub enum Refusal {
        /// A channel of another purpose.
        WrongPurpose = "enrol-wrong-purpose":
            "ask over a channel of the purpose enrol";
        /// Fields that are no values of theirs.
        RequestInvalid = "enrol-request-invalid":
            "the request has a field that is no value of its kind: this is a fault of the agent";
        /// The operator shut this TPM out.
        Denied = "enrol-denied":
            "this machine is shut out: take the file of its TPM out of `denied/` if that was not meant";
        /// What proved the machine when it connected is not admitted any more.
        NoLongerAdmitted = "enrol-no-longer-admitted":
            "policy or manifests were changed since the machine connected, and do not admit it any more: the service's log has the reason";
        /// The TPM and the disk are on record with a lock on another cluster.
        OtherLock = "enrol-locked-to-another-cluster":
            "this machine registered a cluster with this disk, and is locked to another one now: if it was set up anew, give it an empty disk";
        /// It registered its cluster long ago, and asks for another link.
        LongAgo = "enrol-registered-long-ago":
            "this machine registered its cluster more than a week ago, and gets no more links by itself: if its cluster needs keys, run the command of the cluster's page there";
        /// Another machine registered this cluster.
        ClusterOfAnother = "enrol-cluster-of-another-machine":
            "another machine registered the cluster that this one is locked to: only a cluster's first node registers it";
        /// No such invitation, or it was taken back.
        InvitationUnknown = "invitation-unknown":
            "there is no such invitation: make one with `latchkey cluster invite`, or see that the file was copied whole";
        /// Its time is over.
        InvitationExpired = "invitation-expired":
            "the invitation has expired: make another with `latchkey cluster invite`";
        /// A machine used it.
        InvitationUsed = "invitation-used":
            "a machine used this invitation already: if that was not yours, decommission its cluster; make another with `latchkey cluster invite`";
        /// A cluster has that name, or had it: of our records, or at the centre.
        NameTaken = "enrol-name-taken":
            "another cluster has this name, or had it not long ago (the log says which): invite or admit this machine under another name, or delete and decommission that cluster";
        /// The pattern of the rule has no name left.
        NoNameLeft = "enrol-no-name-left":
            "every name that the rule's pattern gives is taken: give the rule another pattern, or delete and decommission clusters that are no more";
        /// The operator's files about this machine cannot be read.
        DirectoryUnusable = "enrol-directory-unusable":
            "a file of the enrol service's directory cannot be used: the service's log names it";
        /// The record could not be made durable.
        RecordNotWritten = "enrol-record-not-written":
            "the record could not be written: the service's log has the reason";
        /// Its configuration was written once, and is gone.
        Deleted = "enrol-cluster-deleted":
            "this machine's cluster was deleted at the centre: set the machine up anew, with an empty disk, to register another";
        /// The centre does not answer, or is busy with the cluster.
        BeingSetUp = "enrol-being-set-up":
            "the centre has not set the cluster up yet: the node asks again; the cluster's page says how far it is";
        /// The centre says no.
        CentreRefused = "enrol-centre-refused":
            "the centre refuses what this service asks: the service's log has the reason, and the cluster's page what is wrong with the cluster";
    }
}

reason_codes! {
    /// Why a machine waits for the operator.
    pub enum Waiting {
        /// No invitation and no rule speaks of it.
        NotInvited = "enrol-not-invited":
            "no invitation and no rule speaks of this machine: `latchkey cluster admit` takes it up, if it is yours";
        /// The rule that speaks of it made its clusters of the day.
        QuotaReached = "enrol-quota-reached":
            "the rule that speaks of this machine has made its clusters of the last 24 hours: wait, raise `per_day`, or use `latchkey cluster admit`";
    }
}

impl Refusal {
    /// What the node is told. `request` is the request's id in the log.
    pub fn status(self, request: &str) -> Status {
        Status::new(self.status_code(), format!("{self}: {} [request {request}]", self.remedy()))
    }

    const fn status_code(self) -> Code {
        match self {
            Self::WrongPurpose
            | Self::Denied
            | Self::NoLongerAdmitted
            | Self::OtherLock
            | Self::LongAgo
            | Self::ClusterOfAnother
            | Self::Deleted
            | Self::InvitationUnknown
            | Self::InvitationExpired
            | Self::InvitationUsed => Code::PermissionDenied,
            Self::RequestInvalid => Code::InvalidArgument,
            Self::NameTaken => Code::AlreadyExists,
            Self::NoNameLeft => Code::ResourceExhausted,
            Self::BeingSetUp => Code::Unavailable,
            Self::CentreRefused => Code::FailedPrecondition,
            Self::DirectoryUnusable | Self::RecordNotWritten => Code::Internal,
        }
    }
}

impl std::error::Error for Refusal {}
