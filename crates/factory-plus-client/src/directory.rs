//! The directory: where services are.

use latchkey_factory_plus::{Uuid, uuids};
use serde::{Deserialize, Serialize};

use crate::{CallError, Client, Service};

/// The directory's calls.
#[derive(Debug, Clone)]
pub struct Directory(Service);

/// Where a service is, as the directory has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advertised {
    /// The device that the service is, where it is one.
    #[serde(default)]
    pub device: Option<Uuid>,
    /// The URL, of any scheme.
    pub url: String,
}

impl Directory {
    /// Of a client's centre.
    pub fn of(client: &Client) -> Self {
        Self(client.service(uuids::service::DIRECTORY))
    }

    /// Where a service is: none or one.
    pub async fn services(&self, service: Uuid) -> Result<Vec<Advertised>, CallError> {
        Ok(self.0.read(&path(service)).await?.unwrap_or_default())
    }
}

pub(crate) fn path(service: Uuid) -> String {
    format!("v1/service/{service}")
}
