//! The authorisation service's calls (its HTTP API, version 2).

use latchkey_factory_plus::grants::{Access, Grant};
use latchkey_factory_plus::{Upn, Uuid, uuids};
use serde::{Deserialize, Serialize};

use crate::path::segment;
use crate::{CallError, Client, Precondition, Service, Written};

/// The authorisation service.
#[derive(Debug, Clone)]
pub struct Auth(Service);

/// Who the service takes us for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoAmI {
    /// What Kerberos calls us.
    #[serde(default)]
    pub kerberos: Option<Upn>,
    /// The principal.
    #[serde(default)]
    pub uuid: Option<Uuid>,
}

/// Which grants are meant: those that have all that is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantPattern {
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Uuid>,
    /// What.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Uuid>,
    /// For what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Uuid>,
    /// Whether the target is a class, and its members are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plural: Option<bool>,
}

#[derive(Deserialize)]
struct Made {
    uuid: Uuid,
}

impl Auth {
    /// Of a client's centre.
    pub fn of(client: &Client) -> Self {
        Self(client.service(uuids::service::AUTH))
    }

    /// The service, for calls that are not here.
    pub fn service(&self) -> &Service {
        &self.0
    }

    /// Who the service takes us for.
    pub async fn whoami(&self) -> Result<Option<WhoAmI>, CallError> {
        self.0.read("v2/whoami").await
    }

    /// What Kerberos calls a principal.
    pub async fn kerberos(&self, principal: Uuid) -> Result<Option<Upn>, CallError> {
        self.0.read(&kerberos(principal)).await
    }

    /// Says what Kerberos calls a principal; [`CallError::Conflict`] where either has another.
    pub async fn put_kerberos(&self, principal: Uuid, upn: &Upn) -> Result<(), CallError> {
        self.0.put(&kerberos(principal), upn, &Precondition::None).await.map(drop)
    }

    /// Takes it away; whether there was one.
    pub async fn delete_kerberos(&self, principal: Uuid) -> Result<bool, CallError> {
        self.0.delete(&kerberos(principal), &Precondition::None).await
    }

    /// Whom Kerberos calls so.
    pub async fn identity(&self, upn: &Upn) -> Result<Option<Uuid>, CallError> {
        self.0.read(&format!("v2/identity/kerberos/{}", segment(upn.as_str()))).await
    }

    /// Makes a grant; one that is there already is answered as it is.
    pub async fn grant(&self, grant: &Grant) -> Result<(Written, Uuid), CallError> {
        let (written, made): (_, Made) = self.0.post("v2/grant", grant).await?;
        Ok((written, made.uuid))
    }

    /// The grants that a pattern fits.
    pub async fn find_grants(&self, pattern: &GrantPattern) -> Result<Vec<Uuid>, CallError> {
        Ok(self.0.post("v2/grant/find", pattern).await?.1)
    }

    /// A grant.
    pub async fn read_grant(&self, grant: Uuid) -> Result<Option<Grant>, CallError> {
        self.0.read(&format!("v2/grant/{grant}")).await
    }

    /// Revokes a grant; whether there was one.
    pub async fn delete_grant(&self, grant: Uuid) -> Result<bool, CallError> {
        self.0.delete(&format!("v2/grant/{grant}"), &Precondition::None).await
    }

    /// The access control list of whom Kerberos calls so; of somebody unknown it is empty.
    pub async fn acl(&self, upn: &Upn) -> Result<Vec<Access>, CallError> {
        Ok(self.0.read(&acl(upn)).await?.unwrap_or_default())
    }

    /// The access control list of a principal's object.
    pub async fn acl_of(&self, principal: Uuid) -> Result<Vec<Access>, CallError> {
        Ok(self.0.read(&format!("v2/acl/{principal}")).await?.unwrap_or_default())
    }
}

/// The path of the access control list of whom Kerberos calls so.
pub(crate) fn acl(upn: &Upn) -> String {
    format!("v2/acl/kerberos/{}", segment(upn.as_str()))
}

fn kerberos(principal: Uuid) -> String {
    format!("v2/principal/{principal}/kerberos")
}
