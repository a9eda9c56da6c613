//! Who asks: the caller's access list and, where it is needed, its UUID.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use latchkey_centre_service::AccessLists;
use latchkey_factory_plus::uuids::special::MINE;
use latchkey_factory_plus::{Upn, Uuid};
use latchkey_factory_plus_client::{Auth, Client};
use latchkey_factory_plus_server::{Authenticated, Refusal};

use crate::Caller;

/// How long the UUID of a principal is remembered.
const REMEMBERED: Duration = Duration::from_mins(1);
/// The most principals whose UUIDs are remembered.
const MOST: usize = 1000;

/// UUIDs of principals, if they have one, and since when that is known.
type Remembered = BTreeMap<Upn, (Option<Uuid>, Instant)>;

/// Finds out about callers. Clones are one.
#[derive(Clone)]
pub struct Callers {
    access: AccessLists,
    auth: Auth,
    uuids: Arc<Mutex<Remembered>>,
}

impl Callers {
    /// By these access lists, and the authorisation service of a client's centre.
    pub fn new(access: AccessLists, client: &Client) -> Self {
        Self { access, auth: Auth::of(client), uuids: Arc::default() }
    }

    /// A caller as the database takes it, with its UUID where it may do something to what it owns.
    pub async fn of(&self, who: &Authenticated) -> Result<Caller, Refusal> {
        let rights = self.access.of(who).await?;
        if rights.is_root() {
            return Ok(Caller::root());
        }
        // What it owns it is asked about only where it matters.
        let owns = rights.list().iter().any(|access| access.target == MINE);
        let uuid = if owns { self.uuid(who.upn()).await? } else { None };
        Ok(Caller::of(uuid, Arc::clone(rights.list())))
    }

    /// The same, with its UUID.
    pub async fn owner(&self, who: &Authenticated) -> Result<Caller, Refusal> {
        let rights = self.access.of(who).await?;
        if rights.is_root() {
            return Ok(Caller::root());
        }
        let uuid = self.uuid(who.upn()).await?;
        Ok(Caller::of(uuid, Arc::clone(rights.list())))
    }

    async fn uuid(&self, upn: &Upn) -> Result<Option<Uuid>, Refusal> {
        let remembered = |known: &Remembered| {
            known.get(upn).filter(|(_, since): &&(_, Instant)| since.elapsed() < REMEMBERED).map(|(uuid, _)| *uuid)
        };
        if let Some(uuid) = remembered(&self.uuids.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(uuid);
        }
        let found = self.auth.identity(upn).await.map_err(|error| Refusal::unavailable(error.to_string()))?;
        let mut known = self.uuids.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(upn.clone(), (found, Instant::now()));
        Ok(found)
    }
}

impl std::fmt::Debug for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callers").field("access", &self.access).finish_non_exhaustive()
    }
}
