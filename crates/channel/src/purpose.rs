//! What a connection is for, and what each side must show for it.
//!
//! [`Purpose::rule`] is the only place that says which evidence a side may show. It is a closed table:
//! neither the peer nor a configuration file can add a line.

use std::fmt;
use std::str::FromStr;

use latchkey_attestation::LockExpectation;
use serde::{Deserialize, Serialize};

/// The purpose of a connection. It is part of the binding, so evidence made for one purpose is worthless in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// A human's command starts a cluster on a fresh node.
    Init,
    /// The same human comes back to the node after its change to stage 2.
    Attach,
    /// A fresh node asks a join service for its first ticket.
    Join,
    /// A known node asks for the key of its existing disk.
    Rejoin,
    /// A human's command pushes a key to a node that reaches no join service.
    Recover,
    /// A node tells its join service how the boot ended.
    Report,
    /// A human's command looks at a node's proven claims.
    Verify,
    /// A node that founded a cluster registers it with a centre.
    Enrol,
}

impl Purpose {
    /// Every purpose, in the order of the enum.
    pub const ALL: [Self; 8] =
        [Self::Init, Self::Attach, Self::Join, Self::Rejoin, Self::Recover, Self::Report, Self::Verify, Self::Enrol];

    /// The name on the wire, in policies and in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Attach => "attach",
            Self::Join => "join",
            Self::Rejoin => "rejoin",
            Self::Recover => "recover",
            Self::Report => "report",
            Self::Verify => "verify",
            Self::Enrol => "enrol",
        }
    }

    /// What each side may show in this purpose.
    pub const fn rule(self) -> PurposeRule {
        match self {
            Self::Init | Self::Recover => PurposeRule { client: ANYBODY, server: TPM_UNLOCKED },
            Self::Attach => PurposeRule { client: ANYBODY, server: TPM_LOCKED },
            Self::Verify => PurposeRule { client: ANYBODY, server: TPM_EITHER },
            Self::Join | Self::Rejoin => PurposeRule { client: TPM_UNLOCKED, server: TPM_LOCKED_OR_PINNED },
            Self::Report => PurposeRule { client: TPM_LOCKED, server: TPM_LOCKED_OR_PINNED },
            Self::Enrol => PurposeRule { client: TPM_LOCKED, server: PINNED },
        }
    }
}

/// A human at a command line: proves knowledge of a secret inside the channel, not a machine.
const ANYBODY: SideRule = SideRule { kinds: Kinds::of(&[Kind::None]), lock: LockExpectation::Any };
/// A node of this boot that no OS code has run on yet.
const TPM_UNLOCKED: SideRule = SideRule { kinds: Kinds::of(&[Kind::Tpm]), lock: LockExpectation::Unlocked };
/// A node that belongs to a cluster.
const TPM_LOCKED: SideRule = SideRule { kinds: Kinds::of(&[Kind::Tpm]), lock: LockExpectation::Locked };
/// A node at any time of its boot; the verifier says which it expects.
const TPM_EITHER: SideRule = SideRule { kinds: Kinds::of(&[Kind::Tpm]), lock: LockExpectation::Any };
/// A join service: on a node of the cluster, or elsewhere with a key pinned in the measured command line.
const TPM_LOCKED_OR_PINNED: SideRule =
    SideRule { kinds: Kinds::of(&[Kind::Tpm, Kind::PinnedKey]), lock: LockExpectation::Locked };
/// A service of a centre: no node of any cluster, so nothing but the key that the measured command line pins proves it.
const PINNED: SideRule = SideRule { kinds: Kinds::of(&[Kind::PinnedKey]), lock: LockExpectation::Any };

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Purpose {
    type Err = PurposeError;

    fn from_str(name: &str) -> Result<Self, PurposeError> {
        Self::ALL.into_iter().find(|purpose| purpose.name() == name).ok_or(PurposeError)
    }
}

/// The text names no [`Purpose`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a purpose: expected init, attach, join, rejoin, recover, report, verify or enrol")]
pub struct PurposeError;

/// The two lines of the table for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurposeRule {
    /// What the client may show.
    pub client: SideRule,
    /// What the server may show.
    pub server: SideRule,
}

impl PurposeRule {
    /// The line for one side.
    pub const fn side(self, side: Side) -> SideRule {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }
}

/// What one side of one purpose may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideRule {
    /// The kinds of evidence; a side whose verifier accepts none of them cannot be admitted.
    pub kinds: Kinds,
    /// How the node lock of TPM evidence must stand; a verifier may narrow it, never widen it.
    pub lock: LockExpectation,
}

