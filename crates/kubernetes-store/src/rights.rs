//! What a service may do, by the API server's own word.

use crate::error::failed;
use crate::objects::nodes;
use crate::store::KubernetesStore;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec as Spec,
};
use kube::api::{Api, PostParams};
use latchkey_cluster_store::StoreError;

const ABOUT: &str = "selfsubjectaccessreviews";

impl KubernetesStore {
    /// Whether this service may delete records, as it has to with one that came second (`naming`): the chart of releases before gives
    /// no such right. Blocks: never on the client's own thread.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`]: that is not known.
    pub fn may_delete_records(&self) -> Result<bool, StoreError> {
        let nodes = nodes();
        let delete = ResourceAttributes {
            group: Some(nodes.group),
            resource: Some(nodes.plural),
            verb: Some("delete".to_owned()),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: Spec { resource_attributes: Some(delete), ..Spec::default() },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.shared().client.clone());
        let answer = self.wait(ABOUT, async {
            api.create(&PostParams::default(), &review).await.map_err(|error| failed(ABOUT, &error))
        })?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
