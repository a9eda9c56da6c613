//! The documents of a cluster, as objects that are read and written one at a time.

use super::objects::{ConfigMap, Data};
use super::{TRIES, others_first};
use crate::error::CommandError;

/// Where they are. What is done to several of them is written for this, so that a test can have two who do it at once.
pub(crate) trait Maps {
    /// A document, if it is there.
    async fn known(&self, name: &str) -> Result<Option<ConfigMap>, CommandError>;

    /// Writes a document in the place of what was read, or where nothing was: `false` where others came first.
    async fn put_document(&self, map: &ConfigMap) -> Result<bool, CommandError>;

    /// One is gone that `latchkey init` or its chart makes.
    fn is_gone(&self, name: &str) -> CommandError;

    /// What a document holds that `latchkey init` or its chart makes: one that is gone was lost with what was in it.
    async fn data(&self, name: &str) -> Result<Data, CommandError> {
        Ok(self.known(name).await?.ok_or_else(|| self.is_gone(name))?.data)
    }

    /// Changes a document that is there; `change` says whether something is to be written, and is asked anew where others came first.
    /// Whether something was written.
    async fn change(
        &self,
        name: &str,
        change: impl Fn(&mut Data) -> Result<bool, CommandError>,
    ) -> Result<bool, CommandError> {
        for _ in 0..TRIES {
            let mut map = self.known(name).await?.ok_or_else(|| self.is_gone(name))?;
            if !change(&mut map.data)? {
                return Ok(false);
            }
            if self.put_document(&map).await? {
                return Ok(true);
            }
        }
        Err(others_first(name))
    }
}
