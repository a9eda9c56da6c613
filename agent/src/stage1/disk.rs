//! The state disk in stage 1: one look, one header copy, one opening.

use std::fmt;

use latchkey_api::OfferRefusal;
use latchkey_disk::{
    CheckedHeader, Control, Disk, Fresh, KernelRandom, Mapping, MappingName, NewDisk, NodeState, Phase, Probe,
    ResetMarker, ResetPermit, Role, SegmentMode, TokenKey, UnlockError, UnlockedDisk, probe, reset,
};
use latchkey_keys::{ClusterId, Uuid};

use super::{BootCode, BootError};
use crate::flows::{Membership, Offer};
use crate::lifecycle::{self, DiskPhase, NodeRole, OpenPermit};
use crate::platform::devices::BlockDevice;
use latchkey_node_config::StateIntegrity;

/// The mapping's name below `/dev/mapper`.
const MAPPING: &str = "state";

/// The device, open for nobody else, and what is known of it.
pub(super) struct StateDisk {
    device: BlockDevice,
    mode: SegmentMode,
    uuid: Uuid,
    /// Gone once it is mapped: the device mapper claims it for itself.
    disk: Option<Disk>,
    content: Content,
}

enum Content {
    Fresh {
        fresh: Fresh,
        attempts: u8,
    },
    Checked(Box<CheckedHeader>),
    /// A key fitted: `unlocked` is made of the same header copy.
    Unlocked(Box<UnlockedDisk>),
    Open,
}

/// An open disk, for the hand-over.
pub(super) struct OpenDisk {
    pub(super) device: String,
    pub(super) mapping: String,
    pub(super) token_key: TokenKey,
    pub(super) uuid: Uuid,
    pub(super) state: NodeState,
}

