//! What stands between a key and whoever wants it.

use crate::{KeyId, KeyVersion};

/// Somebody answers for this key leaving. [`MasterSecret::derive`](crate::MasterSecret::derive) takes nothing else, so there is no
/// key without a decision that has a type of its own.
///
/// This crate knows neither machines nor callers, so it cannot make the decision. Each boundary of trust has one type that
/// implements this, and whose values only the decision makes:
///
/// | type | made by | asked by |
/// |---|---|---|
/// | `latchkey_cluster_store::DiskRelease` | the record of this endorsement key and this disk, read or just made durable; or the operator's explicit word | the command line, the join service |
/// | `Permitted` of the key service, private to its decision | the rule of a caller that showed its certificate | the key service, which knows callers and no machines |
///
/// Another implementation is a new way for keys to leave, and belongs into this table.
pub trait KeyRelease {
    /// What the key is for.
    fn key_id(&self) -> KeyId;

    /// The version of the master secret it comes from; `None` for the current one.
    fn key_version(&self) -> Option<KeyVersion>;
}
