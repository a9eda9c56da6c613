//! The records: who writes them, and how.

use crate::cache::{Cache, Known, MAX_NODES};
use crate::connection::in_time;
use crate::error::{ApiCode, code_of, elsewhere, failed, is_absent, is_conflict, is_unheard};
use crate::naming::{Claimed, PROVISIONAL, RESERVES, Standing};
use crate::objects::{NodeObject, node_called, node_object, node_of, nodes};
use crate::store::{KubernetesStore, Shared, too_many};
use crate::sweep::give_back;
use kube::api::{Api, DynamicObject, ListParams, ObjectMeta, PostParams};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{
    Documents as _, News, NodeRecord, NodeStatus, PendingRecord, PutError, PutRefusal, RecordStore, Recorded,
    RefusedMachine, StoreError, Turn,
};
use latchkey_kubernetes_client::PAGE;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::MutexGuard;
use std::time::Instant;

/// Turns at once: as many requests as keep etcd's log busy while each waits for it.
const TURNS: usize = 24;

impl RecordStore for KubernetesStore {
    fn turns_at_once(&self) -> usize {
        TURNS
    }

    /// Everybody has one: what is written says what it was decided on.
    fn turn(&self) -> Result<Box<dyn Turn + '_>, StoreError> {
        Ok(Box::new(ApiTurn { store: self }))
    }

    fn doubt(&self) {
        self.shared().cache().doubt();
    }

    fn problem(&self) -> Option<String> {
        self.shared().problem()
    }

    fn held(&self) -> Option<Vec<EkDigest>> {
        self.held_now().inspect_err(|error| tracing::warn!(%error, "Machines that wait could not be counted")).ok()
    }

    fn unclear(&self) -> BTreeMap<EkDigest, BTreeSet<String>> {
        self.shared().cache().naming().unclear()
    }

    fn show_status(&self, ek: EkDigest, status: NodeStatus) {
        let uid = self.shared().cache().get(&ek).and_then(|known| known.metadata.uid.clone());
        if let Some(uid) = uid {
            self.shared().statuses.show((ek, uid), status);
        }
    }

    fn show_refusal(&self, refused: RefusedMachine) {
        self.shared().refusals.show(refused, Instant::now());
    }
}

struct ApiTurn<'a> {
    store: &'a KubernetesStore,
}

