//! Where the services of a centre are.

use std::collections::BTreeMap;

use latchkey_factory_plus::{Uuid, uuids};

use crate::BaseUrl;

/// Where the services of a centre are: some from configuration, the others from the directory, if there is one.
#[derive(Debug, Clone, Default)]
pub struct Services {
    fixed: BTreeMap<Uuid, BaseUrl>,
}

impl Services {
    /// Those that the directory at `url` names.
    pub fn directory(url: BaseUrl) -> Self {
        Self::default().with(uuids::service::DIRECTORY, url)
    }

    /// These and no others.
    pub fn fixed(services: impl IntoIterator<Item = (Uuid, BaseUrl)>) -> Self {
        Self { fixed: services.into_iter().collect() }
    }

    /// The same, and `service` at `url`, whatever the directory says.
    #[must_use]
    pub fn with(mut self, service: Uuid, url: BaseUrl) -> Self {
        self.fixed.insert(service, url);
        self
    }

    pub(crate) fn find(&self, service: Uuid) -> Option<&BaseUrl> {
        self.fixed.get(&service)
    }
}
