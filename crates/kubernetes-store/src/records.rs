//! The records: who writes them, and how.

use crate::cache::{Cache, MAX_NODES, Moment};
use crate::claims::{self, Former, Owner, claim_called};
use crate::connection::in_time;
use crate::error::{ApiCode, elsewhere, failed, is_conflict};
use crate::objects::{NodeObject, node_called, node_object, node_of, nodes};
use crate::store::{KubernetesStore, Shared, too_many};
use kube::api::{Api, DynamicObject, ListParams, ObjectMeta, PostParams};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::objects::Claimed;
use latchkey_cluster_store::{
    News, NodeRecord, NodeStatus, PendingRecord, PutError, PutRefusal, RecordStore, Recorded, RefusedMachine,
    StoreError, Turn,
};
use latchkey_kubernetes_client::PAGE;
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

    fn show_status(&self, ek: EkDigest, status: NodeStatus) {
        self.shared().statuses.show(ek, status);
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

    /// Lease, claims, record.
    async fn write(&self, record: &NodeRecord, before: Option<&Recorded>) -> Result<Recorded, PutError> {
        let ek = record.ek_sha256;
        let joins =
            record.joining_since.is_some() && before.and_then(|before| before.joining_since) != record.joining_since;
        if joins && !in_time("leases", self.store.lease().take(&self.store.leases(), ek)).await? {
            return Err(PutRefusal::LeaseHeld.into());
        }
        self.claim_what_is_new(record, before).await?;
        let former = self.former_name(record, before).await;
        let about = node_called(&ek);
        let recorded = in_time(&about, self.place(record, before)).await?;
        let Some(recorded) = recorded else {
            self.read(&ek).await?;
            return Err(PutRefusal::Overtaken.into());
        };
        self.give_up_what_is_gone(record, before, former).await;
        Ok(recorded)
    }

    /// The claim of the name that the machine gives up, as it is before that.
    async fn former_name(&self, record: &NodeRecord, before: Option<&Recorded>) -> Option<Former> {
        let before = before.filter(|before| before.name != record.name)?;
        let (claimed, client) = (Claimed::Name(before.name.clone()), self.store.shared().client.clone());
        let looked = in_time("nodeclaims", claims::former(&client, &claimed, record.ek_sha256)).await;
        looked.unwrap_or_else(|error| {
            stays_claimed(&error, &record.ek_sha256);
            None
        })
    }

    /// At the same time: each waits for a write of etcd's log.
    async fn claim_what_is_new(&self, record: &NodeRecord, before: Option<&Recorded>) -> Result<(), PutError> {
        let (shared, ek) = (self.store.shared(), record.ek_sha256);
        let claims = new_claims(record, before);
        let made = claims.iter().map(|claimed| async move {
            let about = claim_called(claimed);
            in_time(&about, claims::claim(shared, claimed, ek)).await.map(|owner| (claimed, owner))
        });
        for (claimed, owner) in futures_util::future::try_join_all(made).await? {
            match (owner, claimed) {
                (Owner::Us, _) => {}
                (Owner::Another, Claimed::Name(_)) => return Err(PutRefusal::NameTaken.into()),
                (Owner::Another, Claimed::Disk(_)) => return Err(PutRefusal::DiskTaken.into()),
            }
        }
        Ok(())
    }

    /// The record as it stands then; `None` if another wrote it first.
    async fn place(&self, record: &NodeRecord, before: Option<&Recorded>) -> Result<Option<Recorded>, StoreError> {
        let (api, about) = (self.nodes(), node_called(&record.ek_sha256));
        let (metadata, asked) = {
            let mut cache = self.cache();
            let asked = cache.moment();
            let known = cache.get(&record.ek_sha256);
            if known.map(|known| known.recorded.revision()) != before.map(Recorded::revision) {
                return Ok(None);
            }
            (known.map(|known| known.metadata.clone()), asked)
        };
        let name = record.ek_sha256.to_string();
        let written = match metadata {
            None => api.create(&PostParams::default(), &node_object(record, ObjectMeta::default())).await,
            Some(metadata) => api.replace(&name, &PostParams::default(), &node_object(record, metadata)).await,
        };
        match written {
            Ok(object) => match node_of(object) {
                NodeObject::Record(recorded, metadata) if **recorded == *record => {
                    self.take_over(NodeObject::Record(recorded.clone(), metadata), asked)?;
                    Ok(Some(*recorded))
                }
                // An admission webhook, or a schema of another release: what stands there is not what was decided.
                other => {
                    self.take_over(other, asked)?;
                    Err(elsewhere(&about, ApiCode::AnswerUnusable, "what was written is not what the API server keeps"))
                }
            },
            // 404: it was there when it was decided on, and is gone.
            Err(error) if is_conflict(&error) || (before.is_some() && crate::error::is_absent(&error)) => Ok(None),
            Err(error) => Err(failed(&about, &error)),
        }
    }

    fn take_over(&self, object: NodeObject, asked: Moment) -> Result<(), StoreError> {
        self.store.shared().take_over(object, asked)
    }

    /// After the record stands. What fails here is told, and costs only what it names until it is mended.
    async fn give_up_what_is_gone(&self, record: &NodeRecord, before: Option<&Recorded>, former: Option<Former>) {
        let Some(before) = before else { return };
        let ek = record.ek_sha256;
        if before.joining_since.is_some() && record.joining_since.is_none() {
            let given = in_time("leases", self.store.lease().give_back(&self.store.leases(), ek)).await;
            if let Err(error) = given {
                tracing::warn!(%error, %ek, "The control-plane lease could not be given back, and ends by itself");
            }
        }
        if let Some(former) = former {
            let client = self.store.shared().client.clone();
            if let Err(error) = in_time("nodeclaims", claims::release(&client, former)).await {
                stays_claimed(&error, &ek);
            }
        }
    }
}

fn stays_claimed(error: &StoreError, ek: &EkDigest) {
    tracing::warn!(%error, %ek, "A machine's former name stays claimed for it");
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
    shared.take_listing(objects, asked).await
}

/// Reads one record, and takes it over.
pub(crate) async fn read_one(shared: &Shared, ek: &EkDigest) -> Result<(), StoreError> {
    let (about, asked) = (node_called(ek), shared.cache().moment());
    let api: Api<DynamicObject> = Api::all_with(shared.client.clone(), &nodes());
    let answer = async { api.get_opt(&ek.to_string()).await.map_err(|error| failed(&about, &error)) };
    match in_time(&about, answer).await? {
        Some(object) => shared.take_over(node_of(object), asked)?,
        None => shared.cache().absent(*ek, asked),
    }
    Ok(())
}

fn new_claims(record: &NodeRecord, before: Option<&Recorded>) -> Vec<Claimed> {
    let name = (before.is_none_or(|before| before.name != record.name)).then(|| Claimed::Name(record.name.clone()));
    let is_new = |uuid: &latchkey_keys::Uuid| before.is_none_or(|before| before.uuids().all(|known| known != *uuid));
    name.into_iter().chain(record.uuids().filter(is_new).map(Claimed::Disk)).collect()
}

impl Turn for ApiTurn<'_> {
    fn news(&mut self) -> Result<News, StoreError> {
        self.store.shared().check_listed()?;
        Ok(self.cache().news())
    }

    fn look_at(&mut self, ek: &EkDigest) -> Result<(), StoreError> {
        self.store.connection().handle().block_on(self.read(ek))
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
