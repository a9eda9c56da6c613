//! Dumps: the addresses of many services.

use std::collections::BTreeSet;

use latchkey_factory_plus::{Uuid, uuids};
use serde::Deserialize;

use crate::advertised::{Advertised, Advertisement, MOST};

/// The version of dumps that is read.
const VERSION: u32 = 1;

/// A dump for the directory. Services that it does not name stay where they are.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dump {
    service: Uuid,
    version: u32,
    advertisements: Vec<Advertisement>,
}

/// Why a dump is not loaded; nothing of it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DumpError {
    /// For another service.
    #[error("`service` is {0}; this is the directory, {directory}", directory = uuids::service::DIRECTORY)]
    Service(Uuid),
    /// Of another version.
    #[error("`version` is {0}; this service reads version {VERSION}")]
    Version(u32),
    /// A service at two places.
    #[error("`advertisements` has {0} twice; a service is at one URL")]
    Twice(Uuid),
    /// Longer than all that can be advertised.
    #[error("`advertisements` has more than {MOST} services")]
    TooMany,
}

impl Dump {
    /// What it advertises.
    ///
    /// # Errors
    /// [`DumpError`].
    pub fn advertised(self) -> Result<Vec<(Uuid, Advertised)>, DumpError> {
        if self.service != uuids::service::DIRECTORY {
            return Err(DumpError::Service(self.service));
        }
        if self.version != VERSION {
            return Err(DumpError::Version(self.version));
        }
        if self.advertisements.len() > MOST {
            return Err(DumpError::TooMany);
        }
        let mut services = BTreeSet::new();
        if let Some(twice) = self.advertisements.iter().find(|advertised| !services.insert(advertised.service)) {
            return Err(DumpError::Twice(twice.service));
        }
        Ok(self.advertisements.iter().map(|advertised| (advertised.service, advertised.advertised())).collect())
    }
}