impl ApiTurn<'_> {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.store.shared().cache()
    }

    fn nodes(&self) -> Api<DynamicObject> {
        Api::all_with(self.store.shared().client.clone(), &nodes())
    }

    /// Reads one record, and takes it over.
    async fn read(&self, ek: &EkDigest) -> Result<(), StoreError> {
        read_one(self.store.shared(), ek).await
    }

    /// Lease, record; see [`crate::naming`].
    async fn write(&self, record: &NodeRecord, before: Option<&Recorded>) -> Result<Recorded, PutError> {
        let ek = record.ek_sha256;
        let new = new_claims(record, before);
        if !new.is_empty() {
            self.check_version()?;
        }
        let joins =
            record.joining_since.is_some() && before.and_then(|before| before.joining_since) != record.joining_since;
        if joins && !in_time("leases", self.store.lease().take(&self.store.leases(), ek)).await? {
            return Err(PutRefusal::LeaseHeld.into());
        }
        let written = match before {
            None => self.create(record).await,
            Some(before) if new.is_empty() => self.replace(record, before, &[]).await,
            Some(before) => match self.reserve(before, &new).await {
                Ok(reserved) => self.replace(record, &reserved, &[]).await,
                Err(error) => Err(error),
            },
        };
        match &written {
            Ok(_) if before.is_some_and(|before| before.joining_since.is_some()) && record.joining_since.is_none() => {
                self.give_back_lease(ek).await;
            }
            // It is not going to join.
            Err(PutError::Refused(PutRefusal::NameTaken | PutRefusal::DiskTaken | PutRefusal::Unclear))
                if joins && before.is_none_or(|before| before.joining_since.is_none()) =>
            {
                self.give_back_lease(ek).await;
            }
            _ => {}
        }
        written
    }

    /// Services of the release before claim by other objects, and do not see what this one does: none may run any more. The version of
    /// the cluster's document says only that none *starts*, since they refuse it. One that runs keeps the document of before and goes on
    /// claiming, for as long as it has the right: `latchkey upgrade store` writes that version where the rights are this release's.
    fn check_version(&self) -> Result<(), PutError> {
        let is_upgraded = self.store.cluster()?.is_none_or(|cluster| cluster.denials.is_some());
        if is_upgraded { Ok(()) } else { Err(PutRefusal::NotUpgraded.into()) }
    }

    /// Creates a machine's first record, and waits until its claims are known to be the first ones.
    async fn create(&self, record: &NodeRecord) -> Result<Recorded, PutError> {
        let (shared, ek) = (self.store.shared(), record.ek_sha256);
        // Of a call that was cut short.
        let left = shared.cache().lost(&ek);
        if let Some(left) = left {
            in_time(&node_called(&ek), give_back(shared, &ek, &left.metadata)).await?;
        }
        let marked =
            ObjectMeta { annotations: Some([(PROVISIONAL.to_owned(), String::new())].into()), ..ObjectMeta::default() };
        let (recorded, metadata) = self.write_object(record, None, marked).await?;
        let standing = self.cache().naming().standing_of_all(&ek.to_string());
        if matches!(standing, Standing::Later(_))
            && let Err(error) = in_time(&node_called(&ek), give_back(shared, &ek, &metadata)).await
        {
            tracing::warn!(%error, %ek, "A record that came second could not be deleted yet");
        }
        let is_sure = self.cache().naming().is_sure(&ek);
        match standing {
            Standing::First if is_sure => Ok(recorded),
            Standing::First => self.replace(record, &recorded, &[]).await,
            other => Err(came_later(&other).into()),
        }
    }

    /// Has a record say that it is to claim this, and waits until these claims are known to be the first ones.
    async fn reserve(&self, before: &Recorded, new: &[Claimed]) -> Result<Recorded, PutError> {
        let object = before.ek_sha256.to_string();
        let standing = || self.cache().naming().standing(&object, new);
        // Reserved by a call that was cut short, unless that is what it claimed before.
        let is_told = self.cache().naming().is_at(&object, before.revision());
        if is_told && standing() == Standing::First {
            return Ok(before.clone());
        }
        let reserved = self.replace(before, before, new).await?;
        match standing() {
            Standing::First => Ok(reserved),
            other => {
                // What stays reserved holds nothing that another has, and goes with the next write.
                if let Err(error) = self.replace(before, &reserved, &[]).await {
                    tracing::warn!(?error, ek = %before.ek_sha256, "What a record reserved could not be given back yet");
                }
                Err(came_later(&other).into())
            }
        }
    }

    /// Replaces a record that still is the one of before, and has it reserve this.
    async fn replace(
        &self,
        record: &NodeRecord,
        before: &Recorded,
        reserves: &[Claimed],
    ) -> Result<Recorded, PutError> {
        let ek = record.ek_sha256;
        let known = self.cache().get(&ek).cloned();
        let Some(Known { mut metadata, .. }) = known.filter(|known| known.recorded.revision() == before.revision())
        else {
            return Err(self.overtaken(&ek).await);
        };
        // Of one that is found and provisional: whoever made it was cut short, or is at it still.
        let claimed: Vec<_> = Claimed::by(before).collect();
        let standing = self.cache().naming().standing(&ek.to_string(), &claimed);
        match standing {
            Standing::First => {}
            Standing::Unheard => return Err(self.overtaken(&ek).await),
            other => return Err(came_later(&other).into()),
        }
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.retain(|key, _| key != PROVISIONAL && key != RESERVES);
        if !reserves.is_empty() {
            annotations.insert(RESERVES.to_owned(), serde_json::to_string(reserves).unwrap_or_default());
        }
        self.write_object(record, Some(before), metadata).await.map(|(recorded, _)| recorded)
    }

    /// Writes the object, and takes over what stands there then, once the watch has told of all that it claims.
    async fn write_object(
        &self,
        record: &NodeRecord,
        before: Option<&Recorded>,
        metadata: ObjectMeta,
    ) -> Result<(Recorded, ObjectMeta), PutError> {
        let (api, ek, about) = (self.nodes(), record.ek_sha256, node_called(&record.ek_sha256));
        let asked = self.cache().moment();
        let (name, object) = (ek.to_string(), node_object(record, metadata));
        let mut is_answered = false;
        let written = in_time(&about, async {
            let written = match before {
                None => api.create(&PostParams::default(), &object).await,
                Some(_) => api.replace(&name, &PostParams::default(), &object).await,
            };
            is_answered = true;
            match written {
                Ok(object) => self.store.shared().take_over(node_of(object), asked).await.map(Some),
                // 404: it was there when it was decided on, and is gone.
                Err(error) if is_conflict(&error) || (before.is_some() && is_absent(&error)) => Ok(None),
                Err(error) => Err(failed(&about, &error)),
            }
        });
        match written.await {
            Ok(None) => Err(self.overtaken(&ek).await),
            Ok(Some(NodeObject::Record(recorded, metadata, _))) if **recorded == *record => Ok((*recorded, *metadata)),
            // The time of both ended while it was waited for the watch.
            Err(error) if is_unheard(&error) || (is_answered && code_of(&error) == Some(ApiCode::TooSlow)) => {
                self.store.shared().unheard.note(ek);
                Err(PutRefusal::Unheard.into())
            }
            Err(error) => Err(error.into()),
            // An admission webhook, or a schema of another release: what stands there is not what was decided.
            Ok(Some(_)) => {
                let detail = "what was written is not what the API server keeps";
                Err(elsewhere(&about, ApiCode::AnswerUnusable, detail).into())
            }
        }
    }

    /// Another wrote the record first: which it is then is known by now, or why it is not.
    async fn overtaken(&self, ek: &EkDigest) -> PutError {
        match self.read(ek).await {
            // Whoever finds it there is not told of it, however often.
            Ok(()) if self.cache().naming().standing_of_all(&ek.to_string()) == Standing::Unclear => {
                PutRefusal::Unclear.into()
            }
            Ok(()) => PutRefusal::Overtaken.into(),
            Err(error) if is_unheard(&error) => PutRefusal::Unheard.into(),
            Err(error) => error.into(),
        }
    }

    /// What fails here is told, and costs only what it names until it is mended.
    async fn give_back_lease(&self, ek: EkDigest) {
        let given = in_time("leases", self.store.lease().give_back(&self.store.leases(), ek)).await;
        if let Err(error) = given {
            tracing::warn!(%error, %ek, "The control-plane lease could not be given back, and ends by itself");
        }
    }
}

