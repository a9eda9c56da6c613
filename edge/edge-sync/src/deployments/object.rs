//! The objects in Kubernetes that Edge Sync makes.

use std::borrow::Cow;
use std::fmt;

use latchkey_factory_plus::Uuid;
use latchkey_kubernetes_client::kube::Resource;
use latchkey_kubernetes_client::kube::api::ObjectMeta;
use latchkey_kubernetes_client::kube::core::{ApiResource, DynamicResourceScope};
use serde::Deserialize;

/// Who applies them: the field manager, and the value of the label [`MANAGED_BY`].
pub const MANAGER: &str = "edge-sync.factoryplus.app.amrc.co.uk";
/// The label by which they are found again.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The label that says which deployment an object is of.
const DEPLOYMENT: &str = "factoryplus.app.amrc.co.uk/uuid";

/// The kinds that are made; templates for others are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Where charts come from.
    GitRepository,
    /// A release of a chart.
    HelmRelease,
}

impl Kind {
    /// Each of them, sources first.
    pub const ALL: [Self; 2] = [Self::GitRepository, Self::HelmRelease];

    /// The one that a manifest is of: its group and kind; the version is the template's.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.split_once('/')?.0;
        Self::ALL.into_iter().find(|known| known.group() == group && known.as_str() == kind)
    }

    /// As manifests have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GitRepository => "GitRepository",
            Self::HelmRelease => "HelmRelease",
        }
    }

    const fn group(self) -> &'static str {
        match self {
            Self::GitRepository => "source.toolkit.fluxcd.io",
            Self::HelmRelease => "helm.toolkit.fluxcd.io",
        }
    }

    /// As the API server's paths have it.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::GitRepository => "gitrepositories",
            Self::HelmRelease => "helmreleases",
        }
    }

    /// The version in which they are followed and deleted: the one that Flux keeps up.
    const fn version(self) -> &'static str {
        match self {
            Self::GitRepository => "v1",
            Self::HelmRelease => "v2",
        }
    }

    /// The kind as kube knows it, in the version in which it is followed, or in another one.
    pub fn resource(self, version: Option<&str>) -> ApiResource {
        let (group, version) = (self.group(), version.unwrap_or(self.version()));
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: format!("{group}/{version}"),
            kind: self.as_str().to_owned(),
            plural: self.plural().to_owned(),
        }
    }
}

/// Which object: its kind and its name, in the namespace of the edge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.plural(), self.name)
    }
}

/// What there is of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Have {
    /// Which one of its name.
    pub uid: String,
    /// Counts what somebody wants of it: it rises with each change that is not its controller's.
    pub generation: i64,
    /// Whether it is being deleted.
    pub is_going: bool,
    /// The deployment that it is of, where a label says so.
    pub deployment: Option<Uuid>,
}

/// An object of which only the metadata is read.
#[derive(Clone, Debug, Deserialize)]
pub struct Managed {
    /// Name, labels, generation.
    pub metadata: ObjectMeta,
}

impl Managed {
    /// What there is of it; `None` where the API server left out what each object has.
    pub fn have(&self) -> Option<Have> {
        let ObjectMeta { uid, generation, deletion_timestamp, labels, .. } = &self.metadata;
        let deployment = labels.as_ref().and_then(|labels| labels.get(DEPLOYMENT));
        Some(Have {
            uid: uid.clone()?,
            generation: generation.unwrap_or_default(),
            is_going: deletion_timestamp.is_some(),
            deployment: deployment.and_then(|uuid| uuid.parse().ok()),
        })
    }
}

impl Resource for Managed {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
