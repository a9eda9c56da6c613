//! The backup of a run: written before the first step that may lose objects, and once.

use std::path::Path;

use super::manifest::Backup;
use super::{BackupReport, write};
use crate::error::CommandError;
use crate::output::{Output, Tone};
use crate::stock::Kubectl;

/// A backup that is written when it is first needed.
pub(crate) struct BackupOnce<'a> {
    kubectl: &'a Kubectl,
    directory: &'a Path,
    output: &'a Output,
    written: Option<Backup>,
}

impl<'a> BackupOnce<'a> {
    pub(crate) fn new(kubectl: &'a Kubectl, directory: &'a Path, output: &'a Output) -> Self {
        Self { kubectl, directory, output, written: None }
    }

    /// The backup: whoever has it may change what it holds.
    pub(crate) async fn get(&mut self) -> Result<&Backup, CommandError> {
        let backup = if let Some(backup) = self.written.take() {
            backup
        } else {
            let backup = write(self.kubectl, self.directory, self.output).await?;
            self.output.say(Tone::Good, "backup", &BackupReport::of(&backup).sentence());
            backup
        };
        Ok(self.written.insert(backup))
    }

    /// What was written, if it was needed.
    pub(crate) fn report(&self) -> Option<BackupReport> {
        self.written.as_ref().map(BackupReport::of)
    }
}
