//! Carries effects out: at the configuration database, the authorisation service, the git server and the KDC.

mod principals;

use std::sync::Arc;

use latchkey_factory_plus::{Uuid, uuids};
use latchkey_factory_plus_client::{Auth, CallError, Client, ConfigDb, GrantPattern, Precondition};
use latchkey_git_client::{Change, Commit, Git, GitError};
use serde::Serialize;
use serde_json::{Value, json};
use uuids::application;

use crate::keeper::Keeper;
use crate::machine::{Answer, Effect, World};
use crate::manifests::{DIRECTORY, Templates};
pub use principals::{Kadmin, Later, Principals};

/// The centre. Clones are one.
#[derive(Clone)]
pub struct Centre {
    pub(crate) config_db: ConfigDb,
    auth: Auth,
    pub(crate) git: Git,
    pub(crate) principals: Arc<dyn Principals>,
    pub(crate) keeper: Arc<Keeper>,
}

impl std::fmt::Debug for Centre {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Centre").field("config_db", &self.config_db).finish_non_exhaustive()
    }
}

/// Who commits.
pub(crate) const COMMITTER: &str = "Latchkey cluster manager <cluster-manager@localhost>";
/// No precondition: what is there already is written over.
const ANYHOW: Precondition = Precondition::None;

impl Centre {
    /// The centre of a client.
    pub fn new(client: &Client, git: Git, principals: Arc<dyn Principals>, keeper: Arc<Keeper>) -> Self {
        Self { config_db: ConfigDb::of(client), auth: Auth::of(client), git, principals, keeper }
    }

    async fn put<B: Serialize + ?Sized + Sync>(&self, app: Uuid, object: Uuid, value: &B) -> Result<(), Failure> {
        self.config_db.put_entry(app, object, value, &ANYHOW).await?;
        Ok(())
    }

    async fn delete(&self, app: Uuid, object: Uuid) -> Result<(), Failure> {
        self.config_db.delete_entry(app, object, &ANYHOW).await?;
        Ok(())
    }

    async fn template(&self, app: Uuid, object: Uuid, title: &str) -> Result<Value, Failure> {
        let entry = self.config_db.entry(app, object).await?;
        let missing = || Answer::Refused { status: 404, detail: format!("there is no {title} of {object}") };
        entry.map(|(entry, _)| entry).ok_or_else(|| Failure(missing()))
    }

    async fn templates(&self, chart: Uuid) -> Result<Answer, Failure> {
        let (flux, kinds) = (application::FLUX_TEMPLATE, uuids::k8s_resource::HELM_RELEASE);
        Ok(Answer::Templates(Box::new(Templates {
            flux: self.template(flux, flux, "Flux template").await?,
            chart: self.template(application::HELM_CHART_TEMPLATE, chart, "Helm chart template").await?,
            helm_release: self.template(application::K8S_RESOURCE_TEMPLATE, kinds, "HelmRelease template").await?,
        })))
    }

    /// Grants to the account, and grants about it.
    async fn delete_grants(&self, account: Uuid) -> Result<(), Failure> {
        let held = GrantPattern { principal: Some(account), ..GrantPattern::default() };
        let about = GrantPattern { target: Some(account), ..GrantPattern::default() };
        for pattern in [held, about] {
            for grant in self.auth.find_grants(&pattern).await? {
                self.auth.delete_grant(grant).await?;
            }
        }
        Ok(())
    }

    async fn create_object(&self, uuid: Uuid, class: Uuid) -> Result<(), Failure> {
        let (_, made) = self.config_db.create_object(class, Some(uuid)).await?;
        if made.class == class {
            return Ok(());
        }
        Err(Failure(Answer::Refused { status: 409, detail: format!("{uuid} has the class {}", made.class) }))
    }

    /// The files of the cluster manager; other directories stay.
    async fn write_repository(
        &self,
        cluster: Uuid,
        files: &std::collections::BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let mut changes = vec![Change::Delete(DIRECTORY.to_owned())];
        changes.extend(files.iter().map(|(path, text)| Change::Write(path.clone(), text.clone().into_bytes())));
        let commit = Commit { message: "Set the cluster's manifests".to_owned(), changes, committer: COMMITTER };
        self.git.commit::<Failure, _>(cluster, async |_| Ok((Some(commit), ()))).await
    }

