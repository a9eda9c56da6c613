//! The account that goes with a principal, at the centre.
//!
//! Everything is looked at before it is written: of an account that the centre made for this cluster nothing is to be changed, and this
//! operator needs no right to do so. A new account's UUID is on the resource before it is made.

use latchkey_factory_plus::cluster::SparkplugAddress;
use latchkey_factory_plus::uuids::application;
use latchkey_factory_plus::{Upn, Uuid};
use latchkey_factory_plus_client::{Auth, CallError, Client, ConfigDb, Precondition};
use serde_json::{Value, json};

use super::act::Act;
use super::resource::{ACCOUNT_UUID, Account, Resource, Wanted};
use super::rivals::Id;
use crate::failure::Failure;

/// The centre, as this operator sees it.
#[derive(Debug, Clone)]
pub(crate) struct Accounts {
    config_db: ConfigDb,
    auth: Auth,
    cluster: Uuid,
}

impl Accounts {
    pub(crate) fn of(client: &Client, cluster: Uuid) -> Self {
        Self { config_db: ConfigDb::of(client), auth: Auth::of(client), cluster }
    }

    /// Whose account a principal is, if anybody's.
    async fn found(&self, upn: &Upn) -> Result<Option<Uuid>, Failure> {
        self.auth.identity(upn).await.map_err(|error| said(&error))
    }

    /// Makes an account what it is to be.
    async fn settle(&self, uuid: Uuid, wanted: &Account, upn: &Upn, is_identity: bool) -> Result<(), CallError> {
        if let Some(class) = wanted.class.filter(|_| !is_identity) {
            self.config_db.create_object(class, Some(uuid)).await?;
        }
        if let Some(name) = &wanted.name {
            self.entry(application::INFO, uuid, |entry| entry["name"] == json!(name), &json!({ "name": name })).await?;
        }
        if let Some(sparkplug) = &wanted.sparkplug {
            let group = match &sparkplug.group {
                Some(group) => Some(group.clone()),
                None => self.group().await?,
            };
            if let Some(group) = group {
                let address = json!({ "group_id": group, "node_id": sparkplug.node });
                self.entry(application::SPARKPLUG_ADDRESS, uuid, |entry| *entry == address, &address).await?;
            }
        }
        for group in &wanted.groups {
            if !self.config_db.is_member(*group, uuid).await? {
                self.config_db.add_member(*group, uuid).await?;
            }
        }
        if !is_identity {
            self.auth.put_kerberos(uuid, upn).await?;
        }
        Ok(())
    }

    /// Writes an entry, unless it is right.
    async fn entry(
        &self,
        app: Uuid,
        object: Uuid,
        right: impl Fn(&Value) -> bool,
        wanted: &Value,
    ) -> Result<(), CallError> {
        let there = self.config_db.entry::<Value>(app, object).await?;
        if there.is_some_and(|(entry, _)| right(&entry)) {
            return Ok(());
        }
        self.config_db.put_entry(app, object, wanted, &Precondition::None).await.map(drop)
    }

    /// The cluster's Sparkplug group.
    async fn group(&self) -> Result<Option<String>, CallError> {
        let address = self.config_db.entry::<SparkplugAddress>(application::SPARKPLUG_ADDRESS, self.cluster).await?;
        Ok(address.map(|(address, _)| address.group_id))
    }
}

impl Act {
    /// Sees to the account of a resource that has one.
    pub(super) async fn account(&self, id: &Id, resource: &mut Resource) -> Result<(), Failure> {
        let Ok(Wanted { account: Some(account), principals, .. }) = &resource.wanted else { return Ok(()) };
        let (account, Some(upn)) = (account.clone(), principals.first().cloned()) else { return Ok(()) };
        let Some(accounts) = &self.accounts else {
            return Err(Failure::Refused(
                "the key is made; its account is not, since `account` is missing in the configuration".into(),
            ));
        };
        let annotated = resource.annotation(ACCOUNT_UUID).and_then(|text| text.parse::<Uuid>().ok());
        let found = accounts.found(&upn).await?;
        let uuid = match (found, account.uuid.or(annotated)) {
            (Some(found), Some(named)) if account.uuid.is_some() && found != named => {
                return Err(Failure::Refused(format!("{upn} is the principal of the account {found}, not of {named}")));
            }
            (Some(found), _) => found,
            (None, Some(named)) => named,
            (None, None) => Uuid::random(),
        };
        if annotated != Some(uuid) {
            let text = uuid.to_string();
            self.objects.mark(id, &[(ACCOUNT_UUID, Some(&text))], &[]).await?;
            resource.annotations.insert(ACCOUNT_UUID.to_owned(), text);
        }
        let settled = accounts.settle(uuid, &account, &upn, found.is_some()).await;
        settled.map_err(|error| said(&error).about("the key is made; its account is not"))
    }
}

fn said(error: &CallError) -> Failure {
    if error.is_transient() || matches!(error, CallError::Conflict { .. } | CallError::Unauthenticated(_)) {
        Failure::Again(error.to_string())
    } else {
        Failure::Refused(error.to_string())
    }
}
