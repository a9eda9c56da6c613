//! The configuration database's calls (its HTTP API, version 2).

use latchkey_factory_plus::{Uuid, uuids};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::notify::{Search, Watch};
use crate::{CallError, Client, Etag, Precondition, Service, Written};

/// The configuration database.
#[derive(Debug, Clone)]
pub struct ConfigDb(Service);

/// What the database knows of an object itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The object.
    pub uuid: Uuid,
    /// Its primary class.
    pub class: Uuid,
    /// 0 for individuals, 1 for classes of them, and so on.
    #[serde(default)]
    pub rank: u8,
    /// The principal that owns it.
    pub owner: Uuid,
    /// Whether it counts as gone.
    #[serde(default)]
    pub deleted: bool,
}

#[derive(Serialize)]
struct NewObject {
    class: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<Uuid>,
}

impl ConfigDb {
    /// Of a client's centre.
    pub fn of(client: &Client) -> Self {
        Self(client.service(uuids::service::CONFIG_DB))
    }

    /// The service, for calls that are not here.
    pub fn service(&self) -> &Service {
        &self.0
    }

    /// An entry and its version.
    pub async fn entry<T: DeserializeOwned>(&self, app: Uuid, object: Uuid) -> Result<Option<(T, Etag)>, CallError> {
        self.0.get(&entry(app, object)).await
    }

    /// Writes an entry; a value that is there already changes nothing.
    pub async fn put_entry<B>(
        &self,
        app: Uuid,
        object: Uuid,
        value: &B,
        when: &Precondition,
    ) -> Result<Written, CallError>
    where
        B: Serialize + ?Sized + Sync,
    {
        self.0.put(&entry(app, object), value, when).await
    }

    /// Merges a patch (RFC 7396) into an entry; makes it where there is none.
    pub async fn patch_entry<B>(&self, app: Uuid, object: Uuid, patch: &B, when: &Precondition) -> Result<(), CallError>
    where
        B: Serialize + ?Sized + Sync,
    {
        self.0.patch(&entry(app, object), patch, when).await.map(drop)
    }

    /// Deletes an entry; whether there was one.
    pub async fn delete_entry(&self, app: Uuid, object: Uuid, when: &Precondition) -> Result<bool, CallError> {
        self.0.delete(&entry(app, object), when).await
    }

    /// The objects that have an entry of an application; none where there is no such application.
    pub async fn entries(&self, app: Uuid) -> Result<Option<Vec<Uuid>>, CallError> {
        self.0.read(&format!("v2/app/{app}/object")).await
    }

    /// Makes an object, with a UUID that was chosen before or a new one; one that is there already is left as it is.
    pub async fn create_object(&self, class: Uuid, uuid: Option<Uuid>) -> Result<(Written, Registration), CallError> {
        self.0.post("v2/object", &NewObject { class, uuid }).await
    }

    /// Deletes an object and all its entries; whether there was one.
    pub async fn delete_object(&self, object: Uuid) -> Result<bool, CallError> {
        self.0.delete(&format!("v2/object/{object}"), &Precondition::None).await
    }

    /// What the database knows of an object itself.
    pub async fn registration(&self, object: Uuid) -> Result<Option<(Registration, Etag)>, CallError> {
        self.entry(uuids::application::REGISTRATION, object).await
    }

    /// Merges a patch (RFC 7396) into that, such as `{"deleted": true}` or another owner.
    pub async fn patch_registration(&self, object: Uuid, patch: &Value) -> Result<(), CallError> {
        self.patch_entry(uuids::application::REGISTRATION, object, patch, &Precondition::None).await
    }

    /// The members of a class, also through its subclasses; `None` where there is no such class.
    pub async fn members(&self, class: Uuid) -> Result<Option<Vec<Uuid>>, CallError> {
        self.0.read(&format!("v2/class/{class}/member")).await
    }

    /// Whether an object is a member of a class, also through its subclasses.
    pub async fn is_member(&self, class: Uuid, object: Uuid) -> Result<bool, CallError> {
        self.0.exists(&format!("v2/class/{class}/member/{object}")).await
    }

    /// Makes an object a member of a class.
    pub async fn add_member(&self, class: Uuid, object: Uuid) -> Result<(), CallError> {
        self.0.put_empty(&format!("v2/class/{class}/direct/member/{object}")).await.map(drop)
    }

    /// Ends a membership; `false` where class or object are unknown.
    pub async fn remove_member(&self, class: Uuid, object: Uuid) -> Result<bool, CallError> {
        self.0.delete(&format!("v2/class/{class}/direct/member/{object}"), &Precondition::None).await
    }

    /// Loads a dump of version 2.
    pub async fn load(&self, dump: &Value) -> Result<(), CallError> {
        self.0.post_only("load", dump).await.map(drop)
    }

    /// Follows an entry.
    pub fn watch_entry(&self, app: Uuid, object: Uuid) -> Watch {
        self.0.notify().watch(&entry(app, object))
    }

    /// Follows all entries of an application whose bodies have what `filter` says.
    pub fn search_entries(&self, app: Uuid, filter: Option<Value>) -> Search {
        self.0.notify().search(&format!("v2/app/{app}/object/"), filter)
    }

    /// Follows the members of a class, as a list of UUIDs.
    pub fn watch_members(&self, class: Uuid) -> Watch {
        self.0.notify().watch(&format!("v2/class/{class}/member/"))
    }
}

fn entry(app: Uuid, object: Uuid) -> String {
    format!("v2/app/{app}/object/{object}")
}
