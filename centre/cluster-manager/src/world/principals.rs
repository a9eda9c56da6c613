//! Principals of clusters at the KDC.

use std::pin::Pin;

use latchkey_factory_plus::{ClusterName, Realm, Upn};
use latchkey_kerberos::{Admin, Denied, KerberosCode, Secret};

use crate::machine::Answer;

/// Some time later.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who changes principals. Each is done where it finds the KDC as it is to be.
pub trait Principals: Send + Sync + 'static {
    /// Lets the KDC give tickets to a principal again, if it exists.
    fn enable<'a>(&'a self, upn: &'a Upn) -> Later<'a, Answer>;

    /// Gives a principal a password, and makes it where it does not exist. Both end at `until` (seconds since 1970); keys that it
    /// had are void. A principal that is disabled is refused.
    fn admit<'a>(&'a self, upn: &'a Upn, password: &'a Secret, until: u32) -> Later<'a, Answer>;

    /// Ends that for all principals of a cluster.
    fn disable_all<'a>(&'a self, name: &'a ClusterName) -> Later<'a, Answer>;

    /// Deletes all principals of a cluster.
    fn delete_all<'a>(&'a self, name: &'a ClusterName) -> Later<'a, Answer>;

    /// The second components of all principals.
    fn second_components(&self) -> Later<'_, Result<Vec<String>, String>>;
}

/// kadmind, asked by the helper.
#[derive(Debug, Clone)]
pub struct Kadmin {
    admin: Admin,
    realm: Realm,
}

/// What is done to each principal of a cluster.
#[derive(Clone, Copy)]
enum Act {
    Disable,
    Delete,
}

impl Kadmin {
    /// Of a realm.
    pub fn new(admin: Admin, realm: Realm) -> Self {
        Self { admin, realm }
    }

    /// The end first: no crash leaves a principal whose new password has none.
    ///
    /// The end of a password alone would not do, since whoever knows an old password may change it over kpasswd for ever. The end
    /// of the principal does, and the edge takes it away once it has keys of its own.
    async fn reset(&self, upn: &Upn, password: &Secret, until: u32) -> Result<(), Denied> {
        let mut shown = self.admin.show(upn).await?;
        if shown.is_none() {
            match self.admin.create_with_password(upn, password, Some(until), Some(until)).await {
                Err(denied) if denied.code() == KerberosCode::PrincipalExists => {
                    shown = self.admin.show(upn).await?;
                }
                made => return made,
            }
        }
        if shown.is_some_and(|shown| !shown.enabled) {
            return Err(Denied::new(KerberosCode::PrincipalRevoked, upn));
        }
        self.admin.set_expiry(upn, Some(until)).await?;
        self.admin.set_password(upn, password, Some(until)).await
    }

    async fn all(&self, name: &ClusterName, act: Act) -> Result<(), Denied> {
        for pattern in [format!("*/{name}@{}", self.realm), format!("*/{name}/*@{}", self.realm)] {
            for principal in self.admin.list(&pattern).await? {
                if principal.edge_cluster() != Some(name.as_str()) {
                    tracing::warn!(principal = principal.as_str(), cluster = %name, "Left alone: no role of a cluster");
                    continue;
                }
                let done = match act {
                    Act::Disable => self.admin.disable(&principal).await,
                    Act::Delete => self.admin.delete(&principal).await,
                };
                known(done)?;
            }
        }
        Ok(())
    }
}

/// A principal that is gone is as it is to be.
fn known(done: Result<(), Denied>) -> Result<(), Denied> {
    match done {
        Err(denied) if denied.code() == KerberosCode::PrincipalUnknown => Ok(()),
        done => done,
    }
}

fn answer(done: Result<(), Denied>) -> Answer {
    match done {
        Ok(()) => Answer::Done,
        Err(denied) if denied.is_outage() => Answer::Unreachable(denied.to_string()),
        Err(denied) => Answer::Refused { status: 403, detail: denied.to_string() },
    }
}

impl Principals for Kadmin {
    fn enable<'a>(&'a self, upn: &'a Upn) -> Later<'a, Answer> {
        Box::pin(async move { answer(known(self.admin.enable(upn).await)) })
    }

    fn admit<'a>(&'a self, upn: &'a Upn, password: &'a Secret, until: u32) -> Later<'a, Answer> {
        Box::pin(async move { answer(self.reset(upn, password, until).await) })
    }

    fn disable_all<'a>(&'a self, name: &'a ClusterName) -> Later<'a, Answer> {
        Box::pin(async move { answer(self.all(name, Act::Disable).await) })
    }

    fn delete_all<'a>(&'a self, name: &'a ClusterName) -> Later<'a, Answer> {
        Box::pin(async move { answer(self.all(name, Act::Delete).await) })
    }

    fn second_components(&self) -> Later<'_, Result<Vec<String>, String>> {
        Box::pin(async move {
            let all = self.admin.list(&format!("*/*@{}", self.realm)).await.map_err(|denied| denied.to_string())?;
            let mut seconds: Vec<String> =
                all.iter().filter_map(|principal| principal.components().nth(1).map(str::to_owned)).collect();
            seconds.sort();
            seconds.dedup();
            Ok(seconds)
        })
    }
}