/// What is told to whoever did not come first.
fn came_later(standing: &Standing) -> PutRefusal {
    match standing {
        Standing::Later(Claimed::Name(_)) => PutRefusal::NameTaken,
        Standing::Later(Claimed::Disk(_)) => PutRefusal::DiskTaken,
        Standing::Unclear => PutRefusal::Unclear,
        // It is decided anew, by what is known then.
        Standing::First | Standing::Unheard => PutRefusal::Overtaken,
    }
}

impl KubernetesStore {
    /// Lists all records anew, as they are when this is called at least: what the watch has not told yet is known afterwards. Blocks:
    /// never on the client's own thread.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`].
    pub fn list_records(&self) -> Result<(), StoreError> {
        self.connection().handle().block_on(list_all(self.shared()))
    }
}

async fn list_all(shared: &Shared) -> Result<(), StoreError> {
    let api: Api<DynamicObject> = Api::all_with(shared.client.clone(), &nodes());
    let (about, asked, mut objects, mut next) = ("attestednodes", shared.cache().moment(), Vec::new(), None);
    loop {
        let page = ListParams { limit: Some(PAGE), continue_token: next.take(), ..ListParams::default() };
        let listed = in_time(about, async { api.list(&page).await.map_err(|error| failed(about, &error)) }).await?;
        objects.extend(listed.items.into_iter().map(node_of));
        if objects.len() > MAX_NODES {
            return Err(too_many());
        }
        next = listed.metadata.continue_.filter(|token| !token.is_empty());
        if next.is_none() {
            break;
        }
    }
    // Whose what is, the watch says: of all of this it has told then.
    for object in &objects {
        shared.until_known(object).await?;
    }
    let unsure = shared.cache().replace(objects, asked).map_err(|_| too_many())?;
    for ek in unsure {
        read_one(shared, &ek).await?;
    }
    Ok(())
}

/// Reads one record, and takes it over.
pub(crate) async fn read_one(shared: &Shared, ek: &EkDigest) -> Result<(), StoreError> {
    let asked = shared.cache().moment();
    match read(shared, ek).await? {
        Some(object) => drop(shared.take_over(object, asked).await?),
        None => shared.cache().absent(*ek, asked),
    }
    Ok(())
}

/// One record as it is now.
pub(crate) async fn read(shared: &Shared, ek: &EkDigest) -> Result<Option<NodeObject>, StoreError> {
    let about = node_called(ek);
    let api: Api<DynamicObject> = Api::all_with(shared.client.clone(), &nodes());
    let answer = async { api.get_opt(&ek.to_string()).await.map_err(|error| failed(&about, &error)) };
    Ok(in_time(&about, answer).await?.map(node_of))
}

/// What the record claims that the one before does not.
fn new_claims(record: &NodeRecord, before: Option<&Recorded>) -> Vec<Claimed> {
    let known: Vec<_> = before.into_iter().flat_map(|before| Claimed::by(before)).collect();
    Claimed::by(record).filter(|claimed| !known.contains(claimed)).collect()
}

impl Turn for ApiTurn<'_> {
    fn news(&mut self) -> Result<News, StoreError> {
        self.store.shared().check_listed()?;
        Ok(self.cache().news())
    }

    fn look_at(&mut self, ek: &EkDigest) -> Result<bool, StoreError> {
        match self.store.connection().handle().block_on(self.read(ek)) {
            Err(error) if is_unheard(&error) => Ok(false),
            read => read.map(|()| true),
        }
    }

    fn put(&mut self, record: &NodeRecord, before: Option<&Recorded>) -> Result<Recorded, PutError> {
        let about = node_called(&record.ek_sha256);
        record.check().map_err(StoreError::malformed(about.as_ref()))?;
        // Each request within has its own time.
        self.store.connection().handle().block_on(self.write(record, before))
    }

    fn hold(&mut self, asks: &PendingRecord) -> Result<(), StoreError> {
        self.store.hold(asks)
    }

    fn try_writing(&mut self) -> Result<(), StoreError> {
        self.store.try_writing()
    }
}
