//! What can happen to a node and what it may do about it.
//!
//! Events are recorded as they happen, one JSON object a line, so they carry no secret: a key stays with the driver, which
//! knows it by the [`OfferId`].

use latchkey_api::OfferRefusal;
use latchkey_reason::Reason;
use serde::{Deserialize, Serialize};

/// A SHA-256 digest or PCR value, 64 hex digits in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| "a digest is 64 hex digits")?;
        Ok(Self(bytes))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        hex::encode(digest.0)
    }
}

impl core::fmt::Debug for Digest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// The four ways a key reaches a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The operator's `latchkey init` made this node the first of a cluster.
    Init,
    /// A join service issued a join ticket.
    Join,
    /// A join service issued the key of a known disk.
    Rejoin,
    /// The operator's `latchkey recover` pushed the key of a known disk.
    Recovery,
}

/// Names one offer within one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OfferId(pub u32);

/// What a node is in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRole {
    /// The node that `latchkey init` made the cluster with.
    First,
    /// A further control-plane node.
    ControlPlane,
    /// A worker.
    Worker,
}

/// How far the disk's bootstrap got, from its authenticated token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskPhase {
    /// Formatted, but the cluster step never finished.
    Formatted,
    /// The node is a member of its cluster.
    Bootstrapped,
}

/// What an attested, authorised peer granted. The key itself stays with the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Names the offer.
    pub id: OfferId,
    /// Who made it.
    pub source: Source,
    /// The cluster that the lock will name; for a key of an existing disk it is what the granted secret and the disk's
    /// salt give.
    pub cluster_id: Option<Digest>,
    /// The epoch that the join service has on record, where there is one.
    pub epoch: Option<u64>,
}

/// Something a driver saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// The state disk is blank, or reset by this many earlier attempts.
    DiskFresh {
        /// Bootstraps of this disk that failed.
        attempts: u8,
    },
    /// The state disk carries a header that passed every check that needs no key.
    DiskExisting,
    /// The header says that the first bootstrap of a cluster began on this disk and never finished. Its own,
    /// unauthenticated word; whoever can write it could as well have overwritten the disk.
    DiskAbandoned {
        /// From the header: bootstraps that failed before this one.
        attempts: u8,
    },
    /// A flow brought a key from a peer that is proven and authorised.
    Offered(Grant),
    /// The offered key opens the disk's key slot and its token's MAC is right.
    KeyFits {
        /// Which offer.
        id: OfferId,
        /// From the token.
        phase: DiskPhase,
        /// From the token.
        role: NodeRole,
        /// From the token.
        cluster_id: Digest,
        /// From the token.
        epoch: u64,
        /// From the token: bootstraps of this disk that failed before this one.
        attempts: u8,
    },
    /// The offered key does not open the disk, or the token is not authentic under it.
    KeyWrong {
        /// Which offer.
        id: OfferId,
        /// Why.
        #[serde(with = "super::code")]
        code: OfferRefusal,
    },
    /// PCR 15 was extended; this is what the TPM then read back.
    Extended {
        /// Value of PCR 15, SHA-256 bank.
        pcr15: Digest,
    },
    /// The mapping of the state disk is there.
    DiskOpened,
    /// What stage 2 needs lies in the hand-over.
    HandedOver,
    /// A flow could not begin. The others go on.
    FlowFailed {
        /// Which.
        source: Source,
        /// Reason code.
        #[serde(with = "super::code::any")]
        code: Reason,
        /// What happened, in one sentence.
        message: String,
    },
    /// A flow has nobody to ask: the measured configuration names no join service, or not its key.
    FlowIdle {
        /// Which.
        source: Source,
    },
    /// A step failed for good.
    Failed {
        /// Reason code.
        #[serde(with = "super::code::any")]
        code: Reason,
        /// What happened, in one sentence.
        message: String,
    },
}

/// What the driver must do now. `OpenDisk` carries the permit that the disk functions ask for.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Begin a flow: a server that listens or a client that asks around.
    Start(Source),
    /// Ask a join service for a ticket for the existing disk, whose bootstrap never finished.
    ResumeJoin,
    /// End a flow; nothing it still brings counts.
    Stop(Source),
    /// Try the offered key on the one header copy in memory.
    CheckKey(OfferId),
    /// Tell whoever made the offer.
    Answer(OfferId, Verdict),
    /// Extend PCR 15 and read it back.
    Lock(super::LockOrder),
    /// Format the blank disk, or not, and open it.
    OpenDisk(super::OpenPermit),
    /// Write what stage 2 needs.
    HandOver(OfferId),
    /// Leave for the OS.
    Leave,
    /// End this boot.
    End(Stop),
}

impl Effect {
    /// A stable word for logs and replays; says nothing secret because an effect holds nothing secret.
    pub fn name(&self) -> String {
        match self {
            Self::Start(source) => format!("start-{source}"),
            Self::ResumeJoin => "resume-join".into(),
            Self::Stop(source) => format!("stop-{source}"),
            Self::CheckKey(OfferId(id)) => format!("check-key {id}"),
            Self::Answer(OfferId(id), Verdict::Accepted { .. }) => format!("accept {id}"),
            Self::Answer(OfferId(id), Verdict::Refused { code, .. }) => format!("refuse {id} {code}"),
            Self::Answer(OfferId(id), Verdict::Failed { code, .. }) => format!("refuse {id} {code}"),
            Self::Lock(_) => "lock".into(),
            Self::OpenDisk(permit) if permit.format().is_some() => "format-disk".into(),
            Self::OpenDisk(_) => "open-disk".into(),
            Self::HandOver(_) => "hand-over".into(),
            Self::Leave => "leave".into(),
            Self::End(Stop::Refused { code, .. }) => format!("end-refused {code}"),
            Self::End(Stop::Reset { code, .. }) => format!("end-reset {code}"),
        }
    }
}

impl core::fmt::Display for Source {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Init => "init",
            Self::Join => "join",
            Self::Rejoin => "rejoin",
            Self::Recovery => "recovery",
        })
    }
}

/// The answer to an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The key is right and the node goes on with it.
    Accepted {
        /// The cluster.
        cluster_id: Digest,
    },
    /// Not this one.
    Refused {
        /// Why.
        code: OfferRefusal,
        /// What happened, in one sentence.
        message: String,
    },
    /// Not this one, and none in this boot: something failed.
    Failed {
        /// Reason code.
        code: Reason,
        /// What happened, in one sentence.
        message: String,
    },
}

/// How a boot ends that does not leave for the OS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Reported on the console and to whoever asked; then back-off and reboot. The disk stays as it is.
    Refused {
        /// Reason code.
        code: Reason,
        /// What happened, in one sentence.
        message: String,
    },
    /// A bootstrap that can't be resumed: wipe the header, count the attempt, reboot into a fresh start.
    Reset {
        /// Why.
        code: OfferRefusal,
        /// Attempts including this one.
        attempts: u8,
    },
}