/// One end of a connection. It is part of the binding: evidence sent back to its maker does not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The end that connected.
    Client,
    /// The end that listened.
    Server,
}

impl Side {
    /// The name in the binding and in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// The other end.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// The kinds of evidence a side can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A TPM quote over the binding.
    Tpm,
    /// A signature over the binding by a key whose hash the peer knows.
    PinnedKey,
    /// Nothing: whoever it is must prove itself inside the channel.
    None,
}

impl Kind {
    /// The name on the wire and in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tpm => "tpm",
            Self::PinnedKey => "pinned-key",
            Self::None => "none",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Tpm => 1,
            Self::PinnedKey => 2,
            Self::None => 4,
        }
    }
}

/// A set of [`Kind`]s. On the wire a list without repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<Kind>", try_from = "BoundedKinds")]
pub struct Kinds(u8);

impl Kinds {
    /// The set of these kinds.
    pub const fn of(kinds: &[Kind]) -> Self {
        let mut set = 0;
        let mut rest = kinds;
        while let Some((first, tail)) = rest.split_first() {
            set |= first.bit();
            rest = tail;
        }
        Self(set)
    }

    /// Whether the set holds this kind.
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// Whether the set holds nothing.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What both sets hold.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What either set holds.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The strongest kind in the set: hardware before a key before nothing.
    pub fn strongest(self) -> Option<Kind> {
        self.iter().next()
    }

    /// The kinds in the set, the strongest first.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        [Kind::Tpm, Kind::PinnedKey, Kind::None].into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, kind) in self.iter().enumerate() {
            f.write_str(if position == 0 { "" } else { ", " })?;
            f.write_str(kind.name())?;
        }
        Ok(())
    }
}

impl From<Kinds> for Vec<Kind> {
    fn from(kinds: Kinds) -> Self {
        kinds.iter().collect()
    }
}

/// The list as it arrives: one kind of each at most.
#[derive(Deserialize)]
struct BoundedKinds(Vec<Kind>);

impl TryFrom<BoundedKinds> for Kinds {
    type Error = &'static str;

    fn try_from(list: BoundedKinds) -> Result<Self, Self::Error> {
        let set = Self::of(&list.0);
        if set.iter().count() == list.0.len() { Ok(set) } else { Err("evidence kind listed twice") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_purpose_demands_a_tpm_of_at_least_one_side() {
        for purpose in Purpose::ALL {
            let rule = purpose.rule();
            assert!(rule.client.kinds.contains(Kind::Tpm) || rule.server.kinds.contains(Kind::Tpm), "{purpose}");
            assert!(!rule.server.kinds.contains(Kind::None), "{purpose}: no server goes unproven");
        }
    }

    #[test]
    fn a_key_is_released_only_to_an_open_node() {
        for purpose in [Purpose::Join, Purpose::Rejoin] {
            assert_eq!(purpose.rule().client, TPM_UNLOCKED);
        }
        for purpose in [Purpose::Init, Purpose::Recover] {
            assert_eq!(purpose.rule().server, TPM_UNLOCKED);
        }
    }

    #[test]
    fn a_centre_is_known_by_its_pinned_key_alone_and_a_cluster_by_a_locked_node() {
        assert_eq!(Purpose::Enrol.rule(), PurposeRule { client: TPM_LOCKED, server: PINNED });
        assert!(!PINNED.kinds.contains(Kind::Tpm));
    }

    #[test]
    fn names_round_trip_and_nothing_else_parses() {
        for purpose in Purpose::ALL {
            assert_eq!(purpose.name().parse(), Ok(purpose));
            assert_eq!(serde_json::to_string(&purpose).unwrap(), format!("\"{purpose}\""));
        }
        assert_eq!("Join".parse::<Purpose>(), Err(PurposeError));
        assert_eq!("".parse::<Purpose>(), Err(PurposeError));
    }

    #[test]
    fn a_kind_listed_twice_is_refused() {
        assert_eq!(serde_json::from_str::<Kinds>(r#"["tpm","none"]"#).unwrap(), Kinds::of(&[Kind::Tpm, Kind::None]));
        assert!(serde_json::from_str::<Kinds>(r#"["tpm","tpm"]"#).is_err());
        assert!(serde_json::from_str::<Kinds>(r#"["sgx"]"#).is_err());
    }
}
