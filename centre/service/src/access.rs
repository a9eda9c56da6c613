//! What callers may do.

use std::collections::BTreeMap;
use std::sync::Arc;

use latchkey_factory_plus::grants::{Access, allows};
use latchkey_factory_plus::{Upn, Uuid};
use latchkey_factory_plus_client::Client;
use latchkey_factory_plus_client::acl::{Follower, Settings};
use latchkey_factory_plus_server::{Authenticated, Refusal};
use serde::Deserialize;

/// Whose permissions are known without the authorisation service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessConfig {
    /// The UPN of who passes every check: the principal that sets the centre up.
    pub root: Option<Upn>,
    /// Permissions of principals, by UPN, that the authorisation service is not asked about: its own, and what
    /// it needs before it can answer.
    #[serde(default)]
    pub fixed: BTreeMap<Upn, Vec<Access>>,
}

/// The access lists of callers, followed at the authorisation service.
#[derive(Clone)]
pub struct AccessLists {
    root: Option<Upn>,
    follower: Follower,
}

impl std::fmt::Debug for AccessLists {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessLists").field("root", &self.root).finish_non_exhaustive()
    }
}

/// What one caller may do.
#[derive(Clone, Debug)]
pub struct Rights {
    root: bool,
    list: Arc<[Access]>,
}

impl AccessLists {
    /// Those of a configuration and, for everybody else, of the authorisation service.
    pub fn new(config: &AccessConfig, client: &Client) -> Self {
        let fixed = config.fixed.iter().map(|(upn, list)| (upn.clone(), list.as_slice().into())).collect();
        let follower = Follower::new(client, Settings { fixed, ..Settings::default() });
        Self { root: config.root.clone(), follower }
    }

    /// What a caller may do now. 503 when the authorisation service does not say: nobody may do anything then.
    pub async fn of(&self, caller: &Authenticated) -> Result<Rights, Refusal> {
        let upn = caller.upn();
        if self.root.as_ref() == Some(upn) {
            return Ok(Rights { root: true, list: Arc::new([]) });
        }
        let list = self.follower.access(upn).await.map_err(|error| Refusal::unavailable(error.to_string()))?;
        Ok(Rights { root: false, list })
    }
}

impl Rights {
    /// Whether it is the principal that passes every check.
    pub const fn is_root(&self) -> bool {
        self.root
    }

    /// The list; empty for the principal that passes every check.
    pub fn list(&self) -> &Arc<[Access]> {
        &self.list
    }

    /// Whether the caller may do what `permission` is about to `target`.
    pub fn allow(&self, permission: Uuid, target: Uuid) -> bool {
        self.root || allows(&self.list, permission, target)
    }

    /// The same, or 403 with a sentence that says what is missing.
    pub fn require(&self, permission: Uuid, target: Uuid) -> Result<(), Refusal> {
        if self.allow(permission, target) {
            return Ok(());
        }
        let what = format!("You need the permission {permission} for {target}; an administrator can grant it.");
        Err(Refusal::forbidden(what))
    }
}
