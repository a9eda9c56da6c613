//! Policy, manifests, rules, the cluster and the denials as `ConfigMap`s whose keys are the files of a cluster directory.

use crate::connection::in_time;
use crate::error::{ApiCode, ApiStoreCode, elsewhere, failed, is_conflict};
use crate::store::{KubernetesStore, Watched};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use latchkey_attestation::{EkDigest, Policy, References, Refusal};
use latchkey_cluster_store::object_documents::{path_of, references_in, remember_in, revisions_in};
use latchkey_cluster_store::objects::{
    CLUSTER_MAP, COLLATERAL_MAP, DENIED_MAP, ENROLMENT_MAP, NAMESPACE, PENDING_MAP, POLICY_MAP, REFERENCES_MAP,
    REVISIONS_MAP,
};
use latchkey_cluster_store::{
    ClusterFile, ClusterMaterial, ContentError, Denials, Documents, Enrolment, Heard, KubernetesFile, MAX_CONFIG,
    MAX_PENDING, Part, PendingRecord, PlaceCode, Revisions, StoreError,
};
use latchkey_keys::SecretVec;
use std::collections::BTreeMap;
use std::path::Path;

/// The cluster's authority, as kube-controller-manager publishes it in every namespace.
const ROOT_CA: &str = "kube-root-ca.crt";
/// Those that are kept in memory. Whatever else is in the namespace is passed over.
pub(crate) const FOLLOWED: [&str; 7] =
    [POLICY_MAP, REFERENCES_MAP, ENROLMENT_MAP, CLUSTER_MAP, DENIED_MAP, COLLATERAL_MAP, ROOT_CA];

/// Certificates of the authority, and its successor while it is replaced (`ClusterJoin.ca_certificates` in `join.proto`: "at most 64
/// KiB").
const MAX_AUTHORITY: usize = 64 * 1024;

/// The annotation that a trial write changes.
const TRIED: &str = "latchkey.dev/tried";
/// How often a write is made anew because others came first.
const TRIES: usize = 16;

/// The documents as the API server told of them.
#[derive(Debug, Default)]
pub(crate) struct DocumentCache {
    maps: BTreeMap<&'static str, ConfigMap>,
    /// Counts the changes of content.
    version: u64,
}

impl DocumentCache {
    /// This is the document now, `None` where there is none; whether its content is another than before.
    pub(crate) fn set(&mut self, name: &'static str, map: Option<ConfigMap>) -> bool {
        let content = |map: &ConfigMap| (map.data.clone(), map.binary_data.clone(), map.metadata.uid.clone());
        let changed = self.maps.get(name).map(content) != map.as_ref().map(content);
        match map {
            Some(map) => drop(self.maps.insert(name, map)),
            None => drop(self.maps.remove(name)),
        }
        self.version += u64::from(changed);
        changed
    }

    /// Which object it is, if it is there.
    pub(crate) fn uid(&self, name: &str) -> Option<String> {
        self.maps.get(name)?.metadata.uid.clone()
    }

    fn data(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.maps.get(name).map(|map| map.data.as_ref().unwrap_or(&NONE))
    }
}

impl KubernetesStore {
    /// The content of a document, `None` where there is none.
    fn document(&self, map: &'static str, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let documents = self.shared().documents();
        let Some(text) = documents.data(map).and_then(|data| data.get(key)) else { return Ok(None) };
        if text.len() > MAX_CONFIG {
            return Err(StoreError::malformed(&path_of(map, key))(ContentError::TooLarge(MAX_CONFIG)));
        }
        Ok(Some(text.clone().into_bytes()))
    }

