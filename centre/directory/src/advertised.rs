//! What is advertised: one address for a service.

use std::collections::BTreeMap;

use latchkey_factory_plus::{Uuid, uuids};
use serde::{Deserialize, Serialize};

use crate::address::Address;

/// The most services that others may advertise.
pub const MOST: usize = 10_000;

/// Where a service is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advertised {
    /// Its URL.
    pub url: Address,
    /// The device that it is in Sparkplug; the UUID of zeros where it is none.
    #[serde(default = "no_device")]
    pub device: Uuid,
}

fn no_device() -> Uuid {
    uuids::special::WILDCARD
}

/// An advertisement, as configurations and dumps have it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advertisement {
    /// The service.
    pub service: Uuid,
    /// Its URL.
    pub url: Address,
    /// The device that it is in Sparkplug.
    #[serde(default)]
    pub device: Option<Uuid>,
}

impl Advertisement {
    /// Without whose it is.
    pub fn advertised(&self) -> Advertised {
        Advertised { url: self.url.clone(), device: self.device.unwrap_or_else(no_device) }
    }
}

/// Why something is not advertised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The configuration says where the service is.
    #[error("the configuration of the directory says that {service} is at {url}; change it there")]
    Configured {
        /// The service.
        service: Uuid,
        /// What the configuration says.
        url: Address,
    },
    /// There is no end of them.
    #[error("more than {MOST} services would be advertised")]
    TooMany,
}

/// Everything that is advertised: by the configuration, and by others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Services {
    configured: BTreeMap<Uuid, Advertised>,
    told: BTreeMap<Uuid, Advertised>,
}

impl Services {
    /// What the configuration advertises.
    pub fn new(configured: impl IntoIterator<Item = (Uuid, Advertised)>) -> Self {
        Self { configured: configured.into_iter().collect(), told: BTreeMap::new() }
    }

    /// Where a service is.
    pub fn find(&self, service: Uuid) -> Option<&Advertised> {
        self.configured.get(&service).or_else(|| self.told.get(&service))
    }

    /// The services that are somewhere.
    pub fn all(&self) -> impl Iterator<Item = Uuid> {
        let told = self.told.keys().filter(|service| !self.configured.contains_key(service));
        self.configured.keys().chain(told).copied()
    }

    /// Checks that these may be advertised; gives those that are not yet.
    ///
    /// # Errors
    /// [`Conflict`].
    pub fn check(&self, wanted: Vec<(Uuid, Advertised)>) -> Result<Vec<(Uuid, Advertised)>, Conflict> {
        let mut new = Vec::new();
        for (service, advertised) in wanted {
            match self.configured.get(&service) {
                Some(configured) if *configured == advertised => {}
                Some(Advertised { url, .. }) => return Err(Conflict::Configured { service, url: url.clone() }),
                None if self.told.get(&service) == Some(&advertised) => {}
                None => new.push((service, advertised)),
            }
        }
        let more = new.iter().filter(|(service, _)| !self.told.contains_key(service)).count();
        if self.told.len() + more > MOST { Err(Conflict::TooMany) } else { Ok(new) }
    }

    /// Advertises a service, once that is durable.
    pub fn tell(&mut self, service: Uuid, advertised: Advertised) {
        self.told.insert(service, advertised);
    }
}
