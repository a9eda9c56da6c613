//! The records of a cluster, wherever they are: what several programs decide by as one.
//!
//! A decision is made on records that are known, and counts only once it is written where all who decide look. Two kinds of place
//! make that true in two ways. In a directory one program at a time has the turn, so whoever has it knows everything. In an API
//! server many have turns at once, so a write says which state of the record it was decided on, what two machines must not share
//! is the one's whose record named it first, and who came second is told so and decides anew.

use crate::damaged::DamagedRecord;
use crate::error::StoreError;
use crate::pending::PendingRecord;
use crate::record::{NodeRecord, Recorded};
use crate::status::NodeStatus;
use latchkey_attestation::EkDigest;
use latchkey_reason::Reason;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Where the records of a cluster are. Calls block, and may take as long as a disk or a network does.
pub trait RecordStore: fmt::Debug + Send + Sync {
    /// How many turns may be had at once.
    fn turns_at_once(&self) -> usize;

    /// The right to write. Waits for others that have it, where only one may.
    ///
    /// # Errors
    /// [`StoreError`].
    fn turn(&self) -> Result<Box<dyn Turn + '_>, StoreError>;

    /// Makes the next [`Turn::news`] everything there is: what was told before is not relied upon any more.
    fn doubt(&self);

    /// Machines that wait for the operator; `None` where that is not known now. For people: nothing is decided by it.
    fn held(&self) -> Option<Vec<EkDigest>> {
        None
    }

    /// Why changes by others are not heard of now, if so.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Machines whose records cannot be used because others name the same thing, and it is not known which was first; each with these
    /// others. For people.
    fn unclear(&self) -> BTreeMap<EkDigest, BTreeSet<String>> {
        BTreeMap::new()
    }

    /// Shows what was seen of a machine on record beside its record, later, where there is a place for that. Waits for nothing, and
    /// nothing depends on it.
    fn show_status(&self, _ek: EkDigest, _status: NodeStatus) {}

    /// Tells of a refusal, in the same way.
    fn show_refusal(&self, _refused: RefusedMachine) {}
}

/// A machine was refused: a ticket, or its kubelet a certificate. For people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedMachine {
    /// The TPM, if it was proven; where a certificate was asked for, the TPM on the record of that ticket or node.
    pub ek: Option<EkDigest>,
    /// What was asked for: one word.
    pub action: &'static str,
    /// Why it was refused.
    pub reason: Reason,
}

/// The right to write records.
pub trait Turn {
    /// What has changed since this was asked last, by whoever.
    ///
    /// # Errors
    /// [`StoreError`]; then the next answer has what this one lacks.
    fn news(&mut self) -> Result<News, StoreError>;

    /// Looks whether this machine's record is another than was told, where that costs less than reading all; the next
    /// [`Self::news`] has it. False if there is one that may not be used yet ([`PutRefusal::Unheard`]).
    ///
    /// # Errors
    /// [`StoreError`].
    fn look_at(&mut self, ek: &EkDigest) -> Result<bool, StoreError>;

    /// Writes a record that was decided on `before`, the record of that machine as [`Self::news`] told it; `None` if it had none.
    /// Durable when this returns. Nobody else has its name or a disk of it then, and if it is joining as a control plane
    /// ([`NodeRecord::joining_since`]), no other one is.
    ///
    /// # Errors
    /// [`PutError`]; the old record stands then, unless the answer got lost.
    fn put(&mut self, record: &NodeRecord, before: Option<&Recorded>) -> Result<Recorded, PutError>;

    /// Remembers a machine that waits for the operator: see [`PendingRecord`].
    ///
    /// # Errors
    /// [`StoreError`].
    fn hold(&mut self, asks: &PendingRecord) -> Result<(), StoreError>;

    /// Whether a record could be written now: writes something that nobody reads, durably, and removes it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn try_writing(&mut self) -> Result<(), StoreError>;
}

/// What has changed among the records.
#[derive(Clone, Debug)]
pub enum News {
    /// Nothing.
    None,
    /// These, in this order.
    Changes(Vec<Change>),
    /// This is all there is now.
    All(Listing),
}

/// A record is another than before.
#[derive(Clone, Debug)]
pub enum Change {
    /// It stands as this.
    Recorded(Box<Recorded>),
    /// The machine is not on record any more.
    Gone(EkDigest),
}

/// All records at one moment.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Those that can be used.
    pub records: Vec<Recorded>,
    /// What is left of the others.
    pub damaged: Vec<DamagedRecord>,
}

/// A record was not written.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// Others came first.
    #[error(transparent)]
    Refused(#[from] PutRefusal),
    /// It could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Others came first, or may do so unseen: the record, as it was decided, must not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutRefusal {
    /// The machine's record is another by now: [`Turn::news`] has it, and it is decided anew.
    #[error("another service wrote the record of this machine first")]
    Overtaken,
    /// Another machine has the name.
    #[error("another machine's record had the name first")]
    NameTaken,
    /// Another machine has one of the disks.
    #[error("another machine's record had a disk first")]
    DiskTaken,
    /// Another machine's record names the same, and which of the two was first is not known: both wait until one is removed.
    #[error("two records name one thing, and which was first is not known")]
    Unclear,
    /// It was written, and is told of to nobody yet: it may not be used before that.
    #[error("the record was written, and the API server has not told of it in time")]
    Unheard,
    /// Another control plane is joining.
    #[error("another control plane is joining")]
    LeaseHeld,
    /// Services of the release before may give the same names and disks.
    #[error("services of the release before may give the same names and disks: the cluster's document is of version 1")]
    NotUpgraded,
}