    fn demanded(&self, map: &'static str, key: &str) -> Result<Vec<u8>, StoreError> {
        let missing =
            || elsewhere(&path_of(map, key).to_string_lossy(), ApiStoreCode::DocumentMissing, "there is none");
        self.document(map, key)?.ok_or_else(missing)
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.shared().client.clone(), NAMESPACE)
    }

    /// Changes a map that services write. `change` says whether something is to be written; it is asked anew where others came first.
    fn change(
        &self,
        name: &str,
        change: impl Fn(&mut ConfigMap) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let (api, about) = (self.maps(), format!("configmaps/{name}"));
        for _ in 0..TRIES {
            let written = self.connection().handle().block_on(in_time(&about, async {
                let known = api.get_opt(name).await.map_err(|error| failed(&about, &error))?;
                let mut map = known.ok_or_else(|| missing(name))?;
                map.metadata.managed_fields = None;
                if !change(&mut map)? {
                    return Ok(true);
                }
                match api.replace(name, &PostParams::default(), &map).await {
                    Ok(_) => Ok(true),
                    Err(error) if is_conflict(&error) => Ok(false),
                    Err(error) => Err(failed(&about, &error)),
                }
            }))?;
            if written {
                return Ok(());
            }
        }
        Err(elsewhere(&about, ApiCode::Conflict, "others wrote it first, each time"))
    }

    /// See [`latchkey_cluster_store::Turn::hold`]. What cannot be read is written anew; beyond the most that may wait, those go
    /// that were silent longest.
    pub(crate) fn hold(&self, asks: &PendingRecord) -> Result<(), StoreError> {
        self.change(PENDING_MAP, |map| {
            let data = map.data.get_or_insert_default();
            let key = format!("{}.json", asks.ek_sha256);
            let known = |json: &String| PendingRecord::parse(json.as_bytes()).ok();
            let before = data.get(&key).and_then(known).filter(|before| before.ek_sha256 == asks.ek_sha256);
            let Some(next) = asks.following(before.as_ref()) else { return Ok(false) };
            data.insert(key.clone(), next.to_json());
            while data.len() > MAX_PENDING {
                let silent = data.iter().filter(|(name, _)| **name != key);
                let silent = silent.min_by_key(|(_, json)| known(json).map_or(0, |record| record.last_seen));
                let Some(name) = silent.map(|(name, _)| name.clone()) else { break };
                data.remove(&name);
            }
            Ok(true)
        })
    }

    /// See [`latchkey_cluster_store::RecordStore::held`]. Read when it is asked for: it is no document that is decided by.
    pub(crate) fn held_now(&self) -> Result<Vec<EkDigest>, StoreError> {
        let (api, about) = (self.maps(), format!("configmaps/{PENDING_MAP}"));
        let known = async { api.get_opt(PENDING_MAP).await.map_err(|error| failed(&about, &error)) };
        let data = self.wait(&about, known)?.and_then(|map| map.data).unwrap_or_default();
        let held = data.values().filter_map(|json| PendingRecord::parse(json.as_bytes()).ok());
        Ok(held.map(|held| held.ek_sha256).collect())
    }

    /// See [`latchkey_cluster_store::Turn::try_writing`]: an annotation that nobody reads.
    pub(crate) fn try_writing(&self) -> Result<(), StoreError> {
        self.change(PENDING_MAP, |map| {
            let now = k8s_openapi::jiff::Timestamp::now().to_string();
            map.metadata.annotations.get_or_insert_default().insert(TRIED.to_owned(), now);
            Ok(true)
        })
    }

    fn revisions(&self) -> Result<Revisions, StoreError> {
        let (api, about) = (self.maps(), format!("configmaps/{REVISIONS_MAP}"));
        let known = async { api.get_opt(REVISIONS_MAP).await.map_err(|error| failed(&about, &error)) };
        let known = self.wait(&about, known)?.ok_or_else(|| missing(REVISIONS_MAP))?;
        revisions_in(&known.data.unwrap_or_default())
    }
}

/// What `latchkey init` and its chart make, and nothing else does, was lost with what was in it.
fn missing(map: &str) -> StoreError {
    elsewhere(&format!("configmaps/{NAMESPACE}/{map}"), PlaceCode::Missing, "it is gone")
}

impl Documents for KubernetesStore {
    fn place(&self) -> &Path {
        Path::new("configmaps/latchkey")
    }

    fn heard(&self) -> Option<Heard> {
        // In this order: what is in the listing is in the version.
        let as_of = self.shared().as_of(FOLLOWED.into_iter().map(Watched::Document))?;
        Some(Heard { as_of, version: self.shared().documents().version })
    }

