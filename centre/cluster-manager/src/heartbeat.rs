//! How long ago an edge was heard of.

use latchkey_factory_plus::cluster::Status;
use serde::Serialize;

/// An edge that said nothing for so long is stale, in milliseconds: three of the heartbeats that Edge Sync writes
/// each minute.
pub const STALE_MS: u64 = 3 * 60 * 1000;

/// When an edge was heard of last, as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "edge", rename_all = "snake_case")]
pub enum Heartbeat {
    /// It was not bootstrapped yet.
    Never,
    /// It reports its machines, but no times: the original's Edge Sync does not.
    Untimed,
    /// It was heard of a moment ago.
    Fresh {
        /// How long ago, in milliseconds.
        age_ms: u64,
    },
    /// It has been quiet: what it said of its machines may no longer be true.
    Stale {
        /// How long ago it was heard of, in milliseconds.
        age_ms: u64,
    },
}

impl Heartbeat {
    /// What an edge's status says at `now`, in milliseconds since 1970. A time to come is one of now: clocks differ.
    pub fn of(status: Option<&Status>, now: u64) -> Self {
        let Some(status) = status else { return Self::Never };
        let Some(at) = status.heartbeat else { return Self::Untimed };
        let age_ms = now.saturating_sub(at);
        if age_ms < STALE_MS { Self::Fresh { age_ms } } else { Self::Stale { age_ms } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_edge_is_stale() {
        let at = |heartbeat| Status { heartbeat, ..Status::default() };
        assert_eq!(Heartbeat::of(None, 5), Heartbeat::Never);
        assert_eq!(Heartbeat::of(Some(&at(None)), 5), Heartbeat::Untimed);
        assert_eq!(Heartbeat::of(Some(&at(Some(9))), 5), Heartbeat::Fresh { age_ms: 0 });
        assert_eq!(Heartbeat::of(Some(&at(Some(1))), STALE_MS), Heartbeat::Fresh { age_ms: STALE_MS - 1 });
        assert_eq!(Heartbeat::of(Some(&at(Some(1))), STALE_MS + 1), Heartbeat::Stale { age_ms: STALE_MS });
    }
}
