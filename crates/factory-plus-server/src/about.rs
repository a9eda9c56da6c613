//! What a service says of itself: `GET /ping`.

use latchkey_factory_plus::Uuid;
use serde::Serialize;

/// The answer to `GET /ping`.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// The version of the service's interface, as clients know it.
    pub version: &'static str,
    /// Which service it is.
    pub service: Uuid,
    /// The device that it is, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Uuid>,
    /// What runs here.
    pub software: Software,
}

/// What runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Software {
    /// Who made it.
    pub vendor: &'static str,
    /// Its name.
    pub application: &'static str,
    /// Its version.
    pub revision: &'static str,
}