    /// Nobody has rights over an object that is gone, whoever owned it: what is to be taken from it, is.
    async fn is_gone(&self, object: Uuid) -> bool {
        matches!(self.config_db.entry::<Value>(application::REGISTRATION, object).await, Ok(None))
    }

    async fn try_to(&self, cluster: Uuid, effect: &Effect) -> Result<Answer, Failure> {
        let status = application::EDGE_CLUSTER_SETUP_STATUS;
        let address = application::SPARKPLUG_ADDRESS;
        let repository = application::GIT_REPOSITORY_CONFIGURATION;
        match effect {
            Effect::Record(entry) => self.put(status, cluster, entry).await?,
            Effect::Forget => self.delete(status, cluster).await?,
            Effect::CreateObject { uuid, class } => self.create_object(*uuid, *class).await?,
            Effect::DeleteObject { uuid } => drop(self.config_db.delete_object(*uuid).await?),
            Effect::PutInfo { object, name } => {
                self.put(application::INFO, *object, &json!({ "name": name })).await?;
            }
            Effect::PutSparkplugAddress { object, address: entry } => self.put(address, *object, entry).await?,
            Effect::DeleteSparkplugAddress { object } => self.delete(address, *object).await?,
            Effect::PutGitRepository(entry) => self.put(repository, cluster, entry).await?,
            Effect::DeleteGitRepository => self.delete(repository, cluster).await?,
            Effect::AddMember { class, object } => self.config_db.add_member(*class, *object).await?,
            Effect::RemoveMember { class, object } => drop(self.config_db.remove_member(*class, *object).await?),
            Effect::PutIdentity { account, upn } => self.auth.put_kerberos(*account, upn).await?,
            Effect::DeleteIdentity { account } => drop(self.auth.delete_kerberos(*account).await?),
            Effect::CreateGrant(grant) => drop(self.auth.grant(grant).await?),
            Effect::DeleteGrants { account } => self.delete_grants(*account).await?,
            Effect::EnablePrincipal { upn } => return Ok(self.principals.enable(upn).await),
            Effect::DisablePrincipals { name } => return Ok(self.principals.disable_all(name).await),
            Effect::DeletePrincipals { name } => return Ok(self.principals.delete_all(name).await),
            Effect::ReadTemplates { chart } => return self.templates(*chart).await,
            Effect::WriteRepository { files } => self.write_repository(cluster, files).await?,
            Effect::DeleteRepository => drop(self.git.delete(cluster).await?),
            Effect::RevokeLinks => self.keeper.revoke_all(cluster).await?,
            Effect::ForgetLinks => self.keeper.forget(cluster).await?,
            Effect::DeleteEdgeStatus => self.delete(application::EDGE_CLUSTER_STATUS, cluster).await?,
            // The manager's own business.
            Effect::SetTimer { .. } => {}
        }
        Ok(Answer::Done)
    }
}

impl World for Centre {
    async fn carry_out(&self, cluster: Uuid, effect: &Effect) -> Answer {
        match (self.try_to(cluster, effect).await, effect.takes_from()) {
            (Err(Failure(Answer::Refused { status: 403, .. })), Some(object)) if self.is_gone(object).await => {
                Answer::Done
            }
            (done, _) => done.unwrap_or_else(|Failure(answer)| answer),
        }
    }
}

/// What became of something that was not done.
struct Failure(Answer);

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let detail = error.to_string();
        let status = match error {
            CallError::Unauthenticated(_) => 401,
            CallError::Forbidden { .. } => 403,
            CallError::NotFound(_) => 404,
            CallError::Conflict { .. } => 409,
            CallError::PreconditionFailed(_) => 412,
            CallError::Refused { status, .. } => status,
            _ => return Self(Answer::Unreachable(detail)),
        };
        Self(Answer::Refused { status, detail })
    }
}

impl From<GitError> for Failure {
    fn from(error: GitError) -> Self {
        match error {
            GitError::Call(error) => error.into(),
            GitError::Status(status) => Self(Answer::Refused { status, detail: error.to_string() }),
            error => Self(Answer::Unreachable(error.to_string())),
        }
    }
}

impl From<latchkey_group_commit::WriteError> for Failure {
    fn from(error: latchkey_group_commit::WriteError) -> Self {
        Self(Answer::Unreachable(error.to_string()))
    }
}
