//! Where links and their scripts are kept.

use latchkey_factory_plus::Uuid;

use super::Link;
use crate::script::Script;

/// Keeps links and scripts. What is written is durable when the call returns: a link is answered only then.
pub trait LinkStore {
    /// What can fail.
    type Error;

    /// All links.
    fn links(&self) -> Result<Vec<Link>, Self::Error>;

    /// Writes the record of a link over the one before.
    fn write(&mut self, link: &Link) -> Result<(), Self::Error>;

    /// Deletes the record of a link; a script that no link leads to may go with it.
    fn delete(&mut self, link: Uuid) -> Result<(), Self::Error>;

    /// Writes a script, known by its SHA-256, before the link that leads to it.
    fn write_script(&mut self, script: &Script) -> Result<(), Self::Error>;

    /// The script with this SHA-256.
    fn script(&self, sha256: &str) -> Result<Option<Script>, Self::Error>;
}
