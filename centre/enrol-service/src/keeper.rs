//! The records, kept: a decision counts once it is on the disk.

use crate::decision::{Candidate, Decision, Record, Records, Refusal, Said, Waiting, decide};
use latchkey_factory_plus::{ClusterName, Uuid};
use latchkey_group_commit::{Change, OpenError, Store, WriteError};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

const CLUSTERS: &str = "clusters";

/// All records, in memory and on the disk.
#[derive(Debug)]
pub(crate) struct Keeper {
    kept: Mutex<Kept>,
    store: Store,
}

#[derive(Debug, Default)]
struct Kept {
    records: Records,
    /// Those of which it is not known that they are on the disk: whoever asks next writes them again, and none is decided anew.
    unwritten: BTreeSet<Uuid>,
}

/// What became of a machine's cluster.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is taken up, and the record stands.
    TakenUp {
        /// The record.
        record: Box<Record>,
        /// Whether this call took it up.
        first: bool,
    },
    /// It waits.
    Held(Waiting),
}

/// What was decided, if it could be.
#[derive(Debug)]
pub(crate) enum Decided {
    /// Not before the centre was asked for this name.
    Ask(ClusterName),
    /// This.
    Outcome(Outcome),
}

impl Keeper {
    /// Opens the file, which is made when it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let mut records = Records::default();
        let store = Store::open(path, &[CLUSTERS], |_, _, value| {
            records.put(serde_json::from_slice::<Record>(value).map_err(|error| error.to_string())?);
            Ok(())
        })?;
        Ok(Self { kept: Mutex::new(Kept { records, unwritten: BTreeSet::new() }), store })
    }

    /// Decides, one at a time, and writes what was decided.
    pub(crate) async fn decide(
        &self,
        said: &Said<'_>,
        candidate: &Candidate<'_>,
        now: u64,
    ) -> Result<Decided, Refusal> {
        let (record, first, writing) = {
            let mut kept = self.kept();
            let (cluster, first) = match decide(&kept.records, said, candidate, Uuid::random(), now)? {
                Decision::Ask(name) => return Ok(Decided::Ask(name)),
                Decision::Hold(why) => return Ok(Decided::Outcome(Outcome::Held(why))),
                Decision::Known(cluster) => (cluster, false),
                Decision::New(record) => {
                    let cluster = record.cluster;
                    kept.records.put(*record);
                    kept.unwritten.insert(cluster);
                    (cluster, true)
                }
            };
            let record = kept.records.get(cluster).cloned().ok_or(Refusal::RecordNotWritten)?;
            let writing = kept.unwritten.contains(&cluster).then(|| self.store.write(vec![put(&record)]));
            (record, first, writing)
        };
        if let Some(writing) = writing {
            self.written(record.cluster, writing.await)?;
        }
        Ok(Decided::Outcome(Outcome::TakenUp { record: Box::new(record), first }))
    }

    /// Changes a record.
    pub(crate) async fn change(&self, cluster: Uuid, change: impl FnOnce(&mut Record)) -> Result<(), Refusal> {
        let writing = {
            let mut kept = self.kept();
            let mut record = kept.records.get(cluster).cloned().ok_or(Refusal::RecordNotWritten)?;
            let before = record.clone();
            change(&mut record);
            if record == before {
                return Ok(());
            }
            let writing = self.store.write(vec![put(&record)]);
            kept.records.put(record);
            kept.unwritten.insert(cluster);
            writing
        };
        self.written(cluster, writing.await)
    }

    /// Leaves a copy of the records beside them, for a backup.
    pub(crate) async fn copy(&self) -> Result<(), String> {
        self.store.copy_beside().await.map_err(|error| error.to_string())
    }

    /// Looks at the records.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Records) -> T) -> T {
        look(&self.kept().records)
    }

    /// Records of which it is not known that they are on the disk.
    pub(crate) fn unwritten(&self) -> usize {
        self.kept().unwritten.len()
    }

    fn written(&self, cluster: Uuid, written: Result<(), WriteError>) -> Result<(), Refusal> {
        match written {
            Ok(()) => {
                self.kept().unwritten.remove(&cluster);
                Ok(())
            }
            Err(error) => {
                tracing::error!(%cluster, %error, "A record could not be written");
                Err(Refusal::RecordNotWritten)
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(record: &Record) -> Change {
    // A record always makes JSON.
    Change::put(CLUSTERS, *record.cluster.as_bytes(), serde_json::to_vec(record).unwrap_or_default())
}
