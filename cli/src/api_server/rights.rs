//! Whether the join service may do in the API server what this release needs, and not what releases before it did: what it may do
//! counts, and not which chart says so.

use std::fmt;

use latchkey_cluster_store::objects::{GROUP, NODE};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::ApiServer;
use super::machines::resource;
use crate::error::CommandError;
use crate::stock::Scope;

/// The chart's `ClusterRoleBinding` of rights in records: whom it names, the chart's values say.
const BINDING: &str = "latchkey-records";
/// Services of releases before give names and disks by objects of this kind.
const CLAIM: (&str, &str) = ("NodeClaim", "nodeclaims");
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

#[derive(Deserialize)]
struct Binding {
    #[serde(default)]
    subjects: Vec<Subject>,
}

/// Who has rights.
#[derive(Deserialize)]
#[serde(tag = "kind")]
enum Subject {
    User { name: String },
    Group { name: String },
    ServiceAccount { name: String, namespace: String },
}

/// A `SubjectAccessReview`, as it is asked for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: &'static str,
    kind: &'static str,
    spec: Question,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    groups: Vec<String>,
    resource_attributes: Attempt,
}

#[derive(Serialize)]
struct Attempt {
    group: &'static str,
    resource: &'static str,
    verb: &'static str,
}

#[derive(Deserialize)]
struct Reviewed {
    status: Answer,
}

#[derive(Deserialize)]
struct Answer {
    allowed: bool,
}

impl Subject {
    /// Its user, and its groups: what everybody may do, or every service account, this one may, too.
    fn known_as(&self) -> (Option<String>, Vec<String>) {
        const ACCOUNT: &str = "system:serviceaccount:";
        let name = self.to_string();
        let mut groups = vec!["system:authenticated".to_owned()];
        if let Some((namespace, _)) = name.strip_prefix(ACCOUNT).and_then(|account| account.split_once(':')) {
            groups.extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
        }
        if let Self::Group { .. } = self {
            groups.push(name);
            return (None, groups);
        }
        (Some(name), groups)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { name } | Self::Group { name } => f.write_str(name),
            Self::ServiceAccount { name, namespace } => write!(f, "system:serviceaccount:{namespace}:{name}"),
        }
    }
}

impl ApiServer {
    /// One sentence for each right that is missing for this release, and for each of releases before that is still given; none where all
    /// is well.
    pub(crate) async fn rights_amiss(&self) -> Result<Vec<String>, CommandError> {
        let bound: Option<Binding> = self.kubectl().get("clusterrolebinding", Scope::Cluster, BINDING).await?;
        let subjects = bound.map(|bound| bound.subjects).unwrap_or_default();
        if subjects.is_empty() {
            return Ok(vec![format!("no ClusterRoleBinding {BINDING} names a join service")]);
        }
        let mut amiss = Vec::new();
        for subject in subjects {
            if !self.may(&subject, "delete", NODE).await? {
                amiss.push(format!("{subject} may not delete {}", NODE.1));
            }
            if self.may(&subject, "create", CLAIM).await? && self.has_claims().await? {
                amiss.push(format!("{subject} may create {}, as in releases before", CLAIM.1));
            }
        }
        Ok(amiss)
    }

    async fn may(
        &self,
        subject: &Subject,
        verb: &'static str,
        (_, resource): (&str, &'static str),
    ) -> Result<bool, CommandError> {
        let (user, groups) = subject.known_as();
        let spec = Question { user, groups, resource_attributes: Attempt { group: GROUP, resource, verb } };
        let review = Review { api_version: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec };
        let asked = serde_json::to_vec(&review).unwrap_or_default();
        let Reviewed { status } = self.kubectl().post_raw(REVIEWS, &asked).await?;
        Ok(status.allowed)
    }

    /// A right in what is not there gives nothing.
    async fn has_claims(&self) -> Result<bool, CommandError> {
        let name = resource(CLAIM);
        let definition: Option<IgnoredAny> =
            self.kubectl().get("customresourcedefinition", Scope::Cluster, &name).await?;
        Ok(definition.is_some())
    }
}