impl StateDisk {
    /// Reads the header region once. Anything that is neither blank nor ours refuses the boot, untouched; so does a disk
    /// of ours whose protection is not the one that the measured configuration pins.
    pub(super) fn look(device: BlockDevice, pinned: StateIntegrity) -> Result<Self, BootError> {
        let mode = match pinned {
            StateIntegrity::None => SegmentMode::Confidential,
            StateIntegrity::HmacSha256 => SegmentMode::Authenticated,
        };
        let path = device.path();
        let failed = |message: String| BootError::new("look-at-disk", BootCode::StateDiskUnreadable, &message);
        let disk = Disk::open_exclusive(&path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
        let (uuid, content) = match probe(&disk).map_err(|e| BootError::new("look-at-disk", e.code(), &e))? {
            Probe::Fresh(fresh) => {
                let attempts = fresh.reset_marker().map_or(0, |marker| saturate(marker.attempts));
                let uuid = Uuid::random().map_err(|e| failed(e.to_string()))?;
                (uuid, Content::Fresh { fresh, attempts })
            }
            Probe::Existing(header) => {
                let header = header.check(mode).map_err(|e| BootError::new("look-at-disk", e, e.sentence()))?;
                (header.uuid(), Content::Checked(Box::new(header)))
            }
            Probe::Refused(refusal) => return Err(BootError::new("look-at-disk", refusal.code(), &refusal)),
        };
        Ok(Self { device, mode, uuid, disk: Some(disk), content })
    }

    /// Of the header that is or will be on the disk.
    pub(super) const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// What the life machine is told first.
    pub(super) fn event(&self) -> lifecycle::Event {
        match &self.content {
            Content::Fresh { attempts, .. } => lifecycle::Event::DiskFresh { attempts: *attempts },
            Content::Checked(header) => match header.claimed_state() {
                Some(NodeState { role: Role::First, phase: Phase::Formatted, attempt, .. }) => {
                    lifecycle::Event::DiskAbandoned { attempts: saturate(*attempt) }
                }
                _ => lifecycle::Event::DiskExisting,
            },
            Content::Unlocked(_) | Content::Open => lifecycle::Event::DiskExisting,
        }
    }

    /// Tries an offered key on the header copy, and the offered secret on the token's cluster id.
    pub(super) fn check(&mut self, id: lifecycle::OfferId, offer: &Offer) -> lifecycle::Event {
        let wrong = |code| lifecycle::Event::KeyWrong { id, code };
        let Content::Checked(header) = &self.content else { return wrong(OfferRefusal::NoHeader) };
        let unlocked = match header.unlock(&offer.disk_key) {
            Ok(unlocked) => unlocked,
            Err(UnlockError::WrongKey) => return wrong(OfferRefusal::DiskWrongKey),
            Err(UnlockError::TokenMissing) => return wrong(OfferRefusal::DiskTokenMissing),
            Err(UnlockError::TokenForged) => return wrong(OfferRefusal::DiskTokenForged),
        };
        let state = unlocked.state().clone();
        if ClusterId::derive(&offer.measurement_secret, &state.measurement_salt).ok() != Some(state.cluster_id) {
            return wrong(OfferRefusal::WrongCluster);
        }
        self.content = Content::Unlocked(Box::new(unlocked));
        lifecycle::Event::KeyFits {
            id,
            phase: phase(state.phase),
            role: role(state.role),
            cluster_id: lifecycle::Digest(*state.cluster_id.as_bytes()),
            epoch: state.epoch,
            attempts: saturate(state.attempt),
        }
    }

    /// Opens the disk, and formats it first if the permit says so. The permit exists only after the lock, and is
    /// used up here.
    pub(super) fn open(
        &mut self,
        permit: OpenPermit,
        offer: &Offer,
        membership: Option<&Membership>,
    ) -> Result<OpenDisk, BootError> {
        let failed = |error: latchkey_disk::DiskError| BootError::new("open-disk", error.code(), &error);
        let bug = |what: &str| BootError::new("open-disk", BootCode::Bug, what);
        let disk = self.disk.take().ok_or_else(|| bug("the disk was opened before"))?;
        let io = |error: std::io::Error| {
            BootError::new("open-disk", BootCode::DeviceMapper, &format!("/dev/mapper/control: {error}"))
        };
        let control = Control::open().map_err(io)?;
        let name = MAPPING.parse::<MappingName>().map_err(|e| BootError::new("open-disk", BootCode::Bug, &e))?;
        let ((mapping, token_key), uuid, state) =
            match (std::mem::replace(&mut self.content, Content::Open), permit.redeem(), membership) {
                (Content::Fresh { fresh, .. }, Some(attempts), Some(membership)) => {
                    let (mode, uuid, state) = (self.mode, self.uuid, new_state(membership, attempts)?);
                    let new = NewDisk { mode, uuid, key: &offer.disk_key, state: state.clone() };
                    let opened = Mapping::format(&control, disk, fresh, new, name, &mut KernelRandom);
                    (opened.map_err(failed)?, uuid, state)
                }
                (Content::Unlocked(unlocked), None, _) => {
                    let (uuid, state) = (unlocked.uuid(), unlocked.state().clone());
                    (Mapping::open(&control, disk, *unlocked, name).map_err(failed)?, uuid, state)
                }
                _ => return Err(bug("the permit does not fit the disk")),
            };
        Ok(OpenDisk {
            device: self.device.path().display().to_string(),
            mapping: mapping.path().display().to_string(),
            token_key,
            uuid,
            state,
        })
    }

    /// Gives the disk back after a bootstrap that never finished.
    pub(super) fn reset(&mut self, code: &str, attempts: u8) -> Result<(), BootError> {
        let permit: Option<ResetPermit> = match &self.content {
            Content::Checked(header) => header.claims_unfinished_bootstrap(),
            Content::Unlocked(unlocked) => unlocked.reset_permit(),
            Content::Fresh { .. } | Content::Open => None,
        };
        let (Some(permit), Some(disk)) = (permit, &mut self.disk) else {
            return Err(BootError::new("reset", BootCode::Bug, "this disk may not be reset"));
        };
        let marker = ResetMarker { attempts: attempts.into(), reason: code.parse().unwrap_or_default() };
        reset(disk, permit, &marker).map_err(|error| BootError::new("reset", error.code(), &error))
    }
}

impl fmt::Display for StateDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.device.path();
        match &self.content {
            Content::Fresh { attempts: 0, .. } => write!(f, "{} is blank", path.display()),
            Content::Fresh { attempts, .. } => write!(f, "{} was reset {attempts} times", path.display()),
            Content::Checked(header) => write!(f, "{} is formatted, {}", path.display(), header.uuid()),
            Content::Unlocked(_) | Content::Open => write!(f, "{} is open", path.display()),
        }
    }
}

fn new_state(membership: &Membership, attempts: u8) -> Result<NodeState, BootError> {
    Ok(NodeState {
        role: match membership.role {
            NodeRole::First => Role::First,
            NodeRole::ControlPlane => Role::ControlPlane,
            NodeRole::Worker => Role::Worker,
        },
        node_name: membership.node_name.parse().map_err(|e| BootError::new("open-disk", BootCode::NodeName, &e))?,
        cluster_id: membership.cluster_id,
        measurement_salt: membership.measurement_salt,
        phase: Phase::Formatted,
        epoch: membership.epoch,
        attempt: attempts.into(),
    })
}

/// As the life machine calls it.
pub(super) const fn role(role: Role) -> NodeRole {
    match role {
        Role::First => NodeRole::First,
        Role::ControlPlane => NodeRole::ControlPlane,
        Role::Worker => NodeRole::Worker,
    }
}

/// As the life machine calls it.
pub(super) const fn phase(phase: Phase) -> DiskPhase {
    match phase {
        Phase::Formatted => DiskPhase::Formatted,
        Phase::Bootstrapped => DiskPhase::Bootstrapped,
    }
}

fn saturate(attempts: u32) -> u8 {
    u8::try_from(attempts).unwrap_or(u8::MAX)
}