    fn fingerprint(&self, part: Part) -> [u8; 32] {
        let maps: &[&'static str] = match part {
            Part::Attestation => &[POLICY_MAP, REFERENCES_MAP],
            Part::Enrolment => &[ENROLMENT_MAP],
            Part::Cluster => &[CLUSTER_MAP, ROOT_CA],
            Part::Payload => &[],
        };
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        let mut field = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        let documents = self.shared().documents();
        for map in maps {
            for (key, text) in documents.data(map).into_iter().flatten() {
                for text in [*map, key, text] {
                    field(text.as_bytes());
                }
            }
        }
        drop(documents);
        let mut digest = [0; 32];
        digest.copy_from_slice(hash.finish().as_ref());
        digest
    }

    fn policy(&self) -> Result<Policy, StoreError> {
        let json = self.demanded(POLICY_MAP, "policy.json")?;
        let fault = |refusal: Refusal| StoreError::malformed(&path_of(POLICY_MAP, "policy.json"))(refusal.into());
        Policy::from_json(&json).map_err(fault)
    }

    fn references(&self, policy: &Policy) -> Result<References, StoreError> {
        let revisions = self.revisions()?;
        let map = self.shared().documents().data(REFERENCES_MAP).cloned().unwrap_or_default();
        references_in(&map, policy, &revisions)
    }

    fn remember(&self, references: &References, now: u64) -> Result<(), StoreError> {
        self.change(REVISIONS_MAP, |map| remember_in(map.data.get_or_insert_default(), references, now))
    }

    fn enrolment(&self) -> Result<Enrolment, StoreError> {
        let json = self.demanded(ENROLMENT_MAP, "enrolment.json")?;
        Enrolment::parse(&json).map_err(StoreError::malformed(&path_of(ENROLMENT_MAP, "enrolment.json")))
    }

    fn cluster(&self) -> Result<Option<ClusterFile>, StoreError> {
        let Some(json) = self.document(CLUSTER_MAP, "cluster.json")? else { return Ok(None) };
        ClusterFile::parse(&json).map(Some).map_err(StoreError::malformed(&path_of(CLUSTER_MAP, "cluster.json")))
    }

    /// The operator says where nodes find the API server: it need not be where this service does. The authority is the one that the
    /// cluster publishes itself, so it follows when that is replaced.
    fn material(&self) -> Result<Option<ClusterMaterial>, StoreError> {
        let Some(json) = self.document(CLUSTER_MAP, "kubernetes.json")? else { return Ok(None) };
        let file =
            KubernetesFile::parse(&json).map_err(StoreError::malformed(&path_of(CLUSTER_MAP, "kubernetes.json")))?;
        let authority = self.demanded(ROOT_CA, "ca.crt")?;
        if authority.len() > MAX_AUTHORITY || !authority.starts_with(b"-----BEGIN CERTIFICATE-----") {
            let sentence = format!("the authority must be certificates (PEM) of at most {MAX_AUTHORITY} bytes");
            return Err(StoreError::malformed(&path_of(ROOT_CA, "ca.crt"))(ContentError::Rule(sentence)));
        }
        Ok(Some(ClusterMaterial { file, authority }))
    }

    /// One object, so that it is read whole or not at all. Of text kubectl makes `data`, and `binaryData` of the rest.
    fn collateral(&self) -> Result<Option<BTreeMap<String, Vec<u8>>>, StoreError> {
        let documents = self.shared().documents();
        let Some(map) = documents.maps.get(COLLATERAL_MAP) else { return Ok(None) };
        let texts = map.data.iter().flatten().map(|(key, text)| (key.clone(), text.clone().into_bytes()));
        let bytes = map.binary_data.iter().flatten().map(|(key, bytes)| (key.clone(), bytes.0.clone()));
        Ok(Some(texts.chain(bytes).collect()))
    }

    /// The keys of a map: no value is read, so no typo takes a denial back. Where it is gone, whoever has older denials keeps them; where
    /// the cluster's document cannot be read, nothing is known of their number.
    fn denials(&self) -> Result<Denials, StoreError> {
        let counted = self.cluster().ok().flatten().and_then(|cluster| cluster.denials);
        let documents = self.shared().documents();
        let names = documents.data(DENIED_MAP).ok_or_else(|| missing(DENIED_MAP))?.keys();
        Ok(Denials::of_names(names).counted_by(counted))
    }

    /// None: what a node joins by comes with its ticket, and this service reads no Secret.
    fn payload(&self) -> Result<SecretVec, StoreError> {
        Ok(SecretVec::from_slice(&[]))
    }
}
