//! `/metrics` and `/healthz`: what is in memory. Nothing of these waits for a disk, a peer or the centre. `/backup`: a copy of the records.

use crate::decision::Records;
use crate::keeper::Keeper;
use crate::metrics::{Gauges, Metrics};
use crate::source::CurrentDirectory;
use latchkey_service_runtime::admin::{Admin, Copying};
use latchkey_service_runtime::connections::ConnectionTable;
use latchkey_service_runtime::reload::Reloads;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Pages {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) current: Arc<CurrentDirectory>,
    pub(crate) keeper: Arc<Keeper>,
    /// How long the documents in use may be behind the directory before the service counts as unable to do its work.
    pub(crate) stale: Duration,
    pub(crate) table: ConnectionTable,
    pub(crate) reloads: Reloads,
}

impl Admin for Pages {
    fn metrics(&self) -> String {
        let mut page = self.metrics.render(&Gauges {
            clusters: self.keeper.look(Records::len),
            unwritten: self.keeper.unwritten(),
            denied: self.current.snapshot().denials.iter().count(),
            followed: self.current.followed(),
            behind: self.current.behind(),
            serials: self.current.serials(),
            reloads: self.current.reloads(),
        });
        self.table.render(&mut page);
        self.reloads.render(&mut page);
        page.into_text()
    }

    fn copy(&self) -> Option<Copying<'_>> {
        Some(Box::pin(self.keeper.copy()))
    }

    fn health(&self) -> Result<Vec<String>, String> {
        let unwritten = self.keeper.unwritten();
        if unwritten > 0 {
            return Err(format!("records-unavailable: {unwritten} could not be written; the log says why"));
        }
        let behind = self.current.behind();
        if let Some(behind) = behind.iter().find(|behind| behind.age >= self.stale) {
            let (part, age, why) = (behind.part, behind.age.as_secs(), &behind.why);
            return Err(format!("config-stale: {part} has been stale for {age} s: {why}"));
        }
        let stale = behind.into_iter().map(|behind| format!("{} is stale: {}", behind.part, behind.why));
        Ok(stale.chain(self.table.note()).chain(self.reloads.note()).collect())
    }
}
